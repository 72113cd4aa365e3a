"""`tidelog log dump` shows what files hold, and where damage begins."""

from __future__ import annotations

import json
from pathlib import Path
from struct import pack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples
from typer.testing import CliRunner

from tidelog.cli.dump import rows_of
from tidelog.cli.main import app
from tidelog.controller.records import encode_record
from tidelog.model.ids import uuid_text
from tidelog.protocol.stored.metadata import TopicRecord
from tidelog.protocol.stored.quorum import (
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
)
from tidelog.quorum.control_records import new_control_record
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.compression import CompressionType
from tidelog.records.control_batch import end_txn_marker
from tidelog.storage.producer_snapshot import ProducerSnapshotEntry, encode_snapshot


def batch(
    base_offset: int, *values: bytes, epoch: int = 0, codec: CompressionType = CompressionType.NONE
) -> bytes:
    records = [NewRecord(b"k", value, 1000 + base_offset, (("h", b"v"),)) for value in values]
    return bytes(build_batch(records, base_offset=base_offset, leader_epoch=epoch, codec=codec))


def segment(directory: Path, content: bytes, name: str = "00000000000000000000.log") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_bytes(content)
    return path


def rows(path: Path, *, deep: bool = False) -> list[dict[str, Any]]:
    return list(rows_of(path, deep=deep))


def test_batches_are_shown_with_their_place_and_offsets(tmp_path: Path) -> None:
    first, second = batch(0, b"a", b"b"), batch(2, b"c", epoch=3, codec=CompressionType.ZSTD)

    shown = rows(segment(tmp_path / "t-0", first + second))

    assert [(row["base_offset"], row["last_offset"], row["position"]) for row in shown] == [
        (0, 1, 0),
        (2, 2, len(first)),
    ]
    assert [(row["leader_epoch"], row["codec"]) for row in shown] == [(0, "none"), (3, "zstd")]


def test_deep_shows_the_records_and_keeps_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = segment(tmp_path / "t-0", batch(5, b"plain", b"\xff\x00"))

    _, text, binary = rows(path, deep=True)

    assert (text["offset"], text["key"], text["value"]) == (5, "k", "plain")
    assert text["headers"] == [{"key": "h", "value": "v"}]
    assert (binary["offset"], binary["value_base64"]) == (6, "/wA=")


def test_transaction_markers_are_named(tmp_path: Path) -> None:
    marker = end_txn_marker(
        producer_id=7, producer_epoch=1, committed=False, coordinator_epoch=4, timestamp=9
    )

    header, shown = rows(segment(tmp_path / "t-0", bytes(marker)), deep=True)

    assert (header["control"], header["transactional"], header["producer_id"]) == (True, True, 7)
    assert (shown["record"], shown["coordinator_epoch"]) == ("abort", 4)


def test_the_metadata_log_is_decoded(tmp_path: Path) -> None:
    from uuid import UUID

    topic_id = UUID(int=77)
    change = LeaderChangeMessage(
        leader_id=100, voters=(LeaderChangeMessageVoter(voter_id=100),), granting_voters=()
    )
    control = build_batch([new_control_record(change, 5)], control=True)
    topic = encode_record(TopicRecord(name="orders", topic_id=topic_id))
    data = build_batch([NewRecord(None, topic, 5)], base_offset=1)
    path = segment(tmp_path / "__cluster_metadata-0", bytes(control + data))

    _, leader, _, record = rows(path, deep=True)

    assert (leader["record"], leader["leader_id"]) == ("leader_change", 100)
    assert [voter["voter_id"] for voter in leader["voters"]] == [100]
    assert (record["record"], record["name"]) == ("TopicRecord", "orders")
    assert record["topic_id"] == uuid_text(topic_id)


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_damage_begins_with_the_batch_that_was_cut_or_changed(data: st.DataObject) -> None:
    import tempfile

    batches = [batch(2 * n, b"x" * n, b"y") for n in range(4)]
    whole = b"".join(batches)
    ends = [sum(map(len, batches[: n + 1])) for n in range(4)]
    place = data.draw(st.integers(min_value=0, max_value=len(whole) - 1))
    if data.draw(st.booleans()):
        content = whole[:place]
        good = sum(end <= place for end in ends)
        intact = place in (0, *ends)
    else:
        changed = bytearray(whole)
        changed[place] ^= data.draw(st.integers(min_value=1, max_value=255))
        content, intact = bytes(changed), False
        good = sum(end <= place for end in ends)
        starts = [0, *ends[:-1]]
        # Base offset and epoch lie outside the checksum: a change there may look like a gap.
        if any(start <= place < start + 8 or start + 12 <= place < start + 16 for start in starts):
            return

    with tempfile.TemporaryDirectory() as directory:
        shown = rows(segment(Path(directory) / "t-0", content))

    assert len([row for row in shown if row["type"] == "batch"]) == good
    if intact:
        assert all(row["type"] == "batch" for row in shown)
    else:
        assert shown[-1]["type"] == "damage"
        assert shown[-1]["position"] == ([0, *ends])[good]


def test_a_zero_filled_tail_is_called_by_its_name(tmp_path: Path) -> None:
    good = batch(0, b"a")

    *_, damage = rows(segment(tmp_path / "t-0", good + bytes(4096)))

    assert damage["position"] == len(good)
    assert "zeros" in damage["why"]


@pytest.mark.parametrize(("offset", "epoch"), [(0, 1), (5, 0)])
def test_offsets_and_epochs_never_fall(tmp_path: Path, offset: int, epoch: int) -> None:
    content = batch(4, b"a", epoch=1) + batch(offset, b"b", epoch=epoch)

    assert rows(segment(tmp_path / "t-0", content))[-1]["type"] == "damage"


