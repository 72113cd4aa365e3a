"""Three nodes on three machines, and cables that are pulled between them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.machines import PORT, Machine, three_machines, why_not
from tests.integration.metadata import metadata
from tests.integration.promises import Writer, read_back
from tests.integration.raw import until

from tidelog.client.admin import Admin
from tidelog.client.blocking import Client

TOPIC = "orders"
QUICK = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "300",
    "replica.lag.time.max.ms": "2000",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "auto.leader.rebalance.enable": "false",
}


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Machine]]:
    missing = why_not()
    if missing is not None and os.environ.get("CI"):
        pytest.fail(f"CI must not leave out the cables: {missing}")
    if missing is not None:
        pytest.skip(missing)
    with three_machines(tmp_path_factory.mktemp("machines"), QUICK) as running:
        admin = admin_of(running)
        until(lambda: len(brokers(admin)) == 3, within_s=30)
        admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=[[101, 102, 100]])])[
            TOPIC
        ].result(20)
        until(lambda: in_sync(admin) == {100, 101, 102}, within_s=20)
        yield running


def bootstrap(machines: list[Machine]) -> str:
    return ",".join(f"{each.address}:{PORT}" for each in machines)


def admin_of(machines: list[Machine]) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap(machines), "log_level": 0})


def brokers(admin: AdminClient) -> set[int]:
    try:
        return set(admin.list_topics(timeout=2).brokers)
    except Exception:  # none of them answers yet
        return set()


def in_sync(admin: AdminClient) -> set[int]:
    return set(metadata(admin, TOPIC).topics[TOPIC].partitions[0].isrs)


def leader(admin: AdminClient) -> int:
    return int(metadata(admin, TOPIC).topics[TOPIC].partitions[0].leader)


def controller(machines: list[Machine]) -> int:
    with Client(bootstrap(machines)) as client:
        return Admin(client).describe_quorum().leader


def patient(machines: list[Machine]) -> Writer:
    """A producer that gives a leader who does not answer three seconds."""
    return Writer(bootstrap(machines), TOPIC, request_timeout_ms=3000, socket_timeout_ms=3000)


def end_offset(machines: list[Machine]) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap(machines), "group.id": "none"})
    end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=20)[1]
    consumer.close()
    return int(end)


def test_a_leader_whose_cable_is_pulled_is_replaced_and_comes_back(
    machines: list[Machine],
) -> None:
    admin, start = admin_of(machines), end_offset(machines)
    writer = patient(machines)
    writer.send(500)
    victim = next(each for each in machines if each.node_id == leader(admin))
    victim.pull_cable()
    try:
        writer.send(500)
        others = [each for each in machines if each is not victim]
        until(lambda: leader(admin_of(others)) not in (victim.node_id, -1), within_s=30)
        writer.send(500)
        writer.finish()
    finally:
        victim.plug_in()
    until(lambda: in_sync(admin) == {100, 101, 102}, within_s=40)
    found = read_back(bootstrap(machines), TOPIC, [start], writer.promised)
    assert sorted(found) == sorted(writer.promised)


@pytest.mark.parametrize("both_ways", [True, False], ids=["both ways", "one way"])
def test_writes_go_on_when_leader_and_follower_do_not_reach_each_other(
    machines: list[Machine], both_ways: bool
) -> None:
    admin, start = admin_of(machines), end_offset(machines)
    until(lambda: in_sync(admin) == {100, 101, 102}, within_s=40)
    leading = next(each for each in machines if each.node_id == leader(admin))
    taken = (leading.node_id, controller(machines))
    follower = next(each for each in machines if each.node_id not in taken)
    writer = patient(machines)
    writer.send(200)
    follower.drop_what_goes_to(leading)
    if both_ways:
        leading.drop_what_goes_to(follower)
    try:
        writer.send(200)
        writer.finish()
        writer.send(200)
        writer.finish()
    finally:
        follower.send_again_to(leading)
        if both_ways:
            leading.send_again_to(follower)
    until(lambda: in_sync(admin) == {100, 101, 102}, within_s=40)
    found = read_back(bootstrap(machines), TOPIC, [start], writer.promised)
    assert sorted(found) == sorted(writer.promised)
