from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from tidelog.model.errors import DiskError
from tidelog.quorum.control_records import Voter, VoterEndpoint
from tidelog.quorum.snapshots import (
    SnapshotContent,
    SnapshotId,
    read_snapshot,
    snapshot_timestamp,
    write_snapshot,
)
from tidelog.simulator.disk.crash import crashes, data_lost, names_kept, names_undone
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.filesystem import read_all, write_atomically

DATA = Path(__file__).parents[1] / "controller" / "data"
KAFKA = "00000000000000000142-0000000002.checkpoint"
PATH = f"/data/{KAFKA}"
VOTER = Voter(
    voter_id=1,
    voter_directory_id=UUID(int=77),
    endpoints=(VoterEndpoint(name="CONTROLLER", host="localhost", port=9093),),
)


@pytest.fixture
def files() -> MemoryFileSystem:
    files = MemoryFileSystem()
    files.make_directory("/data")
    files.sync_directory("/")
    return files


def write(files: MemoryFileSystem, values: tuple[bytes, ...]) -> None:
    write_snapshot(
        files,
        PATH,
        values,
        epoch=2,
        last_contained_timestamp=1234,
        timestamp=1300,
        kraft_version=1,
        voters=(VOTER,),
    )


def test_a_snapshot_is_named_after_its_exclusive_end_and_epoch() -> None:
    assert SnapshotId(142, 2).file_name == KAFKA
    assert SnapshotId.from_file_name(KAFKA) == SnapshotId(142, 2)


@pytest.mark.parametrize(
    "name",
    [
        "bootstrap.checkpoint",
        KAFKA + ".part",
        "142-2.checkpoint",
        "00000000000000000000.log",
        "0000000000000000014x-0000000002.checkpoint",
    ],
)
def test_other_files_are_no_snapshots(name: str) -> None:
    assert SnapshotId.from_file_name(name) is None


def test_a_snapshot_of_apache_kafka_is_read(files: MemoryFileSystem) -> None:
    write_atomically(files, PATH, (DATA / KAFKA).read_bytes())
    content = read_snapshot(files, PATH)
    assert content.kraft_version == 1
    assert [voter.voter_id for voter in content.voters] == [1]
    assert len(content.values) == 20
    assert content.last_contained_timestamp == snapshot_timestamp(files, PATH) == 1794737143536


def test_a_snapshot_survives_writing_and_reading(files: MemoryFileSystem) -> None:
    values = tuple(b"%d" % number * 100 for number in range(12_000))
    write(files, values)
    assert read_snapshot(files, PATH) == SnapshotContent(1234, 1, (VOTER,), values)
    assert snapshot_timestamp(files, PATH) == 1234


def test_a_snapshot_may_hold_no_records(files: MemoryFileSystem) -> None:
    write(files, ())
    assert read_snapshot(files, PATH).values == ()


@pytest.mark.parametrize("fate", [names_kept, names_undone])
def test_a_crash_while_writing_leaves_a_whole_snapshot_or_none(
    files: MemoryFileSystem, fate: object
) -> None:
    write(files, (b"one", b"two"))
    found = 0
    for disk in crashes(files, data_lost, names_kept if fate is names_kept else names_undone):
        if disk.exists(PATH):
            assert read_snapshot(disk, PATH).values == (b"one", b"two")
            found += 1
    assert found >= 1


def test_a_snapshot_without_its_footer_is_not_whole(files: MemoryFileSystem) -> None:
    whole = (DATA / KAFKA).read_bytes()
    write_atomically(files, PATH, whole[:1597])
    with pytest.raises(DiskError, match="footer"):
        read_snapshot(files, PATH)


@pytest.mark.parametrize("position", [20, 190, 400, 1650])
def test_damage_is_found(files: MemoryFileSystem, position: int) -> None:
    damaged = bytearray((DATA / KAFKA).read_bytes())
    damaged[position] ^= 0xFF
    write_atomically(files, PATH, bytes(damaged))
    with pytest.raises(DiskError):
        read_snapshot(files, PATH)


@pytest.mark.parametrize("length", [0, 40, 100, 1000, 1671])
def test_a_cut_file_is_found(files: MemoryFileSystem, length: int) -> None:
    write_atomically(files, PATH, (DATA / KAFKA).read_bytes()[:length])
    with pytest.raises(DiskError):
        read_snapshot(files, PATH)


def test_a_snapshot_left_half_written_is_replaced(files: MemoryFileSystem) -> None:
    write_atomically(files, PATH + ".part", b"rest of an earlier try")
    write(files, (b"one",))
    assert not files.exists(PATH + ".part")
    assert read_snapshot(files, PATH).values == (b"one",)
    assert read_all(files, PATH)[:8] == bytes(8)
