from __future__ import annotations

from collections.abc import Callable

import pytest

from tidelog.model.errors import DiskError
from tidelog.model.time import Now
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.snapshots import SnapshotRules
from tidelog.records.batch import read_header
from tidelog.simulator.disk.crash import after_crash, crashes, data_lost, names_undone
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.filesystem import read_all

OpenQuorum = Callable[..., Quorum[str]]
DIRECTORY = "/data/__cluster_metadata-0"


def at(ms: int) -> Now:
    return Now(ms, 1000 + ms)


def sync(quorum: Quorum[str]) -> None:
    job = quorum.sync_job()
    assert job is not None
    job.run()
    quorum.synced(job)


def records(quorum: Quorum[str], offset: int) -> list[str]:
    return [committed.record for committed in quorum.replica.committed_since(offset)]


def started(open_quorum: OpenQuorum, files: MemoryFileSystem, **options: object) -> Quorum[str]:
    quorum = open_quorum(files, **options)
    quorum.start(at(0))
    sync(quorum)
    return quorum


EAGER = SnapshotRules(bytes_between=200, interval_ms=1000, retention_bytes=0, retention_ms=-1)


def take_snapshot(quorum: Quorum[str], state: list[str], ms: int) -> None:
    job = quorum.replica.snapshot_job(state, quorum.replica.high_watermark, at(ms))
    job.run()
    quorum.replica.snapshot_written(job, at(ms))


def test_a_snapshot_is_due_after_enough_bytes_or_enough_time(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    quorum = open_quorum(files, rules=EAGER)
    assert not quorum.replica.snapshot_due(at(5000))
    quorum.start(at(0))
    sync(quorum)
    assert not quorum.replica.snapshot_due(at(999))
    assert quorum.replica.snapshot_due(at(1000))
    quorum.append(["x" * 200], at(1))
    sync(quorum)
    assert quorum.replica.snapshot_due(at(1))
    take_snapshot(quorum, ["x" * 200], 2)
    assert not quorum.replica.snapshot_due(at(900))
    assert not quorum.replica.snapshot_due(at(9000)), "nothing was committed since"


def test_a_snapshot_stands_in_for_the_log_below_it(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    quorum = started(open_quorum, files)
    quorum.append(["a", "b"], at(1))
    sync(quorum)
    take_snapshot(quorum, ["state"], 2)
    quorum.append(["c"], at(3))
    sync(quorum)
    assert f"{5:020d}-{1:010d}.checkpoint" in files.list(DIRECTORY)

    again = open_quorum(after_crash(files, data_lost, names_undone))
    loaded = again.replica.latest_snapshot()
    assert loaded is not None
    assert (loaded.end_offset, loaded.epoch, list(loaded.records)) == (5, 1, ["state"])
    again.start(at(9))
    assert again.replica.high_watermark == 5
    sync(again)
    assert records(again, loaded.end_offset) == ["c"]


def test_old_snapshots_go_with_the_log_below_the_oldest_that_stays(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    quorum = started(open_quorum, files, rules=EAGER, segment_bytes=300)
    ends = []
    for number in range(6):
        quorum.append([f"{number}" * 100], at(number))
        sync(quorum)
        take_snapshot(quorum, [f"state {number}"], number)
        ends.append(quorum.replica.high_watermark)
    left = [name for name in files.list(DIRECTORY) if name.endswith(".checkpoint")]
    assert left == [f"{ends[-1]:020d}-{1:010d}.checkpoint"]
    segments = [int(name[:20]) for name in files.list(DIRECTORY) if name.endswith(".log")]
    assert min(segments) > 0

    for disk in (files, after_crash(files, data_lost, names_undone)):
        again = started(open_quorum, disk, segment_bytes=300)
        loaded = again.replica.latest_snapshot()
        assert loaded is not None
        assert (loaded.end_offset, list(loaded.records)) == (ends[-1], ["state 5"])
        assert records(again, loaded.end_offset) == []


def test_snapshots_younger_than_the_retention_stay(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    rules = SnapshotRules(retention_bytes=-1, retention_ms=50)
    quorum = started(open_quorum, files, rules=rules)
    for ms in (100, 120, 165):
        quorum.append(["a"], at(ms))
        sync(quorum)
        take_snapshot(quorum, ["state"], ms)
    left = [name for name in files.list(DIRECTORY) if name.endswith(".checkpoint")]
    assert [int(name[:20]) for name in left] == [5, 6]


def test_no_crash_while_cleaning_leaves_a_log_without_a_snapshot_that_reaches_it(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    quorum = started(open_quorum, files, rules=EAGER, segment_bytes=300)
    for number in range(4):
        quorum.append([f"{number}" * 100], at(number))
        sync(quorum)
        take_snapshot(quorum, [f"state {number}"], number)
    for operations, disk in enumerate(crashes(files, data_lost, names_undone)):
        if operations < 40 or not disk.exists(f"{DIRECTORY}/quorum-state"):
            continue
        again = open_quorum(disk, segment_bytes=300)
        loaded = again.replica.latest_snapshot()
        again.start(at(9))
        sync(again)
        offset = loaded.end_offset if loaded else 0
        tail = [record[0] for record in records(again, offset)]
        state = -1 if loaded is None else int(next(loaded.records).split()[1])
        assert tail == [f"{number}" for number in range(state + 1, state + 1 + len(tail))]


def test_a_log_that_starts_behind_every_snapshot_is_refused(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    quorum = started(open_quorum, files, rules=EAGER, segment_bytes=300)
    for number in range(4):
        quorum.append([f"{number}" * 100], at(number))
        sync(quorum)
        take_snapshot(quorum, ["state"], number)
    for name in files.list(DIRECTORY):
        if name.endswith(".checkpoint"):
            files.remove(f"{DIRECTORY}/{name}")
    with pytest.raises(DiskError, match="no snapshot reaches"):
        open_quorum(files)


def test_a_log_that_a_snapshot_has_overtaken_goes_on_behind_it(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    quorum = started(open_quorum, files)
    quorum.append(["a", "b"], at(1))
    sync(quorum)
    take_snapshot(quorum, ["state"], 2)
    for name in files.list(DIRECTORY):
        if not name.endswith(".checkpoint"):
            files.remove(f"{DIRECTORY}/{name}")
    again = started(open_quorum, files)
    assert (again.epoch, again.replica.high_watermark) == (2, 6)
    assert records(again, 5) == []
    header = read_header(read_all(files, f"{DIRECTORY}/{5:020d}.log"))
    assert header.base_offset == 5


def test_half_written_snapshots_are_removed_at_the_start(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    part = f"{DIRECTORY}/{9:020d}-{1:010d}.checkpoint.part"
    files.open(part).close()
    started(open_quorum, files)
    assert not files.exists(part)
