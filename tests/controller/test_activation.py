"""What a controller writes when it becomes the active one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.controller.brokers import RegisterController
from tidelog.model.errors import ErrorCode
from tidelog.protocol.stored.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    RegisterControllerRecord,
)

if TYPE_CHECKING:
    from tests.controller.conftest import Cluster, NewCluster

ELR = "eligible.leader.replicas.version"
GROUP_VERSION = "group.version"
TRANSACTION_VERSION = "transaction.version"
MINIMUM = ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="2")
BOOTSTRAP = (
    BeginTransactionRecord(name="Bootstrap records"),
    FeatureLevelRecord(name="metadata.version", feature_level=30),
    FeatureLevelRecord(name=ELR, feature_level=1),
    FeatureLevelRecord(name=GROUP_VERSION, feature_level=1),
    FeatureLevelRecord(name=TRANSACTION_VERSION, feature_level=2),
    MINIMUM,
    EndTransactionRecord(),
)


def test_an_empty_cluster_gets_its_first_records_as_one_transaction(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(activate=False, min_insync_replicas="2")
    decision = cluster.controller.activate(cluster.now)

    assert decision.records == BOOTSTRAP
    cluster.do(decision)
    assert cluster.image.metadata_version == 30


def test_the_records_of_the_format_are_used_when_there_are_any(new_cluster: NewCluster) -> None:
    cluster = new_cluster(activate=False)
    formatted = FeatureLevelRecord(name="metadata.version", feature_level=30)
    decision = cluster.controller.activate(cluster.now, (formatted,))

    assert decision.records == (BOOTSTRAP[0], formatted, BOOTSTRAP[-1])


def test_a_cluster_that_has_its_records_gets_no_more(cluster: Cluster) -> None:
    assert cluster.controller.activate(cluster.now).records == ()


def test_a_transaction_left_open_is_voided_first(cluster: Cluster) -> None:
    cluster.replay(BeginTransactionRecord(name="half done"))
    decision = cluster.controller.activate(cluster.now)

    assert [type(record) for record in decision.records] == [AbortTransactionRecord]


def test_a_bootstrap_that_was_cut_short_starts_over(new_cluster: NewCluster) -> None:
    cluster = new_cluster(activate=False, min_insync_replicas="2")
    cluster.replay(*BOOTSTRAP[:3])
    decision = cluster.controller.activate(cluster.now)

    assert isinstance(decision.records[0], AbortTransactionRecord)
    assert decision.records[1:] == BOOTSTRAP


def test_a_controller_is_noted_when_it_joins(cluster: Cluster) -> None:
    said = cluster.registration(200)
    joining = RegisterController(200, said.incarnation_id, said.endpoints, said.features)
    decision = cluster.controller.register_controller(joining)

    assert [type(record) for record in decision.records] == [RegisterControllerRecord]
    cluster.do(decision)
    assert cluster.image.controllers[200].incarnation_id == said.incarnation_id


def test_a_controller_must_support_the_finalized_features(cluster: Cluster) -> None:
    said = cluster.registration(200)
    joining = RegisterController(200, said.incarnation_id, said.endpoints, ())
    refusal = cluster.controller.register_controller(joining).reply

    assert refusal is not None
    assert refusal.code is ErrorCode.unsupported_version
