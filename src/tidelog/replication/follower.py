"""One partition while another node leads it. Built anew for each leader epoch.

Invariant  It fetches from the end of its log and names the epoch of its last record, so that the
           leader can tell whether everything below is its own.
Invariant  An answer is used only if the log and the epoch are still those of the question.
Invariant  A diverging answer says where to cut and nothing else: its high watermark and log start
           belong to a history that this log does not have yet (D15).
Invariant  What the disk says about a log is lowered before the log is cut, and nothing is fetched
           before what the cut took away is gone for good; both without the loop waiting for it.
"""

from __future__ import annotations

from typing import Final

from tidelog.model.errors import DiskError, ErrorCode, Refusal
from tidelog.model.ids import NO_EPOCH, NO_LEADER
from tidelog.model.time import Now
from tidelog.observe.events import LogTruncated
from tidelog.observe.replication_events import FollowerCaughtUp
from tidelog.records.batch import CorruptBatch
from tidelog.replication.divergence import truncation_point
from tidelog.replication.local_replica import LocalReplica
from tidelog.replication.messages import (
    BackOff,
    Dropped,
    Failed,
    FetchState,
    FollowerStep,
    LeaderAnswer,
    LeaderOffsets,
    MustLower,
    NeedsOffsets,
    Progress,
)
from tidelog.replication.replica_context import ReplicaContext

NOTHING: Final = memoryview(b"")
CUT: Final = Progress(truncated=True)
LATE_PAUSE_MS: Final = 10
LEADER_IS_LATE: Final = frozenset(
    {
        ErrorCode.unknown_leader_epoch,
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_or_partition,
    }
)
"""It has probably not heard of its new epoch yet: ask again soon, then less and less often."""


