"""What the brokers themselves say: line by line for the reader, and as moments for the summary."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from examples.demo.orders import TOPIC
from examples.demo.saying import console

from tidelog.testing.cluster import Cluster

ABOUT: Final = (TOPIC, "fenced", "registered", "listens")


class Story:
    """The lines of all node logs that concern the topic or the brokers, as they are written."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._told: dict[int, int] = {}
        self.skip()

    def skip(self) -> None:
        """What was said so far is not part of the story."""
        self._told = {each: len(self._cluster.log_text(each)) for each in self._cluster.node_ids}

    def tell(self) -> None:
        """Everything since the last time, in the order in which it happened."""
        lines = []
        for node_id, told in self._told.items():
            text = self._cluster.log_text(node_id)
            self._told[node_id] = len(text)
            for line in text[told:].splitlines():
                moment, _, said = line.partition(" ")
                if any(word in said for word in ABOUT):
                    lines.append((moment, said))
        for moment, said in sorted(lines):
            clock = moment.partition("T")[2].rstrip("Z")
            console.print(f"  [cyan]{clock}[/cyan] {said}", soft_wrap=True)


class Moment(NamedTuple):
    """Something that happened, for the picture and the summary."""

    at: float
    """On the wall clock."""
    what: str


class Failover:
    """What became of one broker: killed at one moment, started again at another."""

    def __init__(
        self,
        cluster: Cluster,
        victim: int,
        killed: float,
        started: float,
        pauses: Sequence[Moment],
    ) -> None:
        self._victim = victim
        self._pauses = pauses
        self.killed = killed
        self._started = started
        self._events = sorted(_events(cluster, killed), key=lambda each: each[0])

    def moments(self) -> list[Moment]:
        """From the kill to the return, in order."""
        victim = self._victim
        found = [Moment(self.killed, f"kill -9 of broker {victim}")]
        for at, node_id, event in self._events:
            if event["event"] == "BrokerFenced" and event["broker_id"] == victim:
                found.append(Moment(at, f"controller {node_id} notices and fences {victim}"))
            elif self._is_about_topic(event, "LeaderElected") and event["leader_before"] == victim:
                found.append(
                    Moment(at, f"{event['leader']} leads {_name(event)} in epoch "
                    f"{event['leader_epoch']}")
                )  # fmt: skip
        found.append(Moment(self._started, f"broker {victim} starts again"))
        found.extend(self._reconciliation())
        found.extend(self._return())
        found.extend(self._pauses)
        return sorted(found, key=lambda moment: moment.at)

    def _reconciliation(self) -> Iterator[Moment]:
        """What the restarted broker had to give up."""
        mine = [each for each in self._events if each[1] == self._victim]
        truncated = False
        for at, _, event in mine:
            if self._is_about_topic(event, "LogTruncated"):
                truncated = True
                before, after = event["end_offset_before"], event["end_offset"]
                text = f"it truncates {_name(event)} from {before} to {after}: {event['cause']}"
                yield Moment(at, text)
        recovered = [at for at, _, event in mine if self._is_about_topic(event, "LogRecovered")]
        if recovered and not truncated:
            yield Moment(max(recovered), "it has nothing to truncate: its logs are prefixes")

    def _return(self) -> Iterator[Moment]:
        victim = self._victim
        back: dict[int, float] = {}
        for at, _, event in self._events:
            if at < self._started:
                continue
            if self._is_about_topic(event, "InSyncReplicasDecided") and victim in event["in_sync"]:
                back.setdefault(event["partition"], at)
            elif self._is_about_topic(event, "LeaderElected") and event["leader"] == victim:
                text = f"{victim} leads {_name(event)} again, in epoch {event['leader_epoch']}"
                yield Moment(at, text)
        if back:
            yield Moment(max(back.values()), f"{victim} is in sync in all partitions again")

    @staticmethod
    def _is_about_topic(event: dict[str, Any], kind: str) -> bool:
        return bool(event["event"] == kind and event["topic"] == TOPIC)


def _name(event: dict[str, Any]) -> str:
    return f"{event['topic']}-{event['partition']}"


def _events(cluster: Cluster, since: float) -> Iterator[tuple[float, int, dict[str, Any]]]:
    for node_id in cluster.node_ids:
        for line in (cluster.data(node_id) / "events.jsonl").read_text().splitlines():
            event = json.loads(line)
            at = datetime.fromisoformat(event["at"]).timestamp()
            if at >= since:
                yield at, node_id, event
