"""What nodes tell of themselves while whole clusters replicate."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.node.cluster.test_replication import (
    ORDERS,
    batch,
    ends,
    in_sync,
    is_settled,
    leader_of,
    produce,
)

from tidelog.model.ids import TopicPartition
from tidelog.node.inspection.inspection import Inspection
from tidelog.node.inspection.metrics import NODE_METRICS, node_metrics
from tidelog.node.inspection.state import replica_state
from tidelog.node.inspection.survey import Survey
from tidelog.node.inspection.watching import TOLD_MAX
from tidelog.node.metadata.quorum_requests import VOTE_VERSION
from tidelog.observe.metrics import exposition
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.codec import decode_response
from tidelog.protocol.messages.vote import VoteResponse
from tidelog.protocol.primitives import MalformedRequest

if TYPE_CHECKING:
    from tests.node.cluster.conftest import Cluster, NewCluster, Wire

MANAGER = "kafka_server_replicamanager"


@pytest.fixture
def three(new_cluster: NewCluster) -> Cluster:
    """Three nodes with one partition on all of them."""
    cluster = new_cluster(3, auto_leader_rebalance_enable="false")
    cluster.start()
    cluster.create_topic("orders", factor=3, min_insync_replicas="2")
    cluster.wait(1000)
    return cluster


def inspection(cluster: Cluster, node_id: int) -> Inspection:
    return cluster[node_id].node.inspection


def surveyed(cluster: Cluster, node_id: int) -> Survey:
    looking = inspection(cluster, node_id).survey()
    while True:
        try:
            next(looking)
        except StopIteration as done:
            assert isinstance(done.value, Survey)
            return done.value


def missing(cluster: Cluster, node_id: int) -> list[str]:
    return inspection(cluster, node_id).missing(surveyed(cluster, node_id))


def metrics(cluster: Cluster, node_id: int) -> dict[str, float]:
    """Values by name, with labels in the order of their names."""
    told = node_metrics(inspection(cluster, node_id), surveyed(cluster, node_id), cluster.now)
    values = {}
    for family in text_string_to_metric_families(exposition(told)):
        for sample in family.samples:
            labels = ",".join(sample.labels[name] for name in sorted(sample.labels))
            values[f"{sample.name}{f'[{labels}]' if labels else ''}"] = sample.value
    return values


def others(cluster: Cluster) -> list[int]:
    """Those that do not lead, the controller last."""
    return sorted((each for each in (100, 101, 102) if each != leader_of(cluster)), reverse=True)


def produce_to_one(cluster: Cluster, value: bytes = b"only here") -> None:
    """With acks=1."""
    cluster.client(leader_of(cluster)).ask(
        ApiKey.PRODUCE,
        9,
        transactional_id=None,
        acks=1,
        timeout=3000,
        topic_data=[{"name": "orders", "partition_data": [{"index": 0, "records": batch(value)}]}],
    )


def test_a_healthy_cluster_says_so_in_its_metrics(three: Cluster) -> None:
    for _ in range(3):
        produce(three)
    three.wait_until(lambda: is_settled(three, 3), 1000)
    leader, follower = leader_of(three), others(three)[0]

    led, followed = metrics(three, leader), metrics(three, follower)
    assert (led[f"{MANAGER}_leadercount"], followed[f"{MANAGER}_leadercount"]) == (1, 0)
    assert led[f"{MANAGER}_partitioncount"] == followed[f"{MANAGER}_partitioncount"] == 1
    for name in ("underreplicatedpartitions", "underminisrpartitioncount", "offlinereplicacount"):
        assert led[f"{MANAGER}_{name}"] == 0, name
    assert led["kafka_server_brokertopicmetrics_messagesin_total"] == 3
    sent = led["kafka_server_brokertopicmetrics_bytesin_total"]
    assert followed["kafka_server_brokertopicmetrics_replicationbytesin_total"] == sent
    assert led["kafka_server_brokertopicmetrics_replicationbytesout_total"] == 2 * sent
    assert led["kafka_network_requestmetrics_totaltimems_count[Produce]"] == 3
    assert led["kafka_log_log_size_bytes[orders]"] == sent
    active = metrics(three, 100)
    assert active["kafka_controller_kafkacontroller_activecontrollercount"] == 1
    assert active["kafka_controller_kafkacontroller_activebrokercount"] == 3
    assert active["kafka_controller_kafkacontroller_globalpartitioncount"] == 1
    assert active["kafka_server_raftmetrics_currentleader"] == 100
    assert active["kafka_server_raftmetrics_voterlag[100]"] == 0


def test_every_metric_that_is_declared_is_given_and_no_other(three: Cluster) -> None:
    told = node_metrics(inspection(three, 100), surveyed(three, 100), three.now)
    assert {metric.family for metric in told} == set(NODE_METRICS)


def test_a_follower_that_falls_behind_is_seen_at_its_leader(three: Cluster) -> None:
    leader, follower = leader_of(three), others(three)[0]
    three[follower].is_paused = True
    produce_to_one(three)
    behind = metrics(three, leader)
    assert behind[f"{MANAGER}_followerlag_max"] == 1
    assert behind[f"{MANAGER}_followerlag[0,{follower},orders]"] == 1
    assert behind["kafka_server_replicafetchermanager_maxlag"] == 0, "a leader fetches nothing"
    assert behind[f"{MANAGER}_highwatermarklag[0,orders]"] == 1

    three.wait_until(lambda: follower not in in_sync(three), 40_000)
    three.wait(100)
    alone = metrics(three, leader)
    assert (alone[f"{MANAGER}_isrshrinks_total"], alone[f"{MANAGER}_isrexpands_total"]) == (1, 0)
    assert alone[f"{MANAGER}_underreplicatedpartitions"] == 1
    assert alone[f"{MANAGER}_atminisrpartitioncount"] == 1
    assert alone[f"{MANAGER}_underminisrpartitioncount"] == 0
    assert metrics(three, 100)["kafka_controller_kafkacontroller_fencedbrokercount"] == 1

    three[follower].is_paused = False
    three.wait_until(lambda: is_settled(three, 1), 20_000)
    assert metrics(three, leader)[f"{MANAGER}_isrexpands_total"] == 1


def test_a_follower_tells_how_much_of_what_is_committed_it_has_yet_to_fetch(
    new_cluster: NewCluster,
) -> None:
    """Kafka's metrics of these names speak of the fetching side."""
    three = new_cluster(3, replica_fetch_max_bytes="1", replica_fetch_response_max_bytes="1")
    three.start()
    three.create_topic("orders", factor=3, min_insync_replicas="2")
    three.wait(1000)
    follower = others(three)[0]
    three[follower].is_paused = True
    three.wait_until(lambda: follower not in in_sync(three), 40_000)
    for _ in range(3):
        produce(three)
    seen = []

    def looked_at(wire: Wire, frame: bytes) -> bytes:
        if wire.caller is three[follower]:
            told = metrics(three, follower)
            lag = told["kafka_server_replicafetchermanager_maxlag"]
            assert told.get("kafka_server_fetcherlagmetrics_consumerlag[0,orders]", 0) == lag
            seen.append(lag)
        return frame

    three.answer_becomes = looked_at
    three[follower].is_paused = False
    three.wait_until(lambda: is_settled(three, 3), 20_000)

    assert list(dict.fromkeys(seen)) == [0, 2, 1]
    assert metrics(three, follower)["kafka_server_replicafetchermanager_maxlag"] == 0


