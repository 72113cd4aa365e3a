"""Small clusters live through whatever hypothesis thinks of; no decision may break a promise.

The machine keeps what no controller can know: which replicas hold every committed record. After
each record of each decision it checks that leaders and in-sync sets were changed lawfully, and
after each decision that everyone who counts as complete is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.controller.leadership_laws import MIN_ISR, UNCLEAN, Laws, Request, minimum

from tidelog.controller.alter_partition import AlteredPartition, InSyncMember, IsrProposal
from tidelog.controller.configs import ConfigChange, ConfigOp, ResourceChange
from tidelog.controller.decision import Decision
from tidelog.controller.image import ClusterImage
from tidelog.controller.partition_image import PartitionImage, TopicIdPartition
from tidelog.controller.topics import CreatedTopic, NewTopic
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import ZERO_UUID

if TYPE_CHECKING:
    from tests.controller.conftest import Cluster, NewCluster

BROKERS = (100, 101, 102, 103, 104)
TOPICS = ("orders", "others", "third")

brokers = st.sampled_from(BROKERS)
broker_sets = st.lists(brokers, min_size=1, max_size=4, unique=True).map(tuple)
numbers = st.integers(0, 999)


class CaughtUp(NamedTuple):
    """A follower as its leader saw it when it had everything."""

    broker_epoch: int
    leader_epoch: int
    partition_epoch: int


def has_partitions(history: LeadershipHistory) -> bool:
    return bool(history.partitions())


class LeadershipHistory(RuleBasedStateMachine):
    """A cluster, its processes, and what they really hold."""

    def __init__(self, new_cluster: NewCluster) -> None:
        super().__init__()
        self._new_cluster = new_cluster
        self.running: dict[int, int] = {}
        self.stopped_cleanly: dict[int, int] = {}
        self.caught_up: dict[tuple[TopicIdPartition, int], CaughtUp] = {}
        self.epochs_given = 0

    @initialize(elr=st.booleans(), minimum=st.integers(1, 3), alive=st.integers(3, 5))
    def begin(self, elr: bool, minimum: int, alive: int) -> None:
        self.cluster: Cluster = self._new_cluster(elr=elr, min_insync_replicas=str(minimum))
        self.laws = Laws(elr, self.running)
        self.cluster.watch = self.judge
        for broker_id in BROKERS[:alive]:
            self.start(broker_id, loses=False)
            self.beat(broker_id, lags=False)

    # -- what is asked for ---------------------------------------------------------------------

    def partitions(self) -> list[tuple[str, TopicIdPartition, PartitionImage]]:
        return [
            (name, TopicIdPartition(topic.topic_id, index), partition)
            for name, topic in sorted(self.cluster.image.topics_by_name.items())
            for index, partition in sorted(topic.partitions.items())
        ]

    def pick(self, number: int) -> tuple[str, TopicIdPartition, PartitionImage]:
        found = self.partitions()
        return found[number % len(found)]

    def ask(self, kind: str, isr: tuple[int, ...] = ()) -> None:
        self.laws.asked = Request(kind, isr)

    def judge(self, image: ClusterImage, decision: Decision[Any]) -> None:
        self.laws.check_decision(image, decision, self.cluster.next_offset)

    @rule(name=st.sampled_from(TOPICS), replicas=st.lists(broker_sets, min_size=1, max_size=2))
    def create(self, name: str, replicas: list[tuple[int, ...]]) -> None:
        self.ask("create")
        wish = NewTopic(name, assignments=tuple(enumerate(replicas)))
        [(_, created)] = self.cluster.do(self.cluster.controller.create_topics([wish]))
        if isinstance(created, CreatedTopic):
            for index, partition in self.cluster.image.topics_by_name[name].partitions.items():
                key = TopicIdPartition(created.topic_id, index)
                self.laws.complete[key] = set(partition.isr)

    @rule(name=st.sampled_from(TOPICS))
    def delete(self, name: str) -> None:
        self.ask("delete")
        self.cluster.do(self.cluster.controller.delete_topics([(name, ZERO_UUID)]))

    @rule(
        topic=st.sampled_from(("", *TOPICS)),
        minimum=st.sampled_from(("1", "2", "3", None)),
        unclean=st.sampled_from(("true", "false")),
    )
    def configure(self, topic: str, minimum: str | None, unclean: str) -> None:
        self.ask("configure")
        op = ConfigOp.DELETE if minimum is None else ConfigOp.SET
        changes = [ConfigChange(MIN_ISR, op, minimum)]
        if topic:
            changes.append(ConfigChange(UNCLEAN, ConfigOp.SET, unclean))
        wish = ResourceChange(2 if topic else 4, topic, changes)
        self.cluster.do(self.cluster.controller.incremental_alter_configs([wish]))

    @precondition(has_partitions)
    @rule(number=numbers)
    def commit(self, number: int) -> None:
        """Every member of the ISR stores a record, which is thereby committed."""
        name, key, partition = self.pick(number)
        enough = minimum(self.cluster.image, name, len(partition.replicas))
        alive = all(member in self.running for member in partition.isr)
        if not (partition.has_leader and alive and len(partition.isr) >= enough):
            return
        self.laws.complete[key] = set(partition.isr)
        for follower in BROKERS:
            self.caught_up.pop((key, follower), None)

    @precondition(has_partitions)
    @rule(number=numbers, follower=brokers)
    def catch_up(self, number: int, follower: int) -> None:
        _, key, partition = self.pick(number)
        if not (partition.leader in self.running and follower in self.running):
            return
        if follower not in partition.replicas:
            return
        self.caught_up[key, follower] = CaughtUp(
            self.running[follower], partition.leader_epoch, partition.partition_epoch
        )

    @rule(number=numbers, knows=st.booleans())
    def expand(self, number: int, knows: bool) -> None:
        """A leader that saw a follower caught up, perhaps long ago, proposes to take it in."""
        if not self.caught_up:
            return
        (key, follower), seen = sorted(self.caught_up.items())[number % len(self.caught_up)]
        topic = self.cluster.image.topics_by_id.get(key.topic_id)
        if topic is None:
            return
        partition = topic.partitions[key.partition]
        if partition.leader not in self.running:
            return
        members = tuple(InSyncMember(m) for m in partition.isr if m != follower)
        proposal = IsrProposal(
            key.partition,
            seen.leader_epoch,
            partition.partition_epoch if knows else seen.partition_epoch,
            (*members, InSyncMember(follower, seen.broker_epoch)),
        )
        self.propose(key, partition, proposal)

    @precondition(has_partitions)
    @rule(number=numbers, keeps=broker_sets, behind=st.integers(-1, 1), other=st.booleans())
    def shrink(self, number: int, keeps: tuple[int, ...], behind: int, other: bool) -> None:
        """A leader, or one that is no longer or not yet, drops some of its followers."""
        _, key, partition = self.pick(number)
        isr = tuple(m for m in partition.isr if m in (*keeps, partition.leader))
        if not (partition.leader in self.running and isr != partition.isr):
            return
        proposal = IsrProposal(
            key.partition,
            partition.leader_epoch - (behind if other else 0),
            partition.partition_epoch - (0 if other else behind),
            tuple(InSyncMember(member) for member in isr),
        )
        self.propose(key, partition, proposal)

    def propose(self, key: TopicIdPartition, before: PartitionImage, proposal: IsrProposal) -> None:
        isr = tuple(member.broker_id for member in proposal.isr)
        self.ask("alter", isr)
        epoch = self.running[before.leader]
        decision = self.cluster.controller.alter_partition(
            before.leader, epoch, [(key.topic_id, [proposal])]
        )
        if isinstance(decision.reply, Refusal):
            assert epoch != self.cluster.image.brokers[before.leader].broker_epoch
            return
        [(_, [(_, outcome)])] = decision.reply
        taken = isinstance(outcome, AlteredPartition) or (
            outcome.code is ErrorCode.new_leader_elected
        )
        if taken:
            for member in isr:
                seen = self.caught_up.get((key, member))
                if seen is not None and self.running.get(member) == seen.broker_epoch:
                    self.laws.complete[key].add(member)
        self.cluster.do(decision)
        wrote = len(decision.records) > 0
        self.laws.check_proposal(self.cluster.image, before, proposal, wrote, outcome)

    @precondition(has_partitions)
    @rule(number=numbers, replicas=broker_sets, cancels=st.integers(0, 3))
    def reassign(self, number: int, replicas: tuple[int, ...], cancels: int) -> None:
        name, key, _ = self.pick(number)
        self.ask("cancel" if cancels == 0 else "reassign")
        wish = None if cancels == 0 else replicas
        self.cluster.reassign(wish, topic=name, index=key.partition)

    @precondition(has_partitions)
    @rule(number=numbers, unclean=st.booleans())
    def elect(self, number: int, unclean: bool) -> None:
        name, key, _ = self.pick(number)
        self.ask("unclean" if unclean else "preferred")
        self.cluster.elect(int(unclean), topic=name, index=key.partition)

    @rule()
    def balance(self) -> None:
        self.ask("preferred")
        self.cluster.do(self.cluster.controller.balance_leaders(self.cluster.now))

    @rule()
    def retry(self) -> None:
        self.ask("retry")
        self.cluster.do(self.cluster.controller.retry_unclean_elections(self.cluster.now))

    # -- brokers that live and die -------------------------------------------------------------

    @rule(broker_id=brokers, loses=st.booleans())
    def start(self, broker_id: int, loses: bool) -> None:
        """A process starts, perhaps with a new disk, while no other has its id."""
        if broker_id in self.running:
            return
        cluster = self.cluster
        known = cluster.registrations.get(broker_id) or cluster.registration(broker_id)
        clean = self.stopped_cleanly.pop(broker_id, -1)
        registered = cluster.image.brokers.get(broker_id)
        if loses and self.laws.elr:
            self.lose(broker_id)
            known = known._replace(log_dirs=(cluster.entropy.uuid(),))
        live = cluster.controller.sessions.is_live(broker_id, cluster.now.monotonic_ms)
        self.ask("register")
        epoch = cluster.register(
            known._replace(incarnation_id=cluster.entropy.uuid(), previous_broker_epoch=clean)
        )
        if registered is not None and live:
            assert isinstance(epoch, Refusal)
            assert epoch.code is ErrorCode.duplicate_broker_registration
            return
        assert isinstance(epoch, int)
        assert epoch > self.epochs_given
        self.epochs_given = epoch
        self.running[broker_id] = epoch
        eligible = registered is not None and clean == registered.broker_epoch
        for _, _, partition in self.partitions():
            assert broker_id not in partition.isr or (not self.laws.elr and len(partition.isr) == 1)
            assert eligible or broker_id not in partition.elr

    def lose(self, broker_id: int) -> None:
        for holders in self.laws.complete.values():
            holders.discard(broker_id)

    @rule(broker_id=brokers, loses=st.booleans(), notices=st.booleans())
    def crash(self, broker_id: int, loses: bool, notices: bool) -> None:
        if broker_id not in self.running:
            return
        del self.running[broker_id]
        if loses and self.laws.elr:
            self.lose(broker_id)
        if notices:
            self.cluster.controller.broker_disconnected(broker_id, self.cluster.now)

    @rule(broker_id=brokers, lags=st.booleans())
    def beat(self, broker_id: int, lags: bool) -> None:
        if broker_id not in self.running:
            return
        cluster = self.cluster
        if cluster.image.brokers[broker_id].in_controlled_shutdown:
            self.stop(broker_id)
            return
        registered_at = cluster.image.brokers[broker_id].registered_at
        was_fenced = cluster.image.brokers[broker_id].fenced
        self.ask("beat")
        offset = registered_at - 1 if lags else cluster.next_offset
        cluster.beat(broker_id, metadata_offset=offset)
        assert cluster.image.brokers[broker_id].fenced == (was_fenced and lags)

    @rule(broker_id=brokers)
    def stop(self, broker_id: int) -> None:
        """One step of a controlled shutdown; the process ends once it may."""
        if broker_id not in self.running:
            return
        self.ask("beat")
        if self.cluster.beat(broker_id, want_shut_down=True).should_shut_down:
            self.stopped_cleanly[broker_id] = self.running.pop(broker_id)

    @rule(milliseconds=st.sampled_from((250, 9000)))
    def pass_time(self, milliseconds: int) -> None:
        """Who lives says so; who does not is fenced."""
        cluster = self.cluster
        cluster.wait(milliseconds)
        for broker_id in sorted(self.running):
            if cluster.image.brokers[broker_id].in_controlled_shutdown:
                self.stop(broker_id)
                continue
            fenced = cluster.image.brokers[broker_id].fenced
            self.ask("beat")
            cluster.beat(broker_id, want_fence=fenced)
        self.ask("fence")
        while cluster.do(cluster.controller.fence_one_overdue(cluster.now)) is not None:
            pass

    @rule(broker_id=brokers)
    def unregister(self, broker_id: int) -> None:
        if not (broker_id not in self.running and broker_id in self.cluster.image.brokers):
            return
        self.ask("unregister")
        self.cluster.do(self.cluster.controller.unregister_broker(broker_id))


def test_whatever_happens_nobody_leads_who_lacks_committed_records(
    new_cluster: NewCluster,
) -> None:
    class History(LeadershipHistory):
        def __init__(self) -> None:
            super().__init__(new_cluster)

    run_state_machine_as_test(
        History,
        settings=settings(
            max_examples=150,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
        ),
    )
