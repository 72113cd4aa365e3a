from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.controller.image import ClusterImage
from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.partition_image import TopicIdPartition
from tidelog.controller.records import (
    MetadataRecord,
    UnappliableRecord,
)
from tidelog.model.ids import ZERO_UUID
from tidelog.protocol.stored.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

ORDERS = UUID(int=100)
DIRECTORY = UUID(int=500)
TOPIC = 2


def partition(index: int = 0, topic_id: UUID = ORDERS, **changes: object) -> PartitionRecord:
    values: dict[str, object] = {
        "replicas": (1, 2, 3),
        "isr": (1, 2, 3),
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "directories": (DIRECTORY,) * 3,
    }
    return PartitionRecord(partition_id=index, topic_id=topic_id, **{**values, **changes})  # type: ignore[arg-type]  # test shorthand


def image_of(*records: MetadataRecord) -> ClusterImage:
    image = ClusterImage()
    image.replay_all(enumerate(records))
    return image


def orders(*records: MetadataRecord) -> ClusterImage:
    return image_of(TopicRecord(name="orders", topic_id=ORDERS), partition(), *records)


def test_a_change_raises_the_partition_epoch_and_only_a_named_leader_the_leader_epoch() -> None:
    image = orders(PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=(1, 2)))
    shrunk = image.topics_by_name["orders"].partitions[0]
    assert (shrunk.isr, shrunk.leader_epoch, shrunk.partition_epoch) == ((1, 2), 0, 1)

    image.replay(PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=1), 3)
    same_leader = image.topics_by_name["orders"].partitions[0]
    assert (same_leader.leader, same_leader.leader_epoch, same_leader.partition_epoch) == (1, 1, 2)


def test_a_change_leaves_what_it_does_not_name() -> None:
    image = orders(PartitionChangeRecord(partition_id=0, topic_id=ORDERS))
    assert image.partition("orders", 0) == orders().topics_by_id[ORDERS].partitions[0].changed_by(
        PartitionChangeRecord(partition_id=0, topic_id=ORDERS)
    )
    changed = image.topics_by_id[ORDERS].partitions[0]
    assert (changed.replicas, changed.isr, changed.leader) == ((1, 2, 3), (1, 2, 3), 1)
    assert changed.directories == (DIRECTORY,) * 3


def test_records_from_before_directories_leave_them_unknown() -> None:
    image = image_of(
        TopicRecord(name="orders", topic_id=ORDERS), partition(directories=(), replicas=(4, 5))
    )
    assert image.topics_by_id[ORDERS].partitions[0].directories == (ZERO_UUID, ZERO_UUID)


def test_clearing_the_elr_touches_only_partitions_that_have_one() -> None:
    image = orders(
        partition(1, eligible_leader_replicas=(2,), last_known_elr=(1,)),
        ClearElrRecord(topic_name="orders"),
    )
    untouched, cleared = image.topics_by_id[ORDERS].partitions.values()
    assert untouched.partition_epoch == 0
    assert (cleared.elr, cleared.last_known_elr, cleared.partition_epoch) == ((), (), 1)


def test_removing_a_topic_takes_its_partitions_and_configs_along() -> None:
    image = orders(
        ConfigRecord(resource_type=TOPIC, resource_name="orders", name="retention.ms", value="1"),
        RemoveTopicRecord(topic_id=ORDERS),
    )
    assert image == ClusterImage()
    assert list(image.partitions_of(1)) == []


def test_partitions_are_found_by_every_broker_that_holds_a_replica() -> None:
    image = orders(
        partition(1, replicas=(2, 3, 4), isr=(2,)),
        PartitionChangeRecord(
            partition_id=0, topic_id=ORDERS, replicas=(1, 2, 4), directories=(DIRECTORY,) * 3
        ),
    )
    held = {
        broker: [index for _, index, _ in image.partitions_of(broker)] for broker in range(1, 6)
    }
    assert held == {1: [0], 2: [1, 0], 3: [1], 4: [1, 0], 5: []}


def test_a_null_config_value_removes_the_setting() -> None:
    def setting(value: str | None) -> ConfigRecord:
        return ConfigRecord(resource_type=4, resource_name="", name="a", value=value)

    image = image_of(setting("1"), setting("2"))
    assert image.config(4, "") == {"a": "2"}
    image.replay(setting(None), 2)
    assert image.configs == {}


def broker(broker_id: int = 1, epoch: int = 5, **changes: object) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=UUID(int=broker_id),
        broker_epoch=epoch,
        log_dirs=(DIRECTORY,),
        **changes,  # type: ignore[arg-type]  # test shorthand
    )