def test_elections_and_truncations_are_counted(three: Cluster) -> None:
    before, followers = leader_of(three), others(three)
    elections = metrics(three, 100)["kafka_controller_controllerstats_leaderelections_total"]
    for follower in followers:
        three[follower].is_paused = True
    produce_to_one(three)
    for follower in followers:
        three[follower].inbox.clear()  # the answer with that record is lost
    three[before].kill()
    for follower in followers:
        three[follower].is_paused = False
    three.wait_until(lambda: leader_of(three) not in (before, -1), 20_000)
    three.wait(200)
    assert produce(three) == 0
    three[before].start()
    three.wait_until(lambda: is_settled(three, 1), 20_000)
    after = metrics(three, 100)
    assert after["kafka_controller_controllerstats_leaderelections_total"] > elections
    assert after["kafka_controller_controllerstats_uncleanleaderelections_total"] == 0
    cut = metrics(three, before)
    assert cut[f"{MANAGER}_truncations_total"] == 1
    assert cut[f"{MANAGER}_truncatedrecords_total"] == 1


def test_a_node_is_ready_only_when_all_its_replicas_are_in_sync(three: Cluster) -> None:
    for node in (100, 101, 102):
        assert missing(three, node) == []
    follower = next(node for node in others(three) if node != 100)
    three[follower].kill()
    three.wait_until(lambda: follower not in in_sync(three), 20_000)
    produce(three)
    three[follower].holds_jobs = True
    three[follower].start()
    assert "its logs are being loaded" in missing(three, follower)
    three[leader_of(three)].is_paused = leader_of(three) != 100
    three[follower].release_jobs()
    three.wait_until(lambda: "the broker is fenced" not in missing(three, follower), 5000)
    three.wait(10)
    late = "1 of 1 local replicas are not in sync: orders-0"
    assert late in missing(three, follower)
    for machine in three.machines.values():
        machine.is_paused = False
    three.wait_until(lambda: is_settled(three, 1), 20_000)
    three.wait(100)
    assert missing(three, follower) == []


