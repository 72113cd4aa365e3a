"""Simulated consumers: assigned partitions, read in order from leaders or from any replica.

Invariant  A consumer never skips an offset except over what somebody asked to delete (H6).
Invariant  What it read stays: a leader that says otherwise has lost what was committed (D14), or
           was elected although it was not in sync, in a topic that allows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Final

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER, TopicPartition
from tidelog.protocol.fetch import FetchedPartition, FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.records.batch import BatchHeader, crc_matches, whole_batches
from tidelog.records.record import records_of
from tidelog.simulator.clients.asking import Lost
from tidelog.simulator.clients.cluster_client import ClusterClient
from tidelog.simulator.clients.history import History
from tidelog.simulator.rules.violation import Violation

FETCH_VERSION: Final = 12
LIST_OFFSETS_VERSION: Final = 7
FETCH_WAIT_MS: Final = 500
PARTITION_BYTES: Final = 4_096
PAUSE_MS: Final = 100
HOMESICK: Final = 0.2
"""How likely it tries its home again after a pause."""
EARLIEST: Final = -2
NOTHING: Final = memoryview(b"")
ANY_EPOCH: Final = -1

_AGAIN: Final = "again"


class Consumer(ClusterClient):
    """Reads its partitions from offset 0 on; `home` is the node it likes to read from, if any."""

    isolation_level: ClassVar[int] = 0

    def __init__(
        self,
        name: str,
        nodes: Sequence[int],
        partitions: Sequence[TopicPartition],
        history: History,
        *,
        home: int | None = None,
        may_lose: frozenset[str] = frozenset(),
    ) -> None:
        """`may_lose` names the topics that allow unclean elections."""
        super().__init__(name, nodes, sorted({partition.topic for partition in partitions}))
        self.positions = dict.fromkeys(partitions, 0)
        self._history = history
        self._home = home
        self._may_lose = may_lose
        self.last_epochs = dict.fromkeys(partitions, ANY_EPOCH)
        self._avoid_home: set[TopicPartition] = set()
        self._fetching: set[int] = set()
        self._seeking: set[TopicPartition] = set()
        self._pausing = False

    # What it is told.

    def on_started(self) -> None:
        self.refresh()

    def on_line(self, node: int) -> None:
        self._fetch_all()

    def on_metadata(self) -> None:
        self._fetch_all()

    def on_token(self, token: object) -> None:
        self._pausing = False
        if self.dice.random() < HOMESICK:
            self._avoid_home.clear()
        self._fetch_all()

    # Asking.

    def _fetch_all(self) -> None:
        wanted: dict[int, list[TopicPartition]] = {}
        for partition in self.positions:
            if partition in self._seeking:
                continue
            node = self._target(partition)
            if node == NO_LEADER:
                self.refresh()
            else:
                wanted.setdefault(node, []).append(partition)
        for node, partitions in wanted.items():
            if node not in self._fetching:
                self._fetch(node, partitions)

    def _target(self, partition: TopicPartition) -> int:
        home = self._home
        if home is not None and partition not in self._avoid_home and self.line(home) is not None:
            return home
        leader = self.leaders.get(partition)
        return NO_LEADER if leader is None else leader.node

    def _epoch(self, partition: TopicPartition) -> int:
        leader = self.leaders.get(partition)
        return ANY_EPOCH if self._home is not None or leader is None else leader.epoch

    def _fetch(self, node: int, partitions: Sequence[TopicPartition]) -> None:
        connection = self.line(node)
        if connection is None:
            return
        topics: dict[str, list[FetchPartition]] = {}
        for name in partitions:
            wanted = FetchPartition(
                name.partition,
                self._epoch(name),
                self.positions[name],
                self.last_epochs[name],
                -1,
                PARTITION_BYTES,
            )
            topics.setdefault(name.topic, []).append(wanted)
        request = FetchRequest(
            replica_id=-1,
            replica_epoch=-1,
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=self.isolation_level,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic, None, wanted) for topic, wanted in topics.items()],
            forgotten=[],
            rack_id="",
            cluster_id=None,
        )
        self._fetching.add(node)
        self.ask_fetch(connection, FETCH_VERSION, request, partial(self._fetched, node))
        self.expects_answer(connection)

    # Hearing.

    def _fetched(self, node: int, answer: Any) -> None:
        self._fetching.discard(node)
        if isinstance(answer, Lost):
            self._pause()
            return
        well = not answer.error
        for topic in answer.topics:
            for fetched in topic.partitions:
                name = TopicPartition(topic.name, fetched.index)
                if fetched.error:
                    well = False
                    self._refused(node, name, ErrorCode(fetched.error))
                elif fetched.diverging_epoch is not None:
                    well = False
                    self._go_back(node, name, fetched.diverging_epoch)
                else:
                    well = self._take(node, name, fetched) and well
        if well:
            self._fetch_all()
        else:
            self._pause()

    def _take(self, node: int, name: TopicPartition, fetched: FetchedPartition) -> bool:
        """Read what came; False when it cannot be used, or when that replica is behind."""
        records = fetched.records if isinstance(fetched.records, memoryview) else NOTHING
        for header, batch in whole_batches(records):
            if not crc_matches(batch):
                self._avoid_home.add(name)
                return False
            position = self.positions[name]
            if header.base_offset > position:
                skipped = f"{position} to {header.base_offset} of {name}"
                raise Violation("H6", f"{self.name} was not given {skipped} by {node}")
            if header.next_offset > fetched.high_watermark:
                what = f"{node} gave {self.name} offset {header.last_offset} of {name}"
                why = f"and the high watermark at {fetched.high_watermark}"
                raise Violation("D11", f"{what}, {why}")
            self._read(name, header, batch)
            if header.next_offset > position:
                self.positions[name] = header.next_offset
                self.last_epochs[name] = header.leader_epoch
        return fetched.high_watermark >= self.positions[name]

    def _read(self, name: TopicPartition, header: BatchHeader, batch: memoryview) -> None:
        """Give a batch to the application, as far as it is new."""
        for record in records_of(batch):
            if record.offset >= self.positions[name]:
                self._history.read(self.name, name, record.offset, record.value or b"")

    def _refused(self, node: int, name: TopicPartition, error: ErrorCode) -> None:
        if node == self._home:
            self._avoid_home.add(name)
        if error is ErrorCode.offset_out_of_range:
            self._seek(name)
        else:
            self.refresh()

    def _go_back(self, node: int, name: TopicPartition, diverging: tuple[int, int]) -> None:
        """What it read is not in that log: a replica that is behind, or a loss."""
        if node == self._home:
            self._avoid_home.add(name)
        elif self._home is not None:
            self.refresh()  # it asks without an epoch: who led once answers as a follower
        elif name.topic in self._may_lose:
            self._seek(name)  # what it read further down may have gone as well
        else:
            read = f"{self.positions[name]} of {name} in epoch {self.last_epochs[name]}"
            why = f"and for leader {node} epoch {diverging[0]} ends at {diverging[1]}"
            raise Violation("D14", f"{self.name} has read up to {read}, {why}")

    def _pause(self) -> None:
        if not self._pausing:
            self._pausing = True
            self.set_timer(PAUSE_MS, _AGAIN)

    # Where the log starts.

    def _seek(self, name: TopicPartition) -> None:
        leader = self.leaders.get(name)
        if leader is None or leader.node == NO_LEADER:
            self.refresh()
            return
        connection = self.line(leader.node)
        if connection is None or name in self._seeking:
            return
        self._seeking.add(name)
        partition = ListOffsetsPartition(
            partition_index=name.partition, current_leader_epoch=leader.epoch, timestamp=EARLIEST
        )
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=self.isolation_level,
            topics=[ListOffsetsTopic(name=name.topic, partitions=[partition])],
        )
        then = partial(self._sought, name)
        self.ask(connection, request, LIST_OFFSETS_VERSION, then)
        self.expects_answer(connection)

    def _sought(self, name: TopicPartition, answer: Any) -> None:
        self._seeking.discard(name)
        self._pause()
        if isinstance(answer, Lost):
            return
        result = answer.topics[0].partitions[0]
        if result.error_code:
            self.refresh()
        elif name.topic in self._may_lose:
            self.positions[name], self.last_epochs[name] = result.offset, ANY_EPOCH
        elif result.offset > self.positions[name]:
            deleted_to = self._history.of(name).deleted_to
            if result.offset > deleted_to:
                why = f"{name} starts at {result.offset}, deleted was below {deleted_to} only"
                raise Violation("H6", f"{self.name} at {self.positions[name]}: {why}")
            self.positions[name] = result.offset
