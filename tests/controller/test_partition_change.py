"""One partition on its way to a target: ELR, election, epochs, the end of a reassignment."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.controller.partition_change import (
    Election,
    ElectionRules,
    PartitionChange,
    PartitionTarget,
    changed,
)
from tidelog.controller.partition_image import PartitionImage
from tidelog.controller.records import (
    RECOVERED,
    RECOVERING,
)
from tidelog.model.ids import NO_LEADER
from tidelog.protocol.stored.metadata import PartitionChangeRecord

DIRECTORY = UUID(int=500)
NEW_DIRECTORY = UUID(int=501)
UNCHANGED = PartitionChangeRecord(topic_id=UUID(int=100), partition_id=0)
STRICT = ElectionRules(min_isr=2, minimum=2, elr=True, unclean=False)
WITHOUT_ELR = replace(STRICT, elr=False)
UNCLEAN = replace(STRICT, unclean=True)


def partition(
    isr: tuple[int, ...],
    leader: int,
    *,
    replicas: tuple[int, ...] = (1, 2, 3),
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
    elr: tuple[int, ...] = (),
    last_known: tuple[int, ...] = (),
    recovery_state: int = RECOVERED,
) -> PartitionImage:
    return PartitionImage(
        replicas=replicas,
        isr=isr,
        adding=adding,
        removing=removing,
        leader=leader,
        leader_epoch=5,
        partition_epoch=7,
        directories=(DIRECTORY,) * len(replicas),
        elr=elr,
        last_known_elr=last_known,
        recovery_state=recovery_state,
    )


def change(
    before: PartitionImage,
    target: PartitionTarget,
    *,
    alive: set[int],
    rules: ElectionRules = STRICT,
    election: Election | None = None,
    lost: int = NO_LEADER,
) -> PartitionChange | None:
    return changed(
        before,
        UNCHANGED,
        target,
        rules=rules,
        election=election or rules.election,
        may_lead=lambda broker: broker in alive,
        directory_for=lambda broker: NEW_DIRECTORY,
        lost=lost,
    )


def after(
    before: PartitionImage,
    isr: tuple[int, ...] | None = None,
    *,
    alive: set[int],
    rules: ElectionRules = STRICT,
    election: Election | None = None,
    lost: int = NO_LEADER,
) -> PartitionImage:
    target = PartitionTarget.of(before)
    change_made = change(
        before,
        target if isr is None else target.with_isr(isr),
        alive=alive,
        rules=rules,
        election=election,
        lost=lost,
    )
    return before if change_made is None else before.changed_by(change_made.record)


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


def test_an_eligible_replica_waits_while_somebody_is_in_sync() -> None:
    large = replace(STRICT, min_isr=3, minimum=3)
    changed_once = after(partition((2, 3), 2, elr=(1,)), (3,), alive={1, 3}, rules=large)

    assert (changed_once.leader, changed_once.isr, changed_once.elr) == (3, (3,), (1, 2))


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
    made = change(before, PartitionTarget.of(before).with_isr(()), alive={3}, rules=UNCLEAN, lost=1)

    assert made is not None
    assert made.record.leader_recovery_state == UNCHANGED.leader_recovery_state


def test_an_unclean_election_waits_for_no_clean_choice() -> None:
    changed = after(partition((1, 2), 1), (2,), alive={2, 3}, rules=UNCLEAN)

    assert changed.leader == 2
    assert changed.recovery_state == RECOVERED


replica_sets = st.sets(st.sampled_from((1, 2, 3))).map(lambda members: tuple(sorted(members)))


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(st.tuples(replica_sets, replica_sets, st.sampled_from((NO_LEADER, 1, 2, 3)))),
    st.builds(
        ElectionRules,
        min_isr=st.integers(1, 3),
        minimum=st.just(2),
        elr=st.booleans(),
        unclean=st.booleans(),
    ),
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


def test_the_last_known_leader_is_remembered_from_the_first_moment_without_a_leader() -> None:
    leaderless = after(partition((1,), 1), (), alive=set())
    later = after(leaderless, (), alive=set(), lost=1)

    assert leaderless.last_known_elr == (1,)
    assert (later.last_known_elr, later.elr) == ((1,), ())


def test_a_last_known_leader_waits_while_somebody_is_eligible() -> None:
    before = partition((), NO_LEADER, elr=(3,), last_known=(2,))

    assert after(before, (), alive={1, 2}) is before


def test_the_preferred_replica_takes_over_when_it_is_in_sync() -> None:
    taken = after(partition((2, 1, 3), 2), alive={1, 2, 3}, election=Election.PREFERRED)

    assert (taken.leader, taken.leader_epoch, taken.isr) == (1, 6, (2, 1, 3))


@pytest.mark.parametrize(("isr", "alive"), [((2, 3), {1, 2, 3}), ((1, 2, 3), {2, 3})])
def test_a_preferred_replica_that_is_behind_or_gone_takes_nothing_over(
    isr: tuple[int, ...], alive: set[int]
) -> None:
    before = partition(isr, 2)

    assert after(before, alive=alive, election=Election.PREFERRED) is before


def test_a_preferred_election_is_never_unclean() -> None:
    before = partition((), NO_LEADER, elr=(2,))

    assert after(before, alive={1, 3}, rules=UNCLEAN, election=Election.PREFERRED) is before


def test_an_unclean_election_takes_a_replica_that_is_still_being_added_last() -> None:
    before = partition((1,), 1, replicas=(4, 1, 2), adding=(4,), removing=(1,))
    taken = after(before, (), alive={2, 4}, rules=UNCLEAN)

    assert (taken.leader, taken.isr, taken.recovery_state) == (2, (2,), RECOVERING)


def test_a_reassignment_ends_with_the_isr_that_holds_everyone_who_comes() -> None:
    before = partition((1, 2, 3), 1, replicas=(4, 2, 3, 1), adding=(4,), removing=(1,))
    under_way = after(before, (1, 2), alive={1, 2, 3, 4})
    done = after(before, (1, 2, 3, 4), alive={1, 2, 3, 4})

    assert (under_way.adding, under_way.removing, under_way.isr) == ((4,), (1,), (1, 2))
    assert (done.replicas, done.isr, done.adding, done.removing) == (
        (4, 2, 3),
        (2, 3, 4),
        (),
        (),
    )
    assert (done.leader, done.leader_epoch, done.partition_epoch) == (4, 6, 8)
    assert len(done.directories) == 3


def test_a_reassignment_ends_though_one_that_stays_is_not_in_sync() -> None:
    before = partition((1, 2), 1, replicas=(1, 3, 4, 2), adding=(4,), removing=(2,))
    done = after(before, (1, 2, 4), alive={1, 2, 4})

    assert (done.replicas, done.isr) == ((1, 3, 4), (1, 4))


def test_where_more_go_than_come_all_that_stay_must_be_in_sync() -> None:
    before = partition((1, 2), 1, replicas=(1, 3, 2), removing=(2,))
    under_way = after(before, (1, 2), alive={1, 2})
    done = after(before, (1, 2, 3), alive={1, 2, 3})

    assert under_way is before
    assert (done.replicas, done.isr) == ((1, 3), (1, 3))


def test_a_reassignment_does_not_end_below_the_minimum_isr() -> None:
    before = partition((1,), 1, replicas=(2, 3, 4, 1), adding=(4,), removing=(1,), elr=(2,))
    under_way = after(before, (1, 4), alive={1, 4})

    assert (under_way.removing, under_way.isr) == ((1,), (1, 4))


def test_the_minimum_is_no_more_than_the_replicas_that_remain() -> None:
    before = partition((1, 2), 1, replicas=(2, 1), removing=(1,))
    done = after(before, (1, 2), alive={1, 2})

    assert (done.leader, done.replicas, done.isr) == (2, (2,), (2,))


def test_a_new_epoch_begins_when_a_replica_is_dropped_though_the_leader_stays() -> None:
    before = partition((1, 2, 3), 1)
    made = change(
        before,
        replace(PartitionTarget.of(before), replicas=(1, 2), isr=(1, 2)),
        alive={1, 2, 3},
    )

    assert made is not None
    dropped = before.changed_by(made.record)
    assert (dropped.leader, dropped.leader_epoch) == (1, 6)
    assert made.choice.how == "1 goes on leading in a new epoch"


def test_a_dropped_replica_is_no_longer_eligible() -> None:
    before = partition((1,), 1, replicas=(1, 2, 3), elr=(2, 3))
    made = change(before, replace(PartitionTarget.of(before), replicas=(1, 2)), alive={1})

    assert made is not None
    assert before.changed_by(made.record).elr == (2,)


def test_new_replicas_get_a_directory_and_old_ones_keep_theirs() -> None:
    before = partition((1, 2, 3), 1)
    made = change(
        before,
        replace(PartitionTarget.of(before), replicas=(4, 1, 2, 3), adding=(4,)),
        alive={1, 2, 3},
    )

    assert made is not None
    assert made.record.directories == (NEW_DIRECTORY, DIRECTORY, DIRECTORY, DIRECTORY)


def test_the_choice_says_how_it_was_made() -> None:
    def how(before: PartitionImage, alive: set[int], rules: ElectionRules = STRICT) -> str:
        made = change(before, PartitionTarget.of(before), alive=alive, rules=rules)
        assert made is not None
        return made.choice.how

    assert how(partition((1, 2), 1), {2}) == "2 is the first live in-sync replica"
    assert how(partition((), NO_LEADER, elr=(3,)), {3}) == "3 is the first live eligible replica"
    assert how(partition((), NO_LEADER, last_known=(3,)), {3}) == (
        "3 led last, and nobody is in sync or eligible"
    )
    assert how(partition((1,), 1), {3}, UNCLEAN) == (
        "3 is the first live replica, elected uncleanly"
    )
    assert how(partition((1,), 1), set()) == "nobody can lead it"
