"""What no voter may know and the search does: all leaders, the votes, everything ever committed;
and what must hold of them after every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tests.quorum.exploration.seen import Log, Seen

from tidelog.quorum.messages import Vote

NO_VOTE: Final = (0, 0)


class RuleBroken(Exception):
    """Something happened that must never happen."""


def require(holds: bool, what: str) -> None:
    if not holds:
        raise RuleBroken(what)


class Ghost(NamedTuple):
    """The past, as far as it can still be contradicted."""

    leaders: tuple[tuple[int, int], ...]
    """Epoch and leader, for every epoch that had one."""
    votes: tuple[tuple[int, int], ...]
    """Of each voter the latest epoch it voted in and for whom; it never returns to earlier ones."""
    committed: Log
    """The longest log that was ever committed."""
    committed_in: tuple[int, ...]
    """In which epoch each batch of it was."""

    def after(
        self, world: Sequence[Seen], before: Seen, after: Seen, vote: Vote | None, fresh: bool
    ) -> Ghost:
        """One of the voters in `world` became `after`; `fresh` when its process is a new one."""
        if before is after and vote is None:
            return self
        require(after.epoch >= before.epoch, "an epoch fell (C2)")
        require(
            fresh or after.high_watermark >= before.high_watermark, "a high watermark fell (C7)"
        )
        ghost = self
        if vote is not None:
            require(
                (vote.last_epoch, vote.end_offset) >= before.log_end,
                f"{after.node_id} voted for {vote.candidate.id}, whose log is behind (C3)",
            )
            ghost = ghost._voted(after.node_id, vote.epoch, vote.candidate.id)
        if after.role == "candidate":
            ghost = ghost._voted(after.node_id, after.epoch, after.node_id)
        if after.role in ("leader", "follower"):
            ghost = ghost._led(after, before)
        if after.log is not before.log and after.log != before.log:
            _require_matching_logs(world, after)
        if after.high_watermark > before.high_watermark:
            ghost = ghost._committed_more(world, after)
        return ghost

    def _voted(self, voter: int, epoch: int, candidate: int) -> Ghost:
        voted_in, voted_for = self.votes[voter - 1]
        require(
            epoch > voted_in or (epoch, candidate) == (voted_in, voted_for),
            f"{voter} voted for {voted_for} and {candidate} in epoch {epoch} (C2)",
        )
        votes = *self.votes[: voter - 1], (epoch, candidate), *self.votes[voter:]
        return self._replace(votes=votes)

    def _led(self, after: Seen, before: Seen) -> Ghost:
        known = dict(self.leaders).get(after.epoch)
        if after.role == "follower":
            require(known == after.leader_id, f"{after.leader_id} was never elected (C1)")
            return self
        require(known in (None, after.node_id), f"epoch {after.epoch} has two leaders (C1)")
        if (before.role, before.epoch) == ("leader", after.epoch):
            return self
        require(known is None, f"{after.node_id} leads epoch {after.epoch} again")
        earlier = sum(epoch < after.epoch for epoch in self.committed_in)
        require(
            after.log[:earlier] == self.committed[:earlier],
            f"{after.node_id} leads without everything that was committed (C7)",
        )
        return self._replace(leaders=tuple(sorted((*self.leaders, (after.epoch, after.node_id)))))

    def _committed_more(self, world: Sequence[Seen], after: Seen) -> Ghost:
        mark = after.high_watermark
        below = tuple(entry for entry in after.log if entry.next_offset <= mark)
        require(bool(below) and below[-1].next_offset == mark, "a mark stands inside a batch")
        shared = min(len(below), len(self.committed))
        require(below[:shared] == self.committed[:shared], "what was committed is replaced (C7)")
        if after.role == "leader":
            require(below[-1].epoch == after.epoch, "committed without an own record (C4)")
            holding = [
                each.node_id
                for each in world
                if each.node_id in after.voter_ids
                and each.lasting_end >= mark
                and each.log[: len(below)] == below
            ]
            require(
                len(holding) > len(after.voter_ids) // 2,
                f"{mark} is committed and only {holding} of {after.voter_ids} have it (C5)",
            )
        fresh = len(below) - len(self.committed)
        if fresh <= 0:
            return self
        require(after.role == "leader", "a follower knows more than any leader (C7)")
        committed_in = *self.committed_in, *[after.epoch] * fresh
        return self._replace(committed=below, committed_in=committed_in)


def _require_matching_logs(world: Sequence[Seen], changed: Seen) -> None:
    """Where two logs hold batches of the same place and epoch, they are equal up to there."""
    for other in world:
        if other.node_id == changed.node_id:
            continue
        pairs = zip(changed.log, other.log, strict=False)
        equal = [mine == its for mine, its in pairs]
        theirs = {(entry.offset, entry.epoch): place for place, entry in enumerate(other.log)}
        for place, entry in enumerate(changed.log):
            at = theirs.get((entry.offset, entry.epoch))
            require(
                at is None or (at == place and all(equal[: place + 1])),
                f"the logs of {changed.node_id} and {other.node_id} do not match",
            )


def first_ghost(world: Sequence[Seen]) -> Ghost:
    """The past of a world in which all is well: what can be told from looking at it."""
    leaders = {each.epoch: each.leader_id for each in world if each.role == "leader"}
    votes = tuple(
        (each.stored.epoch, each.stored.voted_id) if each.stored.voted_id > 0 else NO_VOTE
        for each in world
    )
    committed: Log = ()
    for each in world:
        below = tuple(entry for entry in each.log if entry.next_offset <= each.high_watermark)
        committed = max(committed, below, key=len)
    committed_in = tuple(entry.epoch for entry in committed)
    return Ghost(tuple(sorted(leaders.items())), votes, committed, committed_in)
