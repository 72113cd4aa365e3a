"""Three nodes, each broker and controller: who leads, what outlives it, what does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.protocol.kio_messages.entity_messages import decode_response, encode_request

from tidelog.model.errors import ErrorCode
from tidelog.model.principal import ANONYMOUS
from tidelog.model.time import Now
from tidelog.observe.cluster_events import (
    BrokerFenced,
    ControllerActivated,
    ControllerDeactivated,
    ControllerFound,
    ControllerMissing,
    StrangeController,
)
from tidelog.observe.events import NodeStopped
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.forwarded_principal import principal_bytes
from tidelog.quorum.fetching import SnapshotFetch, SnapshotFetchResponse

if TYPE_CHECKING:
    from tests.node.cluster.conftest import Cluster, Machine, NewCluster

LOG = "/data/__cluster_metadata-0/00000000000000000000.log"


@pytest.fixture
def trio(new_cluster: NewCluster) -> Cluster:
    """Nodes 100, 101 and 102, all of them serving."""
    three = new_cluster(3, controllers=3)
    three.start()
    return three


def is_active(machine: Machine) -> bool:
    plane = machine.node.rooms.control.plane
    return plane is not None and plane.is_active


def active(cluster: Cluster) -> Machine:
    """The one active controller."""
    [leading] = [
        machine
        for machine in cluster.machines.values()
        if machine.is_running and is_active(machine)
    ]
    return leading


def others(cluster: Cluster, machine: Machine) -> list[Machine]:
    return [each for each in cluster.machines.values() if each is not machine]


def new_active(cluster: Cluster, before: Machine, within_ms: int) -> Machine:
    def is_there() -> bool:
        return any(each.is_running and is_active(each) for each in others(cluster, before))

    cluster.wait_until(is_there, within_ms)
    return next(each for each in others(cluster, before) if each.is_running and is_active(each))


def topic(name: str) -> dict[str, object]:
    return {
        "name": name,
        "num_partitions": 1,
        "replication_factor": 3,
        "assignments": [],
        "configs": [],
    }


def test_one_of_three_is_active_and_all_know_what_is_committed(trio: Cluster) -> None:
    trio.create_topic("orders", factor=3)
    leader = active(trio)
    trio.wait(600)
    for machine in trio.machines.values():
        assert machine.image.topics_by_name.keys() == {"orders"}
        assert sorted(machine.image.controllers) == [100, 101, 102]
        assert machine.node.rooms.control.channel.leader_id == leader.node_id
    assert (
        len({bytes(each.files.open(LOG).read(0, 1 << 20)) for each in trio.machines.values()}) == 1
    )


def test_a_killed_controller_is_replaced_within_the_grace_time(trio: Cluster) -> None:
    before = active(trio)
    before.kill()
    after = new_active(trio, before, 250)
    assert after.of_kind(ControllerActivated)
    trio.wait_until(lambda: bool(after.of_kind(BrokerFenced)), 250)
    [fenced] = after.of_kind(BrokerFenced)
    assert fenced.broker_id == before.node_id
    for survivor in others(trio, before):
        assert not survivor.image.brokers[survivor.node_id].fenced


def test_everybody_but_the_dead_goes_on_under_the_new_controller(trio: Cluster) -> None:
    before = active(trio)
    before.kill()
    after = new_active(trio, before, 250)
    trio.wait(20_000)
    [fenced] = after.of_kind(BrokerFenced)
    assert fenced.broker_id == before.node_id, "a new controller gives a whole session (C17)"
    trio.create_topic("orders", factor=2, via=others(trio, before)[0].node_id)


def test_a_leader_that_hung_up_is_not_suspected_again_in_a_later_election(trio: Cluster) -> None:
    before = active(trio)
    before.kill()
    after = new_active(trio, before, 250)
    trio.wait_until(lambda: bool(after.of_kind(BrokerFenced)), 250)
    assert after.node.quorum.elections.take_lost_leader() is None


def test_a_killed_controller_comes_back_as_a_follower(trio: Cluster) -> None:
    before = active(trio)
    before.kill()
    after = new_active(trio, before, 250)
    trio.start(before.node_id)
    trio.wait(3000)
    assert active(trio) is after
    assert not before.image.brokers[before.node_id].fenced


def test_a_paused_controller_is_replaced_and_steps_down_when_it_wakes_up(trio: Cluster) -> None:
    before = active(trio)
    before.is_paused = True
    after = new_active(trio, before, 8000)
    trio.wait(2000)
    before.is_paused = False
    trio.wait(2000)
    assert active(trio) is after
    assert before.of_kind(ControllerDeactivated)
    assert before.node.rooms.control.channel.leader_id == after.node_id


def test_what_was_not_committed_is_refused_and_forgotten(trio: Cluster) -> None:
    before = active(trio)
    for other in others(trio, before):
        other.kill()
    client = trio.client(before.node_id, "CONTROLLER")
    client.send(ApiKey.CREATE_TOPICS, 7, topics=[topic("lost")], timeout=1000)
    trio.wait(10)
    assert client.frames == [], "nothing is answered before it is committed"
    trio.wait(3100)
    assert before.of_kind(ControllerDeactivated), "without a majority nobody leads (C8)"
    assert "lost" not in before.image.topics_by_name
    _, answer = decode_response(ApiKey.CREATE_TOPICS, 7, client.frames.pop())
    assert answer.topics[0].error_code == ErrorCode.not_controller
    for other in others(trio, before):
        other.start()
    trio.wait(6000)
    survivor = active(trio)
    assert (
        len({bytes(each.files.open(LOG).read(0, 1 << 20)) for each in trio.machines.values()}) == 1
    )
    assert survivor.image.topics_by_name.keys() == before.image.topics_by_name.keys()


def test_an_envelope_says_itself_that_the_lead_was_lost_meanwhile(trio: Cluster) -> None:
    before = active(trio)
    for other in others(trio, before):
        other.kill()
    fields = {"topics": [topic("lost")], "timeout": 1000}
    answer = trio.client(before.node_id, "CONTROLLER").ask(
        ApiKey.ENVELOPE,
        0,
        request_data=encode_request(ApiKey.CREATE_TOPICS, 7, 1, "somebody", fields),
        request_principal=principal_bytes(ANONYMOUS),
        client_host_address=bytes(4),
    )
    assert answer.error_code == ErrorCode.not_controller
    assert answer.response_data is None


def test_a_client_whose_broker_lost_the_lead_hears_from_the_next_controller(trio: Cluster) -> None:
    before = active(trio)
    for other in others(trio, before):
        other.kill()
    client = trio.client(before.node_id)
    client.send(ApiKey.CREATE_TOPICS, 7, topics=[topic("orders")], timeout=1000)
    trio.wait_until(lambda: bool(before.of_kind(ControllerDeactivated)), 5000)
    assert client.frames == []
    for other in others(trio, before):
        other.start()
    trio.wait_until(lambda: bool(client.frames), 10_000)
    _, answer = decode_response(ApiKey.CREATE_TOPICS, 7, client.frames.pop())
    assert answer.topics[0].error_code in (ErrorCode.none, ErrorCode.topic_already_exists)
    assert "orders" in active(trio).image.topics_by_name


def test_a_controller_that_stops_hands_over_at_once(trio: Cluster) -> None:
    before = active(trio)
    before.stop()
    assert before.stopped is not None
    assert before.stopped.failure is None
    after = new_active(trio, before, 20)
    assert after.image.brokers[before.node_id].fenced


def test_a_cluster_that_was_stopped_as_a_whole_comes_back(trio: Cluster) -> None:
    trio.create_topic("orders", factor=3)
    for machine in trio.machines.values():
        machine.stop()
    trio.start()
    assert active(trio).image.topics_by_name.keys() == {"orders"}


def test_a_cluster_that_lost_power_as_a_whole_comes_back(trio: Cluster) -> None:
    trio.create_topic("orders", factor=3)
    for machine in trio.machines.values():
        machine.kill()
    trio.start()
    assert active(trio).image.topics_by_name.keys() == {"orders"}


def test_a_standby_refuses_what_only_the_active_controller_decides(trio: Cluster) -> None:
    standby = others(trio, active(trio))[0]
    client = trio.client(standby.node_id, "CONTROLLER")
    answer = client.ask(ApiKey.CREATE_TOPICS, 7, topics=[topic("orders")], timeout=1000)
    assert answer.topics[0].error_code == ErrorCode.not_controller


def test_any_broker_passes_on_what_only_the_active_controller_decides(trio: Cluster) -> None:
    for machine in trio.machines.values():
        trio.create_topic(f"through-{machine.node_id}", factor=3, via=machine.node_id)


def test_no_fetch_waits_so_long_that_its_voter_stands(new_cluster: NewCluster) -> None:
    hasty = new_cluster(3, controllers=3, controller_quorum_fetch_timeout_ms="400")
    hasty.start()
    leading, epoch = active(hasty), active(hasty).node.quorum.epoch

    hasty.wait(5_000)

    assert (active(hasty), leading.node.quorum.epoch) == (leading, epoch)


def test_voters_with_a_false_alarm_do_not_disturb_the_leader(trio: Cluster) -> None:
    leader = active(trio)
    loser = others(trio, leader)[0]
    epoch = leader.node.quorum.describe(trio.now)
    loser.node.quorum.elections.leader_disconnected(trio.now)
    trio.wait(3000)
    assert active(trio) is leader
    again = leader.node.quorum.describe(trio.now)
    assert epoch is not None and again is not None
    assert again.leader_epoch == epoch.leader_epoch


def test_separate_controllers_serve_brokers_and_take_snapshots_of_their_own(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(
        2,
        controllers=3,
        separate=True,
        metadata_log_max_record_bytes_between_snapshots="500",
    )
    cluster.start()
    for number in range(5):
        cluster.create_topic(f"topic-{number}", factor=2, via=103 + number % 2)
    cluster.wait(3000)
    for machine in cluster.machines.values():
        names = machine.files.list("/data/__cluster_metadata-0")
        snapshots = [name for name in names if name.endswith(".checkpoint")]
        assert snapshots[-1] > "00000000000000000001", f"{machine.host} has a snapshot"
    before = active(cluster)
    assert before.node_id in cluster.controllers
    before.kill()
    after = new_active(cluster, before, 250)
    cluster.create_topic("later", factor=2, via=103)
    assert after.image.topics_by_name.keys() >= {"later"}
    before.files.wall_ms = cluster.now.wall_ms
    before.start()
    cluster.wait(1000)
    assert before.image.topics_by_name.keys() == after.image.topics_by_name.keys()


def test_a_controller_that_lost_its_log_begins_with_a_snapshot(new_cluster: NewCluster) -> None:
    cluster = new_cluster(
        2, controllers=3, separate=True, metadata_log_max_record_bytes_between_snapshots="500"
    )
    cluster.start()
    cluster.create_topic("orders", factor=2, via=103)
    cluster.wait(3000)
    cluster.create_topic("clicks", factor=2, via=103)
    late = others(cluster, active(cluster))[0]
    late.kill()
    late.format()
    late.start()
    cluster.wait(2000)
    assert late.image.topics_by_name.keys() == {"orders", "clicks"}
    assert late.node.quorum.leader_id == active(cluster).node_id


def test_a_snapshot_that_arrives_damaged_is_fetched_again(
    new_cluster: NewCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = new_cluster(
        2, controllers=3, separate=True, metadata_log_max_record_bytes_between_snapshots="500"
    )
    cluster.start()
    cluster.create_topic("orders", factor=2, via=103)
    cluster.wait(3000)
    leading = active(cluster)
    given, whole = [], leading.node.quorum.handle_snapshot_fetch

    def damaged_once(asked: SnapshotFetch, now: Now) -> SnapshotFetchResponse:
        piece = whole(asked, now)
        given.append(piece)
        return piece if len(given) > 1 else piece._replace(data=bytes(len(piece.data)))

    monkeypatch.setattr(leading.node.quorum, "handle_snapshot_fetch", damaged_once)
    late = others(cluster, leading)[0]
    late.kill()
    late.format()
    late.start()
    cluster.wait(2000)
    assert len(given) == 2
    assert late.image.topics_by_name.keys() == {"orders"}


def test_a_controller_with_another_disk_gets_its_vote_back_where_that_is_wanted(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(3, controllers=3, controller_quorum_auto_join_enable="true")
    cluster.start()
    leader = active(cluster)
    wiped = others(cluster, leader)[0]
    wiped.kill()
    wiped.format()
    wiped.start()
    own = wiped.node.quorum.identity
    assert leader.node.quorum.voters.find(*own) is None
    cluster.wait_until(lambda: leader.node.quorum.voters.find(*own) is not None, 10_000)
    cluster.wait(1000)
    assert leader.node.quorum.voters.voter_ids == (100, 101, 102)
    leader.kill()
    new_active(cluster, leader, 250)


# Too few controllers


def describe_quorum(trio: Cluster, node_id: int) -> tuple[int, str | None]:
    topic = {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
    answer = trio.client(node_id).ask(ApiKey.DESCRIBE_QUORUM, 2, topics=[topic])
    return answer.error_code, answer.error_message


def test_who_is_left_without_a_majority_says_so_within_seconds_and_again_when_it_is_back(
    trio: Cluster,
) -> None:
    survivor, *dead = others(trio, active(trio))[0], active(trio), others(trio, active(trio))[1]
    for machine in dead:
        machine.kill()
    trio.wait_until(lambda: bool(survivor.of_kind(ControllerMissing)), 4000)

    [missing] = survivor.of_kind(ControllerMissing)
    where = ", ".join(f"{machine.host}:9093" for machine in sorted(dead, key=lambda m: m.host))
    assert missing.cause == (
        "1 of 3 controllers can be reached, and 2 are needed: nobody answers at " + where
    )
    code, why = describe_quorum(trio, survivor.node_id)
    assert code == ErrorCode.not_controller
    assert missing.cause in (why or "")
    trio.wait(20_000)
    assert len(survivor.of_kind(ControllerMissing)) == 1

    dead[0].start()
    trio.wait_until(lambda: bool(survivor.of_kind(ControllerFound)), 4000)
    [found] = survivor.of_kind(ControllerFound)
    assert found.controller_id == active(trio).node_id
    assert "there was none for" in found.cause
    assert describe_quorum(trio, survivor.node_id)[0] == ErrorCode.none


def test_a_leader_that_loses_its_majority_says_so_as_well(trio: Cluster) -> None:
    leader = active(trio)
    for machine in others(trio, leader):
        machine.is_paused = True
    trio.wait_until(lambda: bool(leader.of_kind(ControllerMissing)), 7000)
    for machine in others(trio, leader):
        machine.is_paused = False
    trio.wait_until(lambda: bool(leader.of_kind(ControllerFound)), 4000)


def test_a_broker_that_votes_nowhere_says_so_too(new_cluster: NewCluster) -> None:
    cluster = new_cluster(1, controllers=3, separate=True)
    cluster.start()
    for node_id in (100, 101, 102):
        cluster[node_id].kill()
    cluster.wait_until(lambda: bool(cluster[103].of_kind(ControllerMissing)), 5000)
    [missing] = cluster[103].of_kind(ControllerMissing)
    assert missing.cause.startswith("0 of 3 controllers can be reached, and 2 are needed")


def test_a_change_of_the_controller_and_the_own_sleep_are_no_reason_to_say_so(
    trio: Cluster,
) -> None:
    leader = active(trio)
    leader.kill()
    new_active(trio, leader, 2000)
    leader.start()
    sleeper = active(trio)
    sleeper.is_paused = True
    trio.wait(10_000)
    sleeper.is_paused = False
    trio.wait(10_000)
    assert [machine.of_kind(ControllerMissing) for machine in trio.machines.values()] == [[]] * 3


# One that was formatted for another cluster


STRANGE = "AAAAAAAAAAAAAAAAAAAAAA"


@pytest.mark.parametrize("order", [(100, 101, 102), (102, 100, 101), (100, 102, 101)])
def test_who_was_formatted_for_another_cluster_stops_and_the_others_go_on(
    new_cluster: NewCluster, order: tuple[int, ...]
) -> None:
    three = new_cluster(3, controllers=3)
    three[102].format(STRANGE)
    for node_id in order:
        three[node_id].start()
        three.wait(3000)

    right = [three[100], three[101]]
    three.wait_until(lambda: all(machine.is_serving for machine in right), 5000)
    three.wait_until(lambda: three[102].stopped is not None, 5000)
    [stopped] = three[102].of_kind(NodeStopped)
    assert STRANGE in stopped.cause
    assert "node-100:9093, node-101:9093 are of another cluster" in stopped.cause
    assert all(machine.stopped is None for machine in right)
    three.create_topic("orders", factor=2)
    told = [event for machine in right for event in machine.of_kind(StrangeController)]
    assert {event.address for event in told} <= {"node-102:9093"}


def test_a_broker_of_the_right_cluster_passes_over_a_controller_of_another(
    new_cluster: NewCluster,
) -> None:
    five = new_cluster(2, controllers=3, separate=True)
    five[100].format(STRANGE)
    five[100].start()
    five[103].start()
    five.wait(1000)
    assert [event.address for event in five[103].of_kind(StrangeController)] == ["node-100:9093"]

    five.start(101, 102, 103)

    assert five[103].is_serving


def test_two_controllers_of_two_clusters_do_not_wait_for_each_other(
    new_cluster: NewCluster,
) -> None:
    two = new_cluster(2, controllers=2)
    two[101].format(STRANGE)
    two[100].start()
    two[101].start()
    two.wait_until(lambda: any(each.stopped is not None for each in two.machines.values()), 5000)
