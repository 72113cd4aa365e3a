"""A partition while another node leads it: what it asks, what it applies, where it cuts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.replication.leader_answers import answer, batch

from tidelog.observe.events import LogTruncated
from tidelog.observe.replication_events import FollowerCaughtUp, PartitionBecameFollower
from tidelog.replication.messages import (
    BackOff,
    Dropped,
    FetchState,
    LeaderOffsets,
    MustLower,
    Progress,
)

if TYPE_CHECKING:
    from tests.replication.cluster import Cluster
    from tests.replication.conftest import NewPartition, PartitionBench


# Becoming follower


def test_a_follower_fetches_from_its_end_in_the_epoch_of_its_last_record(
    bench: PartitionBench,
) -> None:
    bench.lead(3)
    bench.append(b"a", b"b")
    bench.follow(4)
    follower = bench.follower
    assert (follower.leader, follower.may_fetch) == (101, True)
    assert follower.fetch_state == FetchState(
        fetch_offset=2, leader_epoch=4, last_fetched_epoch=3, log_start_offset=0
    )
    [became] = [e for e in bench.events if isinstance(e, PartitionBecameFollower)]
    assert (became.leader, became.leader_epoch, became.end_offset) == (101, 4, 2)


def test_an_empty_follower_claims_no_epoch(bench: PartitionBench) -> None:
    bench.follow(1)
    assert bench.follower.fetch_state == FetchState(0, 1, -1, 0)


def test_a_log_without_epochs_is_first_cut_to_its_high_watermark(bench: PartitionBench) -> None:
    bench.lead(0)
    bench.append(b"a")
    bench.append(b"b")
    bench.partition.high_watermark.offset = 1
    bench.partition.log.epochs.clear()
    bench.follow(1)
    assert bench.partition.log.end_offset == 1
    [cut] = [event for event in bench.events if isinstance(event, LogTruncated)]
    assert cut.cause == "no leader epochs are known, only the high watermark"


def test_without_a_leader_there_is_nobody_to_ask_and_nothing_to_cut(
    bench: PartitionBench,
) -> None:
    bench.lead(0, 101)
    bench.append(b"a")
    bench.partition.log.epochs.clear()
    bench.follow(1, leader=-1)
    assert not bench.follower.may_fetch
    assert bench.partition.log.end_offset == 1


def test_the_high_watermark_stays_when_the_role_changes(bench: PartitionBench) -> None:
    bench.lead(0)
    bench.append(b"a")
    bench.follow(1)
    assert bench.partition.high_watermark.offset == 1


# Applying answers


def test_records_are_appended_as_they_are(bench: PartitionBench) -> None:
    bench.follow(2)
    sent = batch(0, b"a", b"b", epoch=1), batch(2, b"c", epoch=2)
    step = bench.follower.fetched(answer(bench, *sent), bench.now)
    assert step == Progress(appended_bytes=len(sent[0]) + len(sent[1]))
    found = bench.partition.log.read(0, 1000, 3)
    assert found is not None
    assert found.read() == bytes(sent[0] + sent[1])
    assert list(bench.partition.log.epochs.entries) == [(1, 0), (2, 2)]


def test_the_high_watermark_is_taken_after_the_append_within_the_own_log_and_may_step_back(
    bench: PartitionBench,
) -> None:
    bench.follow(1)
    bench.follower.fetched(answer(bench, batch(0, b"a", b"b"), high_watermark=9), bench.now)
    assert bench.partition.high_watermark.offset == 2
    bench.follower.fetched(answer(bench, high_watermark=1), bench.now)
    assert bench.partition.high_watermark.offset == 1


def test_consumers_of_a_follower_are_told_when_its_high_watermark_moves(
    bench: PartitionBench,
) -> None:
    bench.follow(1)
    watching = bench.watch()
    sent = batch(0, b"a", b"b")
    bench.follower.fetched(answer(bench, sent), bench.now)
    assert watching.told == []
    bench.follower.fetched(answer(bench, high_watermark=1), bench.now)
    bench.follower.fetched(answer(bench, batch(2), high_watermark=2), bench.now)
    assert watching.told == [0, len(batch(2))]


def test_the_log_start_of_the_leader_is_taken_over_but_not_beyond_the_high_watermark(
    bench: PartitionBench,
) -> None:
    bench.follow(1)
    bench.follower.fetched(
        answer(bench, batch(0, b"a", b"b", b"c"), high_watermark=2, start=1), bench.now
    )
    assert bench.partition.log.start_offset == 1
    bench.follower.fetched(answer(bench, high_watermark=2, start=3), bench.now)
    assert bench.partition.log.start_offset == 2


def test_an_answer_is_dropped_if_the_log_or_the_epoch_has_moved_on(bench: PartitionBench) -> None:
    bench.follow(1)
    late = answer(bench, batch(0), high_watermark=1)
    bench.follower.fetched(late, bench.now)
    assert bench.follower.fetched(late, bench.now) == Dropped()
    other_epoch = answer(bench, batch(1))
    bench.follow(2)
    assert bench.follower.fetched(other_epoch, bench.now) == Dropped()
    offsets = LeaderOffsets(late.sent, 5, 5)
    assert bench.follower.offsets_told(offsets, bench.now) == Dropped()
    bench.lead(3)
    bench.follow(4)
    assert bench.follower.fetched(other_epoch, bench.now) == Dropped()
    assert bench.follower.offsets_told(offsets, bench.now) == Dropped()
    assert bench.partition.log.end_offset == 1


def test_an_answer_is_dropped_if_the_log_has_other_records_up_to_the_same_offset(
    bench: PartitionBench,
) -> None:
    bench.lead(1, 101)
    bench.append(b"a")
    bench.follow(2)
    told = answer(bench)._replace(diverging_epoch=(1, 0))
    bench.follower.fetched(told, bench.now)
    bench.follower.fetched(answer(bench, batch(0, epoch=2), high_watermark=1), bench.now)
    assert bench.follower.fetch_state.fetch_offset == told.sent.fetch_offset
    assert bench.follower.fetched(told, bench.now) == Dropped()
    assert bench.partition.log.end_offset == 1


def test_batches_of_a_later_epoch_than_the_fetch_wait_for_a_fetch_in_that_epoch(
    bench: PartitionBench,
) -> None:
    bench.follow(1)
    sent = batch(0, epoch=1), batch(1, epoch=2), batch(2, epoch=1)
    assert isinstance(bench.follower.fetched(answer(bench, *sent), bench.now), Progress)
    assert bench.partition.log.end_offset == 1


def test_a_batch_with_a_wrong_checksum_is_not_appended_and_asked_for_again(
    bench: PartitionBench,
) -> None:
    bench.follow(1)
    sent = batch(0, b"a", b"b")
    sent[-1] ^= 1
    step = bench.follower.fetched(answer(bench, sent, high_watermark=2), bench.now)
    assert isinstance(step, BackOff)
    assert step.pause_ms == 1000
    assert "checksum" in step.why
    assert bench.partition.log.end_offset == 0
    assert bench.follower.may_fetch


def test_a_follower_says_once_that_it_has_caught_up(bench: PartitionBench) -> None:
    bench.follow(1)
    bench.follower.fetched(answer(bench, batch(0), high_watermark=0), bench.now)
    bench.follower.fetched(answer(bench, high_watermark=9), bench.now)
    assert not [e for e in bench.events if isinstance(e, FollowerCaughtUp)]
    bench.follower.fetched(answer(bench, high_watermark=1), bench.now)
    bench.follower.fetched(answer(bench, high_watermark=1), bench.now)
    [caught_up] = [e for e in bench.events if isinstance(e, FollowerCaughtUp)]
    assert (caught_up.leader, caught_up.leader_epoch, caught_up.end_offset) == (101, 1, 1)


def test_a_follower_asks_for_nothing_more_until_an_owed_flush_has_ended(
    new_partition: NewPartition,
) -> None:
    bench = new_partition(flush_messages=1)
    bench.follow(1)
    bench.follower.fetched(answer(bench, batch(0)), bench.now)
    job = bench.partition.owed_flush
    assert job is not None
    assert not bench.follower.may_fetch
    job.run()
    bench.partition.flushed(job, None, bench.now)
    assert bench.follower.may_fetch


# Divergence


def test_a_diverging_answer_says_where_to_cut_and_nothing_else(bench: PartitionBench) -> None:
    bench.lead(1, 101)
    bench.append(b"a", b"b")
    bench.append(b"c", b"d")
    bench.follow(2)
    told = answer(bench, high_watermark=2, start=1)._replace(diverging_epoch=(1, 2))
    assert bench.follower.fetched(told, bench.now) == Progress(truncated=True)
    assert bench.partition.log.end_offset == 2
    assert bench.partition.high_watermark.offset == 0
    assert bench.partition.log.start_offset == 0
    assert bench.follower.fetch_state == FetchState(2, 2, 1, 0)


def test_an_epoch_without_records_is_given_up_although_there_is_nothing_to_cut(
    bench: PartitionBench,
) -> None:
    bench.lead(1)
    bench.append(b"a")
    bench.lead(3)
    bench.follow(4)
    assert bench.follower.fetch_state.last_fetched_epoch == 3
    told = answer(bench)._replace(diverging_epoch=(2, 1))
    bench.follower.fetched(told, bench.now)
    assert bench.follower.fetch_state == FetchState(1, 4, 1, 0)
    assert not [event for event in bench.events if isinstance(event, LogTruncated)]


def test_a_cut_below_the_high_watermark_takes_the_high_watermark_along(
    bench: PartitionBench,
) -> None:
    bench.lead(1)
    bench.append(b"a")
    bench.append(b"b")
    assert bench.partition.high_watermark.offset == 2
    watching = bench.watch()
    bench.follow(2)
    bench.follower.fetched(answer(bench)._replace(diverging_epoch=(1, 1)), bench.now)
    assert bench.partition.high_watermark.offset == 1
    assert watching.told == [0, 0], "the role, then the cut"


def test_a_log_that_parts_from_the_leaders_below_its_start_begins_anew_there(
    bench: PartitionBench,
) -> None:
    """The leader deleted below 3, within our batch: what we hold below may not be its own."""
    bench.lead(1, 101)
    bench.append(b"a", b"b")
    bench.append(b"c", b"d")
    bench.follow(2)
    told = answer(bench, high_watermark=4, start=3)._replace(diverging_epoch=(1, 3))
    assert bench.follower.fetched(told, bench.now) == Progress(truncated=True)
    assert (bench.partition.log.start_offset, bench.partition.log.end_offset) == (3, 3)
    assert bench.follower.fetch_state == FetchState(3, 2, -1, 3)
    [cut] = [event for event in bench.events if isinstance(event, LogTruncated)]
    assert cut.cause == "the log of leader 101 begins only at 3"


def test_a_log_that_parts_from_the_leaders_below_its_own_start_begins_anew_there(
    bench: PartitionBench,
) -> None:
    """What was deleted here may be another branch than what an unclean leader holds there."""
    bench.lead(3)
    bench.append(b"a", b"b")
    bench.append(b"c", b"d")
    bench.partition.log.raise_start_to(2)
    bench.follow(4)
    told = answer(bench)._replace(diverging_epoch=(1, 9))
    assert bench.follower.fetched(told, bench.now) == Progress(truncated=True)
    assert (bench.partition.log.start_offset, bench.partition.log.end_offset) == (2, 2)
    assert bench.partition.log.size_bytes == 0
    assert bench.follower.fetch_state == FetchState(2, 4, -1, 2)


def test_a_log_that_is_to_be_cut_below_its_start_keeps_nothing_there(bench: PartitionBench) -> None:
    bench.lead(1)
    bench.append(b"a")
    bench.append(b"b")
    bench.append(b"c")
    bench.partition.log.raise_start_to(2)
    bench.follow(2)
    told = answer(bench)._replace(diverging_epoch=(1, 1))
    assert bench.follower.fetched(told, bench.now) == Progress(truncated=True)
    assert (bench.partition.log.start_offset, bench.partition.log.end_offset) == (1, 1)
    assert bench.partition.log.size_bytes == 0


def test_no_high_watermark_covers_records_that_a_second_round_will_cut(cluster: Cluster) -> None:
    """100 holds records of epochs 1 and 3, and 101 of epoch 2: two rounds until they agree."""
    cluster.lead(100)
    cluster.append(100, b"0")
    cluster.settle(101, 102)
    for n in range(4):
        cluster.append(100, b"epoch 1", str(n).encode())
    cluster.lead(101, None, 101, 102)
    for n in range(5):
        cluster.append(101, b"epoch 2", str(n).encode())
    cluster.lead(100, None, 100)
    cluster.append(100, b"epoch 3")
    cluster.lead(101, (101, 102))
    cluster.settle(102)
    assert (cluster[101].high_watermark, cluster[100].high_watermark) == (11, 1)

    cluster.fetch_well(100)
    assert cluster[100].log.end_offset == 9, "the end of epoch 1 there; 2 is not known here"
    assert cluster[100].high_watermark == 1, (
        "a high watermark of 9 would show records that are not committed"
    )
    cluster.fetch_well(100)
    assert cluster[100].log.end_offset == 1
    cluster.settle(100)
    assert list(cluster[100].batches()) == list(cluster[101].batches())
    assert cluster[100].high_watermark == 11


def test_a_cut_rolls_the_producers_back_with_the_log(cluster: Cluster) -> None:
    cluster.lead(101)
    one = {"producer_id": 7, "producer_epoch": 0}
    cluster.append(101, b"a", base_sequence=0, **one)
    cluster.settle(100, 102)
    cluster.append(101, b"b", base_sequence=1, **one)
    cluster.fetch_well(102)
    cluster.lead(100)
    cluster.settle(102)
    cluster.lead(102)
    again = cluster.append(102, b"b", base_sequence=1, **one)
    assert (again.first_offset, again.duplicate) == (1, False), "its first try was cut off"


class _Lowered:
    """Stands for what the disk has to know before a cut."""

    def __init__(self) -> None:
        self.is_over = False

    def run(self) -> None:
        self.is_over = True

    def done(self, error: str | None) -> bool:
        return False


def test_a_log_is_cut_only_after_the_disk_knows_of_it_and_the_answer_is_asked_for_again(
    bench: PartitionBench,
) -> None:
    bench.lead(1, 101)
    bench.append(b"a")
    bench.append(b"b")
    lowered = _Lowered()
    log = bench.partition.log
    log.place = replace(log.place, lowering=lambda _: None if lowered.is_over else lowered)
    bench.follow(2)
    told = answer(bench)._replace(diverging_epoch=(1, 1))

    step = bench.follower.fetched(told, bench.now)
    assert isinstance(step, MustLower)
    assert log.end_offset == 2
    step.lowering.run()

    assert bench.follower.fetched(told, bench.now) == Progress(truncated=True)
    assert log.end_offset == 1


def test_nothing_is_fetched_before_what_a_cut_took_away_is_gone_for_good(
    bench: PartitionBench,
) -> None:
    bench.lead(1, 101)
    bench.append(b"a")
    log = bench.partition.log
    log.roll(bench.now)
    bench.append(b"b")
    bench.follow(2)
    bench.follower.fetched(answer(bench)._replace(diverging_epoch=(1, 0)), bench.now)
    assert log.end_offset == 0
    assert not bench.follower.may_fetch

    job = log.settling_job()
    assert job is not None
    job.run()
    log.flushed(job)

    assert bench.follower.may_fetch
