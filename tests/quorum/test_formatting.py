from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tidelog.model.errors import ConfigError
from tidelog.model.ids import parse_uuid_text
from tidelog.quorum.control_records import Voter, VoterEndpoint
from tidelog.quorum.formatting import format_directory, read_bootstrap
from tidelog.quorum.snapshots import read_snapshot
from tidelog.records.batch import whole_batches
from tidelog.records.record import records_of
from tidelog.simulator.disk.crash import crashes, data_lost, names_undone
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.filesystem import read_all, write_atomically
from tidelog.storage.identity import DirectoryIdentity, read_identity

DATA = Path(__file__).parent / "data"
QUORUM_SNAPSHOT = "00000000000000000000-0000000000.checkpoint"
DIRECTORY_ID = parse_uuid_text("2P8K57AHRhKUkC22ixx1ig")
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
VOTER = Voter(
    voter_id=1,
    voter_directory_id=DIRECTORY_ID,
    endpoints=(VoterEndpoint(name="CONTROLLER", host="127.0.0.1", port=39193),),
)


class Shape(NamedTuple):
    """A record with everything of its batch but times and checksum."""

    offset: int
    leader_epoch: int
    attributes: int
    key: bytes | None
    value: bytes | None


def shapes(content: bytes) -> Iterator[Shape]:
    for header, batch in whole_batches(content):
        for record in records_of(batch):
            yield Shape(
                record.offset, header.leader_epoch, header.attributes, record.key, record.value
            )


@pytest.fixture
def files() -> MemoryFileSystem:
    files = MemoryFileSystem()
    files.make_directory("/kafka")
    write_atomically(files, "/kafka/bootstrap.checkpoint", fixture("bootstrap.checkpoint"))
    write_atomically(files, "/kafka/meta.properties", fixture("meta.properties"))
    files.sync_directory("/")
    return files


def fixture(name: str) -> bytes:
    return (DATA / name).read_bytes()


def format_like_kafka(
    files: MemoryFileSystem, path: str = "/data", voters: tuple[Voter, ...] = (VOTER,)
) -> None:
    bootstrap = read_bootstrap(files, "/kafka")
    assert bootstrap is not None
    format_directory(
        files,
        path,
        cluster_id=CLUSTER_ID,
        node_id=1,
        directory_id=DIRECTORY_ID,
        bootstrap=bootstrap,
        voters=voters,
        wall_ms=1794736914977,
    )


def test_formatting_writes_what_apache_kafka_writes(files: MemoryFileSystem) -> None:
    format_like_kafka(files)
    for name, ours in (
        ("bootstrap.checkpoint", "/data/bootstrap.checkpoint"),
        (QUORUM_SNAPSHOT, f"/data/__cluster_metadata-0/{QUORUM_SNAPSHOT}"),
    ):
        written = read_all(files, ours)
        assert len(written) == len(fixture(name))
        assert list(shapes(written)) == list(shapes(fixture(name)))
    assert read_identity(files, "/data") == read_identity(files, "/kafka")


def test_a_bootstrap_file_of_apache_kafka_is_read(files: MemoryFileSystem) -> None:
    bootstrap = read_bootstrap(files, "/kafka")
    assert bootstrap is not None
    assert len(bootstrap) == 6
    assert bootstrap[0] == b"\x01\x0c\x00\x11metadata.version\x00\x1e\x00"


def test_a_directory_without_bootstrap_file_has_no_records(files: MemoryFileSystem) -> None:
    assert read_bootstrap(files, "/elsewhere") is None


def test_a_directory_that_is_not_the_metadata_directory_has_no_voters(
    files: MemoryFileSystem,
) -> None:
    format_like_kafka(files, voters=())
    assert not files.exists("/data/__cluster_metadata-0")
    identity = read_identity(files, "/data")
    assert identity == DirectoryIdentity(CLUSTER_ID, 1, DIRECTORY_ID)


def test_a_formatted_directory_is_not_formatted_again(files: MemoryFileSystem) -> None:
    format_like_kafka(files)
    before = read_all(files, "/data/meta.properties")
    with pytest.raises(ConfigError, match="formatted already"):
        format_like_kafka(files)
    assert read_all(files, "/data/meta.properties") == before


def test_after_a_crash_a_directory_is_formatted_whole_or_can_be_formatted_again(
    files: MemoryFileSystem,
) -> None:
    format_like_kafka(files)
    formatted = 0
    for disk in crashes(files, data_lost, names_undone):
        if not disk.exists("/kafka/meta.properties"):
            continue
        if read_identity(disk, "/data") is None:
            format_like_kafka(disk)
        else:
            formatted += 1
        voters = read_snapshot(disk, f"/data/__cluster_metadata-0/{QUORUM_SNAPSHOT}").voters
        assert voters == (VOTER,)
        assert len(read_bootstrap(disk, "/data") or ()) == 6
    assert formatted >= 1