def test_an_offset_index_is_checked_against_its_segment(tmp_path: Path) -> None:
    first, second = batch(0, b"a", b"b"), batch(2, b"c")
    segment(tmp_path, first + second)
    index = tmp_path / "00000000000000000000.index"

    index.write_bytes(pack(">ii", 2, len(first)) + bytes(800))
    assert rows(index) == [{"type": "entry", "offset": 2, "position": len(first)}]

    index.write_bytes(pack(">iiii", 1, 0, 3, len(first)))
    entry, damage = rows(index)
    assert (entry["offset"], damage["type"], damage["position"]) == (1, "damage", 8)


def test_an_offset_index_rises_and_has_whole_entries(tmp_path: Path) -> None:
    index = tmp_path / "00000000000000000010.index"

    index.write_bytes(pack(">iiii", 5, 100, 5, 200))
    assert [row["type"] for row in rows(index)] == ["entry", "damage"]

    index.write_bytes(pack(">ii", 5, 100) + b"\x01")
    assert rows(index)[0]["offset"] == 15
    assert rows(index)[-1]["type"] == "damage"


def test_time_index_transaction_index_and_snapshot_are_read(tmp_path: Path) -> None:
    times = tmp_path / "00000000000000000010.timeindex"
    times.write_bytes(pack(">qiqi", 1000, 0, 2000, 7))
    transactions = tmp_path / "00000000000000000010.txnindex"
    transactions.write_bytes(pack(">hqqqq", 0, 7, 11, 15, 16))
    snapshot = tmp_path / "00000000000000000010.snapshot"
    snapshot.write_bytes(encode_snapshot([ProducerSnapshotEntry(7, 1, 5, 9, 2, 1000, -1, -1)]))

    assert [(row["timestamp"], row["offset"]) for row in rows(times)] == [(1000, 10), (2000, 17)]
    assert rows(transactions) == [
        {
            "type": "aborted",
            "producer_id": 7,
            "first_offset": 11,
            "last_offset": 15,
            "last_stable_offset": 16,
        }
    ]
    assert (rows(snapshot)[0]["producer_id"], rows(snapshot)[0]["last_sequence"]) == (7, 5)


def test_damaged_small_files_are_called_damaged(tmp_path: Path) -> None:
    times = tmp_path / "00000000000000000000.timeindex"
    times.write_bytes(pack(">qiqi", 2000, 0, 1000, 7))
    transactions = tmp_path / "00000000000000000000.txnindex"
    transactions.write_bytes(pack(">hqqqq", 9, 7, 11, 15, 16))
    snapshot = tmp_path / "00000000000000000000.snapshot"
    snapshot.write_bytes(encode_snapshot([])[:-1] + b"\x01")
    epochs = tmp_path / "leader-epoch-checkpoint"
    epochs.write_text("0\n2\n0 0\n")
    state = tmp_path / "quorum-state"
    state.write_text("[]")

    for path in (times, transactions, snapshot, epochs, state):
        assert rows(path)[-1]["type"] == "damage", path.name


def test_text_files_are_read(tmp_path: Path) -> None:
    epochs = tmp_path / "leader-epoch-checkpoint"
    epochs.write_text("0\n2\n0 0\n3 17\n")
    marks = tmp_path / "replication-offset-checkpoint"
    marks.write_text("0\n1\norders 2 120\n")
    identity = tmp_path / "meta.properties"
    identity.write_text("version=1\nnode.id=100\n")
    state = tmp_path / "quorum-state"
    state.write_text('{"leaderId":100,"leaderEpoch":2,"data_version":1}')

    assert [(row["epoch"], row["start_offset"]) for row in rows(epochs)] == [(0, 0), (3, 17)]
    assert rows(marks) == [{"type": "entry", "topic": "orders", "partition": 2, "offset": 120}]
    assert rows(identity) == [{"type": "properties", "version": "1", "node.id": "100"}]
    assert rows(state)[0]["leaderEpoch"] == 2


def test_the_exit_code_tells_good_from_damaged(tmp_path: Path) -> None:
    good = segment(tmp_path / "t-0", batch(0, b"a"))
    bad = segment(tmp_path / "u-0", batch(0, b"a")[:-1])

    assert CliRunner().invoke(app, ["log", "dump", str(good)]).exit_code == 0
    result = CliRunner().invoke(app, ["log", "dump", "--json", str(good), str(bad)])
    assert result.exit_code == 1
    assert [json.loads(line)["type"] for line in result.stdout.splitlines()] == [
        "file",
        "batch",
        "file",
        "damage",
    ]
    assert str(bad) in result.stderr


def test_a_file_nobody_knows_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("x")

    result = CliRunner().invoke(app, ["log", "dump", str(path)])

    assert result.exit_code == 1
    assert "notes.txt" in result.stderr


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        ("ordes-0/00.log", "no file 'ordes-0'; did you mean 'orders-0'?"),
        ("orders-0/0.log", "no file '0.log'; did you mean '00.log'?"),
        ("orders-0/00.log/x", "no file 'x'; there is none"),
    ],
)
def test_a_path_that_leads_nowhere_is_refused_with_the_nearest_name(
    tmp_path: Path, wanted: str, hint: str
) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "00.log").touch()
    refused = CliRunner().invoke(app, ["log", "dump", str(tmp_path / wanted)])
    assert refused.exit_code == 2
    assert hint in " ".join(refused.stderr.replace("│", " ").split())