class FollowerReplica:
    """Says what to fetch next, applies what comes back, cuts what the leader does not have."""

    __slots__ = (
        "_context",
        "_is_caught_up",
        "_late_pause_ms",
        "_replica",
        "failed_because",
        "leader",
        "leader_epoch",
        "leader_high_watermark",
        "unprepared",
    )

    def __init__(self, replica: LocalReplica, context: ReplicaContext) -> None:
        self._replica = replica
        self._context = context
        self.leader = replica.leadership.leader
        self.leader_epoch = replica.leadership.leader_epoch
        self.leader_high_watermark = 0
        """As the leader told it last."""
        self.failed_because: str | None = None
        """Why it asks no more in this epoch."""
        self.unprepared: MustLower | None = None
        """What must be run before `prepare` can do its work, which is to be called again."""
        self._is_caught_up = False
        self._late_pause_ms = LATE_PAUSE_MS

    def prepare(self, now: Now) -> None:
        """Give up, before the first fetch, what nobody could compare with the leader's log."""
        if self.leader == NO_LEADER:
            return
        replica = self._replica
        self.unprepared = None
        try:
            damaged = [damage.first_offset for damage in replica.log.damage if damage.in_place]
            if damaged:
                why = "what was there is damaged on disk"
                self.unprepared = self._truncate_to(min(damaged), why, now)
            elif replica.log.epochs.latest_epoch is None:
                high_watermark = replica.high_watermark.offset
                why = "no leader epochs are known, only the high watermark"
                self.unprepared = self._truncate_to(high_watermark, why, now)
        except DiskError as error:
            self._fail(str(error))

    # -- asking --------------------------------------------------------------------------------

    @property
    def may_fetch(self) -> bool:
        """Whether there is a leader to ask, and nothing to do first."""
        return (
            self.leader != NO_LEADER
            and self.failed_because is None
            and self.unprepared is None
            and not self._replica.flushes_under_way
            and self._replica.log.flushes.is_settled
        )

    @property
    def fetch_state(self) -> FetchState:
        """What the next fetch says."""
        log = self._replica.log
        latest = log.epochs.latest_epoch
        return FetchState(
            log.end_offset,
            self.leader_epoch,
            NO_EPOCH if latest is None else latest,
            log.start_offset,
        )

    @property
    def lag(self) -> int:
        """How many committed records it has yet to fetch, by the leader's last word."""
        return max(0, self.leader_high_watermark - self._replica.log.end_offset)

    def _is_current(self, sent: FetchState) -> bool:
        """Whether an answer to a fetch in that state still has a meaning."""
        return sent[:3] == self.fetch_state[:3] and self.failed_because is None

    # -- hearing -------------------------------------------------------------------------------

    def fetched(self, answer: LeaderAnswer, now: Now) -> FollowerStep:
        """Apply what the leader answered to a fetch."""
        if self._context.watch.magnified:
            self._seen(answer, now)
        if not self._is_current(answer.sent):
            return Dropped()
        if answer.error:
            return self._refused(answer.error)
        try:
            if answer.diverging_epoch is None:
                step = self._append(answer, now)
            else:
                step = self._reconcile(*answer.diverging_epoch, answer.log_start_offset, now)
            if isinstance(step, Progress) and tells_high_watermark(answer):
                self._follow(answer, now)
        except CorruptBatch as problem:
            return self._back_off(str(problem))
        except DiskError as error:
            return self._fail(str(error))
        return step

    def _append(self, answer: LeaderAnswer, now: Now) -> FollowerStep:
        records = answer.records
        if not records:
            if not self._is_caught_up and answer.high_watermark <= answer.sent.fetch_offset:
                self._caught_up()
            return Progress()
        replica = self._replica
        lowering = replica.log.lowering_for_fetched(records)
        if lowering is not None:
            return MustLower(lowering)
        appended = replica.log.append_as_follower(
            records, now, fetch_epoch=answer.sent.leader_epoch
        )
        if isinstance(appended, Refusal):
            return self._fail(appended.why)
        if appended is not None:
            self._context.counters.replication_bytes_in += len(records)
            if self._context.watch.is_on:
                replica.grew(answer.sent.fetch_offset, len(records), now)
            replica.appended(now)
        return Progress(len(records))

    def _follow(self, answer: LeaderAnswer, now: Now) -> None:
        """Take the leader's high watermark and log start as far as this log goes."""
        replica = self._replica
        log, own = replica.log, replica.high_watermark
        before = own.offset
        self.leader_high_watermark = answer.high_watermark
        moved = own.follow(answer.high_watermark, log.start_offset, log.end_offset)
        if answer.log_start_offset > log.start_offset:
            replica.raise_start_to(min(answer.log_start_offset, own.offset))
        if moved:
            if self._context.watch.is_on:
                replica.committed(before, now)
            replica.watchers.high_watermark_moved(len(answer.records or NOTHING))

    def _seen(self, answer: LeaderAnswer, now: Now) -> None:
        """For those who look."""
        diverging = answer.diverging_epoch
        self._context.watch.see(
            self._replica.name,
            now,
            "answer_received",
            leader=self.leader,
            bytes=len(answer.records or NOTHING),
            high_watermark=answer.high_watermark,
            error=int(answer.error),
            diverging=None if diverging is None else list(diverging),
        )

    def _caught_up(self) -> None:
        self._is_caught_up = True
        self._context.announce(
            FollowerCaughtUp(
                partition=self._replica.name,
                leader=self.leader,
                leader_epoch=self.leader_epoch,
                end_offset=self._replica.log.end_offset,
                cause="the leader has nothing more to send",
            )
        )

    # -- reconciliation ------------------------------------------------------------------------

    def _reconcile(
        self, leaders_epoch: int, leaders_end: int, leaders_start: int, now: Now
    ) -> FollowerStep:
        """Cut where the leader's log parts from this one.

        Where that is the very start of the leader's log, nothing is left there to compare with:
        the two may have parted further below, even within a batch, so this log begins anew.
        """
        log = self._replica.log
        if log.start_offset < leaders_end == leaders_start:
            return self._begin_anew_at_start_of_leader(leaders_start, now) or CUT
        point = truncation_point(log.epochs, log.end_offset, leaders_epoch, leaders_end)
        why = f"epoch {leaders_epoch} ends at {leaders_end} in the log of leader {self.leader}"
        return self._truncate_to(point, why, now) or CUT

    def _begin_anew_at_start_of_leader(self, leaders_start: int, now: Now) -> MustLower | None:
        """The leader has deleted all that this log could share with it."""
        why = f"the log of leader {self.leader} begins only at {leaders_start}"
        return self._begin_anew_at(leaders_start, why, now)

    def _begin_anew_at(self, offset: int, cause: str, now: Now) -> MustLower | None:
        """Give everything up, or say what must come before that."""
        log = self._replica.log
        lowering = log.lowering_for_new_start(offset)
        if lowering is not None:
            return MustLower(lowering)
        end = log.end_offset
        log.truncate_fully_and_start_at(offset, now)
        self._was_cut(end, cause, now)
        return None

    def _truncate_to(self, offset: int, cause: str, now: Now) -> MustLower | None:
        """Cut the log; even with nothing to cut, epochs go in which nothing was written.

        A log that is to give up what was committed, down to its start, parted from the leader's in
        an unclean election, and perhaps further below: what it still holds there is of no use.
        """
        log = self._replica.log
        before = log.end_offset
        start, committed = log.start_offset, self._replica.high_watermark.offset
        if offset < start or offset == start < committed:
            return self._begin_anew_at(offset, cause, now)
        lowering = log.lowering_for_cut(offset)
        if lowering is not None:
            return MustLower(lowering)
        if log.truncate_to(offset, now):
            self._was_cut(before, cause, now)
        return None

    def _was_cut(self, end_before: int, cause: str, now: Now) -> None:
        replica, context = self._replica, self._context
        replica.truncated()
        end = replica.log.end_offset
        context.counters.truncations += 1
        context.counters.truncated_records += max(0, end_before - end)
        context.watch.see(
            replica.name, now, "truncated", log_end_offset_before=end_before, log_end_offset=end
        )
        self._context.announce(
            LogTruncated(
                partition=replica.name,
                end_offset_before=end_before,
                end_offset=end,
                cause=cause,
            )
        )
        replica.watchers.everything_moved()

    def offsets_told(self, leader: LeaderOffsets, now: Now) -> FollowerStep:
        """The leader has no records at our end: go back to its end, or begin at its start."""
        if not self._is_current(leader.sent):
            return Dropped()
        end = self._replica.log.end_offset
        try:
            if leader.end_offset < end:
                why = f"the log of leader {self.leader} ends at {leader.end_offset}"
                return self._truncate_to(leader.end_offset, why, now) or CUT
            if leader.start_offset > end:
                return self._begin_anew_at_start_of_leader(leader.start_offset, now) or CUT
        except DiskError as error:
            return self._fail(str(error))
        return self._back_off("the leader has our offset and yet refused it")

    # -- refusals ------------------------------------------------------------------------------

    def _refused(self, error: int) -> FollowerStep:
        if error == ErrorCode.offset_out_of_range:
            return NeedsOffsets()
        if error == ErrorCode.fenced_leader_epoch:
            return self._fail(f"leader {self.leader} knows a later epoch than {self.leader_epoch}")
        why = f"leader {self.leader} answered with error {error}"
        if error not in LEADER_IS_LATE:
            return self._back_off(why)
        pause_ms = min(self._late_pause_ms, self._context.fetch_backoff_ms)
        self._late_pause_ms *= 2
        return BackOff(pause_ms, why)

    def _back_off(self, why: str) -> BackOff:
        return BackOff(self._context.fetch_backoff_ms, why)

    def _fail(self, why: str) -> Failed:
        self.failed_because = why
        return Failed(why)


def tells_high_watermark(answer: LeaderAnswer) -> bool:
    """Whether high watermark and log start of an answer are about the log that was asked for."""
    return answer.diverging_epoch is None
