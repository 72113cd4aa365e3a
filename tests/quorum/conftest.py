"""A node's metadata directory on a disk in memory, and the quorum it starts from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias
from uuid import UUID

import pytest

from tidelog.model.time import Now
from tidelog.quorum.control_records import Voter, VoterEndpoint
from tidelog.quorum.formatting import format_directory
from tidelog.quorum.metadata_log import metadata_log_config, open_metadata_log
from tidelog.quorum.quorum import Quorum, RecordCodec
from tidelog.quorum.snapshots import KAFKA_RULES, SnapshotRules
from tidelog.storage.directory_health import DirectoryHealth
from tidelog.storage.memory_filesystem import MemoryFileSystem
from tidelog.storage.partition_log import PartitionLog

ENDPOINT = VoterEndpoint(name="CONTROLLER", host="localhost", port=9093)
DIRECTORY_ID = UUID(int=12345)
VOTER = Voter(voter_id=1, voter_directory_id=DIRECTORY_ID, endpoints=(ENDPOINT,))
CODEC: RecordCodec[str] = RecordCodec(str.encode, bytes.decode)

OpenLog: TypeAlias = Callable[..., PartitionLog]
OpenQuorum: TypeAlias = Callable[..., Quorum[str]]


class Dice:
    """The same throws every time."""

    def uuid(self) -> UUID:
        return UUID(int=4711)

    def below(self, bound: int) -> int:
        return bound // 2


@pytest.fixture
def data() -> Path:
    return Path(__file__).parent / "data"


@pytest.fixture
def files() -> MemoryFileSystem:
    """A disk with a formatted metadata directory."""
    files = MemoryFileSystem()
    files.make_directory("/data")
    format_directory(
        files,
        "/data",
        cluster_id="4L6g3nShT-eMCtK--X86sw",
        node_id=1,
        directory_id=DIRECTORY_ID,
        bootstrap=(b"first",),
        voters=(VOTER,),
        wall_ms=500,
    )
    return files


@pytest.fixture
def open_log() -> OpenLog:
    def open_log(
        files: MemoryFileSystem, *, clean: bool = False, segment_bytes: int = 1 << 30, at: int = 0
    ) -> PartitionLog:
        return open_metadata_log(
            files,
            "/data",
            metadata_log_config(segment_bytes),
            entropy=Dice(),
            health=DirectoryHealth(),
            clean=clean,
            now=Now(at, at + 1000),
        )

    return open_log


@pytest.fixture
def open_quorum(open_log: OpenLog) -> OpenQuorum:
    def open_quorum(
        files: MemoryFileSystem,
        *,
        rules: SnapshotRules = KAFKA_RULES,
        endpoints: tuple[VoterEndpoint, ...] = (ENDPOINT,),
        directory_id: UUID = DIRECTORY_ID,
        static_voters: tuple[Voter, ...] = (),
        node_id: int = 1,
        at: int = 0,
        **log: object,
    ) -> Quorum[str]:
        return Quorum(
            files=files,
            log=open_log(files, at=at, **log),
            node_id=node_id,
            directory_id=directory_id,
            endpoints=endpoints,
            codec=CODEC,
            now=Now(at, at + 1000),
            rules=rules,
            static_voters=static_voters,
        )

    return open_quorum
