"""Random histories of three replicas: whatever happens in whatever order, the laws hold.

Brokers may know old metadata, messages may be late or lost, processes die, power fails (for fewer
replicas at a time than must be in sync), the controller fences, elects and takes proposals. When
the faults stop, the replicas must agree again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from tests.replication.cluster import LAG_MAX_MS, Broker, Cluster, Question, leader_of
from tests.replication.laws import Laws, content_of
from tests.tiers import examples

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER
from tidelog.records.validation import RejectedBatch
from tidelog.replication.leader import LeaderReplica
from tidelog.replication.messages import (
    AlterPartitionOutcome,
    LeaderAnswer,
    ProposalFate,
    ProposeInSyncReplicas,
)
from tidelog.replication.partition import Partition
from tidelog.simulator.disk.crash import data_kept, data_torn_at

MIN_IN_SYNC = 2
BROKERS = (100, 101, 102)
a_broker = st.sampled_from(BROKERS)
some_brokers = st.one_of(st.just(BROKERS), st.sets(a_broker).map(sorted))


class Heard(NamedTuple):
    """An answer on its way to the process that asked."""

    partition: Partition
    follower: int
    answer: LeaderAnswer


class Decided(NamedTuple):
    """An answer of the controller on its way to the process that proposed."""

    partition: Partition
    leader: int
    proposal: ProposeInSyncReplicas
    outcome: AlterPartitionOutcome


class Histories(RuleBasedStateMachine):
    @initialize(segment_bytes=st.sampled_from([1 << 30, 400]))
    def begin(self, segment_bytes: int) -> None:
        self.cluster = Cluster(*BROKERS, min_in_sync=MIN_IN_SYNC, segment_bytes=segment_bytes)
        self.laws = Laws(self.cluster, MIN_IN_SYNC)
        self.questions: list[tuple[Partition, Question]] = []
        self.answers: list[Heard] = []
        self.decisions: list[Decided] = []
        self.registered_at = dict.fromkeys(BROKERS, 0)
        self.written = 0
        self.acked = 0
        self.cluster.lead(101)

    # Helpers

    def leading(self, broker_id: int) -> bool:
        broker = self.cluster[broker_id]
        return broker.is_running and broker.partition.is_leader

    def may_fetch(self, broker: Broker) -> bool:
        if not broker.is_running or broker.partition.following is None:
            return False
        self.cluster.disk_settles(broker.broker_id)
        return broker.partition.following.may_fetch

    @property
    def lossy(self) -> set[int]:
        return self.cluster.controller.lossy

    # Producing

    @rule(broker_id=a_broker, records=st.integers(1, 3), acks=st.sampled_from([1, -1]))
    def append(self, broker_id: int, records: int, acks: int) -> None:
        if not self.leading(broker_id):
            return
        values = [f"{self.written + n}".encode() for n in range(records)]
        self.written += records
        partition = self.cluster[broker_id].partition
        appended = self.cluster.produce(broker_id, *values, acks=acks)
        if isinstance(appended, RejectedBatch):
            assert appended.refusal.code is ErrorCode.not_enough_replicas
            assert partition.leading is not None
            assert len(partition.leading.in_sync.committed) < MIN_IN_SYNC
            return
        if acks == -1:
            end, leader = appended.last_offset + 1, leader_of(partition)
            assert leader.acknowledgement(end) is None
            leader.wait_for(end, lambda code: self.answered(partition, leader, end, code))

    def answered(
        self, partition: Partition, leader: LeaderReplica, end: int, code: ErrorCode
    ) -> None:
        if code is ErrorCode.none:
            assert partition.leading is leader, "D12"
            assert leader.epoch == partition.leader_epoch, "D12"
            assert partition.high_watermark.offset >= end, "D12"
            assert len(leader.in_sync.maximal) >= MIN_IN_SYNC, "D12"
            self.acked += 1
        else:
            assert code is ErrorCode.not_leader_or_follower

    # Fetching

    @rule(broker_id=a_broker)
    def ask(self, broker_id: int) -> None:
        broker = self.cluster[broker_id]
        if self.may_fetch(broker) and all(p is not broker.partition for p, _ in self.questions):
            self.questions.append((broker.partition, self.cluster.ask(broker_id)))

    @precondition(lambda self: self.questions)
    @rule(data=st.data())
    def serve(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(self.questions) - 1))
        self.serve_one(*self.questions.pop(at))

    def serve_one(self, partition: Partition, asked: Question) -> None:
        if self.cluster[asked.leader].is_running:
            answer = self.cluster.serve(asked)
            if not answer.error and answer.diverging_epoch is None:
                self.laws.served(asked)
            self.answers.append(Heard(partition, asked.sender, answer))

    @precondition(lambda self: self.answers)
    @rule(data=st.data(), lost=st.sampled_from([False, False, False, True]))
    def hear(self, data: st.DataObject, lost: bool) -> None:
        heard = self.answers.pop(data.draw(st.integers(0, len(self.answers) - 1)))
        if not lost:
            self.hear_one(heard)

    def hear_one(self, heard: Heard) -> None:
        if self.cluster[heard.follower].partition is heard.partition:
            self.cluster.hear(heard.follower, heard.answer)

    @rule(followers=st.lists(a_broker, min_size=1, max_size=8))
    def fetches(self, followers: list[int]) -> None:
        """Whole round trips, so that histories get somewhere."""
        for broker_id in followers:
            self.fetch(broker_id)
            self.laws_hold()

    def fetch(self, broker_id: int) -> None:
        if self.may_fetch(self.cluster[broker_id]):
            asked = self.cluster.ask(broker_id)
            self.serve_one(self.cluster[broker_id].partition, asked)
            if self.answers and self.answers[-1].follower == broker_id:
                self.hear_one(self.answers.pop())

    # Metadata

    @rule(who=some_brokers, everything=st.booleans())
    def learn(self, who: Iterable[int], everything: bool = True) -> None:
        newest = len(self.cluster.controller.history)
        for broker_id in who:
            broker = self.cluster[broker_id]
            if broker.is_running and broker.known < newest:
                self.cluster.tell_up_to(broker_id, newest if everything else broker.known + 1)

    @rule(broker_id=a_broker, who=some_brokers)
    def fence(self, broker_id: int, who: Iterable[int]) -> None:
        if self.cluster.controller.standing(broker_id).is_live:
            self.cluster.controller.fence(broker_id)
            self.learn(who)

    @rule(broker_id=a_broker, who=some_brokers)
    def unfence(self, broker_id: int, who: Iterable[int]) -> None:
        controller, broker = self.cluster.controller, self.cluster[broker_id]
        if (
            broker.is_running
            and not controller.standing(broker_id).is_live
            and broker.known >= self.registered_at[broker_id]
        ):
            controller.unfence(broker_id)
            self.learn(who)

    @rule(broker_id=a_broker, who=some_brokers)
    def move_leader(self, broker_id: int, who: Iterable[int]) -> None:
        controller = self.cluster.controller
        leadership = controller.leadership
        if broker_id in leadership.in_sync and controller.standing(broker_id).is_live:
            controller.lead(broker_id)
            self.learn(who)

    # Proposals

    @precondition(lambda self: any(broker.proposals for broker in self.cluster.brokers.values()))
    @rule(who=some_brokers, heard=st.booleans())
    def decide_all(self, who: Iterable[int], heard: bool) -> None:
        for broker_id in BROKERS:
            self.decide(broker_id)
        if heard:
            self.hear_all_decided()
        self.learn(who)

    def hear_all_decided(self) -> None:
        while self.decisions:
            self.hear_decided(self.decisions.pop(), False)
            self.laws_hold()

    def decide(self, broker_id: int) -> None:
        broker = self.cluster[broker_id]
        if broker.is_running and broker.proposals:
            proposal = broker.proposals.pop(0)
            outcome = self.cluster.controller.decide(broker_id, proposal)
            self.decisions.append(Decided(broker.partition, broker_id, proposal, outcome))

    @precondition(lambda self: self.decisions)
    @rule(data=st.data(), lost=st.sampled_from([False, False, True]))
    def hear_decision(self, data: st.DataObject, lost: bool) -> None:
        decided = self.decisions.pop(data.draw(st.integers(0, len(self.decisions) - 1)))
        self.hear_decided(decided, lost)

    def hear_decided(self, decided: Decided, lost: bool) -> None:
        broker = self.cluster[decided.leader]
        if broker.partition is not decided.partition or not broker.is_running:
            return
        if lost:
            broker.proposals.append(decided.proposal)
            return
        fate = broker.proposer_of(decided.proposal).proposal_answered(
            decided.proposal, decided.outcome, self.cluster.now
        )
        if fate is ProposalFate.RETRY:
            broker.proposals.append(decided.proposal)

    # Time, crashes, power

    @rule(milliseconds=st.sampled_from([100, LAG_MAX_MS // 2, LAG_MAX_MS + 1]), look=st.booleans())
    def pass_time(self, milliseconds: int, look: bool) -> None:
        self.cluster.pass_ms(milliseconds)
        if look:
            for broker in self.cluster.brokers.values():
                if broker.is_running and broker.partition.is_leader:
                    broker.leader.shrink_if_due(self.cluster.now)

    @rule(broker_id=a_broker)
    def sync(self, broker_id: int) -> None:
        if self.cluster[broker_id].is_running:
            self.cluster[broker_id].log.sync()

    @rule(broker_id=a_broker, power=st.booleans(), survives=st.sampled_from([0, 100, 1000]))
    def crash(self, broker_id: int, power: bool, survives: int) -> None:
        broker = self.cluster[broker_id]
        if not broker.is_running:
            return
        power = power and len(self.lossy | {broker_id}) < MIN_IN_SYNC
        if power:
            self.lossy.add(broker_id)
        broker.crash(data_torn_at(survives) if power else data_kept)

    @rule(broker_id=a_broker, forgets_high_watermark=st.booleans(), knows_end=st.booleans())
    def restart(self, broker_id: int, forgets_high_watermark: bool, knows_end: bool) -> None:
        broker = self.cluster[broker_id]
        if not broker.is_running:
            self.laws.restarted(broker_id)
            high_watermark = 0 if forgets_high_watermark else broker.high_watermark
            broker.start(high_watermark, self.cluster.now)
            clean = knows_end and broker_id not in self.lossy
            broker.broker_epoch = self.cluster.controller.register(broker_id, clean=clean)
            self.registered_at[broker_id] = len(self.cluster.controller.history)
            self.cluster.tell_up_to(broker_id, self.registered_at[broker_id])

    # Laws

    @invariant()
    def laws_hold(self) -> None:
        if not hasattr(self, "laws"):
            return
        self.laws.check()
        for broker_id in self.cluster.controller.leadership.in_sync:
            if self.cluster[broker_id].is_running:
                self.lossy.discard(broker_id)

    def teardown(self) -> None:
        """Faults stop: if anybody can lead, all replicas come to hold the same."""
        if not hasattr(self, "laws"):
            return
        for broker_id in BROKERS:
            self.restart(broker_id, True, True)
            self.cluster.tell()
            self.laws_hold()
            self.unfence(broker_id, BROKERS)
            self.laws_hold()
        for _ in range(40):
            self.cluster.tell()
            for broker_id in BROKERS:
                self.fetch(broker_id)
                self.laws_hold()
                self.decide(broker_id)
                self.hear_all_decided()
        self.cluster.tell()
        if self.cluster.controller.leadership.leader == NO_LEADER:
            return
        assert self.cluster.controller.leadership.in_sync == BROKERS, "L7"
        first, *others = (content_of(broker) for broker in self.cluster.brokers.values())
        assert all(other == first for other in others), "L7"
        ends = {broker.log.end_offset for broker in self.cluster.brokers.values()}
        high_watermarks = {broker.high_watermark for broker in self.cluster.brokers.values()}
        assert len(ends) == 1 and high_watermarks == ends, "L7"


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=examples(60),
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
