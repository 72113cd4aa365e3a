"""Files damaged while the broker was dead: it starts, and all that is still valid can be read.

One broker serves all cases: each damages a topic of its own between a kill and the next start."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.integration.raw import (
    Peer,
    Topic,
    batch_of,
    create_topic,
    end_offset,
    fetch,
    offset_of,
    produce,
)

from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey
from tidelog.records.batch import crc_matches, whole_batches
from tidelog.records.record import records_of
from tidelog.testing.cluster import Cluster

LARGE_BATCHES = 3
SMALL_BATCHES = 20
BATCHES = LARGE_BATCHES + SMALL_BATCHES
MIB = 1 << 20
DICE = random.Random(7)


def logs(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def last_batch_at(log: Path) -> int:
    """Where in a file its last batch begins."""
    data = log.read_bytes()
    return len(data) - [header.size for header, _ in whole_batches(data)][-1]


def cut_last_batch(directory: Path, left: int) -> None:
    """Leave only so many bytes of the last batch."""
    log = logs(directory)[-1]
    with log.open("r+b") as file:
        file.truncate(last_batch_at(log) + left)


def append(directory: Path, data: bytes) -> None:
    with logs(directory)[-1].open("ab") as file:
        file.write(data)


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def flip_in_last_batch(directory: Path) -> None:
    log = logs(directory)[-1]
    overwrite(log, last_batch_at(log) + 75, b"\xa5")


def zero_last_batch(directory: Path) -> None:
    log = logs(directory)[-1]
    start = last_batch_at(log)
    overwrite(log, start, bytes(log.stat().st_size - start))


def remove(directory: Path, *patterns: str) -> None:
    found = [path for pattern in patterns for path in directory.glob(pattern)]
    assert found
    for path in found:
        path.unlink()


def spoil(directory: Path, pattern: str, data: bytes) -> None:
    found = list(directory.glob(pattern))
    assert found
    for path in found:
        path.write_bytes(data)


def put(directory: Path, name: str, data: bytes) -> None:
    (directory / name).write_bytes(data)


class Case(NamedTuple):
    """What is done to the files, and how many of the last batches may be lost by it.

    After a clean stop nobody looks at all bytes again; `notices_always` is False for damage that
    is found only after a kill.
    """

    damage: Callable[[Path], None]
    lost: int = 0
    notices_always: bool = True


CASES: dict[str, Case] = {
    "nothing": Case(lambda directory: None),
    "tail-cut-in-records": Case(lambda directory: cut_last_batch(directory, 65), 1),
    "tail-cut-in-header": Case(lambda directory: cut_last_batch(directory, 30), 1),
    "tail-cut-in-length": Case(lambda directory: cut_last_batch(directory, 10), 1),
    "tail-of-one-byte": Case(lambda directory: cut_last_batch(directory, 1), 1),
    "tail-zeroed": Case(zero_last_batch, 1),
    "tail-flipped": Case(flip_in_last_batch, 1, notices_always=False),
    "zeros-behind": Case(lambda directory: append(directory, bytes(4096))),
    "garbage-behind": Case(lambda directory: append(directory, DICE.randbytes(9999))),
    "old-batch-behind": Case(
        lambda directory: append(directory, logs(directory)[-1].read_bytes()[:80])
    ),
    "segment-behind": Case(
        lambda directory: put(directory, f"{10**12:020}.log", b"stray"), notices_always=False
    ),
    "no-index": Case(lambda directory: remove(directory, "*.index")),
    "no-timeindex": Case(lambda directory: remove(directory, "*.timeindex")),
    "no-indexes": Case(lambda directory: remove(directory, "*.index", "*.timeindex")),
    "odd-index": Case(lambda directory: spoil(directory, "*.index", b"odd")),
    "garbage-index": Case(lambda directory: spoil(directory, "*.index", DICE.randbytes(800))),
    "garbage-timeindex": Case(lambda directory: spoil(directory, "*.timeindex", b"\xff" * 1200)),
    "negative-index": Case(lambda directory: spoil(directory, "*.index", b"\xff" * 800)),
    "empty-index": Case(lambda directory: spoil(directory, "*.index", b"")),
    "no-snapshot": Case(lambda directory: remove(directory, "*.snapshot")),
    "garbage-snapshot": Case(lambda directory: spoil(directory, "*.snapshot", b"\x01" * 99)),
    "no-epochs": Case(lambda directory: remove(directory, "leader-epoch-checkpoint")),
    "garbage-epochs": Case(lambda directory: spoil(directory, "leader-epoch*", b"0\nmany\n")),
    "leftovers": Case(lambda directory: put(directory, f"{0:020}.index.cleaned", b"half")),
    "half-written-epochs": Case(
        lambda directory: put(directory, "leader-epoch-checkpoint.tmp", b"0\n")
    ),
}


class Filled(NamedTuple):
    """A topic with the values of its batches, one record each, and one producer's last batch."""

    topic: Topic
    values: list[bytes]
    last: bytearray


