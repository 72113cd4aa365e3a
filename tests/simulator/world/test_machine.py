"""A machine and its process: every way to die, to sleep and to come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidelog.model.ids import TopicPartition
from tidelog.node.core.inputs import StopRequested
from tidelog.records.batch import whole_batches
from tidelog.records.record import records_of
from tidelog.simulator.faults.faults import (
    CopyDisk,
    Damage,
    FailDisk,
    Fault,
    HealDisk,
    JumpClock,
    Kill,
    KillBeforeEffects,
    Pause,
    PowerCut,
    Reset,
    RestoreDisk,
    Resume,
    SlowDisk,
    Start,
    Stop,
)
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.happenings import Happening, Stepped
from tidelog.simulator.world.world import World

ORDERS = TopicPartition("orders", 0)

Talk = Callable[..., Any]
MakeWorld = Callable[..., World]


@pytest.fixture
def loaded(make_world: MakeWorld, talker: Talk) -> tuple[World, Any]:
    """A world of one node that holds ten records, and the client that wrote them."""
    world = make_world()
    client = talker()
    world.add_client(client)
    client.create()
    for number in range(10):
        client.produce(b"%d" % number)
    world.run_for(2_000)
    assert len(client.answers) == 11
    return world, client


def end_offset(world: World) -> int:
    node = world.machines[100].node
    assert node is not None
    partition = node.replicas.get(ORDERS)
    assert partition is not None
    return partition.log.end_offset


def values(answer: Any) -> list[bytes | None]:
    """The values that a fetch brought."""
    records = answer.topics[0].partitions[0].records
    return [record.value for _, batch in whole_batches(records) for record in records_of(batch)]


def test_a_killed_process_keeps_everything_it_wrote(loaded: tuple[World, Any]) -> None:
    world, client = loaded
    world.inject(Kill(node=100))
    world.run_for(500)
    assert world.machines[100].node is None
    assert client.losses[0] == "connection reset by peer"

    world.inject(Start(node=100))
    world.run_for(2_000)

    assert end_offset(world) == 10


def test_lost_power_takes_what_was_not_synced(loaded: tuple[World, Any]) -> None:
    world, _ = loaded
    world.inject(PowerCut(node=100, fate="lost"))
    assert not world.machines[100].powered

    world.inject(Start(node=100))
    world.run_for(2_000)

    assert end_offset(world) == 0
    assert world.machines[100].powered


@pytest.mark.parametrize("seed", range(10))
def test_a_drawn_fate_leaves_a_prefix_of_whole_batches(
    make_world: MakeWorld, talker: Talk, seed: int
) -> None:
    world = make_world(seed=seed)
    world.add_client(client := talker())
    client.create()
    for number in range(10):
        client.produce(b"%d" % number)
    world.run_for(2_000)

    world.inject(PowerCut(node=100, fate="drawn"))
    world.inject(Start(node=100))
    client.fetch(0)
    world.run_for(3_000)

    assert 0 <= end_offset(world) <= 10


@pytest.mark.parametrize("after", range(0, 40, 3))
def test_a_process_may_die_in_the_middle_of_any_step(
    make_world: MakeWorld, talker: Talk, after: int
) -> None:
    world = make_world()
    world.add_client(client := talker())
    client.create()
    world.run_for(500)

    world.inject(Kill(node=100, after=after))
    for number in range(20):
        client.produce(b"%d" % number)
    world.run_for(5_000)
    assert world.machines[100].node is None
    world.inject(Start(node=100))
    world.run_for(5_000)

    assert client.is_done
    assert end_offset(world) >= 20


@pytest.mark.parametrize("after", range(0, 40, 3))
def test_power_may_go_in_the_middle_of_any_step(
    make_world: MakeWorld, talker: Talk, after: int
) -> None:
    world = make_world(seed=after)
    world.add_client(client := talker())
    client.create()
    world.inject(PowerCut(node=100, fate="drawn", after=after))
    world.run_for(15_000)
    assert not world.machines[100].powered

    world.inject(Start(node=100))
    world.run_for(90_000)

    assert client.is_done


def test_a_process_killed_before_its_effects_did_the_work_and_told_nobody(
    loaded: tuple[World, Any],
) -> None:
    world, client = loaded
    answered = len(client.answers)
    world.inject(KillBeforeEffects(node=100))
    client.produce(b"the last")
    world.run_for(100)
    assert world.machines[100].node is None
    assert len(client.answers) == answered

    world.inject(Start(node=100))
    world.run_for(2_000)

    assert len(client.answers) == answered + 1


def test_a_stopped_node_closes_cleanly_and_is_not_started_again(loaded: tuple[World, Any]) -> None:
    world, client = loaded
    stops: list[Happening] = []
    world.observers.append(
        lambda _, event: (
            stops.append(event)
            if isinstance(event, Stepped) and isinstance(event.happened, StopRequested)
            else None
        )
    )
    world.inject(Stop(node=100))
    world.run_for(30_000)
    assert len(stops) == 1
    assert world.machines[100].node is None
    assert client.losses[0] == "the node stopped"
    assert world.machines[100].disk.files.exists("/data/.kafka_cleanshutdown")

    world.inject(Start(node=100))
    world.run_for(1_000)

    assert end_offset(world) == 10


def test_a_paused_node_answers_when_it_is_resumed(loaded: tuple[World, Any]) -> None:
    world, client = loaded
    answered = len(client.answers)
    world.inject(Pause(node=100))
    client.produce(b"patience")
    world.run_for(20_000)
    assert len(client.answers) == answered
    assert world.machines[100].node is not None

    world.inject(Resume(node=100))
    world.run_for(100)

    assert len(client.answers) == answered + 1


def test_a_paused_node_still_takes_connections(make_world: MakeWorld, talker: Talk) -> None:
    world = make_world()
    world.inject(Pause(node=100))
    world.add_client(client := talker())
    client.create()
    world.run_for(5_000)
    assert client.losses == []

    world.inject(Resume(node=100))
    world.run_for(1_000)

    assert client.is_done


def test_a_wiped_disk_has_a_new_identity_and_nothing_on_it(make_world: MakeWorld) -> None:
    world = make_world()
    machine = world.machines[100]
    meta = machine.disk.files.file_at("/data/meta.properties").data[:]

    machine.wipe()

    assert machine.node is None
    assert machine.lossy
    assert machine.disk.files.file_at("/data/meta.properties").data != meta
    assert not machine.disk.files.exists("/data/orders-0")


def test_a_restored_copy_is_older(loaded: tuple[World, Any]) -> None:
    world, client = loaded
    world.inject(CopyDisk(node=100))
    client.produce(b"after the copy")
    world.run_for(500)
    assert end_offset(world) == 11

    assert world.machines[100].restore_disk()
    world.inject(Start(node=100))
    world.run_for(2_000)

    assert end_offset(world) == 10


def test_without_a_copy_there_is_nothing_to_restore(loaded: tuple[World, Any]) -> None:
    world, _ = loaded
    world.inject(RestoreDisk(node=100))
    world.inject(Start(node=100))
    world.run_for(2_000)

    assert end_offset(world) == 10


def test_slow_writes_hold_the_loop_and_slow_syncs_do_not(
    make_world: MakeWorld, talker: Talk
) -> None:
    def answered_after(fault: SlowDisk) -> int:
        world = make_world()
        world.add_client(client := talker())
        client.create()
        world.run_for(500)
        world.inject(fault)
        client.produce(b"x")
        began = world.now_ms
        while not client.is_done:
            world.run_for(1)
        return world.now_ms - began

    assert answered_after(SlowDisk(node=100, write_ms=0, sync_ms=5_000)) < 20
    assert answered_after(SlowDisk(node=100, write_ms=300, sync_ms=0)) > 250


@pytest.mark.parametrize("how", ["full", "write"])
def test_a_node_whose_disk_fails_dies_and_is_started_again_until_it_works(
    loaded: tuple[World, Any], how: str
) -> None:
    world, client = loaded
    world.inject(FailDisk(node=100, how=how))
    client.produce(b"refused")
    world.run_for(20_000)

    world.inject(HealDisk(node=100))
    world.inject(Kill(node=100))
    world.inject(Start(node=100))
    world.run_for(10_000)

    assert end_offset(world) >= 10


def test_a_machine_whose_syncs_failed_is_restarted_to_see_what_is_left(
    loaded: tuple[World, Any],
) -> None:
    world, client = loaded
    world.inject(FailDisk(node=100, how="sync"))
    client.create("another")
    world.run_for(500)
    assert world.machines[100].disk.forgot_pages

    world.inject(HealDisk(node=100))
    assert not world.machines[100].powered
    world.inject(Start(node=100))
    world.run_for(90_000)

    assert not world.machines[100].disk.forgot_pages
    assert client.is_done


def test_a_node_that_fails_without_a_fault_is_a_violation(loaded: tuple[World, Any]) -> None:
    world, _ = loaded
    machine = world.machines[100]
    machine.disk.fail("full", "")
    machine.disk.failed = False

    with pytest.raises(Violation, match="100 failed without a fault"):
        world.run_for(60_000)


def test_a_flipped_bit_in_the_log_is_not_given_to_anybody_after_a_restart(
    loaded: tuple[World, Any],
) -> None:
    world, _ = loaded
    world.inject(Damage(node=100, kind="log", draw=7))
    world.inject(Kill(node=100))
    world.inject(Start(node=100))
    world.run_for(2_000)

    assert end_offset(world) < 10
    assert world.machines[100].lossy


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("index", "cut"),
        ("index", "remove"),
        ("index", "flip"),
        ("snapshot", "cut"),
        ("snapshot", "remove"),
        ("snapshot", "flip"),
        ("epochs", "remove"),
        ("checkpoint", "remove"),
    ],
)
def test_files_beside_the_log_can_be_damaged_without_loss(
    loaded: tuple[World, Any], kind: str, how: str
) -> None:
    world, client = loaded
    world.run_for(70_000)
    world.inject(Damage(node=100, kind=kind, draw=3, how=how))
    world.inject(Kill(node=100))
    world.inject(Start(node=100))
    client.produce(b"one more")
    world.run_for(5_000)

    assert end_offset(world) == 11


def test_a_clock_that_jumps_stamps_files_and_changes_nothing_else(
    loaded: tuple[World, Any],
) -> None:
    world, client = loaded
    before = world.machines[100].clock.at(world.timeline.now_us)
    world.inject(JumpClock(node=100, by_ms=-3_600_000))
    client.produce(b"yesterday")
    world.run_for(2_000)
    after = world.machines[100].clock.at(world.timeline.now_us)

    assert after.monotonic_ms > before.monotonic_ms
    assert after.wall_ms < before.wall_ms
    assert end_offset(world) == 11


def test_a_reset_connection_is_made_anew(loaded: tuple[World, Any]) -> None:
    world, client = loaded
    world.inject(Reset(pairs=(("100", "talker"),)))
    client.fetch(0)
    world.run_for(2_000)

    assert client.losses == ["connection reset"]
    assert values(client.answers[-1]) == [b"%d" % number for number in range(10)]


def test_clocks_run_at_their_own_rates(make_world: MakeWorld) -> None:
    world = make_world(drift_ppm=100_000, forming_ms=100_000)
    clock = world.machines[100].clock
    now = clock.at(world.timeline.now_us)

    assert clock.at(clock.world_us(now.monotonic_ms)).monotonic_ms == now.monotonic_ms
    assert clock.at(clock.world_us(now.monotonic_ms) - 1).monotonic_ms == now.monotonic_ms - 1
    assert now.wall_ms - clock.at(0).wall_ms != 100_000


def test_nothing_strikes_once_the_calm_has_begun(make_world: MakeWorld) -> None:
    world = make_world()
    world.calm()
    world.inject(Kill(node=100))

    assert world.machines[100].node is not None


@pytest.mark.parametrize(
    "fault",
    [
        Kill(node=100, after=3),
        KillBeforeEffects(node=100),
        PowerCut(node=100, after=3),
        Stop(node=100),
        Pause(node=100),
        FailDisk(node=100, how="full"),
        SlowDisk(node=100, write_ms=5_000, sync_ms=60_000),
    ],
    ids=lambda fault: type(fault).__name__,
)
def test_every_fault_ends_with_the_calm(make_world: MakeWorld, talker: Talk, fault: Fault) -> None:
    world = make_world()
    world.inject(fault)
    world.calm()
    world.add_client(client := talker())
    client.create()
    for _ in range(20):
        client.produce(b"x")
    world.run_for(20_000)

    assert client.is_done
    assert world.is_whole(world.machines[100])
