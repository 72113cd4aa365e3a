"""What is wrong with a cluster, in sentences, worst first."""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import Any, Final, NamedTuple

from tidelog.model.ids import NO_LEADER, TopicPartition
from tidelog.view.cluster_picture import ClusterPicture, NodeSeen, PartitionHealth

_NAMED: Final = 3
"""So many partitions are named in a sentence."""


class Severity(IntEnum):
    """How soon somebody should look."""

    CRITICAL = 0
    """Something does not work."""
    WARNING = 1
    """One failure more, and something will not."""
    NOTICE = 2


class Problem(NamedTuple):
    """One thing that is wrong."""

    severity: Severity
    sentence: str
    advice: str = ""
    filter: str = ""
    """Which partitions of the grid it is about."""

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "severity": self.severity.name.lower()}


def find_problems(picture: ClusterPicture) -> list[Problem]:
    """Everything that is wrong at this moment, worst first."""
    found = [*_about_quorum(picture), *_about_partitions(picture), *_about_nodes(picture)]
    return sorted(found, key=lambda problem: problem.severity)


def _about_quorum(picture: ClusterPicture) -> list[Problem]:
    if not any(node.is_awake for node in picture.nodes.values()):
        nodes = "No node answers" if len(picture.nodes) > 1 else "The node does not answer"
        advice = "`tidelog up` starts a cluster on this machine"
        return [Problem(Severity.CRITICAL, f"{nodes}.", advice)]
    quorum = picture.quorum
    if quorum and quorum.get("leader", NO_LEADER) == NO_LEADER:
        return [
            Problem(
                Severity.CRITICAL,
                "No controller leads: nothing can be elected, created or changed.",
                "Start controllers until a majority runs",
            )
        ]
    return []


def _about_partitions(picture: ClusterPicture) -> list[Problem]:
    rows, by_health = picture.rows, picture.by_health
    found = []
    if offline := by_health[PartitionHealth.OFFLINE]:
        sentence = f"{_partitions(offline)} no leader: neither writes nor reads."
        found.append(Problem(Severity.CRITICAL, sentence, "Start a broker of its ISR", "offline"))
    if under := by_health[PartitionHealth.UNDER_MIN_ISR]:
        sentence = f"{_partitions(under)} fewer in-sync replicas than min.insync.replicas:"
        found.append(
            Problem(
                Severity.CRITICAL,
                f"{sentence} acks=all is refused.",
                "Bring brokers back",
                "under-min-isr",
            )
        )
    if under := by_health[PartitionHealth.UNDER_REPLICATED]:
        missing = sorted({each for name in under for each in _missing(picture, name)})
        found.append(
            Problem(
                Severity.WARNING,
                f"{_partitions(under)} replicas out of sync, on {_brokers(missing)}.",
                filter="under-replicated",
            )
        )
    if elsewhere := picture.elsewhere:
        share = f"{len(elsewhere)} of {len(rows)} partitions"
        sentence = f"{share} are led by another broker than their preferred leader."
        advice = "The cluster moves leaders back by itself, or elect preferred leaders now"
        found.append(Problem(Severity.NOTICE, sentence, advice, "not-preferred"))
    return found


def _about_nodes(picture: ClusterPicture) -> list[Problem]:
    found = []
    for node in picture.nodes.values():
        if not node.is_awake:
            found.append(Problem(Severity.WARNING, _absence(node), _return_of(node)))
        for what in node.not_understood.values():
            sentence = f"{_named(node)} tells what this view does not understand: {what}."
            advice = f"Its version is {node.version or 'not known'}: look with the same one"
            found.append(Problem(Severity.NOTICE, sentence, advice))
        for directory in node.cluster.get("directories") or ():
            if directory.get("offline"):
                sentence = f"Node {node.node_id}: log directory {directory['path']} is offline"
                found.append(Problem(Severity.CRITICAL, f"{sentence}: {directory['offline']}."))
    for broker in picture.brokers:
        seen = picture.node(int(broker["id"]))
        if broker["fenced"] and (seen is None or seen.is_awake):
            sentence = f"Broker {broker['id']} is fenced: it leads nothing and is in no ISR."
            found.append(Problem(Severity.WARNING, sentence))
        elif broker["shutting_down"]:
            found.append(Problem(Severity.NOTICE, f"Broker {broker['id']} is shutting down."))
    return found


def _named(node: NodeSeen) -> str:
    return f"Node {node.node_id}" if node.node_id is not None else f"The node at {node.address}"


def _absence(node: NodeSeen) -> str:
    who = _named(node)
    if node.process is None or node.process.state == "running":
        return f"{who} does not answer over HTTP: {node.why_not}."
    reason = f": {node.process.reason}" if node.process.reason else ""
    return f"{who} is {node.process.state}{reason}."


def _return_of(node: NodeSeen) -> str:
    if node.process is None or node.process.state == "running":
        return ""
    verb = "resume" if node.process.state == "paused" else "start"
    return f"`tidelog node {verb} {node.node_id}` brings it back"


def _missing(picture: ClusterPicture, name: TopicPartition) -> set[int]:
    row = picture.rows[name]
    return set(row.replicas) - set(row.isr)


def _partitions(names: Collection[TopicPartition]) -> str:
    some = sorted(names)[:_NAMED] if len(names) < 1000 else []
    if len(names) <= _NAMED:
        return f"{_and([str(name) for name in some])} {'has' if len(names) == 1 else 'have'}"
    examples = f" ({', '.join(map(str, some))} …)" if some else ""
    return f"{len(names)} partitions{examples} have"


def _brokers(ids: list[int]) -> str:
    return f"broker{'' if len(ids) == 1 else 's'} {_and([str(each) for each in ids])}"


def _and(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
