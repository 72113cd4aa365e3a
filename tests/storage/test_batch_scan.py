"""Walking along the batches of a file."""

from __future__ import annotations

import pytest

from tidelog.records.batch import CorruptBatch
from tidelog.records.builder import NewRecord, build_batch
from tidelog.simulator.disk.disk_operation import FileRead, Operation
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.batch_scan import read_batch, scan_batches, scan_headers
from tidelog.storage.filesystem import File

SIZES = [10, 3000, 20, 2_000_000, 5000, 900_000, 400_000, 1]


def file_with(files: MemoryFileSystem, sizes: list[int]) -> tuple[File, list[bytes]]:
    batches = [
        bytes(build_batch([NewRecord(None, bytes(size), 0)], base_offset=at))
        for at, size in enumerate(sizes)
    ]
    file = files.open("/log")
    file.append(*batches)
    return file, batches


def test_every_batch_comes_out_whole_and_in_order() -> None:
    file, batches = file_with(MemoryFileSystem(), SIZES)

    found = list(scan_batches(file, 0, file.size()))
    headers = list(scan_headers(file, 0, file.size()))

    assert [bytes(batch.data) for batch in found] == batches
    assert [batch.header.base_offset for batch in found] == list(range(len(SIZES)))
    assert [(batch.position, batch.header) for batch in found] == headers


def test_every_byte_is_read_once_and_headers_cost_little() -> None:
    files, read = MemoryFileSystem(), []

    def note(operation: Operation) -> bool:
        if isinstance(operation, FileRead):
            read.append(operation.length)
        return False

    file, _ = file_with(files, SIZES)
    files.fail_when(note)

    list(scan_batches(file, 0, file.size()))
    assert sum(read) == file.size()
    read.clear()
    list(scan_headers(file, 0, file.size()))
    assert sum(read) <= len(SIZES) * 4096


@pytest.mark.parametrize("missing", [1, 60, 61, 70])
def test_a_batch_that_is_not_wholly_there_does_not_come_out(missing: int) -> None:
    file, batches = file_with(MemoryFileSystem(), [30, 40, 50])
    end = file.size() - missing

    assert len(list(scan_batches(file, 0, end))) == 2
    assert len(list(scan_headers(file, 0, end))) == 2
    start = file.size() - len(batches[-1])
    with pytest.raises(CorruptBatch):
        read_batch(file, start, end)
    assert bytes(read_batch(file, start, file.size()).data) == batches[-1]


def test_what_is_no_batch_is_told() -> None:
    file, _ = file_with(MemoryFileSystem(), [30])
    file.append(bytes(100))

    with pytest.raises(CorruptBatch):
        list(scan_headers(file, 0, file.size()))
    with pytest.raises(CorruptBatch):
        list(scan_batches(file, 0, file.size()))
