"""Starting with a log that is there already."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tidelog.records.batch import HEADER_SIZE
from tidelog.simulator.disk.crash import after_crash, data_lost, names_undone
from tidelog.simulator.disk.disk_operation import FileRead
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem

if TYPE_CHECKING:
    from tests.storage.conftest import LogBench, NewBench


def rewrite(files: MemoryFileSystem, path: str, content: bytes) -> None:
    files.remove(path)
    file = files.open(path)
    file.append(content)
    file.close()


# A clean stop


def test_a_clean_start_brings_everything_back(filled: LogBench) -> None:
    before = filled.contents()
    filled.reopen()

    assert filled.contents() == before
    assert filled.log.recovery_point == filled.log.end_offset == 23
    assert (filled.log.damage, filled.log.cut_bytes) == ([], 0)
    filled.check()
    filled.append(epoch=4)
    filled.check()


def test_a_clean_start_writes_nothing_and_reads_only_the_tail(new_bench: NewBench) -> None:
    bench = new_bench()
    for _ in range(50):
        bench.append(value=b"x" * 5000)
    bench.log.roll(bench.now)
    bench.append(value=b"x" * 5000)
    bench.log.close()
    operations = bench.files.operation_count
    read: list[FileRead] = []
    bench.files.fail_when(lambda operation: isinstance(operation, FileRead) and note(operation))

    def note(operation: FileRead) -> bool:
        read.append(operation)
        return False

    bench.load(clean=True, recovery_point=51)

    assert bench.files.operation_count == operations
    from_logs = [one for one in read if one.path.endswith(".log")]
    assert {one.path for one in from_logs} == {bench.path(50)}
    assert sum(one.length for one in from_logs) <= 4096
    assert not any(one.path.endswith(".timeindex") for one in read)


def test_an_untouched_log_is_closed_again_without_a_write(filled: LogBench) -> None:
    filled.reopen()
    operations = filled.files.operation_count

    filled.log.close()

    assert filled.files.operation_count == operations


def test_indexes_go_on_after_a_clean_start_as_if_there_had_been_none(filled: LogBench) -> None:
    for _ in range(5):
        filled.reopen()
        filled.append(3, epoch=4)
        filled.check()


def test_a_clean_start_notices_a_file_that_lost_its_end(filled: LogBench) -> None:
    filled.log.close()
    kept = filled.contents()[:-1]
    size = filled.files.size(filled.path(14))
    filled.log.segments.active.file.truncate(size - 7)

    filled.load(clean=True, recovery_point=23)

    assert filled.contents() == kept
    assert [(lost.first_offset, lost.next_offset) for lost in filled.log.damage] == [(22, 23)]
    filled.check()


def test_a_clean_start_notices_a_file_that_lost_whole_batches(filled: LogBench) -> None:
    filled.log.close()
    last = filled.batches()[-1]
    filled.log.segments.active.file.truncate(last.position)

    filled.load(clean=True, recovery_point=23)

    assert filled.log.end_offset == 22
    assert [(lost.first_offset, lost.next_offset) for lost in filled.log.damage] == [(22, 23)]


def test_old_producer_snapshots_do_not_pile_up(filled: LogBench) -> None:
    for _ in range(4):
        filled.reopen()
        filled.append(epoch=4)

    assert len(filled.names(".snapshot")) <= 4


# Any other stop


@pytest.mark.parametrize("recovery_point", [None, 0, 8, 14, 15, 22, 23, 1000])
def test_an_unclean_start_brings_everything_back(
    filled: LogBench, recovery_point: int | None
) -> None:
    before = filled.contents()

    filled.load(recovery_point=recovery_point)

    assert filled.contents() == before
    assert filled.log.recovery_point == min(recovery_point or 0, 23)
    filled.check()
    state = sorted(filled.log.producers.active())
    filled.load(recovery_point=recovery_point)
    assert filled.contents() == before
    assert sorted(filled.log.producers.active()) == state
    filled.check()


def test_an_unclean_start_reads_each_byte_once(filled: LogBench) -> None:
    read: dict[str, int] = {}

    def note(operation: FileRead) -> bool:
        read[operation.path] = read.get(operation.path, 0) + operation.length
        return False

    filled.files.fail_when(lambda operation: isinstance(operation, FileRead) and note(operation))
    filled.load(recovery_point=8)

    assert [read[filled.path(base)] for base in (8, 14)] == [
        filled.files.size(filled.path(base)) for base in (8, 14)
    ]


def test_half_a_batch_at_the_end_is_cut_at_every_byte(new_bench: NewBench) -> None:
    bench = new_bench(index_interval_bytes=150)
    for at in range(6):
        bench.append(producer_id=3, producer_epoch=0, base_sequence=at)
    whole = bench.contents()
    content = b"".join(whole)

    for size in range(len(content) - len(whole[-1]), len(content)):
        rewrite(bench.files, bench.path(0), content[:size])
        bench.load()
        assert bench.contents() == whole[:-1]
        assert bench.log.cut_bytes == size - len(content) + len(whole[-1])
        bench.check()
        assert bench.append(producer_id=3, producer_epoch=0, base_sequence=5).first_offset == 5


@pytest.mark.parametrize("byte", range(HEADER_SIZE + 3))
def test_a_bit_flip_in_the_unflushed_tail_is_cut_off(new_bench: NewBench, byte: int) -> None:
    for bit in (0x01, 0x80):
        bench = new_bench(index_interval_bytes=150)
        for at in range(4):
            bench.append(epoch=1 + at // 2, producer_id=3, producer_epoch=0, base_sequence=at)
        whole, last = bench.contents(), bench.batches()[-1]
        damaged = bytes([last.data[byte] ^ bit])
        bench.files.damage(bench.path(0), last.position + byte, damaged)

        bench.load(recovery_point=2)

        assert bench.contents() == whole[:-1]
        assert bench.log.damage == []
        bench.check()


@pytest.mark.parametrize("byte", [*range(HEADER_SIZE), HEADER_SIZE + 5])
def test_a_bit_flip_in_the_unflushed_middle_cuts_everything_behind(
    new_bench: NewBench, byte: int
) -> None:
    bench = new_bench(index_interval_bytes=150)
    for at in range(6):
        if at == 4:
            bench.log.roll(bench.now)
        bench.append(epoch=at // 2)
    whole, bad = bench.contents(), bench.batches()[2]
    bench.files.damage(bench.path(0), bad.position + byte, bytes([bad.data[byte] ^ 0x10]))

    bench.load()

    assert bench.contents() == whole[:2]
    assert bench.bases() == [0]
    bench.check()


@pytest.mark.parametrize(
    "garbage",
    [b"\x00" * 4096, b"\x00", b"\xff" * 300, b"\x00" * 8 + b"\x00\x00\x00\x31" + b"\x00" * 100],
    ids=["zeros", "one zero", "ones", "a length of zeros"],
)
def test_whatever_lies_behind_the_last_batch_is_cut_off(filled: LogBench, garbage: bytes) -> None:
    before = filled.contents()
    filled.log.segments.active.file.append(garbage)

    filled.load(recovery_point=14)

    assert filled.contents() == before
    assert filled.log.cut_bytes == len(garbage)
    filled.check()


def test_an_older_copy_of_a_batch_behind_the_last_one_is_cut_off(filled: LogBench) -> None:
    before = filled.contents()
    filled.log.segments.active.file.append(before[-3])

    filled.load(recovery_point=14)

    assert filled.contents() == before
    filled.check()


def test_segments_that_do_not_follow_the_unflushed_part_go(filled: LogBench) -> None:
    whole = filled.contents()
    batch = filled.batches()[6]
    filled.log.segments[1].file.truncate(batch.position)

    filled.load(recovery_point=8)

    assert filled.contents() == whole[:6]
    assert filled.bases() == [0, 8]
    filled.check()


# Side files


def remove(suffix: str) -> Callable[[LogBench], None]:
    def act(bench: LogBench) -> None:
        for name in bench.names(suffix):
            bench.files.remove(f"{bench.log.directory}/{name}")

    return act


def garble(suffix: str) -> Callable[[LogBench], None]:
    def act(bench: LogBench) -> None:
        for name in bench.names(suffix):
            path = f"{bench.log.directory}/{name}"
            rewrite(bench.files, path, b"\x7f\x01garbage " * 6)

    return act


def shorten(suffix: str) -> Callable[[LogBench], None]:
    def act(bench: LogBench) -> None:
        for name in bench.names(suffix):
            path = f"{bench.log.directory}/{name}"
            file = bench.files.open(path)
            file.truncate(max(0, file.size() - 5))

    return act


def old_epochs(bench: LogBench) -> None:
    rewrite(bench.files, f"{bench.log.directory}/leader-epoch-checkpoint", b"0\n1\n1 0\n")


SIDE_FILES = {
    f"{act.__name__} {suffix}": act(suffix)
    for suffix in (".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint")
    for act in (remove, garble, shorten)
    if (act, suffix) != (remove, ".txnindex")
} | {"old epochs": old_epochs}


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("what", SIDE_FILES)
def test_whatever_is_missing_or_wrong_beside_the_log_is_rebuilt(
    filled: LogBench, what: str, clean: bool
) -> None:
    before = filled.contents()
    filled.log.close()
    SIDE_FILES[what](filled)

    filled.load(clean=clean, recovery_point=23)

    assert filled.contents() == before
    assert (filled.log.damage, filled.log.cut_bytes) == ([], 0)
    filled.log.read(0, 1, 23)
    filled.log.read(9, 1, 23)
    filled.log.max_timestamp_offset(23)
    filled.check()


def test_a_missing_transaction_index_is_rebuilt_where_the_log_is_read_again(
    filled: LogBench,
) -> None:
    remove(".txnindex")(filled)

    filled.load(recovery_point=14)

    filled.check()


def test_an_index_without_a_log_is_removed(filled: LogBench) -> None:
    for suffix in (".index", ".timeindex", ".txnindex"):
        filled.files.open(filled.path(77, suffix)).close()
    filled.log.close()

    filled.load(clean=True, recovery_point=23)

    assert not any(name.startswith("00000000000000000077") for name in filled.names())
    filled.check()


def test_an_epoch_that_the_file_is_too_old_to_know_counts_if_several_batches_bear_it_out(
    bench: LogBench,
) -> None:
    bench.append(epoch=1)
    for _ in range(3):
        bench.append(epoch=2)
    before = bench.contents()
    old_epochs(bench)

    bench.load()

    assert bench.contents() == before
    assert bench.log.epochs.entries == [(1, 0), (2, 1)]


def test_indexes_written_anew_are_durable_with_the_next_flush(bench: LogBench) -> None:
    for _ in range(5):
        bench.append()
        bench.pass_ms(10)
    bench.log.sync()
    bench.load(recovery_point=5)
    bench.log.roll(bench.now)
    bench.append()
    bench.log.sync()

    bench.load(recovery_point=6, files=after_crash(bench.files, data_lost, names_undone))

    bench.check()


def test_an_epoch_without_records_is_forgotten(filled: LogBench) -> None:
    filled.log.epochs.assign(12, 23)
    filled.reopen()

    assert filled.log.epochs.latest_epoch == 3


# Where the log starts


def test_the_checkpointed_start_counts_if_it_is_above_the_first_segment(filled: LogBench) -> None:
    filled.log.close()

    assert filled.load(clean=True, recovery_point=23, log_start=11).start_offset == 11
    filled.check()
    assert filled.load(log_start=None).start_offset == 0


def test_a_log_that_ends_below_its_checkpointed_start_begins_anew_there(filled: LogBench) -> None:
    filled.load(log_start=500)

    assert (filled.log.start_offset, filled.log.end_offset) == (500, 500)
    assert filled.bases() == [500]
    assert filled.log.epochs.entries == []
    assert len(filled.log.producers) == 0
    filled.append(epoch=1)
    filled.check()


def test_a_directory_without_segments_becomes_an_empty_log(filled: LogBench) -> None:
    for name in filled.names():
        if name != "partition.metadata":
            filled.files.remove(f"{filled.log.directory}/{name}")

    filled.load(recovery_point=23, log_start=40)

    assert (filled.log.start_offset, filled.log.end_offset) == (40, 40)
    filled.check()
