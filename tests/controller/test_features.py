"""Features of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.controller.features import FeatureUpdate, UpgradeType, default_features
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.protocol.stored.metadata import (
    ConfigRecord,
    FeatureLevelRecord,
)

if TYPE_CHECKING:
    from tests.controller.conftest import Cluster, NewCluster

ELR = "eligible.leader.replicas.version"
GROUP_VERSION = "group.version"
TRANSACTION_VERSION = "transaction.version"
OFF = FeatureUpdate(ELR, 0, UpgradeType.SAFE_DOWNGRADE)
ON = FeatureUpdate(ELR, 1)


def update(cluster: Cluster, *updates: FeatureUpdate) -> dict[str, Refusal | None]:
    return cluster.do(cluster.controller.update_features(updates))


def test_a_new_cluster_starts_with_the_latest_of_everything() -> None:
    assert default_features() == (
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name=ELR, feature_level=1),
        FeatureLevelRecord(name=GROUP_VERSION, feature_level=1),
        FeatureLevelRecord(name=TRANSACTION_VERSION, feature_level=2),
    )


def test_a_feature_is_switched_off_and_on_again(cluster: Cluster) -> None:
    assert update(cluster, OFF) == {ELR: None}
    assert ELR not in cluster.image.features
    assert update(cluster, ON) == {ELR: None}
    assert cluster.image.features[ELR] == 1


def test_validation_alone_writes_nothing(cluster: Cluster) -> None:
    decision = cluster.controller.update_features([OFF], validate_only=True)

    assert (decision.records, decision.reply) == ((), {ELR: None})


def test_the_current_level_is_accepted_and_not_written(cluster: Cluster) -> None:
    decision = cluster.controller.update_features([ON, FeatureUpdate("metadata.version", 30)])

    assert decision.records == ()
    assert decision.reply == {ELR: None, "metadata.version": None}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (FeatureUpdate(ELR, 0), "asked for as a downgrade"),
        (FeatureUpdate(ELR, 2), "supports levels 0 to 1"),
        (FeatureUpdate(ELR, -1), "not negative"),
        (FeatureUpdate(ELR, 1, 0), "no type of upgrade"),
        (FeatureUpdate("metadata.version", 29, UpgradeType.SAFE_DOWNGRADE), "levels 30 to 30"),
        (FeatureUpdate("share.version", 1), "does not know this feature"),
    ],
)
def test_impossible_updates_are_refused(cluster: Cluster, asked: FeatureUpdate, words: str) -> None:
    decision = cluster.controller.update_features([asked])
    refusal = decision.reply[asked.name]

    assert decision.records == ()
    assert refusal is not None
    assert refusal.code is ErrorCode.invalid_update_version
    assert words in refusal.why


def test_a_downgrade_cannot_raise_the_level(cluster: Cluster) -> None:
    update(cluster, OFF)

    refusal = update(cluster, FeatureUpdate(ELR, 1, UpgradeType.UNSAFE_DOWNGRADE))[ELR]
    assert refusal is not None
    assert "cannot go up" in refusal.why


def test_all_updates_are_taken_or_none(cluster: Cluster) -> None:
    reply = update(cluster, OFF, FeatureUpdate("share.version", 1))

    assert reply[ELR] is None
    assert reply["share.version"] is not None
    assert cluster.image.features[ELR] == 1


def test_a_feature_named_twice_is_refused(cluster: Cluster) -> None:
    decision = cluster.controller.update_features([OFF, OFF])

    assert decision.records == ()
    assert decision.reply[ELR] is not None


def test_every_registered_broker_must_support_the_level(cluster: Cluster) -> None:
    update(cluster, OFF)
    old = cluster.registration(103)
    known = tuple(feature for feature in old.features if feature.name != ELR)
    cluster.register(old._replace(features=known))

    refusal = update(cluster, ON)[ELR]
    assert refusal is not None
    assert "broker 103 does not know this feature" in refusal.why


def test_switching_elr_on_pins_one_minimum_isr_for_the_cluster(new_cluster: NewCluster) -> None:
    cluster = new_cluster(elr=False, min_insync_replicas="2")
    cluster.start(100)
    cluster.replay(
        ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value=None),
        ConfigRecord(resource_type=4, resource_name="100", name="min.insync.replicas", value="3"),
    )

    update(cluster, ON)

    assert cluster.image.config(4, "") == {"min.insync.replicas": "2"}
    assert not cluster.image.config(4, "100")


def test_elr_stays_on_while_partitions_depend_on_it(cluster: Cluster) -> None:
    cluster.create("orders", (100,))
    cluster.fence(100)

    refusal = update(cluster, OFF)[ELR]
    assert refusal is not None
    assert "still depend on eligible leader replicas" in refusal.why
