"""What must hold after every step of a history, written against logs and metadata alone.

The numbers are those of the invariants: D1 leader completeness, D2 candidate completeness, D3 log
matching, D4 epoch matching, D5 bounds, D6 how the high watermark rises, D14 and D15 divergence, D16
nothing committed is cut, D17 what an append looks like, D18 the epoch cache.
"""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import TypeAlias

from tests.replication.cluster import Broker, Cluster, Question

from tidelog.replication.leader import LeaderReplica

Content: TypeAlias = dict[int, tuple[int, bytes]]
"""By offset: the epoch and the bytes of the batch it is in."""


class Laws:
    """Remembers what was promised, and compares."""

    def __init__(self, cluster: Cluster, min_in_sync: int) -> None:
        self._cluster = cluster
        self._min_in_sync = min_in_sync
        self.committed: Content = {}
        """Everything that was ever below the high watermark of a leader."""
        self._contents: dict[int, Content] = {}
        self._high_watermarks: dict[int, tuple[LeaderReplica, int]] = {}
        self._fetched: dict[tuple[LeaderReplica, int], int] = {}
        """How far a follower has come by the fetches a leader has served it in its epoch."""

    @property
    def true_high_watermark(self) -> int:
        return max(self.committed, default=-1) + 1

    # While something happens

    def served(self, asked: Question) -> None:
        """A leader answered a fetch without divergence: both logs agree below it (D14)."""
        leader = self._cluster[asked.leader].partition.leading
        assert leader is not None
        offset = asked.state.fetch_offset
        key = (leader, asked.sender)
        self._fetched[key] = max(offset, self._fetched.get(key, -1))
        follower = self._cluster[asked.sender]
        role = follower.partition.following
        if follower.is_running and role is not None and role.fetch_state == asked.state:
            theirs, ours = content_of(follower), content_of(self._cluster[asked.leader])
            assert theirs == {at: ours[at] for at in theirs}, "D14"

    # After each step

    def check(self) -> None:
        before, self._contents = self._contents, {}
        for broker in self._cluster.brokers.values():
            if broker.is_running:
                content = self._contents[broker.broker_id] = content_of(broker)
                self._check_alone(broker, content)
                self._check_nothing_committed_was_cut(before.get(broker.broker_id, {}), content)
        for broker in self._cluster.brokers.values():
            if broker.is_running and broker.partition.leading is not None:
                self._check_high_watermark(broker, broker.partition.leading)
        for one, other in combinations(sorted(self._contents), 2):
            self._check_pair(one, other)
        self._check_candidates()

    def restarted(self, broker_id: int) -> None:
        """A broker lost what it lost: that is no cut."""
        self._contents.pop(broker_id, None)

    def _check_alone(self, broker: Broker, content: Content) -> None:
        partition, log = broker.partition, broker.log
        assert (
            log.start_offset
            <= partition.last_stable_offset
            <= broker.high_watermark
            <= log.end_offset
        ), "D5"
        assert list(content) == list(range(log.start_offset, log.end_offset)), "D17"
        epochs = [epoch for epoch, _ in content.values()]
        assert epochs == sorted(epochs), "D17"
        entries = [tuple(entry) for entry in log.epochs.entries]
        assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(entries)), "D18"
        told = [
            (epoch, offset)
            for offset, (epoch, _) in content.items()
            if offset == log.start_offset or content[offset - 1][0] != epoch
        ]
        if entries[len(told) :]:
            [(epoch, start)] = entries[len(told) :]
            assert start == log.end_offset, "D18"
            assert epoch <= partition.leader_epoch, "D18"
        assert entries[: len(told)] == told, "D18"

    def _check_nothing_committed_was_cut(self, before: Content, after: Content) -> None:
        for offset, record in before.items():
            if offset not in after:
                assert self.committed.get(offset) != record, f"D16: {offset} was cut"

    def _check_high_watermark(self, broker: Broker, leader: LeaderReplica) -> None:
        content, high_watermark = self._contents[broker.broker_id], broker.high_watermark
        known = self._high_watermarks.get(broker.broker_id)
        if known is not None and known[0] is leader:
            assert high_watermark >= known[1], "D7"
            if high_watermark > known[1]:
                self._check_rise(broker, leader, high_watermark)
        self._high_watermarks[broker.broker_id] = (leader, high_watermark)
        for offset in range(broker.log.start_offset, high_watermark):
            record = content[offset]
            assert self.committed.setdefault(offset, record) == record, f"D1 or D3 at {offset}"

    def _check_rise(self, broker: Broker, leader: LeaderReplica, high_watermark: int) -> None:
        members = set(leader.in_sync.committed)
        assert len(members) >= self._min_in_sync, "D6"
        if leader.in_sync.pending is not None:
            members |= set(leader.in_sync.pending.ids)
        for member in members - {broker.broker_id}:
            assert self._fetched.get((leader, member), -1) >= high_watermark, f"D6: {member}"

    def _check_pair(self, one: int, other: int) -> None:
        left, right = self._contents[one], self._contents[other]
        shared = sorted(left.keys() & right.keys())
        below = min(self._cluster[one].high_watermark, self._cluster[other].high_watermark)
        agreed = [at for at in shared if left[at][0] == right[at][0]]
        last = max(below - 1, agreed[-1] if agreed else -1)
        for offset in shared:
            if offset <= last:
                assert left[offset] == right[offset], f"D3 or D4 at {offset}: {one} and {other}"

    def _check_candidates(self) -> None:
        cluster, true_high_watermark = self._cluster, self.true_high_watermark
        metadata = cluster.controller.now
        leadership = metadata.leadership
        for broker_id in {*leadership.in_sync, *metadata.eligible}:
            broker = cluster[broker_id]
            if broker.is_running and broker.broker_epoch == cluster.epoch_of(broker_id):
                content = self._contents[broker_id]
                for offset in range(broker.log.start_offset, true_high_watermark):
                    assert content.get(offset) == self.committed[offset], f"D2: {broker_id}"
        leader = cluster.brokers.get(leadership.leader)
        if leader is None or not leader.is_running:
            return
        role = leader.partition.leading
        if role is not None and role.epoch == leadership.leader_epoch:
            content = self._contents[leader.broker_id]
            for offset in range(leader.log.start_offset, true_high_watermark):
                assert content.get(offset) == self.committed[offset], f"D1: {leader.broker_id}"
            assert set(leadership.in_sync) <= role.in_sync.maximal, "the maximal set is maximal"


def content_of(broker: Broker) -> Content:
    return {
        offset: (batch.header.leader_epoch, batch.data)
        for batch in broker.batches()
        for offset in range(batch.header.base_offset, batch.header.next_offset)
    }