def test_a_broker_is_fenced_unfenced_and_shut_down_by_change_records() -> None:
    def change(**fields: int) -> BrokerRegistrationChangeRecord:
        return BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, **fields)  # type: ignore[arg-type]  # only numbers are given

    image = image_of(broker())
    assert image.brokers[1].fenced
    image.replay(change(fenced=-1), 1)
    assert image.brokers[1].active
    image.replay(change(in_controlled_shutdown=1), 2)
    assert not image.brokers[1].active
    image.replay(change(fenced=1), 3)
    assert (image.brokers[1].fenced, image.brokers[1].in_controlled_shutdown) == (True, True)
    assert image.brokers[1].log_dirs == (DIRECTORY,)
    assert image.brokers[1].registered_at == 0


def test_old_fencing_records_still_count() -> None:
    image = image_of(broker(), UnfenceBrokerRecord(id=1, epoch=5))
    assert not image.brokers[1].fenced
    image.replay(FenceBrokerRecord(id=1, epoch=5), 2)
    assert image.brokers[1].fenced


@pytest.mark.parametrize(
    "record",
    [
        UnregisterBrokerRecord(broker_id=1, broker_epoch=4),
        UnregisterBrokerRecord(broker_id=2, broker_epoch=5),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=6),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=7),
        TopicRecord(name="orders", topic_id=UUID(int=1)),
        TopicRecord(name="other", topic_id=ORDERS),
        PartitionRecord(partition_id=0, topic_id=UUID(int=9)),
        partition(1, directories=(DIRECTORY,)),
        PartitionChangeRecord(partition_id=9, topic_id=ORDERS),
        RemoveTopicRecord(topic_id=UUID(int=9)),
        ClearElrRecord(topic_name="none"),
        EndTransactionRecord(),
        AbortTransactionRecord(),
    ],
)
def test_a_record_that_does_not_fit_the_state_stops_the_node(record: MetadataRecord) -> None:
    image = orders(broker())
    with pytest.raises(UnappliableRecord):
        image.replay(record, 9)


def test_a_transaction_takes_effect_at_its_end() -> None:
    image = image_of(BeginTransactionRecord(name="boot"), broker())
    assert (image.in_transaction, image.brokers, image.end_offset) == (True, {}, 0)

    delta = image.replay_all([(2, EndTransactionRecord())])
    assert (image.in_transaction, list(image.brokers), image.end_offset) == (False, [1], 3)
    assert list(delta.brokers) == [1]
    assert image.brokers[1].registered_at == 1


def test_an_aborted_transaction_leaves_nothing_but_the_offset() -> None:
    image = image_of(BeginTransactionRecord(), broker(), AbortTransactionRecord(reason="no"))
    assert image == ClusterImage()
    assert image.end_offset == 3


def test_a_transaction_cannot_begin_inside_another() -> None:
    with pytest.raises(UnappliableRecord):
        image_of(BeginTransactionRecord(), BeginTransactionRecord())


def test_a_feature_at_level_zero_is_off() -> None:
    image = image_of(
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="group.version", feature_level=1),
        FeatureLevelRecord(name="group.version", feature_level=0),
    )
    assert image.features == {"metadata.version": 30}
    assert image.metadata_version == 30


def test_the_delta_shows_the_net_change_of_a_partition() -> None:
    image = orders()
    before = image.partition("orders", 0)
    delta = image.replay_all(
        [
            (2, PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=(1,))),
            (3, PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=2, isr=(2,))),
        ]
    )
    change = delta.partitions[TopicIdPartition(ORDERS, 0)]
    assert (change.topic, change.before, change.after) == (
        "orders",
        before,
        image.partition("orders", 0),
    )
    assert delta.end_offset == 4


def test_a_topic_that_came_and_went_leaves_no_trace_in_the_delta() -> None:
    image = ClusterImage()
    delta = image.replay_all(
        enumerate(
            (
                TopicRecord(name="orders", topic_id=ORDERS),
                partition(),
                RemoveTopicRecord(topic_id=ORDERS),
            )
        )
    )
    assert delta == ImageDelta(end_offset=3)


def test_a_topic_deleted_and_created_again_is_two_topics() -> None:
    image = orders()
    again = UUID(int=101)
    delta = image.replay_all(
        enumerate(
            (
                RemoveTopicRecord(topic_id=ORDERS),
                TopicRecord(name="orders", topic_id=again),
                partition(topic_id=again),
            ),
            start=2,
        )
    )
    assert (list(delta.topics_deleted), list(delta.topics_created)) == ([ORDERS], [again])
    gone, new = delta.partitions.values()
    assert (gone.after, new.before) == (None, None)


def test_a_no_op_only_moves_the_offset() -> None:
    image = orders()
    assert image.replay_all([(2, NoOpRecord())]) == ImageDelta(end_offset=3)
    assert image.end_offset == 3


def test_a_copy_lives_its_own_life() -> None:
    image = orders(broker())
    other = image.copy()
    assert other == image
    other.replay(PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=2), 3)
    other.replay(partition(1, replicas=(9,), directories=(DIRECTORY,)), 4)
    assert other != image
    assert image == orders(broker())
    assert [index for _, index, _ in other.partitions_of(9)] == [1]
    assert list(image.partitions_of(9)) == []
