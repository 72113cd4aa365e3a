"""A simulated coordinator of long ago: its orders to end transactions arrive when all is over.

Invariant  It speaks for an epoch before all others, and of a producer that a later coordinator has
           ended a transaction of: no leader may do what it says (T8).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from tidelog.model.ids import NO_LEADER, TopicPartition
from tidelog.simulator.asking import Lost
from tidelog.simulator.violation import Violation
from tidelog.simulator.workload_client import ClusterClient
from tidelog.simulator.workload_transactions import TransactionalProducer
from tidelog.wire.apis import ApiKey

MARKERS_VERSION: Final = 1
LONG_AGO: Final = -1
INTERVAL_MS: Final = 1_500

_GO: Final = "go"


class LateCoordinator(ClusterClient):
    """Wants to abort what producers have under way, one partition at a time, until `stop_ms`."""

    def __init__(
        self,
        name: str,
        nodes: Sequence[int],
        partitions: Sequence[TopicPartition],
        producers: Sequence[TransactionalProducer],
        *,
        stop_ms: int,
    ) -> None:
        super().__init__(name, nodes, sorted({partition.topic for partition in partitions}))
        self._partitions = tuple(partitions)
        self._producers = tuple(producers)
        self._stop_ms = stop_ms

    def on_started(self) -> None:
        self.refresh()
        self.set_timer(INTERVAL_MS, _GO)

    def on_token(self, token: object) -> None:
        if self.now_ms >= self._stop_ms:
            return
        self.set_timer(1 + int(self.dice.expovariate(1 / INTERVAL_MS)), _GO)
        producer = self.dice.choice(self._producers)
        name = self.dice.choice(self._partitions)
        identity = producer.known_identity
        leader = self.leaders.get(name)
        if leader is None or leader.node == NO_LEADER:
            self.refresh()
            return
        connection = self.line(leader.node)
        if connection is not None and identity is not None:
            self._order(connection, name, identity)

    def _order(self, connection: int, name: TopicPartition, identity: tuple[int, int]) -> None:
        producer_id, epoch = identity
        marker = {
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "transaction_result": False,
            "coordinator_epoch": LONG_AGO,
            "topics": [{"name": name.topic, "partition_indexes": [name.partition]}],
        }
        then = partial(self._answered, name, identity)
        fields = {"markers": [marker]}
        self.ask(connection, ApiKey.WRITE_TXN_MARKERS, MARKERS_VERSION, fields, then)
        self.expects_answer(connection)

    def _answered(self, name: TopicPartition, identity: tuple[int, int], answer: Any) -> None:
        if isinstance(answer, Lost):
            return
        if answer.markers[0].topics[0].partitions[0].error_code:
            self.refresh()
            return
        which = f"producer {identity[0]} in epoch {identity[1]} at {name}"
        raise Violation("T8", f"{self.name} was allowed to end the transaction of {which}")
