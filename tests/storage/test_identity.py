from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.model.errors import ConfigError
from tidelog.model.ids import ZERO_UUID, uuid_text
from tidelog.simulator.disk.crash import crashes, data_lost, names_undone
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.filesystem import read_all
from tidelog.storage.identity import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    PARTITION_METADATA,
    DirectoryIdentity,
    check_identities,
    delete_clean_shutdown,
    read_clean_shutdown,
    read_identity,
    read_topic_id,
    write_clean_shutdown,
    write_identity,
    write_topic_id,
)

DIRECTORY_ID = UUID("b5e0cbd1-7f52-4f0f-9f2f-5a4d3c2b1a09")
IDENTITY = DirectoryIdentity("MkU3OEVBNTcwNTJENDM2Qk", 101, DIRECTORY_ID)


def disk() -> MemoryFileSystem:
    files = MemoryFileSystem()
    files.make_directory("/data")
    files.sync_directory("/")
    return files


def put(files: MemoryFileSystem, name: str, content: bytes) -> None:
    file = files.open(f"/data/{name}")
    file.append(content)
    file.close()


def test_a_formatted_directory_knows_cluster_node_and_itself() -> None:
    files = disk()
    assert read_identity(files, "/data") is None

    write_identity(files, "/data", IDENTITY)

    assert read_identity(files, "/data") == IDENTITY
    assert read_all(files, f"/data/{META_PROPERTIES}").decode() == (
        "version=1\n"
        "cluster.id=MkU3OEVBNTcwNTJENDM2Qk\n"
        "node.id=101\n"
        f"directory.id={uuid_text(DIRECTORY_ID)}\n"
    )


def test_a_directory_formatted_by_kafka_is_read() -> None:
    files = disk()
    put(
        files,
        META_PROPERTIES,
        b"#\n#Fri Oct 25 10:00:00 UTC 2024\ncluster.id=MkU3OEVBNTcwNTJENDM2Qk\n"
        b"directory.id=" + uuid_text(DIRECTORY_ID).encode() + b"\nnode.id=101\nversion=1\n",
    )

    assert read_identity(files, "/data") == IDENTITY


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"version=0\nbroker.id=1\ncluster.id=x\n",
        b"version=1\nnode.id=1\ndirectory.id=" + uuid_text(DIRECTORY_ID).encode(),
        b"version=1\ncluster.id=x\ndirectory.id=" + uuid_text(DIRECTORY_ID).encode(),
        b"version=1\ncluster.id=x\nnode.id=-2\ndirectory.id=" + uuid_text(DIRECTORY_ID).encode(),
        b"version=1\ncluster.id=x\nnode.id=1\n",
        b"version=1\ncluster.id=x\nnode.id=1\ndirectory.id=short\n",
        b"version=1\ncluster.id=x\nnode.id=1\ndirectory.id=" + uuid_text(UUID(int=1)).encode(),
    ],
)
def test_an_identity_that_cannot_be_read_is_refused_with_the_fix(content: bytes) -> None:
    files = disk()
    put(files, META_PROPERTIES, content)

    with pytest.raises(ConfigError, match="format the directory"):
        read_identity(files, "/data")


def test_directories_of_one_node_and_cluster_agree() -> None:
    other = IDENTITY._replace(directory_id=UUID(int=2**100))

    check_identities({"/a": IDENTITY, "/b": other}, node_id=101)
    check_identities({"/a": IDENTITY}, node_id=101, cluster_id=IDENTITY.cluster_id)
    check_identities({}, node_id=101)


def test_a_directory_of_another_node_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"/a belongs to node 101.*set node.id=101"):
        check_identities({"/a": IDENTITY}, node_id=102)


def test_a_directory_of_another_cluster_is_refused() -> None:
    other = IDENTITY._replace(cluster_id="elsewhere", directory_id=UUID(int=2**100))

    with pytest.raises(ConfigError, match="/b belongs to cluster elsewhere"):
        check_identities({"/a": IDENTITY, "/b": other}, node_id=101)
    with pytest.raises(ConfigError, match="not to elsewhere"):
        check_identities({"/a": IDENTITY}, node_id=101, cluster_id="elsewhere")


def test_a_copied_directory_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"/b and /a have the same directory\.id"):
        check_identities({"/a": IDENTITY, "/b": IDENTITY}, node_id=101)


def test_a_partition_knows_the_topic_it_belongs_to() -> None:
    files = disk()
    assert read_topic_id(files, "/data") is None

    write_topic_id(files, "/data", DIRECTORY_ID)

    assert read_topic_id(files, "/data") == DIRECTORY_ID
    content = read_all(files, f"/data/{PARTITION_METADATA}").decode()
    assert content == f"version: 0\ntopic_id: {uuid_text(DIRECTORY_ID)}"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"version: 0\n",
        b"version: x\ntopic_id: " + uuid_text(DIRECTORY_ID).encode(),
        b"version: -1\ntopic_id: " + uuid_text(DIRECTORY_ID).encode(),
        b"version: 0\ntopic_id: short",
        b"version: 0\ntopic_id: " + uuid_text(ZERO_UUID).encode(),
    ],
)
def test_a_partition_whose_topic_cannot_be_read_belongs_to_none(content: bytes) -> None:
    files = disk()
    put(files, PARTITION_METADATA, content)

    assert read_topic_id(files, "/data") is None


def test_an_orderly_stop_leaves_a_marker_with_the_broker_epoch() -> None:
    files = disk()
    assert read_clean_shutdown(files, "/data") is None

    write_clean_shutdown(files, "/data", 42)

    assert read_clean_shutdown(files, "/data") == 42
    assert read_all(files, f"/data/{CLEAN_SHUTDOWN}") == b'{"version":0,"brokerEpoch":42}'


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff", b'{"version":1,"brokerEpoch":42}', bytes(30)]
)
def test_a_marker_that_cannot_be_read_is_no_orderly_stop(content: bytes) -> None:
    files = disk()
    put(files, CLEAN_SHUTDOWN, content)

    assert read_clean_shutdown(files, "/data") is None


def test_a_marker_without_epoch_is_an_orderly_stop_of_an_unknown_broker_epoch() -> None:
    files = disk()
    put(files, CLEAN_SHUTDOWN, b'{"version":0}')

    assert read_clean_shutdown(files, "/data") == -1


def test_the_marker_does_not_come_back_once_it_was_deleted() -> None:
    files = disk()
    write_clean_shutdown(files, "/data", 42)
    delete_clean_shutdown(files, "/data")
    delete_clean_shutdown(files, "/data")
    files.open("/data/loading")

    *_, deleted, loading = crashes(files, data_lost, names_undone)

    assert read_clean_shutdown(deleted, "/data") is None
    assert read_clean_shutdown(loading, "/data") is None
