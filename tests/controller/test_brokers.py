"""Brokers that join and go."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from tidelog.controller.records import RECOVERING
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import NO_LEADER
from tidelog.protocol.stored.metadata import (
    PartitionChangeRecord,
    RegisterBrokerRecord,
    RegisteredFeature,
    UnregisterBrokerRecord,
)

if TYPE_CHECKING:
    from tests.controller.conftest import Cluster, NewCluster


def code(outcome: int | Refusal) -> ErrorCode:
    assert isinstance(outcome, Refusal)
    return outcome.code


def test_a_new_broker_starts_fenced_with_the_next_offset_as_its_epoch(cluster: Cluster) -> None:
    offset = cluster.next_offset

    assert cluster.register(cluster.registration(103, rack="r")) == offset
    broker = cluster.image.brokers[103]
    assert (broker.broker_epoch, broker.fenced, broker.rack) == (offset, True, "r")
    assert broker.registered_at == offset


def test_the_same_incarnation_amends_what_it_said(cluster: Cluster) -> None:
    before = cluster.image.brokers[101]

    amended = cluster.registrations[101]._replace(rack="elsewhere")
    assert cluster.register(amended) == before.broker_epoch

    after = cluster.image.brokers[101]
    assert (after.rack, after.fenced, after.broker_epoch) == (
        "elsewhere",
        False,
        before.broker_epoch,
    )


def test_another_process_cannot_take_the_id_of_a_live_broker(cluster: Cluster) -> None:
    assert code(cluster.restart(101)) is ErrorCode.duplicate_broker_registration


def test_the_id_is_free_once_the_session_has_passed(cluster: Cluster) -> None:
    cluster.wait(9000)

    assert isinstance(cluster.restart(101), int)


def test_the_id_is_free_soon_after_the_heartbeat_connection_closed(cluster: Cluster) -> None:
    cluster.controller.broker_disconnected(101, cluster.now)
    assert code(cluster.restart(101)) is ErrorCode.duplicate_broker_registration
    cluster.wait(200)

    assert isinstance(cluster.restart(101), int)


def test_a_broker_that_restarts_together_with_the_controller_is_not_held_up(
    cluster: Cluster,
) -> None:
    cluster.do(cluster.controller.activate(cluster.now))

    assert isinstance(cluster.restart(101), int)


def test_a_new_incarnation_has_a_larger_epoch(cluster: Cluster) -> None:
    before = cluster.image.brokers[101].broker_epoch
    cluster.wait(9000)

    after = cluster.restart(101)

    assert isinstance(after, int)
    assert after > before


def test_a_new_incarnation_leaves_the_isrs_before_it_is_registered(cluster: Cluster) -> None:
    cluster.create("orders", (101, 102))
    cluster.wait(9000)
    registration = cluster.registrations[101]._replace(incarnation_id=UUID(int=5000))
    decision = cluster.controller.register_broker(
        registration, next_offset=cluster.next_offset, now=cluster.now
    )

    assert [type(record) for record in decision.records] == [
        PartitionChangeRecord,
        RegisterBrokerRecord,
    ]
    cluster.do(decision)
    assert cluster.lead_isr_elr() == (102, (102,), ())


def test_after_an_unclean_stop_a_broker_is_no_longer_eligible(cluster: Cluster) -> None:
    cluster.create("orders", (101,))
    cluster.fence(101)
    assert cluster.lead_isr_elr() == (NO_LEADER, (), (101,))
    cluster.wait(9000)

    cluster.restart(101)

    assert cluster.lead_isr_elr() == (NO_LEADER, (), ())
    assert cluster.partition("orders").last_known_elr == (101,)


def test_a_lone_replica_leads_again_after_an_unclean_stop_as_its_last_known_leader(
    cluster: Cluster,
) -> None:
    cluster.create("orders", (101,))
    cluster.wait(9000)
    cluster.restart(101)

    cluster.beat(101)

    assert cluster.lead_isr_elr() == (101, (101,), ())
    assert cluster.partition("orders").recovery_state == RECOVERING


def test_after_a_clean_stop_a_broker_stays_eligible(cluster: Cluster) -> None:
    cluster.create("orders", (101,))
    epoch = cluster.image.brokers[101].broker_epoch
    cluster.wait(9000)

    cluster.restart(101, previous_broker_epoch=epoch)

    assert cluster.lead_isr_elr() == (NO_LEADER, (), (101,))
    cluster.beat(101)
    assert cluster.lead_isr_elr() == (101, (101,), ())


def test_without_elr_the_last_member_keeps_its_place_over_a_restart(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(elr=False)
    cluster.start(101)
    cluster.create("orders", (101,))
    cluster.wait(9000)

    cluster.restart(101)

    assert cluster.lead_isr_elr() == (NO_LEADER, (101,), ())
    cluster.beat(101)
    assert cluster.lead_isr_elr() == (101, (101,), ())


def test_a_broker_of_another_cluster_is_refused(cluster: Cluster) -> None:
    stranger = cluster.registration(103)._replace(cluster_id="another")

    assert code(cluster.register(stranger)) is ErrorCode.inconsistent_cluster_id


def test_a_zookeeper_broker_is_refused(cluster: Cluster) -> None:
    old = cluster.registration(103)._replace(is_migrating_zk_broker=True)

    assert code(cluster.register(old)) is ErrorCode.broker_id_not_registered


@pytest.mark.parametrize("log_dirs", [(), (UUID(int=99),), (UUID(int=500), UUID(int=500))], ids=str)
def test_directories_must_be_named_once_and_not_be_reserved(
    cluster: Cluster, log_dirs: tuple[UUID, ...]
) -> None:
    bad = cluster.registration(103)._replace(log_dirs=log_dirs)

    assert code(cluster.register(bad)) is ErrorCode.invalid_registration


def test_a_directory_belongs_to_one_broker(cluster: Cluster) -> None:
    taken = cluster.registrations[100].log_dirs

    copied = cluster.registration(103)._replace(log_dirs=taken)
    assert code(cluster.register(copied)) is ErrorCode.invalid_registration


def test_a_broker_must_say_which_metadata_version_it_supports(cluster: Cluster) -> None:
    silent = cluster.registration(103)._replace(features=())

    assert code(cluster.register(silent)) is ErrorCode.invalid_registration


@pytest.mark.parametrize(
    "features",
    [
        [("metadata.version", 7, 29), ("eligible.leader.replicas.version", 0, 1)],
        [("metadata.version", 7, 30)],
    ],
)
def test_a_broker_must_support_every_finalized_feature(
    cluster: Cluster, features: list[tuple[str, int, int]]
) -> None:
    ranges = tuple(
        RegisteredFeature(name=name, min_supported_version=low, max_supported_version=high)
        for name, low, high in features
    )
    outcome = cluster.register(cluster.registration(103)._replace(features=ranges))

    assert code(outcome) is ErrorCode.unsupported_version


def test_an_unregistered_broker_leaves_isr_and_elr(cluster: Cluster) -> None:
    cluster.create("orders", (101,))
    cluster.create("others", (101, 102))
    cluster.fence(101)
    decision = cluster.controller.unregister_broker(101)

    assert isinstance(decision.records[-1], UnregisterBrokerRecord)
    assert cluster.do(decision) is None
    assert 101 not in cluster.image.brokers
    assert cluster.lead_isr_elr() == (NO_LEADER, (), ())
    assert cluster.lead_isr_elr("others") == (102, (102,), ())


def test_only_a_registered_broker_can_be_unregistered(cluster: Cluster) -> None:
    refusal = cluster.controller.unregister_broker(7).reply

    assert refusal is not None
    assert refusal.code is ErrorCode.broker_id_not_registered
