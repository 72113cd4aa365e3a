"""A node's metadata directory on a disk in memory, and the quorum it starts from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias
from uuid import UUID

import pytest

from tidelog.model.time import Now
from tidelog.quorum.control_records import Voter, VoterEndpoint
from tidelog.quorum.formatting import format_directory
from tidelog.quorum.messages import ReplicaKey
from tidelog.quorum.metadata_log import metadata_log_config
from tidelog.quorum.metadata_replica import RecordCodec
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.snapshots import KAFKA_RULES, SnapshotRules
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.log_directory import LogDirectory

ENDPOINT = VoterEndpoint(name="CONTROLLER", host="localhost", port=9093)
DIRECTORY_ID = UUID(int=12345)
VOTER = Voter(voter_id=1, voter_directory_id=DIRECTORY_ID, endpoints=(ENDPOINT,))
CODEC: RecordCodec[str] = RecordCodec(str.encode, bytes.decode)

OpenQuorum: TypeAlias = Callable[..., Quorum[str]]


class Dice:
    """The same throws every time."""

    def uuid(self) -> UUID:
        return UUID(int=4711)

    def below(self, bound: int) -> int:
        return bound // 2


@pytest.fixture
def files() -> MemoryFileSystem:
    """A disk with a metadata directory formatted for the sole voter."""
    return formatted((VOTER,))


@pytest.fixture
def files_without_voters() -> MemoryFileSystem:
    """A disk with a directory formatted for voters that stand in the configuration."""
    return formatted(())


def formatted(voters: tuple[Voter, ...]) -> MemoryFileSystem:
    files = MemoryFileSystem()
    files.make_directory("/data")
    format_directory(
        files,
        "/data",
        cluster_id="4L6g3nShT-eMCtK--X86sw",
        node_id=1,
        directory_id=DIRECTORY_ID,
        bootstrap=(b"first",),
        voters=voters,
        wall_ms=500,
    )
    return files


@pytest.fixture
def open_quorum() -> OpenQuorum:
    def open_quorum(
        files: MemoryFileSystem,
        *,
        rules: SnapshotRules = KAFKA_RULES,
        endpoints: tuple[VoterEndpoint, ...] = (ENDPOINT,),
        directory_id: UUID = DIRECTORY_ID,
        static_voters: tuple[Voter, ...] = (),
        node_id: int = 1,
        segment_bytes: int = 1 << 30,
        writes_by_jobs: bool = False,
    ) -> Quorum[str]:
        now = Now(0, 1000)
        directory = LogDirectory(files, "/data", Dice())
        directory.begin()
        return Quorum(
            files=files,
            log=directory.load_metadata_log(now, metadata_log_config(segment_bytes)),
            own=ReplicaKey(node_id, directory_id),
            endpoints=endpoints,
            listener=ENDPOINT.name,
            codec=CODEC,
            entropy=Dice(),
            now=now,
            rules=rules,
            static_voters=static_voters,
            writes_by_jobs=writes_by_jobs,
        )

    return open_quorum
