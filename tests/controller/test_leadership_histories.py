"""Small clusters live through whatever hypothesis thinks of; no decision may break a promise.

The machine keeps what no controller can know: which replicas hold every committed record. After
each record of each decision it checks that leaders and in-sync sets were changed lawfully, and
after each decision that everyone who counts as complete is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from tests.controller.leadership_laws import MIN_ISR, UNCLEAN, Laws, Request, minimum
from tests.tiers import examples

from tidelog.controller.alter_partition import AlteredPartition, IsrProposal, ProposedIsrMember
from tidelog.controller.configs import ConfigChange, ConfigOp, ResourceChange
from tidelog.controller.image import ClusterImage
from tidelog.controller.partition_image import PartitionImage, TopicIdPartition
from tidelog.controller.result import ControllerResult
from tidelog.controller.topics import NewTopic
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import NO_LEADER, ZERO_UUID

if TYPE_CHECKING:
    from tests.controller.conftest import Cluster, NewCluster

T = TypeVar("T")

BROKERS = (100, 101, 102, 103, 104)
TOPICS = ("orders", "others")

numbers = st.integers(0, 63)
assignments = st.tuples(st.permutations(BROKERS), st.sampled_from((3, 4, 3, 2, 1))).map(
    lambda drawn: tuple(drawn[0][: drawn[1]])
)


class SentProposal(NamedTuple):
    """A proposal as its leader made it, to be delivered now or later."""

    key: TopicIdPartition
    sender: int
    sender_epoch: int
    proposal: IsrProposal


class LeadershipHistory(RuleBasedStateMachine):
    """A cluster, its processes, and what they really hold."""

    def __init__(self, new_cluster: NewCluster) -> None:
        super().__init__()
        self._new_cluster = new_cluster
        self.running: dict[int, int] = {}
        self.stopped_cleanly: dict[int, int] = {}
        self.under_way: list[SentProposal] = []
        self.epochs_given = 0

    @initialize(
        elr=st.sampled_from((True, True, False)),
        wanted=st.sampled_from((2, 3, 1)),
        unclean=st.booleans(),
        replicas=st.lists(assignments, min_size=3, max_size=3),
    )
    def begin(self, elr: bool, wanted: int, unclean: bool, replicas: list[tuple[int, ...]]) -> None:
        self.cluster: Cluster = self._new_cluster(elr=elr, min_insync_replicas=str(wanted))
        self.laws = Laws(elr, self.running)
        self.cluster.watch = self.judge
        for broker_id in BROKERS:
            self.register(broker_id, loses=False)
            self.beat(broker_id, lags=False)
        self.create("orders", replicas[:2], unclean)
        self.create("others", replicas[2:], not unclean)

    # -- clients and operators -----------------------------------------------------------------

    def partitions(self) -> list[tuple[str, TopicIdPartition, PartitionImage]]:
        return [
            (name, TopicIdPartition(topic.topic_id, index), partition)
            for name, topic in sorted(self.cluster.image.topics_by_name.items())
            for index, partition in sorted(topic.partitions.items())
        ]

    def ask(self, kind: str, isr: tuple[int, ...] = (), lost: int = NO_LEADER) -> None:
        self.laws.asked = Request(kind, isr, lost)

    def judge(self, image: ClusterImage, decision: ControllerResult[Any]) -> None:
        self.laws.check_decision(image, decision, self.cluster.next_offset)

    def create(self, name: str, replicas: list[tuple[int, ...]], unclean: bool) -> None:
        self.ask("create")
        configs = {UNCLEAN: str(unclean).lower()}
        asked = NewTopic(name, assignments=tuple(enumerate(replicas)), configs=configs)
        self.cluster.do(self.cluster.controller.create_topics([asked]))

    @rule(
        name=st.sampled_from(TOPICS),
        replicas=assignments,
        unclean=st.booleans(),
        really=st.integers(0, 7),
    )
    def recreate(self, name: str, replicas: tuple[int, ...], unclean: bool, really: int) -> None:
        """Now and then; new partitions are less interesting than old ones."""
        if really != 7:
            return
        self.ask("delete")
        self.cluster.do(self.cluster.controller.delete_topics([(name, ZERO_UUID)]))
        self.create(name, [replicas], unclean)

    @rule(topic=st.sampled_from(("", *TOPICS)), wanted=st.integers(1, 3), unclean=st.booleans())
    def configure(self, topic: str, wanted: int, unclean: bool) -> None:
        self.ask("configure")
        changes = [ConfigChange(MIN_ISR, ConfigOp.SET, str(wanted))]
        if topic:
            changes.append(ConfigChange(UNCLEAN, ConfigOp.SET, str(unclean).lower()))
        asked = ResourceChange(2 if topic else 4, topic, changes)
        self.cluster.do(self.cluster.controller.incremental_alter_configs([asked]))

    @rule(number=numbers, replicas=assignments)
    def reassign(self, number: int, replicas: tuple[int, ...]) -> None:
        for name, key, _ in picked(self.partitions(), number):
            self.ask("reassign")
            self.cluster.reassign(replicas, topic=name, index=key.partition)

    @rule(number=numbers)
    def cancel(self, number: int) -> None:
        moving = [found for found in self.partitions() if found[2].adding or found[2].removing]
        for name, key, _ in picked(moving, number):
            self.ask("cancel")
            self.cluster.reassign(None, topic=name, index=key.partition)

    @rule(number=numbers, unclean=st.booleans())
    def elect(self, number: int, unclean: bool) -> None:
        wanting = [
            found
            for found in self.partitions()
            if found[2].leader != found[2].replicas[0] and (found[2].has_leader != unclean)
        ]
        for name, key, _ in picked(wanting, number):
            self.ask("unclean" if unclean else "preferred")
            self.cluster.elect(int(unclean), topic=name, index=key.partition)

    @rule()
    def look_around(self) -> None:
        controller, now = self.cluster.controller, self.cluster.now
        self.ask("preferred")
        self.cluster.do(controller.balance_leaders(now))
        self.ask("retry")
        self.cluster.do(controller.retry_unclean_elections(now))

    # -- leaders and followers -----------------------------------------------------------------

    @rule()
    def commit(self) -> None:
        """Wherever it is possible a record is stored by all who are in sync."""
        for name, key, partition in self.partitions():
            enough = minimum(self.cluster.image, name, len(partition.replicas))
            alive = all(member in self.running for member in partition.isr)
            if partition.has_leader and alive and len(partition.isr) >= enough:
                self.laws.complete[key] = {*partition.isr}
                # A leader that lets the mark pass a follower by has not seen it caught up.
                self.under_way = [sent for sent in self.under_way if sent.key != key]

    def behind(self) -> list[tuple[TopicIdPartition, PartitionImage, int]]:
        return [
            (key, partition, follower)
            for _, key, partition in self.partitions()
            for follower in partition.replicas
            if partition.leader in self.running
            and follower in self.running
            and follower not in partition.isr
        ]

    @rule(number=numbers, later=st.booleans())
    def expand(self, number: int, later: bool) -> None:
        """A follower has caught up, so its leader wants it in sync."""
        for key, partition, follower in picked(self.behind(), number):
            isr = (*members(partition.isr), ProposedIsrMember(follower, self.running[follower]))
            self.propose(key, partition, isr, later)

    @rule(times=st.integers(1, 8))
    def follow(self, times: int) -> None:
        """Followers that live catch up one after the other."""
        for number in range(times):
            self.expand(number, later=False)

    @rule(number=numbers, keep=numbers, later=st.sampled_from((False, False, True)))
    def shrink(self, number: int, keep: int, later: bool) -> None:
        large = [
            (key, partition)
            for _, key, partition in self.partitions()
            if partition.leader in self.running and len(partition.isr) > 1
        ]
        for key, partition in picked(large, number):
            isr = [
                member
                for place, member in enumerate(partition.isr)
                if member == partition.leader or keep >> place & 1
            ]
            self.propose(key, partition, members(isr), later)

    @rule(number=numbers, ahead=st.integers(0, 3), meanwhile=st.booleans())
    def deliver(self, number: int, ahead: int, meanwhile: bool) -> None:
        """A proposal arrives late, or at a controller that lags behind its sender.

        Meanwhile the follower it is about may have been replaced.
        """
        for sent in picked(self.under_way, number):
            follower = sent.proposal.isr[-1].broker_id
            if meanwhile and follower in self.running and follower != sent.sender:
                self.replace_process(follower, loses=True)
            epoch = sent.proposal.partition_epoch + (1 if ahead == 3 else 0)
            self.send(sent._replace(proposal=sent.proposal._replace(partition_epoch=epoch)))

    def propose(
        self,
        key: TopicIdPartition,
        partition: PartitionImage,
        isr: tuple[ProposedIsrMember, ...],
        later: bool,
    ) -> None:
        proposal = IsrProposal(
            key.partition, partition.leader_epoch, partition.partition_epoch, isr
        )
        sent = SentProposal(key, partition.leader, self.running[partition.leader], proposal)
        if later:
            self.under_way.append(sent)
        else:
            self.send(sent)

    def send(self, sent: SentProposal) -> None:
        key, sender, sender_epoch, proposal = sent
        cluster = self.cluster
        self.ask("alter", tuple(member for member, _ in proposal.isr))
        decision = cluster.controller.alter_partition(
            sender, sender_epoch, [(key.topic_id, [proposal])]
        )
        topic = cluster.image.topics_by_id.get(key.topic_id)
        registered = cluster.image.brokers.get(sender)
        if registered is None or registered.broker_epoch != sender_epoch:
            assert isinstance(decision.reply, Refusal)
            assert decision.reply.code is ErrorCode.stale_broker_epoch
            return
        assert isinstance(decision.reply, list)
        [(_, [(_, outcome)])] = decision.reply
        if topic is None:
            assert isinstance(outcome, Refusal)
            assert outcome.code is ErrorCode.unknown_topic_id
            return
        before = topic.partitions[key.partition]
        wrote = len(decision.records) > 0
        self.laws.check_proposal(cluster.image, sender, before, proposal, wrote, outcome)
        if isinstance(outcome, AlteredPartition) or wrote:
            for member, epoch in proposal.isr:
                if epoch == self.running.get(member):
                    self.laws.complete[key].add(member)
        cluster.do(decision)

    # -- brokers that live and die -------------------------------------------------------------

    @rule(number=numbers, loses=st.booleans(), fence=st.sampled_from((0, 250, 9000)))
    def crash(self, number: int, loses: bool, fence: int) -> None:
        for broker_id in picked(sorted(self.running), number):
            del self.running[broker_id]
            if loses:
                self.lose(broker_id)
            if fence == 250:
                self.cluster.controller.broker_disconnected(broker_id, self.cluster.now)
            if fence:
                self.pass_time(fence)

    def lose(self, broker_id: int) -> None:
        """What was not yet on disk is gone. Without the ELR nothing guards against that."""
        if self.laws.elr:
            for holders in self.laws.complete.values():
                holders.discard(broker_id)

    @rule(number=numbers, loses=st.booleans(), unfenced=st.booleans())
    def start(self, number: int, loses: bool, unfenced: bool) -> None:
        stopped = [broker_id for broker_id in BROKERS if broker_id not in self.running]
        for broker_id in picked(stopped, number):
            self.register(broker_id, loses)
            if unfenced and broker_id in self.running:
                self.beat(broker_id, lags=False)

    @rule(number=numbers, loses=st.booleans(), cleanly=st.booleans())
    def restart(self, number: int, loses: bool, cleanly: bool) -> None:
        for broker_id in picked(sorted(self.running), number):
            if cleanly:
                self.step_down(broker_id)
                self.pass_time(250)
            self.replace_process(broker_id, loses)

    def replace_process(self, broker_id: int, loses: bool) -> None:
        """A process ends, is missed, and another takes its place."""
        self.running.pop(broker_id, None)
        self.pass_time(9000)
        self.register(broker_id, loses)
        self.beat(broker_id, lags=False)

    def register(self, broker_id: int, loses: bool) -> None:
        """A process starts, perhaps with a new disk."""
        cluster = self.cluster
        known = cluster.registrations.get(broker_id) or cluster.registration(broker_id)
        clean = self.stopped_cleanly.pop(broker_id, -1)
        before = cluster.image.brokers.get(broker_id)
        if loses and self.laws.elr:
            self.lose(broker_id)
            known = known._replace(log_dirs=(cluster.entropy.uuid(),))
        live = cluster.controller.sessions.is_live(broker_id, cluster.now.monotonic_ms)
        self.ask("register", lost=broker_id)
        epoch = cluster.register(
            known._replace(incarnation_id=cluster.entropy.uuid(), previous_broker_epoch=clean)
        )
        if before is not None and live:
            assert isinstance(epoch, Refusal)
            assert epoch.code is ErrorCode.duplicate_broker_registration
            return
        assert isinstance(epoch, int)
        assert epoch > self.epochs_given
        self.epochs_given = epoch
        self.running[broker_id] = epoch
        self.beat(broker_id, lags=True)
        eligible = before is not None and clean == before.broker_epoch
        for _, _, partition in self.partitions():
            assert broker_id not in partition.isr or (not self.laws.elr and len(partition.isr) == 1)
            assert eligible or broker_id not in partition.elr

    @rule(number=numbers, lags=st.booleans())
    def live_on(self, number: int, lags: bool) -> None:
        for broker_id in picked(sorted(self.running), number):
            self.beat(broker_id, lags)

    def beat(self, broker_id: int, lags: bool) -> None:
        cluster = self.cluster
        broker = cluster.image.brokers[broker_id]
        if broker.in_controlled_shutdown:
            self.step_down(broker_id)
            return
        self.ask("beat")
        offset = broker.registered_at - 1 if lags else cluster.next_offset
        cluster.beat(broker_id, metadata_offset=offset)
        assert cluster.image.brokers[broker_id].fenced == (broker.fenced and lags)

    @rule(number=numbers, steps=st.integers(1, 3))
    def stop(self, number: int, steps: int) -> None:
        for broker_id in picked(sorted(self.running), number):
            for _ in range(steps):
                if broker_id in self.running:
                    self.step_down(broker_id)

    def step_down(self, broker_id: int) -> None:
        """One step of a controlled shutdown; the process ends once it may."""
        self.ask("beat")
        if self.cluster.beat(broker_id, want_shut_down=True).should_shut_down:
            self.stopped_cleanly[broker_id] = self.running.pop(broker_id)

    @rule(milliseconds=st.sampled_from((250, 9000)))
    def pass_time(self, milliseconds: int) -> None:
        """Who lives says so; who does not is fenced."""
        cluster = self.cluster
        cluster.wait(milliseconds)
        for broker_id in sorted(self.running):
            broker = cluster.image.brokers[broker_id]
            if broker.in_controlled_shutdown:
                self.step_down(broker_id)
            else:
                self.ask("beat")
                cluster.beat(broker_id, want_fence=broker.fenced)
        self.ask("fence")
        while cluster.do(cluster.controller.fence_one_overdue(cluster.now)) is not None:
            pass

    @rule(number=numbers)
    def unregister(self, number: int) -> None:
        stopped = [b for b in sorted(self.cluster.image.brokers) if b not in self.running]
        for broker_id in picked(stopped, number):
            self.ask("unregister", lost=broker_id)
            self.cluster.do(self.cluster.controller.unregister_broker(broker_id))


def picked(choices: list[T], number: int) -> list[T]:
    """One of the choices, if there are any."""
    return [choices[number % len(choices)]] if choices else []


def members(broker_ids: tuple[int, ...] | list[int]) -> tuple[ProposedIsrMember, ...]:
    return tuple(ProposedIsrMember(broker_id) for broker_id in broker_ids)


def test_whatever_happens_nobody_leads_who_lacks_committed_records(
    new_cluster: NewCluster,
) -> None:
    class History(LeadershipHistory):
        def __init__(self) -> None:
            super().__init__(new_cluster)

    run_state_machine_as_test(
        History,
        settings=settings(
            max_examples=examples(300),
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
        ),
    )