def test_a_node_without_its_controllers_is_not_ready(three: Cluster) -> None:
    three[100].kill()
    three.wait(10_000)
    [problem] = [each for each in missing(three, 101) if "controller" in each]
    assert problem.startswith("there is no active controller: 0 of 1 controllers can be reached")
    assert metrics(three, 101)["tidelog_controller_missing"] == 1


@pytest.fixture
def controllers(new_cluster: NewCluster) -> Cluster:
    """Controllers 100 to 102, which serve no clients, and broker 103."""
    cluster = new_cluster(1, controllers=3, separate=True)
    cluster.start()
    return cluster


def leading(cluster: Cluster) -> int:
    return cluster[103].node.quorum.leader_id


def test_a_controller_is_ready_once_the_leader_has_answered_it_in_this_life(
    controllers: Cluster,
) -> None:
    for node in (100, 101, 102):
        assert missing(controllers, node) == []
    leader = leading(controllers)
    others = [node for node in (100, 101, 102) if node != leader]
    for node in (100, 101, 102):
        controllers[node].kill()

    controllers[others[0]].start()

    assert controllers[others[0]].node.quorum.leader_id == leader, "its disk says so"
    [problem] = missing(controllers, others[0])
    assert problem == f"the leader of the quorum, {leader}, has not answered yet"
    controllers.wait(10_000)
    assert missing(controllers, others[0]) != []
    controllers[others[1]].start()
    controllers.wait(5000)
    for node in others:
        assert missing(controllers, node) == []


def test_a_controller_that_was_elected_is_ready_once_a_majority_follows_it(
    controllers: Cluster,
) -> None:
    before = leading(controllers)
    left = [node for node in (100, 101, 102) if node != before]
    granted = []

    def voted(wire: Wire, frame: bytes) -> bytes:
        """Who gives its vote, after its pre-vote, falls asleep."""
        with suppress(MalformedRequest):
            _, answer = decode_response(VoteResponse, VOTE_VERSION, memoryview(frame))
            granted.append(answer.topics[0].partitions[0].vote_granted)
            wire.callee.is_paused = sum(granted) == 2
        return frame

    controllers[before].kill()
    controllers.answer_becomes = voted
    controllers.wait_until(
        lambda: any(controllers[node].node.quorum.is_leader for node in left), 10_000
    )
    [elected] = [node for node in left if controllers[node].node.quorum.is_leader]
    alone = "this node leads the quorum, and no majority follows it yet"
    assert missing(controllers, elected) == [alone]
    controllers[sum(left) - elected].is_paused = False
    controllers.wait(100)
    assert missing(controllers, elected) == []


