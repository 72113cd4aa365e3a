"""Orders to end transactions that arrive when all is over: of a coordinator of long ago, and
copies of those that arrived already, from connections that were given up long ago.

Invariant  The coordinator of long ago speaks for an epoch before all others, and of a producer that
           a later coordinator has ended a transaction of: no leader may do what it says (T8).
Invariant  A copy is what the network has carried to that very node, to the last byte but for its
           correlation id.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from tidelog.model.ids import NO_LEADER, TopicPartition
from tidelog.node.core.inputs import FrameArrived
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.frame import read_request_header
from tidelog.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tidelog.simulator.clients.asking import Lost, decode_answer
from tidelog.simulator.clients.cluster_client import ClusterClient
from tidelog.simulator.clients.transactions import TransactionalProducer
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.happenings import Happening, Stepped
from tidelog.simulator.world.world import World

MARKERS_VERSION: Final = 1
LONG_AGO: Final = -1
INTERVAL_MS: Final = 1_500
ECHO_INTERVAL_MS: Final = 400
COPIES_KEPT: Final = 12

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
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_result=False,
            coordinator_epoch=LONG_AGO,
            topics=[WritableTxnMarkerTopic(name=name.topic, partition_indexes=[name.partition])],
        )
        then = partial(self._answered, name, identity)
        request = WriteTxnMarkersRequest(markers=[marker])
        self.ask(connection, request, MARKERS_VERSION, then)
        self.expects_answer(connection)

    def _answered(self, name: TopicPartition, identity: tuple[int, int], answer: Any) -> None:
        if isinstance(answer, Lost):
            return
        if answer.markers[0].topics[0].partitions[0].error_code:
            self.refresh()
            return
        which = f"producer {identity[0]} in epoch {identity[1]} at {name}"
        raise Violation("T8", f"{self.name} was allowed to end the transaction of {which}")


class _Copy(NamedTuple):
    node: int
    api_version: int
    frame: bytes


class LateCopies(ClusterClient):
    """Overhears what coordinators order, and delivers some of it once more, until `stop_ms`.

    A leader that takes a copy for a new order ends the transaction that its producer has begun
    meanwhile, and the rules on transactions notice.
    """

    def __init__(
        self, name: str, nodes: Sequence[int], others: Sequence[str], stop_ms: int
    ) -> None:
        super().__init__(name, nodes, ())
        self._strangers = {name, *others}
        self._stop_ms = stop_ms
        self._copies: deque[_Copy] = deque(maxlen=COPIES_KEPT)

    def overhear(self, _world: World, happening: Happening) -> None:
        """Keep a copy of an order that has just arrived."""
        if not isinstance(happening, Stepped) or not isinstance(happening.happened, FrameArrived):
            return
        frame = happening.frame
        if int.from_bytes(frame[:2], "big") != ApiKey.WRITE_TXN_MARKERS:
            return
        header = read_request_header(frame)
        if header.client_id not in self._strangers:
            self._copies.append(_Copy(happening.machine.node_id, header.api_version, bytes(frame)))

    def on_started(self) -> None:
        self.set_timer(ECHO_INTERVAL_MS, _GO)

    def on_token(self, token: object) -> None:
        if self.now_ms >= self._stop_ms:
            return
        self.set_timer(1 + int(self.dice.expovariate(1 / ECHO_INTERVAL_MS)), _GO)
        if not self._copies:
            return
        copy = self.dice.choice(self._copies)
        connection = self.line(copy.node)
        if connection is not None:
            decode = partial(decode_answer, WriteTxnMarkersResponse, copy.api_version)
            self.ask_again(connection, copy.frame, decode, _ignore)
            self.expects_answer(connection)


def _ignore(_answer: Any) -> None:
    """Whoever asked first has had the answer."""
