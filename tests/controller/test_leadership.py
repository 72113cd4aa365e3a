"""Elections and in-sync sets."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.controller.leadership import directory_is_online
from tidelog.controller.partition_change import Election, ElectionRules, Target, changed
from tidelog.controller.partition_image import PartitionImage
from tidelog.controller.records import RECOVERED, RECOVERING, ConfigRecord, PartitionChangeRecord
from tidelog.controller.registrations import BrokerRegistration
from tidelog.model.ids import DIRECTORY_LOST, DIRECTORY_UNASSIGNED, NO_LEADER, ZERO_UUID

if TYPE_CHECKING:
    from tests.controller.conftest import Cluster, NewCluster

DIRECTORY = UUID(int=500)
UNCHANGED = PartitionChangeRecord(topic_id=UUID(int=100), partition_id=0)
STRICT = ElectionRules(min_isr=2, minimum=2, elr=True, unclean=False)
WITHOUT_ELR = ElectionRules(min_isr=2, minimum=2, elr=False, unclean=False)
UNCLEAN = ElectionRules(min_isr=2, minimum=2, elr=True, unclean=True)


def partition(
    isr: tuple[int, ...],
    leader: int,
    *,
    elr: tuple[int, ...] = (),
    last_known: tuple[int, ...] = (),
    recovery_state: int = RECOVERED,
) -> PartitionImage:
    return PartitionImage(
        replicas=(1, 2, 3),
        isr=isr,
        leader=leader,
        leader_epoch=5,
        partition_epoch=7,
        directories=(DIRECTORY,) * 3,
        elr=elr,
        last_known_elr=last_known,
        recovery_state=recovery_state,
    )


def after(
    before: PartitionImage,
    isr: tuple[int, ...],
    *,
    alive: set[int],
    rules: ElectionRules = STRICT,
    lost: int = NO_LEADER,
) -> PartitionImage:
    record = recalculated(
        before, UNCHANGED, isr=isr, rules=rules, may_lead=lambda broker: broker in alive, lost=lost
    )
    return before if record is None else before.changed_by(record)


def test_nothing_is_written_when_nothing_changes() -> None:
    before = partition((1, 2, 3), 1)

    assert after(before, (1, 2, 3), alive={1, 2, 3}) is before


def test_a_valid_leader_stays_and_a_mere_shrink_keeps_its_epoch() -> None:
    changed = after(partition((1, 2, 3), 2), (2, 3), alive={2, 3})

    assert (changed.leader, changed.leader_epoch, changed.partition_epoch) == (2, 5, 8)
    assert changed.isr == (2, 3)


def test_the_first_live_member_of_the_isr_in_assignment_order_is_elected() -> None:
    changed = after(partition((3, 2, 1), 1), (3, 2), alive={2, 3})

    assert (changed.leader, changed.leader_epoch) == (2, 6)


def test_without_elr_the_last_member_stays_in_sync_without_leading() -> None:
    changed = after(partition((1,), 1), (), alive={2, 3}, rules=WITHOUT_ELR)

    assert changed.leader == NO_LEADER
    assert changed.isr == (1,)
    assert changed.elr == ()


def test_a_member_that_leaves_below_the_minimum_stays_eligible() -> None:
    one_left = after(partition((1, 2), 1), (1,), alive={1})
    none_left = after(one_left, (), alive=set())

    assert (one_left.isr, one_left.elr) == ((1,), (2,))
    assert (none_left.isr, none_left.elr) == ((), (1, 2))
    assert none_left.last_known_elr == (1,)
    assert none_left.leader == NO_LEADER


def test_eligible_replicas_are_forgotten_once_the_isr_has_its_minimum_size() -> None:
    changed = after(partition((1,), 1, elr=(2, 3)), (1, 2), alive={1, 2})

    assert (changed.isr, changed.elr) == ((1, 2), ())


def test_an_eligible_replica_is_elected_when_the_isr_is_empty() -> None:
    before = partition((), NO_LEADER, elr=(2, 3), last_known=(3,))
    changed = after(before, (), alive={3})

    assert (changed.leader, changed.isr, changed.elr) == (3, (3,), (2,))
    assert changed.last_known_elr == ()
    assert changed.recovery_state == RECOVERED


def test_a_replica_whose_data_is_lost_is_neither_in_sync_nor_eligible() -> None:
    changed = after(partition((1,), 1, elr=(2,)), (), alive={2}, lost=1)

    assert (changed.leader, changed.isr, changed.elr) == (2, (2,), ())


def test_the_last_known_leader_is_elected_when_nobody_is_eligible() -> None:
    before = partition((), NO_LEADER, last_known=(2,))

    assert after(before, (), alive={1, 3}) is before
    changed = after(before, (), alive={1, 2, 3})
    assert (changed.leader, changed.isr, changed.recovery_state) == (2, (2,), RECOVERING)
    assert changed.last_known_elr == ()


def test_an_unclean_election_leaves_the_leader_alone_and_recovering() -> None:
    changed = after(partition((1,), 1), (), alive={3}, rules=UNCLEAN, lost=1)

    assert (changed.leader, changed.isr, changed.elr) == (3, (3,), ())
    assert changed.recovery_state == RECOVERING


def test_a_recovering_partition_is_not_marked_twice() -> None:
    before = partition((1,), 1, recovery_state=RECOVERING)
    record = recalculated(
        before, UNCHANGED, isr=(), rules=UNCLEAN, may_lead=lambda broker: broker == 3, lost=1
    )

    assert record is not None
    assert record.leader_recovery_state == UNCHANGED.leader_recovery_state


def test_an_unclean_election_waits_for_no_clean_choice() -> None:
    changed = after(partition((1, 2), 1), (2,), alive={2, 3}, rules=UNCLEAN)

    assert changed.leader == 2
    assert changed.recovery_state == RECOVERED


replica_sets = st.sets(st.sampled_from((1, 2, 3))).map(lambda members: tuple(sorted(members)))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(replica_sets, replica_sets, st.sampled_from((NO_LEADER, 1, 2, 3)))),
    st.builds(ElectionRules, min_isr=st.integers(1, 3), elr=st.booleans(), unclean=st.booleans()),
)
def test_whatever_happens_the_leader_is_in_sync_and_the_elr_is_apart(
    events: list[tuple[tuple[int, ...], tuple[int, ...], int]], rules: ElectionRules
) -> None:
    state = partition((1, 2, 3), 1)
    for members, leaving, lost in events:
        alive = set(members) - {*leaving, lost}
        isr = tuple(member for member in state.isr if member in alive)
        changed = after(state, isr, alive=alive, rules=rules, lost=lost)

        assert changed.leader == NO_LEADER or changed.leader in changed.isr
        assert changed.leader == NO_LEADER or changed.leader in alive
        assert not set(changed.isr) & set(changed.elr)
        assert len(changed.isr) < rules.min_isr or not changed.elr
        assert changed.isr or rules.elr
        assert changed.leader_epoch >= state.leader_epoch
        if changed.leader != state.leader:
            assert changed.leader_epoch == state.leader_epoch + 1
        state = changed


@pytest.mark.parametrize(
    ("directory", "online"),
    [
        (DIRECTORY, True),
        (UUID(int=501), False),
        (DIRECTORY_UNASSIGNED, True),
        (ZERO_UUID, True),
        (DIRECTORY_LOST, False),
    ],
)
def test_a_replica_is_online_when_its_directory_is(directory: UUID, online: bool) -> None:
    broker = BrokerRegistration(
        broker_id=1, incarnation_id=UUID(int=1), broker_epoch=0, log_dirs=(DIRECTORY,)
    )

    assert directory_is_online(directory, broker) is online


def test_the_minimum_isr_is_never_more_than_the_replicas(new_cluster: NewCluster) -> None:
    cluster = new_cluster(min_insync_replicas="3")
    cluster.start(100, 101)
    cluster.create("orders", (100, 101))

    cluster.fence(101)

    assert cluster.lead_isr_elr() == (100, (100,), (101,))


def test_a_topic_may_allow_unclean_elections_for_itself(new_cluster: NewCluster) -> None:
    cluster = new_cluster(elr=False)
    cluster.start(100, 101)
    cluster.create("safe", (100, 101))
    cluster.create("loose", (100, 101), configs={"unclean.leader.election.enable": "true"})
    cluster.fence(101)
    cluster.beat(101)

    cluster.fence(100)

    assert cluster.partition("safe").leader == NO_LEADER
    assert cluster.partition("loose").leader == 101
    assert cluster.partition("loose").recovery_state == RECOVERING


def test_the_cluster_may_allow_unclean_elections_for_all(new_cluster: NewCluster) -> None:
    cluster = new_cluster(elr=False)
    cluster.start(100, 101)
    cluster.create("loose", (100, 101))
    cluster.replay(
        ConfigRecord(
            resource_type=4, resource_name="", name="unclean.leader.election.enable", value="true"
        )
    )
    cluster.fence(101)
    cluster.beat(101)

    cluster.fence(100)

    assert cluster.partition("loose").leader == 101


def test_a_fenced_broker_leaves_every_isr_and_leads_nothing(cluster: Cluster) -> None:
    cluster.create("orders", (100, 101, 102), (101, 102, 100))

    cluster.fence(100)

    assert cluster.partition("orders", 0).leader == 101
    assert cluster.partition("orders", 0).isr == (101, 102)
    assert cluster.partition("orders", 1).leader == 101
    assert cluster.partition("orders", 1).isr == (101, 102)


def test_an_unfenced_broker_leads_what_has_no_leader_and_nothing_else(cluster: Cluster) -> None:
    cluster.create("orders", (100,))
    cluster.create("others", (100, 101))
    cluster.fence(100)
    assert cluster.lead_isr_elr() == (NO_LEADER, (), (100,))

    cluster.beat(100)

    assert cluster.lead_isr_elr() == (100, (100,), ())
    assert cluster.partition("others").leader == 101
