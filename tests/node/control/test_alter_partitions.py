"""Proposals on their way to the controller: batched, repeated, settled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.node.replicated_bench import Follower, ReplicatedBench

from tidelog.controller.alter_partition import AlteredPartition, AlteredTopics, IsrProposal
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.time import Now
from tidelog.node.control.calls.alter_partition import Proposals
from tidelog.node.control.controller_channel import ControllerChannel
from tidelog.replication.leader import LeaderReplica

if TYPE_CHECKING:
    from tests.node.conftest import NewBatch

RETRY_MS = 50


class Sent(NamedTuple):
    topics: Proposals
    then: Callable[[AlteredTopics | Refusal, Now], None]

    @property
    def proposals(self) -> dict[int, IsrProposal]:
        return {each.partition: each for _, proposals in self.topics for each in proposals}


class Controller(ControllerChannel):
    """Stands in for the channel to the controller, and answers when the test says so."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []

    def alter_partitions(
        self,
        now: Now,
        proposals: Proposals,
        then: Callable[[AlteredTopics | Refusal, Now], None],
    ) -> None:
        self.sent.append(Sent(proposals, then))


class Leading:
    """Two partitions led by the node, with 101 out of sync but about to catch up."""

    def __init__(self) -> None:
        self.bench = ReplicatedBench({})
        self.bench.start()
        self.bench.register(101)
        self.topic_id = self.bench.place_topic("orders", [100, 101], [100, 101])
        self.bench.beat(101, want_fence=True)
        self.bench.beat(101)
        self.follower = Follower(self.bench, 101, self.topic_id)
        self.controller = Controller()
        self.bench.node.rooms.control.alter_partitions._control = self.controller

    def take(self) -> Sent:
        [sent] = self.controller.sent
        self.controller.sent.clear()
        return sent

    def leader(self, index: int = 0) -> LeaderReplica:
        leader = self.bench.partition("orders", index).leading
        assert leader is not None
        return leader

    def answer(self, sent: Sent, outcome: Refusal | dict[int, AlteredPartition | Refusal]) -> None:
        told: AlteredTopics | Refusal
        told = outcome if isinstance(outcome, Refusal) else [(self.topic_id, [*outcome.items()])]
        sent.then(told, self.bench.now)
        self.bench.end_tick()

    def accepted(self, proposal: IsrProposal) -> AlteredPartition:
        isr = tuple(member.broker_id for member in proposal.isr)
        return AlteredPartition(
            100, proposal.leader_epoch, proposal.partition_epoch + 1, isr, proposal.recovery_state
        )


@pytest.fixture
def leading() -> Leading:
    return Leading()


def test_proposals_of_one_tick_leave_in_one_request(leading: Leading) -> None:
    leading.follower.send({0: 0, 1: 0}, max_wait_ms=0)
    sent = leading.take()
    assert sorted(sent.proposals) == [0, 1]
    epochs = leading.bench.epochs
    own = leading.bench.node.cluster.broker_epoch
    assert [tuple(member) for member in sent.proposals[0].isr] == [
        (100, own),
        (101, epochs[101]),
    ]


def test_what_is_proposed_meanwhile_leaves_with_the_next_request(leading: Leading) -> None:
    leading.follower.fetch(0, index=0)
    first = leading.take()
    leading.follower.fetch(0, index=1)
    assert leading.controller.sent == []
    leading.answer(first, {0: leading.accepted(first.proposals[0])})
    assert list(leading.take().proposals) == [1]
    assert leading.leader().in_sync.committed == {100, 101}


def test_a_leader_in_a_failed_directory_lets_nobody_go(batch: NewBatch) -> None:
    """Nobody could have fetched from it: they are not late, it is."""
    bench = ReplicatedBench({"log.dirs": "/data,/more"})
    bench.start()
    bench.register(101)
    bench.place_topic("orders", [100, 101], [100, 101])
    first, second = (bench.partition("orders", index) for index in range(2))
    assert first.log.health is not second.log.health
    leaders = first.leading, second.leading
    for leader in leaders:
        assert leader is not None
        leader.append(memoryview(bytearray(batch())), bench.now, 9)
    late = Now(bench.now.monotonic_ms + 30_001, bench.now.wall_ms)
    second.log.health.fail("Input/output error")

    bench.node.rooms.replicas.housekeeping._shrink_in_sync(late)

    assert [leader and leader.in_sync.pending is not None for leader in leaders] == [True, False]


def test_a_request_that_failed_is_sent_again_after_a_pause(leading: Leading) -> None:
    leading.follower.fetch(0)
    first = leading.take()
    leading.answer(first, Refusal(ErrorCode.not_controller, "moved"))
    leading.bench.wait(RETRY_MS - 1)
    assert leading.controller.sent == []
    leading.bench.wait(1)
    assert leading.take().proposals == first.proposals


def test_a_proposal_without_an_outcome_is_sent_again(leading: Leading) -> None:
    leading.follower.send({0: 0, 1: 0}, max_wait_ms=0)
    sent = leading.take()
    leading.answer(sent, {0: leading.accepted(sent.proposals[0])})
    leading.bench.wait(RETRY_MS)
    assert list(leading.take().proposals) == [1]


def test_an_outcome_nobody_asked_for_is_ignored(leading: Leading) -> None:
    leading.follower.fetch(0)
    sent = leading.take()
    accepted = leading.accepted(sent.proposals[0])
    leading.answer(sent, {0: accepted, 7: accepted})
    assert leading.leader().in_sync.committed == {100, 101}


def test_a_proposal_that_was_refused_for_good_is_given_up(leading: Leading) -> None:
    leading.follower.fetch(0)
    refusal = Refusal(ErrorCode.ineligible_replica, "fenced")
    leading.answer(leading.take(), {0: refusal})
    assert leading.leader().in_sync.pending is None
    leading.bench.wait(1000)
    assert leading.controller.sent == []


def test_a_proposal_that_may_have_been_taken_waits_for_the_metadata(leading: Leading) -> None:
    leading.follower.fetch(0)
    refusal = Refusal(ErrorCode.invalid_update_version, "old")
    leading.answer(leading.take(), {0: refusal})
    leading.bench.wait(1000)
    assert leading.controller.sent == []
    assert leading.leader().in_sync.pending is not None


def test_a_proposal_refused_for_now_is_sent_again(leading: Leading) -> None:
    leading.follower.fetch(0)
    sent = leading.take()
    leading.answer(sent, {0: Refusal(ErrorCode.unknown_server_error, "what")})
    leading.bench.wait(RETRY_MS)
    assert leading.take().proposals == sent.proposals


def test_a_proposal_of_an_epoch_that_ended_is_not_sent_again(leading: Leading) -> None:
    leading.follower.fetch(0)
    sent = leading.take()
    partition = leading.bench.partition("orders")
    now = partition.leadership
    later = now._replace(leader_epoch=5, partition_epoch=now.partition_epoch + 1)
    partition.apply(later, leading.bench.now)
    leading.answer(sent, Refusal(ErrorCode.request_timed_out, "lost"))
    leading.bench.wait(1000)
    assert leading.controller.sent == []


def test_an_answer_to_an_epoch_that_ended_changes_nothing(leading: Leading) -> None:
    leading.follower.fetch(0)
    sent = leading.take()
    partition = leading.bench.partition("orders")
    now = partition.leadership
    later = now._replace(leader_epoch=5, partition_epoch=now.partition_epoch + 1)
    partition.apply(later, leading.bench.now)
    leading.answer(sent, {0: leading.accepted(sent.proposals[0])})
    assert leading.leader().in_sync.committed == {100}
