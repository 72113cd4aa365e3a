"""The controller as a whole: it decides, others replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.controller.brokers import BrokerHeartbeat
from tidelog.controller.configs import ConfigChange, ConfigOp, ResourceChange
from tidelog.controller.features import FeatureUpdate
from tidelog.controller.partitions import NewPartitions
from tidelog.controller.records import decode_record, encode_record
from tidelog.controller.result import ControllerResult
from tidelog.controller.topics import NewTopic
from tidelog.model.ids import ZERO_UUID

if TYPE_CHECKING:
    from tests.controller.conftest import Cluster


def test_deciding_changes_nothing_and_every_record_can_be_stored(cluster: Cluster) -> None:
    cluster.create("orders", (100, 101, 102))
    before = cluster.image.digest()
    controller, now = cluster.controller, cluster.now
    epoch = cluster.image.brokers[100].broker_epoch
    asked = ResourceChange(2, "orders", [ConfigChange("retention.ms", ConfigOp.SET, "5")])
    beat = BrokerHeartbeat(100, epoch, cluster.next_offset, want_fence=True, want_shut_down=False)

    decisions: list[ControllerResult[Any]] = [
        controller.create_topics([NewTopic("others", 3, 2)]),
        controller.delete_topics([("orders", ZERO_UUID)]),
        controller.create_partitions([NewPartitions("orders", 3)]),
        controller.incremental_alter_configs([asked]),
        controller.alter_configs([asked]),
        controller.update_features([FeatureUpdate("eligible.leader.replicas.version", 0, 2)]),
        controller.register_broker(cluster.registration(103), next_offset=99, now=now),
        controller.broker_heartbeat(beat, next_offset=99, now=now),
        controller.unregister_broker(102),
        controller.allocate_producer_ids(100, epoch),
    ]

    assert cluster.image.digest() == before
    for decision in decisions:
        assert decision.records
        for record in decision.records:
            assert decode_record(encode_record(record)) == record


def test_the_next_decision_sees_what_was_replayed(cluster: Cluster) -> None:
    cluster.do(cluster.controller.create_topics([NewTopic("orders", 1, 1)]))
    cluster.do(cluster.controller.create_partitions([NewPartitions("orders", 2)]))

    assert len(cluster.image.topics_by_name["orders"].partitions) == 2


def test_the_same_entropy_makes_the_same_decisions(cluster: Cluster) -> None:
    twin = type(cluster)({})
    twin.start(100, 101, 102)
    requests = [NewTopic("orders", 12, 2), NewTopic("others", 5, 3)]

    assert (
        twin.controller.create_topics(requests).records
        == cluster.controller.create_topics(requests).records
    )
