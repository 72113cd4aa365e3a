"""A broker without a controller of its own: joining, living, dying, coming back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.model.ids import DIRECTORY_LOST
from tidelog.observe.cluster_events import (
    BrokerFenced,
    BrokerRegistered,
    BrokerShuttingDown,
    BrokerUnfenced,
    LeaderElected,
)
from tidelog.observe.events import NodeStarted, NodeStopped
from tidelog.protocol.apis import ApiKey
from tidelog.simulator.disk.disk_operation import DirectoryMade
from tidelog.storage.identity import delete_clean_shutdown, write_clean_shutdown

if TYPE_CHECKING:
    from tests.node.cluster.conftest import Client, Cluster, NewCluster

GRACE_MS = 200
SESSION_MS = 9000


def is_fenced(cluster: Cluster, node_id: int, seen_by: int = 100) -> bool:
    return cluster[seen_by].image.brokers[node_id].fenced


# Joining


def test_a_broker_opens_its_listeners_once_it_is_registered_caught_up_and_unfenced(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(2)
    cluster.start(100)
    broker = cluster[101]
    broker.start()
    cluster.wait_until(lambda: bool(broker.listeners), 1000)
    assert broker.listeners == ("PLAINTEXT",)
    [started] = broker.of_kind(NodeStarted)
    own = broker.image.brokers[101]
    assert not own.fenced
    assert own.broker_epoch == broker.node.cluster.broker_epoch
    assert f"broker epoch {own.broker_epoch}" in started.cause


def test_the_controller_tells_of_brokers_that_come(cluster: Cluster) -> None:
    registered = cluster[100].of_kind(BrokerRegistered)
    assert [event.broker_id for event in registered] == [100, 101]
    unfenced = cluster[100].of_kind(BrokerUnfenced)
    assert [event.broker_id for event in unfenced] == [100, 101]
    assert all(event.cause for event in registered + unfenced)
    assert cluster[101].of_kind(BrokerRegistered) == []


def test_a_broker_that_starts_before_the_controller_waits_for_it(new_cluster: NewCluster) -> None:
    cluster = new_cluster(2)
    cluster[101].start()
    cluster.wait(3000)
    assert cluster[101].listeners == ()
    cluster.start(100)
    cluster.wait_until(lambda: bool(cluster[101].listeners), 2000)


def test_a_broker_that_no_controller_answers_gives_up_in_the_end(new_cluster: NewCluster) -> None:
    cluster = new_cluster(2, initial_broker_registration_timeout_ms="5000")
    cluster[101].start()
    cluster.wait_until(lambda: cluster[101].stopped is not None, 20_000)
    stopped = cluster[101].stopped
    assert stopped is not None
    assert "could not join the cluster in time" in (stopped.failure or "")


def test_a_broker_of_another_cluster_is_turned_away_and_stops(new_cluster: NewCluster) -> None:
    cluster = new_cluster(2)
    cluster.start(100)
    cluster[101].format("another-cluster")
    cluster[101].start()
    cluster.wait_until(lambda: cluster[101].stopped is not None, 2000)
    [stopped] = cluster[101].of_kind(NodeStopped)
    assert "inconsistent_cluster_id" in stopped.cause
    assert 101 not in cluster[100].image.brokers


def test_every_node_has_the_same_image(cluster: Cluster) -> None:
    cluster.create_topic("orders", 3)
    cluster.wait(1000)
    images = [machine.image for machine in cluster.machines.values()]
    assert images[0].end_offset == images[1].end_offset
    assert images[0].digest() == images[1].digest()


# Dying


def test_a_broker_whose_process_dies_is_fenced_after_the_grace_time(cluster: Cluster) -> None:
    cluster.create_topic("orders", 4)
    cluster[101].kill()
    cluster.wait(GRACE_MS - 10)
    assert not is_fenced(cluster, 101)
    cluster.wait(20)
    assert is_fenced(cluster, 101)
    [fenced] = cluster[100].of_kind(BrokerFenced)
    assert fenced.broker_id == 101
    assert "did not come back within 200 ms" in fenced.cause


def test_its_partitions_get_other_leaders_and_everybody_can_see_why(cluster: Cluster) -> None:
    cluster.create_topic("orders", 4)
    before = cluster[100].image.topics_by_name["orders"].partitions
    led_by_it = {index for index, partition in before.items() if partition.leader == 101}
    assert led_by_it
    cluster[101].kill()
    cluster.wait(GRACE_MS + 10)
    elected = cluster[100].of_kind(LeaderElected)
    assert {event.partition.partition for event in elected} == led_by_it
    assert all(event.leader == 100 and event.leader_before == 101 for event in elected)
    assert all("broker 101 closed its connection" in event.cause for event in elected)


def test_a_broker_that_falls_silent_is_fenced_when_its_session_ends(cluster: Cluster) -> None:
    cluster[101].is_paused = True
    cluster.wait(SESSION_MS - 2100)
    assert not is_fenced(cluster, 101)
    cluster.wait(2200)
    assert is_fenced(cluster, 101)
    assert "was not heard of for 9000 ms" in cluster[100].of_kind(BrokerFenced)[-1].cause


def test_a_broker_that_wakes_up_again_is_unfenced(cluster: Cluster) -> None:
    cluster[101].is_paused = True
    cluster.wait(SESSION_MS + 100)
    assert is_fenced(cluster, 101)
    epoch = cluster[100].image.brokers[101].broker_epoch
    cluster[101].is_paused = False
    cluster.wait(5000)
    assert not is_fenced(cluster, 101)
    assert not is_fenced(cluster, 101, seen_by=101)
    assert cluster[100].image.brokers[101].broker_epoch == epoch


def test_with_a_grace_time_of_0_only_the_end_of_the_session_counts(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(2, broker_disconnect_grace_ms="0")
    cluster.start()
    cluster[101].kill()
    cluster.wait(SESSION_MS - 2100)
    assert not is_fenced(cluster, 101)
    cluster.wait(2200)
    assert is_fenced(cluster, 101)


def test_a_lost_connection_is_no_reason_to_fence_a_broker_that_comes_back_at_once(
    cluster: Cluster,
) -> None:
    controller = cluster[100]
    for wire in [*controller._wires]:
        cluster.hang_up(wire, controller)
    cluster.wait(5000)
    assert controller.of_kind(BrokerFenced) == []
    assert cluster[101].image.end_offset == controller.image.end_offset


def say_it_lives(
    cluster: Cluster, client: Client, node_id: int = 101, *, want_fence: bool = False
) -> None:
    """Send what the broker itself would say, on another connection than its own; its next own
    heartbeat is far away."""
    cluster.wait(100)
    answer = client.ask(
        ApiKey.BROKER_HEARTBEAT,
        1,
        broker_id=node_id,
        broker_epoch=cluster[100].image.brokers[node_id].broker_epoch,
        current_metadata_offset=cluster[node_id].image.end_offset - 1,
        want_fence=want_fence,
        want_shut_down=False,
    )
    assert answer.error_code == 0


def test_a_connection_that_a_broker_has_left_behind_says_nothing_about_it(
    cluster: Cluster,
) -> None:
    client = cluster.client(100, "CONTROLLER")
    say_it_lives(cluster, client)
    cluster.wait(2500)  # the broker itself was heard since, on its own connection
    client.leave()
    cluster.wait(1000)
    assert not is_fenced(cluster, 101)


def test_a_late_heartbeat_on_a_connection_that_then_ends_fences_nobody(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(2)
    cluster.start(100)
    older = cluster.client(100, "CONTROLLER")
    cluster.start(101)
    say_it_lives(cluster, older)
    older.leave()
    cluster.wait(GRACE_MS + 100)
    assert not is_fenced(cluster, 101)


def test_what_a_broker_said_before_it_had_started_does_not_fence_it_when_it_comes_late(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(2)
    cluster.start(100)
    older = cluster.client(100, "CONTROLLER")
    cluster.start(101)
    say_it_lives(cluster, older, want_fence=True)
    assert not is_fenced(cluster, 101)


def test_the_end_of_a_newer_connection_fences_nobody_who_speaks_on_an_older_one(
    cluster: Cluster,
) -> None:
    newer = cluster.client(100, "CONTROLLER")
    say_it_lives(cluster, newer)
    newer.leave()
    cluster.wait(GRACE_MS + 100)
    assert not is_fenced(cluster, 101)


def test_a_broker_is_gone_when_its_newest_connection_ends_whatever_older_ones_are_still_open(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(2)
    cluster.start(100)
    older = cluster.client(100, "CONTROLLER")
    cluster.start(101)
    say_it_lives(cluster, older)
    cluster.wait(SESSION_MS // 2)
    cluster[101].kill()
    cluster.wait(GRACE_MS + 10)
    assert is_fenced(cluster, 101)


def test_the_end_of_the_last_connection_counts_even_if_it_is_not_the_newest(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(2)
    cluster.start(100)
    older = cluster.client(100, "CONTROLLER")
    cluster.start(101)
    say_it_lives(cluster, older)
    cluster[101].kill()
    older.leave()
    cluster.wait(GRACE_MS + 10)
    assert is_fenced(cluster, 101)


# Coming back


def test_a_broker_that_restarts_gets_a_new_epoch_and_serves_again(cluster: Cluster) -> None:
    cluster.create_topic("orders", 2)
    before = cluster[100].image.brokers[101]
    cluster[101].kill()
    cluster[101].start()
    took_ms = cluster.wait_until(lambda: bool(cluster[101].listeners), 2000)
    after = cluster[100].image.brokers[101]
    assert after.broker_epoch > before.broker_epoch
    assert after.incarnation_id != before.incarnation_id
    assert took_ms < 2 * GRACE_MS, "it need not wait for the session of the process before"


def test_the_metadata_is_read_from_the_own_disk_after_a_restart(cluster: Cluster) -> None:
    cluster.create_topic("orders", 2)
    cluster[101].kill()
    cluster.wait(1000)
    cluster[101].start()
    cluster.wait_until(lambda: bool(cluster[101].listeners), 2000)
    assert cluster[101].image.digest() == cluster[100].image.digest()


def test_a_restarted_controller_gives_everybody_a_whole_session(cluster: Cluster) -> None:
    cluster[100].kill()
    cluster.wait(3000)
    assert cluster[101].listeners, "a broker goes on without a controller"
    cluster.start(100)
    cluster.wait(SESSION_MS + 2000)
    assert cluster[100].of_kind(BrokerFenced) == []
    assert not is_fenced(cluster, 101)
    assert cluster[101].image.end_offset == cluster[100].image.end_offset


def test_a_controller_that_slept_fences_nobody_for_its_own_silence(cluster: Cluster) -> None:
    cluster[100].is_paused = True
    cluster.wait(3 * SESSION_MS)
    cluster[100].is_paused = False
    cluster.wait(5000)
    assert cluster[100].of_kind(BrokerFenced) == []
    assert not is_fenced(cluster, 101)


def test_a_controller_that_slept_still_notices_who_died_meanwhile(new_cluster: NewCluster) -> None:
    cluster = new_cluster(3)
    cluster.start()
    cluster[100].is_paused = True
    cluster[102].kill()
    cluster.wait(3 * SESSION_MS)
    cluster[100].is_paused = False
    cluster.wait(SESSION_MS + 1000)
    assert [event.broker_id for event in cluster[100].of_kind(BrokerFenced)] == [102]


def test_a_controller_that_is_always_late_fences_a_dead_broker_all_the_same(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(3)
    cluster.start()
    cluster[102].is_paused = True
    for longer_each_time_ms in range(300, 5000, 300):
        cluster[100].is_paused = True
        cluster.wait(longer_each_time_ms)
        cluster[100].is_paused = False
        cluster.wait(10)
    assert [event.broker_id for event in cluster[100].of_kind(BrokerFenced)] == [102]


def test_a_controller_does_not_fence_its_own_node_while_it_waits_for_a_slow_disk(
    cluster: Cluster,
) -> None:
    cluster[100].holds_jobs = True
    cluster.wait(3 * SESSION_MS)
    cluster[100].release_jobs()
    cluster.wait(1000)
    assert 100 not in [event.broker_id for event in cluster[100].of_kind(BrokerFenced)]
    assert not is_fenced(cluster, 100)


# Leaving


def test_a_broker_that_stops_hands_its_leaderships_over_first(cluster: Cluster) -> None:
    cluster.create_topic("orders", 4)
    cluster[101].stop()
    assert cluster[101].stopped is not None
    assert cluster[101].stopped.failure is None
    assert [event.broker_id for event in cluster[100].of_kind(BrokerShuttingDown)] == [101]
    partitions = cluster[100].image.topics_by_name["orders"].partitions.values()
    assert {partition.leader for partition in partitions} == {100}
    [fenced] = cluster[100].of_kind(BrokerFenced)
    assert fenced.cause == "it asked to stop"


def test_a_stop_does_not_wait_for_the_next_heartbeats_of_the_others(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(3)
    cluster.start()
    cluster.create_topic("orders", 6)
    before = cluster.now.monotonic_ms
    cluster[102].stop()
    assert cluster.now.monotonic_ms - before < 200, "they show by their fetches what they know"


def test_a_broker_knows_that_it_leads_nothing_before_it_stops(cluster: Cluster) -> None:
    cluster.create_topic("orders", 4)
    view = cluster[101].node.cluster
    cluster[101].stop()
    partitions = view.image.topics_by_name["orders"].partitions.values()
    assert {partition.leader for partition in partitions} == {100}


def test_the_controller_hands_over_its_own_leaderships_too(cluster: Cluster) -> None:
    cluster.create_topic("orders", 4)
    cluster[100].stop()
    partitions = cluster[101].image.topics_by_name["orders"].partitions.values()
    assert {partition.leader for partition in partitions} == {101}


def test_a_broker_that_stops_without_a_controller_does_so_after_a_session(
    cluster: Cluster,
) -> None:
    cluster[100].kill()
    before = cluster.now.monotonic_ms
    cluster[101].stop()
    assert cluster.now.monotonic_ms - before <= SESSION_MS + 100
    assert cluster[101].files.exists("/data/.kafka_cleanshutdown")


def test_a_clean_stop_is_told_to_the_controller_at_the_next_start(cluster: Cluster) -> None:
    epoch = cluster[101].node.cluster.broker_epoch
    cluster[101].stop()
    cluster.start(101)
    assert cluster[101].node.rooms.base.directories[0].previous_broker_epoch == epoch


# Several directories


@pytest.fixture
def wide(new_cluster: NewCluster) -> Cluster:
    """Two brokers with two directories each, and a topic that both are needed for."""
    cluster = new_cluster(2, log_dirs="/data,/more")
    cluster.start()
    cluster.create_topic("orders", partitions=2, min_insync_replicas="2")
    return cluster


def candidates(cluster: Cluster) -> set[tuple[int, ...]]:
    """Who may lead the partitions, beside those in sync."""
    orders = cluster[100].image.topics_by_name["orders"].partitions
    assert {partition.isr for partition in orders.values()} == {(100,)}
    return {partition.elr for partition in orders.values()}


def register_again(cluster: Cluster, epoch: int) -> None:
    """Start 101, and go on until the controller knows of its new process."""
    cluster[101].start()
    cluster.wait_until(lambda: cluster[100].image.brokers[101].broker_epoch > epoch, 1000)


def test_a_broker_whose_directories_all_say_so_has_stopped_cleanly(wide: Cluster) -> None:
    epoch = wide[101].node.cluster.broker_epoch
    wide[101].stop()
    assert candidates(wide) == {(101,)}
    register_again(wide, epoch)
    assert candidates(wide) == {(101,)}


@pytest.mark.parametrize("directory", ["/data", "/more"])
@pytest.mark.parametrize("says", ["nothing", "another epoch", "no epoch"])
def test_a_broker_whose_directories_disagree_has_not_stopped_cleanly(
    wide: Cluster, directory: str, says: str
) -> None:
    epoch = wide[101].node.cluster.broker_epoch
    wide[101].stop()
    assert candidates(wide) == {(101,)}
    files = wide[101].files
    if says == "nothing":
        delete_clean_shutdown(files, directory)
    else:
        write_clean_shutdown(files, directory, epoch - 1 if says == "another epoch" else -1)
    register_again(wide, epoch)
    assert candidates(wide) == {()}


def test_a_replica_that_could_not_be_made_is_led_by_somebody_else_and_comes_back(
    wide: Cluster,
) -> None:
    broken = wide[101].files
    broken.fail_when(
        lambda operation: (
            isinstance(operation, DirectoryMade) and operation.path.startswith("/more/clicks")
        )
    )
    wide.create_topic("clicks", partitions=4)

    clicks = wide[100].image.topics_by_name["clicks"].partitions
    lost = [index for index, each in clicks.items() if each.directory_of(101) == DIRECTORY_LOST]
    assert lost
    assert {(clicks[index].leader, clicks[index].isr) for index in lost} == {(100, (100,))}

    broken.heal()
    wide[101].stop()
    wide.start(101)
    wide.wait(5000)

    clicks = wide[100].image.topics_by_name["clicks"].partitions
    assert {tuple(sorted(each.isr)) for each in clicks.values()} == {(100, 101)}
    assert {each.directory_of(101) for each in clicks.values()} <= {
        *wide[100].image.brokers[101].log_dirs
    }