def fill(peer: Peer, name: str) -> Filled:
    settings = {"segment_bytes": str(MIB), "index_interval_bytes": "100"}
    topic = create_topic(peer, name, 1, **settings, flush_messages="1")
    values = [DICE.randbytes(700_000) for _ in range(LARGE_BATCHES)]
    values += [b"small %d" % number for number in range(SMALL_BATCHES)]
    for sequence, value in enumerate(values):
        last = batch_of(value, producer_id=5, producer_epoch=0, base_sequence=sequence)
        assert produce(peer, topic, last).base_offset == sequence
        if sequence == 0:  # its directory is durable, so that the log may have a second segment
            do_not_flush(peer, name)
    return Filled(topic, values, last)


def do_not_flush(peer: Peer, name: str) -> None:
    config = {"name": "flush.messages", "config_operation": 1, "value": None}
    resource = {"resource_type": 2, "resource_name": name, "configs": [config]}
    fields = {"resources": [resource], "validate_only": False}
    [answer] = peer.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, fields).responses
    assert answer.error_code == ErrorCode.none


def read_all(peer: Peer, topic: Topic) -> list[bytes | None]:
    found: list[bytes | None] = []
    end = end_offset(peer, topic)
    while len(found) < end:
        records = fetch(peer, topic, len(found)).records
        assert records, f"nothing at {len(found)}, but the log ends at {end}"
        assert isinstance(records, memoryview)
        for header, batch in whole_batches(records):
            assert header.base_offset == len(found)
            assert crc_matches(batch)
            found += [record.value for record in records_of(batch)]
    return found


