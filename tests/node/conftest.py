"""Nodes without sockets, clients of them, and what those send and read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from tests.node.node_bench import START, NodeBench
from tests.node.peer import Peer

from tidelog.protocol.fetch import FetchedPartition
from tidelog.records.batch import whole_batches
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.record import Record, records_of
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem

NewBench: TypeAlias = Callable[..., NodeBench]
NewBatch: TypeAlias = Callable[..., bytes]
RecordsIn: TypeAlias = Callable[[FetchedPartition], list[Record]]


@pytest.fixture
def new_bench() -> NewBench:
    """Make a started node with settings of one's own."""

    def make(files: MemoryFileSystem | None = None, /, **settings: str) -> NodeBench:
        named = {name.replace("_", "."): text for name, text in settings.items()}
        return NodeBench(named, files).start()

    return make


@pytest.fixture
def bench(new_bench: NewBench) -> NodeBench:
    """A started node."""
    return new_bench()


@pytest.fixture
def starting() -> NodeBench:
    """A node that has just begun to start and waits for its first job."""
    held = NodeBench({})
    held.holds_jobs = True
    return held.start()


@pytest.fixture
def peer(bench: NodeBench) -> Peer:
    """A client of `bench`."""
    return bench.connect()


@pytest.fixture
def batch() -> NewBatch:
    """Make a batch as a producer sends it, one record per value."""

    def make(
        *values: bytes, timestamp: int = START.wall_ms, key: bytes | None = b"key", **how: Any
    ) -> bytes:
        records = [NewRecord(key, value, timestamp) for value in values or (b"value",)]
        return bytes(build_batch(records, **how))

    return make


@pytest.fixture
def records_in() -> RecordsIn:
    """The records of the whole batches that a partition answered with."""

    def read(fetched: FetchedPartition) -> list[Record]:
        assert isinstance(fetched.records, memoryview)
        return [
            record for _, whole in whole_batches(fetched.records) for record in records_of(whole)
        ]

    return read
