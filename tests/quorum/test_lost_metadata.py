"""Metadata that was durable and is gone: a voter must not vote as if it had never been there."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import pytest

from tidelog.model.errors import DiskError
from tidelog.model.ids import METADATA_TOPIC
from tidelog.model.time import Now
from tidelog.quorum.batches import record_batch
from tidelog.quorum.metadata_log import MetadataLog, metadata_log_config
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.identity import DirectoryIdentity, write_identity
from tidelog.storage.log_directory import LogDirectory

NOW: Final = Now(0, 1000)
DIRECTORY: Final = f"/data/{METADATA_TOPIC}-0"


class Dice:
    def uuid(self) -> UUID:
        return UUID(int=4712)

    def below(self, bound: int) -> int:
        return 0


def begun(files: MemoryFileSystem) -> LogDirectory:
    directory = LogDirectory(files, "/data", Dice())
    directory.begin()
    return directory


def opened(files: MemoryFileSystem, directory: LogDirectory, *, may_refetch: bool) -> MetadataLog:
    log = directory.load_metadata_log(NOW, metadata_log_config())
    return MetadataLog(files, log, NOW, may_refetch=may_refetch)


@pytest.fixture
def files() -> MemoryFileSystem:
    """Three batches of metadata, put away cleanly."""
    files = MemoryFileSystem()
    files.make_directory("/data")
    write_identity(files, "/data", DirectoryIdentity("cluster", 1, UUID(int=4711)))
    directory = begun(files)
    log = opened(files, directory, may_refetch=False)
    for value in (b"a", b"b", b"c"):
        log.append(record_batch([value], 1000), 1, NOW)
    directory.load(NOW, lambda _: metadata_log_config())
    directory.close()
    return files


def lose_log_file(files: MemoryFileSystem) -> None:
    files.remove(f"{DIRECTORY}/{0:020d}.log")


def lose_everything(files: MemoryFileSystem) -> None:
    files.remove_directory(DIRECTORY)


def lose_the_end(files: MemoryFileSystem) -> None:
    path = f"{DIRECTORY}/{0:020d}.log"
    files.open(path).truncate(files.size(path) - 1)


LOSSES: Final = {
    "log file": (lose_log_file, 0),
    "directory": (lose_everything, 0),
    "last byte": (lose_the_end, 2),
}


@pytest.mark.parametrize("lost", LOSSES)
def test_a_voter_refuses_to_start_without_metadata_it_once_had(
    files: MemoryFileSystem, lost: str
) -> None:
    lose, end = LOSSES[lost]
    lose(files)
    with pytest.raises(DiskError, match=f"lost the records from offset {end} to 3"):
        opened(files, begun(files), may_refetch=False)


@pytest.mark.parametrize("lost", LOSSES)
def test_a_broker_fetches_lost_metadata_again(files: MemoryFileSystem, lost: str) -> None:
    lose, end = LOSSES[lost]
    lose(files)
    log = opened(files, begun(files), may_refetch=True)
    assert log.end_offset == end