AFTER = [
    (end, name)
    for end in ("kill", "stop")
    for name, case in CASES.items()
    if case.notices_always or end == "kill"
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker for these tests alone: it is killed, and what it left is damaged."""
    with Cluster(tmp_path_factory.mktemp("damaged")) as running:
        yield running


@pytest.fixture(scope="module")
def damaged(cluster: Cluster) -> dict[tuple[str, str], Filled]:
    """All topics, after the end of the broker, their damage, and the start that followed."""
    filled: dict[tuple[str, str], Filled] = {}
    for end, cases in groupby(AFTER, key=itemgetter(0)):
        names = [name for _, name in cases]
        with Peer(cluster.bootstrap) as peer:
            filled |= {(end, name): fill(peer, f"{name}-{end}") for name in names}
        getattr(cluster, end)()
        for name in names:
            CASES[name].damage(cluster.data() / f"{name}-{end}-0")
        cluster.start()
    return filled


@pytest.mark.parametrize(("end", "name"), AFTER)
def test_all_that_is_valid_is_read_and_the_log_goes_on_behind_it(
    cluster: Cluster, damaged: dict[tuple[str, str], Filled], end: str, name: str
) -> None:
    topic, values, last = damaged[end, name]
    kept = BATCHES - CASES[name].lost
    with Peer(cluster.bootstrap) as peer:
        assert read_all(peer, topic) == values[:kept]
        assert offset_of(peer, topic, 0) == 0
        again = produce(peer, topic, last)
        assert (again.error, again.base_offset) == (0, BATCHES - 1)  # once, lost or not
        assert end_offset(peer, topic) == BATCHES
        after = batch_of(b"after", producer_id=5, producer_epoch=0, base_sequence=BATCHES)
        assert produce(peer, topic, after).base_offset == BATCHES
        assert read_all(peer, topic) == [*values, b"after"]


CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")


def garbage_checkpoints(data: Path, partitions: list[str]) -> None:
    for name in CHECKPOINTS:
        (data / name).write_bytes(DICE.randbytes(300))


def no_checkpoints(data: Path, partitions: list[str]) -> None:
    for name in CHECKPOINTS:
        (data / name).unlink(missing_ok=True)


def boastful_checkpoints(data: Path, partitions: list[str]) -> None:
    """They claim that all is durable and replicated, and far more than there is."""
    lines = [f"{name.rpartition('-')[0]} 0 {2**40}" for name in partitions]
    text = "\n".join(["0", str(len(lines)), *lines, ""])
    for name in CHECKPOINTS:
        (data / name).write_text(text)


def high_log_start(data: Path, partitions: list[str]) -> None:
    lines = [f"{name.rpartition('-')[0]} 0 2" for name in partitions]
    text = "\n".join(["0", str(len(lines)), *lines, ""])
    (data / "log-start-offset-checkpoint").write_text(text + "garbage")


@pytest.mark.parametrize("end", ["kill", "stop"])
@pytest.mark.parametrize(
    "spoiled", [garbage_checkpoints, no_checkpoints, boastful_checkpoints, high_log_start]
)
def test_checkpoints_are_no_more_than_hints(
    cluster: Cluster, spoiled: Callable[[Path, list[str]], None], end: str
) -> None:
    names = [f"{spoiled.__name__}-{end}-{state}" for state in ("whole", "torn")]
    with Peer(cluster.bootstrap) as peer:
        whole, torn = (fill(peer, name) for name in names)
    getattr(cluster, end)()
    spoiled(cluster.data(), [f"{name}-0" for name in names])
    cut_last_batch(cluster.data() / f"{torn.topic.name}-0", 30)
    cluster.start()
    with Peer(cluster.bootstrap) as peer:
        assert read_all(peer, whole.topic) == whole.values
        assert read_all(peer, torn.topic) == torn.values[:-1]
        for filled in (whole, torn):
            assert produce(peer, filled.topic, filled.last).base_offset == BATCHES - 1


def test_an_old_epoch_file_costs_no_record_of_a_newer_epoch(cluster: Cluster) -> None:
    with Peer(cluster.bootstrap) as peer:
        topic = create_topic(peer, "epochs")
        produce(peer, topic, batch_of(b"a"))
    path = cluster.data() / "epochs-0" / "leader-epoch-checkpoint"
    old = path.read_bytes()
    cluster.kill()
    cluster.start()
    with Peer(cluster.bootstrap) as peer:
        for value in (b"b", b"c", b"d"):
            produce(peer, topic, batch_of(value))
    cluster.kill()
    path.write_bytes(old)
    cluster.start()
    with Peer(cluster.bootstrap) as peer:
        assert read_all(peer, topic) == [b"a", b"b", b"c", b"d"]
        ending = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
        question = {"replica_id": -1, "topics": [{"topic": topic.name, "partitions": [ending]}]}
        (told,) = peer.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, question).topics[0].partitions
        assert (told.leader_epoch, told.end_offset) == (0, 1)


def test_damage_in_the_flushed_part_costs_no_record_behind_it(cluster: Cluster) -> None:
    with Peer(cluster.bootstrap) as peer:
        topic, values, _ = fill(peer, "flipped")
    cluster.stop()
    directory = cluster.data() / "flipped-0"
    overwrite(logs(directory)[0], 300_000, b"flip")
    (cluster.data() / ".kafka_cleanshutdown").unlink()
    cluster.start()
    with Peer(cluster.bootstrap) as peer:
        assert end_offset(peer, topic) == BATCHES
        records = fetch(peer, topic, 0).records
        assert isinstance(records, memoryview)
        _, batch = next(whole_batches(records))
        assert not crc_matches(batch)  # whoever reads it can tell
        records = fetch(peer, topic, 1).records
        assert isinstance(records, memoryview)
        _, batch = next(whole_batches(records))
        assert [record.value for record in records_of(batch)] == values[1:2]


@pytest.mark.parametrize("lost", ["quorum-state", "*.checkpoint", "*.index", "*.snapshot"])
def test_what_can_be_missing_beside_the_metadata_log_is_made_anew(
    cluster: Cluster, lost: str
) -> None:
    with Peer(cluster.bootstrap) as peer:
        kept = create_topic(peer, f"kept-{lost[-5:]}")
        produce(peer, kept, batch_of(b"x"))
    cluster.kill()
    directory = cluster.data() / "__cluster_metadata-0"
    for path in directory.glob(lost):
        path.unlink()
    append(directory, DICE.randbytes(500))
    cluster.start()
    with Peer(cluster.bootstrap) as peer:
        assert end_offset(peer, kept) == 1
        assert create_topic(peer, f"new-{lost[-5:]}").topic_id != kept.topic_id
