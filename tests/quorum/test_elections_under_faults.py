"""Quorums of three and five under loss, partitions, crashes and restarts: C1-C8, then L1."""

from __future__ import annotations

import pytest
from tests.quorum.mutants import MUTANTS, Mutant
from tests.quorum.raft_world import RaftWorld
from tests.tiers import examples

SEEDS = range(20)
ROUNDS = 25
HEALED_MS = 12_000


def misbehave(world: RaftWorld) -> None:
    """One fault, of whatever kind."""
    random = world.random
    kind = random.randrange(8)
    if kind == 0:
        world.drops = random.choice((0.0, 0.05, 0.3))
    elif kind == 1:
        loner = random.choice(world.voter_ids)
        world.cut = {frozenset((loner, each)) for each in world.voter_ids if each != loner}
    elif kind == 2:
        ids = list(world.voter_ids)
        random.shuffle(ids)
        half = ids[: len(ids) // 2]
        world.cut = {frozenset((a, b)) for a in half for b in ids if b not in half}
    elif kind == 3:
        world.cut = set()
    elif kind in (4, 5):
        leader = world.leader()
        victims = [leader] if kind == 4 and leader is not None else world.running
        if victims:
            random.choice(victims).crash()
    else:
        stopped = [each for each in world.members.values() if each.quorum is None]
        if stopped:
            random.choice(stopped).start()


def heal(world: RaftWorld) -> None:
    world.drops, world.cut = 0.0, set()
    for member in world.members.values():
        if member.quorum is None:
            member.start()


def live_through(seed: int, voters: int) -> None:
    """Many faults, then peace."""
    world = RaftWorld(seed, voters)
    for member in world.members.values():
        member.start()
    for _ in range(ROUNDS):
        misbehave(world)
        for _ in range(world.random.randrange(1, 8)):
            world.write()
            world.run(world.random.randrange(1, 600))
    heal(world)
    world.run(HEALED_MS)
    leader = world.leader()
    assert leader is not None, "a majority is connected, so there must be a leader (L1)"
    before = len(world.committed)
    leader.append("the last word")
    world.run(2000)
    assert len(world.committed) == before + 1
    assert {len(each.shown) for each in world.running} == {before + 1}
    logs = {world.log_bytes(node_id) for node_id in world.voter_ids}
    assert len(logs) == 1
    assert world.steps > 1000


@pytest.mark.parametrize("voters", [3, 5])
@pytest.mark.parametrize("seed", range(examples(len(SEEDS))))
def test_what_is_committed_stays_whatever_happens_and_a_leader_is_found_afterwards(
    seed: int, voters: int
) -> None:
    live_through(seed, voters)


SEEN_BY_CHANCE = ("C3", "C4", "C8")


@pytest.mark.parametrize(
    "mutant",
    [mutant for mutant in MUTANTS if mutant.fires in SEEN_BY_CHANCE],
    ids=lambda mutant: mutant.name,
)
def test_a_missing_guard_is_noticed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutant.owner, mutant.attribute, mutant.instead)
    with pytest.raises(AssertionError, match=mutant.fires):
        for seed in SEEDS:
            live_through(seed, voters=3)
