"""Following the metadata log: one leader, one observer, and everything said between them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.model.time import Now
from tidelog.quorum.fetching import MetadataFetch, MetadataFetchResponse, SnapshotFetch
from tidelog.quorum.leader import QuorumDescription
from tidelog.quorum.messages import ReplicaKey
from tidelog.quorum.metadata_log import metadata_log_config
from tidelog.quorum.metadata_replica import LostCommittedMetadata, RecordCodec
from tidelog.quorum.quorum import AfterFetch, Quorum
from tidelog.quorum.snapshots import SnapshotId
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.identity import DirectoryIdentity, write_identity
from tidelog.storage.log_directory import LogDirectory

if TYPE_CHECKING:
    from tests.quorum.conftest import OpenQuorum

CODEC: RecordCodec[str] = RecordCodec(str.encode, bytes.decode)
NOW = Now(10, 1000)
LATER = Now(5000, 6000)
OTHER_DIRECTORY = UUID(int=777)


class Dice:
    """The same throws every time."""

    def uuid(self) -> UUID:
        return UUID(int=4712)

    def below(self, bound: int) -> int:
        return 0


@pytest.fixture
def disk() -> MemoryFileSystem:
    """Of the observer."""
    files = MemoryFileSystem()
    files.make_directory("/data")
    write_identity(files, "/data", DirectoryIdentity("cluster", 2, OTHER_DIRECTORY))
    return files


def open_observer(files: MemoryFileSystem) -> Quorum[str]:
    directory = LogDirectory(files, "/data", Dice())
    directory.begin()
    observer = Quorum(
        files=files,
        log=directory.load_metadata_log(NOW, metadata_log_config()),
        own=ReplicaKey(2, OTHER_DIRECTORY),
        endpoints=(),
        listener="CONTROLLER",
        codec=CODEC,
        entropy=Dice(),
        now=NOW,
        can_vote=False,
    )
    observer.start(NOW)
    return observer


def wanted(observer: Quorum[str]) -> MetadataFetch:
    asked = observer.next_fetch()
    assert asked is not None
    return asked


def sync(quorum: Quorum[str]) -> None:
    job = quorum.sync_job()
    if job is not None:
        job.run()
        quorum.synced(job)


@pytest.fixture
def leader(files: MemoryFileSystem, open_quorum: OpenQuorum) -> Quorum[str]:
    """Leads, with nothing but its own records committed."""
    quorum = open_quorum(files)
    quorum.start(NOW)
    sync(quorum)
    return quorum


def described(leader: Quorum[str], now: Now) -> QuorumDescription:
    description = leader.describe(now)
    assert description is not None
    return description


def seen(observer: Quorum[str]) -> list[str]:
    return [each.record for each in observer.replica.committed_since(0)]


def answer_of(
    leader: Quorum[str], asked: MetadataFetch, now: Now = NOW
) -> MetadataFetchResponse[memoryview]:
    answer = leader.handle_fetch(asked, now)
    records = None if answer.records is None else memoryview(bytearray(answer.records.read()))
    return MetadataFetchResponse(
        error=answer.error,
        leader_id=answer.leader_id,
        leader_epoch=answer.leader_epoch,
        leader_address=answer.leader_address,
        high_watermark=answer.high_watermark,
        log_start_offset=answer.log_start_offset,
        records=records,
        diverging=answer.diverging,
        snapshot=answer.snapshot,
    )


def follow(observer: Quorum[str], leader: Quorum[str], rounds: int = 20) -> AfterFetch:
    step = AfterFetch.FETCH_AGAIN
    for _ in range(rounds):
        asked = wanted(observer)
        answer = answer_of(leader, asked)
        step = observer.handle_fetch_response(asked, answer, NOW)
        if step is not AfterFetch.FETCH_AGAIN or not answer.is_news_for(asked):
            return step
    return step


def test_an_observer_learns_the_epoch_then_the_log_then_what_is_committed(
    leader: Quorum[str], disk: MemoryFileSystem
) -> None:
    leader.append(["a", "b"], NOW)
    sync(leader)
    observer = open_observer(disk)
    asked = wanted(observer)
    refused = answer_of(leader, asked)
    assert refused.error == ErrorCode.fenced_leader_epoch
    assert observer.handle_fetch_response(asked, refused, NOW) is AfterFetch.FETCH_AGAIN
    assert (observer.epoch, observer.leader_id) == (leader.epoch, 1)
    follow(observer, leader)
    assert seen(observer) == ["a", "b"]
    assert observer.log.end_offset == leader.log.end_offset


def test_what_is_not_committed_is_in_the_log_but_not_seen(
    leader: Quorum[str], disk: MemoryFileSystem
) -> None:
    observer = open_observer(disk)
    follow(observer, leader)
    leader.append(["a"], NOW)
    follow(observer, leader)
    assert observer.log.end_offset == leader.log.end_offset
    assert seen(observer) == []
    sync(leader)
    follow(observer, leader)
    assert seen(observer) == ["a"]


def test_a_restarted_observer_goes_on_where_its_disk_ends(
    leader: Quorum[str], disk: MemoryFileSystem
) -> None:
    leader.append(["a"], NOW)
    sync(leader)
    follow(open_observer(disk), leader)
    again = open_observer(disk)
    assert wanted(again).offset == leader.log.end_offset
    assert again.replica.high_watermark == 0, "what is committed, only the leader can tell"
    follow(again, leader)
    assert seen(again) == ["a"]


def test_records_that_a_new_leader_does_not_have_are_cut(
    leader: Quorum[str], disk: MemoryFileSystem
) -> None:
    observer = open_observer(disk)
    follow(observer, leader)
    mark = observer.replica.high_watermark
    asked = wanted(observer)
    leader.append(["never committed"], NOW)
    observer.handle_fetch_response(asked, answer_of(leader, asked), NOW)
    assert observer.log.end_offset > mark
    diverging = MetadataFetchResponse[memoryview](
        leader_id=1, leader_epoch=leader.epoch, high_watermark=mark, diverging=(1, mark)
    )
    assert (
        observer.handle_fetch_response(wanted(observer), diverging, NOW) is AfterFetch.FETCH_AGAIN
    )
    assert observer.log.end_offset == mark


def test_a_leader_that_lost_what_was_committed_is_not_believed(
    leader: Quorum[str], disk: MemoryFileSystem
) -> None:
    leader.append(["a"], NOW)
    sync(leader)
    observer = open_observer(disk)
    follow(observer, leader)
    diverging = MetadataFetchResponse[memoryview](
        leader_id=1, leader_epoch=leader.epoch, high_watermark=1, diverging=(1, 1)
    )
    with pytest.raises(LostCommittedMetadata):
        observer.handle_fetch_response(wanted(observer), diverging, NOW)


def test_a_leader_of_the_past_is_not_heard(leader: Quorum[str], disk: MemoryFileSystem) -> None:
    observer = open_observer(disk)
    follow(observer, leader)
    newer = MetadataFetchResponse[memoryview](
        error=ErrorCode.fenced_leader_epoch,
        leader_id=3,
        leader_epoch=leader.epoch + 1,
        leader_address=("node-3", 9093),
    )
    assert observer.handle_fetch_response(wanted(observer), newer, NOW) is AfterFetch.FETCH_AGAIN
    asked = wanted(observer)
    old = MetadataFetchResponse[memoryview](
        leader_id=1, leader_epoch=leader.epoch, high_watermark=1 << 30
    )
    mark = observer.replica.high_watermark
    assert observer.handle_fetch_response(asked, old, NOW) is AfterFetch.BACK_OFF
    assert (observer.replica.high_watermark, observer.leader_id) == (mark, 3)


def test_damaged_records_are_not_taken(leader: Quorum[str], disk: MemoryFileSystem) -> None:
    observer = open_observer(disk)
    follow(observer, leader)
    leader.append(["a"], NOW)
    sync(leader)
    asked = wanted(observer)
    answer = answer_of(leader, asked)
    assert answer.records is not None
    answer.records[-1] ^= 1
    end = observer.log.end_offset
    assert observer.handle_fetch_response(asked, answer, NOW) is AfterFetch.DISBELIEVE
    assert (observer.log.end_offset, observer.replica.high_watermark) == (end, end)


def test_the_high_watermark_never_falls(leader: Quorum[str], disk: MemoryFileSystem) -> None:
    observer = open_observer(disk)
    follow(observer, leader)
    mark = observer.replica.high_watermark
    lower = MetadataFetchResponse[memoryview](
        leader_id=1, leader_epoch=leader.epoch, high_watermark=1
    )
    observer.handle_fetch_response(wanted(observer), lower, NOW)
    assert observer.replica.high_watermark == mark


def test_an_observer_goes_on_behind_a_snapshot(leader: Quorum[str], disk: MemoryFileSystem) -> None:
    leader.append(["a", "b"], NOW)
    sync(leader)
    job = leader.replica.snapshot_job(["state"], leader.replica.high_watermark, NOW)
    job.run()
    leader.replica.snapshot_written(job, NOW)
    observer = open_observer(disk)
    assert follow(observer, leader) is AfterFetch.FETCH_SNAPSHOT
    answer = answer_of(leader, wanted(observer))
    assert answer.snapshot == job.id
    download = observer.replica.download(job.id)
    while True:
        wish = SnapshotFetch(observer.identity, observer.epoch, job.id, download.position, 50)
        piece = leader.handle_snapshot_fetch(wish, NOW)
        assert piece.error == 0
        download.append(piece.data)
        if download.position == piece.size:
            break
    download.finish()
    observer.replica.install(job.id, NOW)
    snapshot = observer.replica.latest_snapshot()
    assert snapshot is not None
    assert [*snapshot.records] == ["state"]
    assert observer.log.end_offset == observer.replica.high_watermark == job.id.offset
    leader.append(["c"], NOW)
    sync(leader)
    follow(observer, leader)
    assert [each.record for each in observer.replica.committed_since(job.id.offset)] == ["c"]
    again = open_observer(disk)
    assert again.log.end_offset == leader.log.end_offset
    assert again.replica.high_watermark == job.id.offset


def test_a_download_that_is_given_up_leaves_nothing(disk: MemoryFileSystem) -> None:
    observer = open_observer(disk)
    names = set(disk.list("/data/__cluster_metadata-0"))
    download = observer.replica.download(SnapshotId(10, 1))
    download.append(b"some")
    download.give_up()
    assert set(disk.list("/data/__cluster_metadata-0")) == names


def test_two_downloads_of_one_snapshot_do_not_disturb_each_other(disk: MemoryFileSystem) -> None:
    observer = open_observer(disk)
    first, second = (
        observer.replica.download(SnapshotId(10, 1)),
        observer.replica.download(SnapshotId(10, 1)),
    )
    first.append(b"some")
    first.give_up()
    assert second.position == 0
    second.append(b"other")
    assert second.position == 5


def test_a_download_that_cannot_be_read_leaves_nothing(disk: MemoryFileSystem) -> None:
    observer = open_observer(disk)
    names = set(disk.list("/data/__cluster_metadata-0"))
    download = observer.replica.download(SnapshotId(10, 1))
    download.append(bytes(200))
    download.finish()
    assert not download.is_stored
    assert set(disk.list("/data/__cluster_metadata-0")) == names


def test_the_leader_knows_how_far_observers_are(
    leader: Quorum[str], disk: MemoryFileSystem
) -> None:
    observer = open_observer(disk)
    follow(observer, leader)
    [progress] = described(leader, NOW).observers
    assert (progress.replica_id, progress.directory_id) == (2, OTHER_DIRECTORY)
    assert progress.log_end_offset == leader.log.end_offset
    assert progress.last_caught_up_ms == NOW.wall_ms
    leader.append(["a"], LATER)
    leader.handle_fetch(wanted(observer), LATER)
    [progress] = described(leader, LATER).observers
    assert progress.last_fetch_ms == LATER.wall_ms
    assert progress.last_caught_up_ms == NOW.wall_ms


def test_an_observer_that_fell_silent_is_forgotten(
    leader: Quorum[str], disk: MemoryFileSystem
) -> None:
    follow(open_observer(disk), leader)
    assert described(leader, Now(300_011, 0)).observers == ()