def test_a_controller_that_lacks_what_the_leader_has_committed_is_not_ready(
    new_cluster: NewCluster,
) -> None:
    controllers = new_cluster(
        1, controllers=3, separate=True, controller_quorum_fetch_max_bytes="1"
    )
    controllers.start()
    late = next(node for node in (100, 101, 102) if node != leading(controllers))
    controllers[late].is_paused = True
    for topic in ("a", "b", "c"):
        controllers.create_topic(topic, factor=1, via=103)
    controllers[late].inbox.clear()  # the answer to its last fetch is lost
    controllers[late].is_paused = False
    controllers[late].holds_jobs = True  # it cannot ask for more before it has synced
    behind = ["the metadata is not applied up to its high watermark"]
    controllers.wait_until(lambda: missing(controllers, late) == behind, 10_000)
    controllers[late].release_jobs()
    controllers.wait(1000)
    assert missing(controllers, late) == []


def test_state_names_the_quorum_and_the_brokers(three: Cluster) -> None:
    state: Any = inspection(three, 100).state(three.now)
    assert (state["node"], state["roles"]) == (100, ["broker", "controller"])
    assert state["quorum"]["leader"] == 100 and state["quorum"]["role"] == "leader"
    assert [broker["id"] for broker in state["brokers"]] == [100, 101, 102]
    assert [directory["offline"] for directory in state["directories"]] == [None]


def test_changes_are_told_while_somebody_looks_and_only_then(three: Cluster) -> None:
    leader = leader_of(three)
    watching, watch = (
        inspection(three, leader).watching,
        inspection(three, leader).context.runtime.watch,
    )
    produce(three)
    assert not watch.moved and not watch.changed
    watching.begin()
    produce(three)
    three.wait_until(lambda: is_settled(three, 2), 1000)
    told = watching.changed_replicas()
    [partition] = told.partitions
    hosted = three[leader].node.replicas.get(ORDERS)
    assert hosted is not None and partition == replica_state(hosted)
    assert (partition["log_end_offset"], partition["high_watermark"]) == (2, 2)
    assert partition["followers"] == {str(each): 2 for each in others(three)}
    assert told.left == 0
    assert watching.changed_replicas().partitions == []
    produce(three)
    watching.end()
    assert not watch.moved
    produce(three)
    assert not watch.moved and not watch.happened


def test_a_new_leader_is_told_of_before_offsets(three: Cluster) -> None:
    before = leader_of(three)
    survivor = next(each for each in others(three) if each != before)
    watching, watch = (
        inspection(three, survivor).watching,
        inspection(three, survivor).context.runtime.watch,
    )
    watching.begin()
    watch.moved |= {TopicPartition("crowd", n): None for n in range(2 * TOLD_MAX)}
    three[before].kill()
    three.wait_until(lambda: leader_of(three) not in (before, -1), 20_000)
    three.wait(100)
    told = watching.changed_replicas()
    assert (told.partitions[0]["topic"], told.partitions[0]["leader"]) == (
        "orders",
        leader_of(three),
    )
    assert len(told.partitions) == TOLD_MAX and told.left == TOLD_MAX + 1
    changed = watching.changed_partitions()
    assert [each["leader"] for each in changed.partitions] == [leader_of(three)]


def test_the_microscope_shows_how_one_record_is_committed(three: Cluster) -> None:
    leader = leader_of(three)
    for node in (100, 101, 102):
        inspection(three, node).watching.begin()
        inspection(three, node).watching.magnify([ORDERS])
    three.settle()
    produce(three)
    three.wait_until(lambda: ends(three) == {(1, 1)}, 1000)
    seen = inspection(three, leader).watching.happenings()
    what = [each["what"] for each in seen.happened]
    assert [each for each in what if each in ("appended", "parked", "acknowledged")] == [
        "appended",
        "parked",
        "acknowledged",
    ]
    assert what.index("fetch_received") < what.index("acknowledged")
    assert seen.epochs == {ORDERS: [[0, 0]]} and seen.dropped == 0
    assert [each["n"] for each in seen.happened] == list(range(1, len(what) + 1))
    at_follower = inspection(three, others(three)[0]).watching.happenings()
    followed = [each["what"] for each in at_follower.happened]
    assert followed.index("answer_received") < followed.index("appended")
    assert {"fetch_sent", "high_watermark"} <= set(followed)
    assert inspection(three, leader).watching.happenings().happened == []
