from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from tidelog.model.errors import DiskError
from tidelog.quorum.election_state import (
    ElectionState,
    read_election_state,
    write_election_state,
)
from tidelog.simulator.disk.crash import crashes, data_lost, names_undone
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.filesystem import read_all, write_atomically

DATA = Path(__file__).parent / "data"
DIRECTORY = "/data/__cluster_metadata-0"
PATH = f"{DIRECTORY}/quorum-state"


@pytest.fixture
def files() -> MemoryFileSystem:
    files = MemoryFileSystem()
    files.make_directory(DIRECTORY)
    files.sync_directory("/data")
    files.sync_directory("/")
    return files


def write(files: MemoryFileSystem, state: ElectionState, kraft_version: int = 1) -> None:
    write_election_state(files, DIRECTORY, state, kraft_version=kraft_version, voter_ids=(1, 2))


def test_a_node_that_never_voted_is_in_epoch_zero(files: MemoryFileSystem) -> None:
    assert read_election_state(files, DIRECTORY) == ElectionState(0, -1, -1)


def test_the_file_is_the_one_apache_kafka_writes(files: MemoryFileSystem) -> None:
    kafka = (DATA / "quorum-state").read_bytes()
    write_atomically(files, PATH, kafka)
    assert read_election_state(files, DIRECTORY) == ElectionState(epoch=1, leader_id=1)
    write(files, ElectionState(epoch=1, leader_id=1))
    assert read_all(files, PATH) == kafka


def test_a_quorum_whose_voters_stand_in_the_configuration_writes_version_0(
    files: MemoryFileSystem,
) -> None:
    write(files, ElectionState(epoch=3, leader_id=-1, voted_id=2), kraft_version=0)
    assert read_all(files, PATH) == (
        b'{"clusterId":"","leaderId":-1,"leaderEpoch":3,"votedId":2,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
    )
    assert read_election_state(files, DIRECTORY) == ElectionState(3, -1, 2)


def test_a_vote_survives_writing_and_reading(files: MemoryFileSystem) -> None:
    state = ElectionState(epoch=7, voted_id=2, voted_directory_id=UUID(int=12345))
    write(files, state)
    assert read_election_state(files, DIRECTORY) == state


def test_a_crash_leaves_the_old_state_or_the_new_one(files: MemoryFileSystem) -> None:
    old, new = ElectionState(epoch=1, leader_id=1), ElectionState(epoch=2, leader_id=1)
    write(files, old)
    seen = [read_election_state(disk, DIRECTORY) for disk in after_each_operation(files, new)]
    assert set(seen) == {old, new}
    assert seen[-1] == new


def after_each_operation(files: MemoryFileSystem, state: ElectionState) -> list[MemoryFileSystem]:
    before = len(files.trace)
    write(files, state)
    return list(crashes(files, data_lost, names_undone))[before:]


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b'{"data_version":2}', b'{"data_version":1,"leaderEpoch":"x"}']
)
def test_a_state_that_cannot_be_read_is_not_taken_for_none(
    files: MemoryFileSystem, content: bytes
) -> None:
    write_atomically(files, PATH, content)
    with pytest.raises(DiskError, match="vote twice"):
        read_election_state(files, DIRECTORY)
