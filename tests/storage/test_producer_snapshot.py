from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.simulator.disk.crash import after_crash, data_lost, names_undone
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.producer_snapshot import (
    CorruptSnapshotError,
    ProducerSnapshotEntry,
    ProducerSnapshots,
    decode_snapshot,
    encode_snapshot,
)

ENTRY = ProducerSnapshotEntry(1001, 3, 57, 999, 4, 1_700_000_000_000, 2, 990)


def snapshots_at(*offsets: int) -> tuple[MemoryFileSystem, ProducerSnapshots]:
    files = MemoryFileSystem()
    files.make_directory("/log")
    files.sync_directory("/")
    snapshots = ProducerSnapshots(files, "/log")
    for offset in offsets:
        snapshots.write(offset, [ENTRY])
        snapshots.sync(offset)
    files.sync_directory("/log")
    return files, snapshots


def i16(number: int) -> str:
    return f"{number & 0xFFFF:04x}"


def i32(number: int) -> str:
    return f"{number & 0xFFFFFFFF:08x}"


def i64(number: int) -> str:
    return f"{number & 0xFFFFFFFFFFFFFFFF:016x}"


def test_a_snapshot_has_version_checksum_count_and_entries_of_46_bytes() -> None:
    content = encode_snapshot([ENTRY, ENTRY._replace(current_txn_first_offset=-1)])

    assert len(content) == 10 + 2 * 46
    assert content[:2].hex() == i16(1)
    assert content[6:10].hex() == i32(2)
    assert content[10:56].hex() == (
        i64(1001)
        + i16(3)
        + i32(57)
        + i64(999)
        + i32(4)
        + i64(1_700_000_000_000)
        + i32(2)
        + i64(990)
    )
    assert content[-8:].hex() == i64(-1)


def test_an_empty_snapshot_has_the_bytes_kafka_writes() -> None:
    assert encode_snapshot([]).hex() == "0001" + "48674bc7" + "00000000"


I64 = st.integers(-(2**63), 2**63 - 1)
I32 = st.integers(-(2**31), 2**31 - 1)
I16 = st.integers(-(2**15), 2**15 - 1)
ENTRIES = st.lists(
    st.builds(ProducerSnapshotEntry, I64, I16, I32, I64, I32, I64, I32, I64), max_size=8
)


@settings(max_examples=examples(100), deadline=None)
@given(ENTRIES)
def test_what_is_written_is_read_back(entries: list[ProducerSnapshotEntry]) -> None:
    assert decode_snapshot(encode_snapshot(entries)) == entries


@settings(max_examples=examples(200), deadline=None)
@given(ENTRIES, st.data())
def test_every_flipped_bit_and_every_cut_is_noticed(
    entries: list[ProducerSnapshotEntry], data: st.DataObject
) -> None:
    content = bytearray(encode_snapshot(entries))
    cut = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(CorruptSnapshotError):
        decode_snapshot(bytes(content[:cut]))
    bit = data.draw(st.integers(0, len(content) * 8 - 1))
    content[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptSnapshotError):
        decode_snapshot(bytes(content))


@pytest.mark.parametrize("content", [b"", bytes(10), bytes(4096), encode_snapshot([ENTRY]) + b"x"])
def test_zeros_and_garbage_are_no_snapshot(content: bytes) -> None:
    with pytest.raises(CorruptSnapshotError):
        decode_snapshot(content)


def test_a_snapshot_is_named_after_the_first_offset_it_does_not_cover() -> None:
    files, snapshots = snapshots_at(120, 7)

    assert files.list("/log") == ["00000000000000000007.snapshot", "00000000000000000120.snapshot"]
    assert snapshots.offsets() == [7, 120]
    assert snapshots.read(120) == [ENTRY]


def test_other_files_are_no_snapshots() -> None:
    files, snapshots = snapshots_at(7)
    for name in ("x.snapshot", "00000000000000000008.snapshot.deleted", "8.snapshot"):
        files.open(f"/log/{name}")

    assert snapshots.offsets() == [7]


def test_writing_a_snapshot_again_replaces_it() -> None:
    _, snapshots = snapshots_at(7)

    snapshots.write(7, [])

    assert snapshots.read(7) == []


def test_removed_snapshots_may_come_back_until_the_directory_is_synced() -> None:
    files, snapshots = snapshots_at(7, 8, 9)

    syncs = files.sync_count
    snapshots.remove([7, 9, 11])

    assert (snapshots.may_come_back, files.sync_count) == (True, syncs)
    files.sync_directory("/log")
    after = after_crash(files, data_lost, names_undone)
    assert ProducerSnapshots(after, "/log").offsets() == [8]


def test_removing_nothing_touches_nothing() -> None:
    files, snapshots = snapshots_at(7)
    before = files.operation_count

    snapshots.remove([8])
    snapshots.sync(8)

    assert files.operation_count == before
    assert not snapshots.may_come_back


def test_a_synced_snapshot_survives() -> None:
    files, _ = snapshots_at(7)

    after = after_crash(files, data_lost, names_undone)

    assert ProducerSnapshots(after, "/log").read(7) == [ENTRY]


def test_snapshots_of_no_segment_go_except_the_one_of_the_last_stop() -> None:
    _, snapshots = snapshots_at(10, 15, 20, 30, 35)
    snapshots.remove_strays([0, 10, 20])
    assert snapshots.offsets() == [10, 20, 35]

    _, snapshots = snapshots_at(10, 15)
    snapshots.remove_strays([0, 20])
    assert snapshots.offsets() == []

    _, snapshots = snapshots_at(10, 15)
    snapshots.remove_strays([])
    assert snapshots.offsets() == [15]
