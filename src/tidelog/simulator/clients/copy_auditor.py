"""A simulated reader of what copiers have committed, whoever the coordinator of their group may be.

Invariant  It knows the highest offset that anybody was told before it asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from tidelog.model.ids import TopicPartition
from tidelog.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tidelog.simulator.clients.asking import Lost
from tidelog.simulator.clients.cluster_client import ClusterClient
from tidelog.simulator.clients.copier_member import COPIERS
from tidelog.simulator.clients.groups import FETCH_VERSION

AUDIT_MS: Final = 40

_GO: Final = "go"


class ToldOffset(NamedTuple):
    """What the group has committed of a partition, and what was known when that was asked."""

    partition: TopicPartition
    offset: int
    least: int


class CopyAuditor(ClusterClient):
    """Asks any node, for stable offsets or for what there is."""

    def __init__(
        self, name: str, nodes: Sequence[int], inputs: Sequence[TopicPartition], stop_ms: int
    ) -> None:
        super().__init__(name, nodes, ())
        self.fresh: list[ToldOffset] = []
        """What nobody has judged yet."""
        self._inputs = tuple(inputs)
        self._stop_ms = stop_ms
        self._known = dict.fromkeys(inputs, 0)

    def on_started(self) -> None:
        self.set_timer(AUDIT_MS, _GO)

    def on_token(self, token: object) -> None:
        if self.now_ms >= self._stop_ms:
            return
        self.set_timer(1 + int(self.dice.expovariate(1 / AUDIT_MS)), _GO)
        connection = self.line(self.dice.choice(self.nodes))
        if connection is None:
            return
        topics: dict[str, list[int]] = {}
        for name in self._inputs:
            topics.setdefault(name.topic, []).append(name.partition)
        request = OffsetFetchRequest(
            group_id=COPIERS,
            topics=[
                OffsetFetchRequestTopic(name=topic, partition_indexes=indexes)
                for topic, indexes in topics.items()
            ],
            require_stable=self.dice.random() < 0.5,
        )
        then = partial(self._heard, dict(self._known))
        self.ask(connection, request, FETCH_VERSION, then)
        self.expects_answer(connection)

    def _heard(self, known: dict[TopicPartition, int], answer: Any) -> None:
        if isinstance(answer, Lost) or answer.error_code:
            return
        for topic in answer.topics:
            for told in topic.partitions:
                if told.error_code:
                    continue
                name = TopicPartition(topic.name, told.partition_index)
                offset = max(0, int(told.committed_offset))
                self.fresh.append(ToldOffset(name, offset, known[name]))
                self._known[name] = max(self._known[name], offset)
