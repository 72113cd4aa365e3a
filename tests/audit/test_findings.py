"""The audit of replicas: it finds what is planted, and says where; it finds nothing else."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from pyspark.sql import SparkSession
from tests.spark.apache_kafka import ApacheKafka
from tests.spark.conftest import create_topic, write_records

from tidelog.audit.findings import Audited, audit_replicas
from tidelog.audit.replica_files import LogDirectories
from tidelog.audit.segment_scan import scan_segment
from tidelog.audit.segments_source import SegmentsReader
from tidelog.records.batch import read_header
from tidelog.shell.os_filesystem import OsFileSystem
from tidelog.storage.identity import DirectoryIdentity, write_identity
from tidelog.testing.cluster import Cluster

FIRST = "00000000000000000000"
DIFFERS = "the batch differs from that of the other replicas"
BAD_CRC = "the batch does not match its checksum"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, Path]]:
    """The log directories of a cluster that was stopped, with two partitions of many batches."""
    with Cluster(tmp_path_factory.mktemp("audited"), brokers=3) as cluster:
        create_topic(cluster.bootstrap, "orders", 2, 3)
        for round_ in range(60):
            for partition in range(2):
                values = [b"%d" % round_ * 50] * 10
                write_records(cluster.bootstrap, "orders", values, partition=partition)
        cluster.local.stop()
        yield {node: cluster.data(node) for node in cluster.node_ids}


@pytest.fixture
def disks(stopped: dict[int, Path], tmp_path: Path) -> dict[int, Path]:
    """A copy of them, to be damaged."""
    return {
        node: Path(shutil.copytree(path, tmp_path / str(node))) for node, path in stopped.items()
    }


def audit(spark: SparkSession, disks: dict[int, Path]) -> Audited:
    return audit_replicas(spark, LogDirectories(map(str, disks.values())), ["orders"])


def batch_starts(path: Path) -> list[int]:
    return [each.position for each in scan_segment(str(path)) if each.state == "ok"]


def change(path: Path, position: int, new: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[position : position + len(new)] = new
    path.write_bytes(content)


def found(audited: Audited) -> list[tuple[str, int, int | None, int, str]]:
    return [(each.partition, each.broker, each.position, each.offset, each.what)
            for each in audited.findings]  # fmt: skip


def test_sound_replicas_have_no_findings(spark: SparkSession, disks: dict[int, Path]) -> None:
    audited = audit(spark, disks)
    assert (audited.brokers, audited.partitions, audited.replicas) == (3, 2, 6)
    assert audited.batches >= 6 * 60
    assert found(audited) == []


def test_small_segments_share_a_task_and_large_ones_have_their_own(tmp_path: Path) -> None:
    sizes = {0: 9 << 20, 1: 9 << 20, 2: 5 << 20, 3: 5 << 20, 4: 0, 5: 1}
    identity = DirectoryIdentity("a-cluster", 7, UUID(int=1 << 100))
    write_identity(OsFileSystem(), str(tmp_path), identity)
    for index, size in sizes.items():
        segment = tmp_path / f"orders-{index}" / "00000000000000000000.log"
        segment.parent.mkdir()
        with segment.open("wb") as file:
            file.truncate(size)
    tasks = SegmentsReader([str(tmp_path)], []).partitions()
    shared = [[each.size for each in task.segments] for task in tasks]  # type: ignore[attr-defined]
    assert shared == [[9 << 20], [9 << 20], [5 << 20, 5 << 20], [1, 0]]


def test_one_flipped_byte_is_found_with_broker_file_position_and_offset(
    spark: SparkSession, disks: dict[int, Path]
) -> None:
    path = disks[101] / "orders-1" / f"{FIRST}.log"
    start = batch_starts(path)[20]
    content = path.read_bytes()
    offset = read_header(content, start).base_offset
    change(path, start + 80, bytes([content[start + 80] ^ 1]))
    audited = audit(spark, disks)
    assert found(audited) == [
        ("orders-1", 101, start, offset, BAD_CRC),
        ("orders-1", 101, start, offset, DIFFERS),
    ]
    assert audited.findings[0].file == str(path)


def test_the_command_ends_with_1_and_names_every_finding(disks: dict[int, Path]) -> None:
    path = disks[102] / "orders-0" / f"{FIRST}.log"
    start = batch_starts(path)[7]
    change(path, start + 80, bytes([path.read_bytes()[start + 80] ^ 1]))
    command = [sys.executable, "-m", "tidelog", "audit", "replicas", "--topic", "orders", "--json"]
    ran = subprocess.run(
        [*command, "--dirs", ",".join(map(str, disks.values()))], capture_output=True, text=True
    )
    assert ran.returncode == 1, ran.stderr
    findings = [json.loads(line) for line in ran.stdout.splitlines()]
    assert {(each["broker"], each["file"], each["position"]) for each in findings} == {
        (102, str(path), start)
    }
    assert [each["what"] for each in findings] == [BAD_CRC, DIFFERS]
    assert "3 brokers, 2 partitions, 6 replicas" in ran.stderr


def test_steps_back_gaps_and_short_replicas_are_found(
    spark: SparkSession, disks: dict[int, Path]
) -> None:
    path = disks[100] / "orders-0" / f"{FIRST}.log"
    starts = batch_starts(path)
    content = path.read_bytes()
    offset = read_header(content, starts[30]).base_offset
    change(path, starts[30] + 12, struct.pack(">i", -1))  # the epoch lies outside the checksum
    cut = disks[102] / "orders-0" / f"{FIRST}.log"
    kept = cut.read_bytes()
    hole = read_header(kept, starts[40])
    cut.write_bytes(kept[: starts[40]] + kept[starts[41] :])
    for index in disks[102].glob("orders-0/*index"):
        index.unlink()
    short = disks[101] / "orders-1" / f"{FIRST}.log"
    ends = batch_starts(short)
    last = read_header(short.read_bytes(), ends[-1]).base_offset
    short.write_bytes(short.read_bytes()[: ends[-1]])
    what = [(where, broker, text) for where, broker, _, _, text in found(audit(spark, disks))]
    assert ("orders-0", 100, "the epoch steps back from 0 to -1") in what
    assert ("orders-0", 100, DIFFERS) in what
    missing = f"offsets [{hole.base_offset}, {hole.next_offset}) are missing"
    assert ("orders-0", 102, missing) in what
    behind = [text for where, broker, text in what if (where, broker) == ("orders-1", 101)]
    assert any(f"it ends at {last}" in text for text in behind)
    assert offset > 0


def test_an_index_that_points_wrong_is_found(spark: SparkSession, disks: dict[int, Path]) -> None:
    index = disks[102] / "orders-0" / f"{FIRST}.index"
    assert index.stat().st_size >= 8, "there are enough batches for an entry"
    relative, position = struct.unpack(">ii", index.read_bytes()[:8])
    change(index, 0, struct.pack(">ii", relative, position + 1))
    (only,) = audit(spark, disks).findings
    assert (only.broker, only.file, only.position) == (102, str(index), position + 1)
    assert "index entry" in only.what


def test_the_directories_of_apache_kafka_are_read_as_well(
    spark: SparkSession, apache: ApacheKafka
) -> None:
    create_topic(apache.bootstrap, "orders", 1, 1)
    write_records(apache.bootstrap, "orders", [b"x" * 100] * 100)
    directory = str(apache.log_directory)
    assert found(audit_replicas(spark, LogDirectories([directory]), ["orders"])) == []
    segments = spark.read.format("tidelog-segments").option("dirs", directory)
    segments.load().createOrReplaceTempView("segments")
    (row,) = spark.sql(
        "select sum(records) as records, max(lastOffset) as last from segments "
        "where topic = 'orders' and not control"
    ).collect()
    assert (row.records, row.last) == (100, 99)
