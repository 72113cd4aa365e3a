"""A simulated disk: what is lost, what fails, what is damaged."""

from __future__ import annotations

from random import Random

import pytest

from tidelog.model.errors import DiskError
from tidelog.simulator.disk.machine_disk import Disk, ProcessDies
from tidelog.storage.filesystem import read_all


@pytest.fixture
def disk() -> Disk:
    """With one file: synced bytes, then bytes that are not."""
    disk = Disk(write_us=0, sync_us=1_000)
    disk.files.make_directory("/data")
    file = disk.files.open("/data/0.log")
    file.append(b"synced")
    file.sync()
    disk.files.sync_directory("/")
    disk.files.sync_directory("/data")
    file.append(b" and not")
    file.close()
    return disk


def test_lost_power_can_keep_everything_or_only_what_was_synced(disk: Disk) -> None:
    disk.lose_power("kept", Random(1))
    assert read_all(disk.files, "/data/0.log") == b"synced and not"

    disk.files.open("/data/0.log").append(b", again")
    disk.lose_power("lost", Random(1))
    assert read_all(disk.files, "/data/0.log") == b"synced and not"


@pytest.mark.parametrize("seed", range(20))
def test_a_drawn_fate_keeps_what_was_synced(disk: Disk, seed: int) -> None:
    disk.lose_power("drawn", Random(seed))

    assert read_all(disk.files, "/data/0.log").startswith(b"synced")


def test_a_copy_is_what_a_reader_sees_and_can_be_put_back(disk: Disk) -> None:
    copy = disk.copy()
    disk.files.open("/data/0.log").append(b", later")

    disk.replace(copy)

    assert read_all(disk.files, "/data/0.log") == b"synced and not"


def test_a_process_dies_at_the_operation_it_was_told(disk: Disk) -> None:
    file = disk.files.open("/data/0.log")
    disk.die_after(1)
    file.append(b"1")
    with pytest.raises(ProcessDies):
        file.append(b"2")
    with pytest.raises(ProcessDies):
        file.append(b"3")

    disk.disarm()
    file.append(b"4")

    assert read_all(disk.files, "/data/0.log") == b"synced and not14"


@pytest.mark.parametrize("how", ["full", "write", "read", "sync"])
def test_a_disk_fails_in_the_way_named_until_it_is_healed(disk: Disk, how: str) -> None:
    file = disk.files.open("/data/0.log")
    disk.fail(how, "/data/")

    failed = []
    for name, work in (
        ("read", lambda: file.read(0, 1)),
        ("write", lambda: file.append(b"x")),
        ("sync", file.sync),
    ):
        try:
            work()
        except DiskError:
            failed.append(name)
    disk.heal()

    assert failed == ["write" if how == "full" else how]
    assert disk.failed
    file.append(b"y")


def test_only_paths_with_the_part_named_fail(disk: Disk) -> None:
    disk.fail("write", "elsewhere")

    disk.files.open("/data/0.log").append(b"x")


def test_a_slow_disk_is_as_fast_as_before_once_healed(disk: Disk) -> None:
    disk.slow_down(5_000, 100_000)
    assert (disk.write_us, disk.sync_us) == (5_000, 100_000)

    disk.heal()

    assert (disk.write_us, disk.sync_us) == (0, 1_000)


def test_a_flipped_bit_changes_one_bit(disk: Disk) -> None:
    before = read_all(disk.files, "/data/0.log")

    assert disk.damage("log", "flip", Random(1)) == "/data/0.log"

    after = read_all(disk.files, "/data/0.log")
    changed = [one ^ other for one, other in zip(before, after, strict=True)]
    assert sum(bits.bit_count() for bits in changed) == 1


def test_files_can_be_cut_or_removed_and_a_missing_kind_is_left_alone(disk: Disk) -> None:
    disk.damage("log", "cut", Random(1))
    assert disk.files.size("/data/0.log") < len(b"synced and not")
    disk.damage("log", "remove", Random(1))
    assert not disk.files.exists("/data/0.log")

    assert disk.damage("index", "flip", Random(1)) is None


def test_the_metadata_log_is_never_damaged() -> None:
    disk = Disk(write_us=0, sync_us=0)
    disk.files.make_directory("/data/__cluster_metadata-0")
    disk.files.open("/data/__cluster_metadata-0/0.log").append(b"x")

    assert disk.damage("log", "flip", Random(1)) is None
