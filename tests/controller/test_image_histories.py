"""Whatever happens to a cluster, its state survives a snapshot and its deltas are complete."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.controller.image import ClusterImage, difference
from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.partition_image import TopicIdPartition
from tidelog.controller.records import MetadataRecord
from tidelog.protocol.stored.metadata import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ClientQuotaRecordEntityData,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)

DIRECTORY = UUID(int=500)
NAMES = st.sampled_from(("a", "b", "c"))
MAYBE_NAMES = st.none() | NAMES
BROKERS = st.integers(1, 4)
SMALL = st.integers(0, 3)
IDS = SMALL.map(lambda number: UUID(int=number))
MEMBERS = st.lists(BROKERS, min_size=1, max_size=3, unique=True).map(tuple)
MAYBE_MEMBERS = st.none() | MEMBERS
ENTITIES = st.lists(
    st.builds(ClientQuotaRecordEntityData, entity_type=NAMES, entity_name=MAYBE_NAMES),
    min_size=1,
    max_size=2,
    unique_by=lambda entity: entity.entity_type,
).map(tuple)

ALWAYS_FITTING: st.SearchStrategy[MetadataRecord] = st.one_of(
    st.just(NoOpRecord()),
    st.just(ClearElrRecord(topic_name="")),
    st.builds(
        ConfigRecord, resource_type=SMALL, resource_name=NAMES, name=NAMES, value=MAYBE_NAMES
    ),
    st.builds(FeatureLevelRecord, name=NAMES, feature_level=SMALL),
    st.builds(ProducerIdsRecord, broker_id=BROKERS, next_producer_id=st.integers(1, 9000)),
    st.builds(
        RegisterBrokerRecord,
        broker_id=BROKERS,
        incarnation_id=IDS,
        broker_epoch=SMALL,
        fenced=st.booleans(),
        rack=MAYBE_NAMES,
    ),
    st.builds(RegisterControllerRecord, controller_id=BROKERS, incarnation_id=IDS),
    st.builds(
        ClientQuotaRecord, entity=ENTITIES, key=NAMES, value=st.floats(0, 9), remove=st.booleans()
    ),
    st.builds(
        AccessControlEntryRecord,
        id=IDS,
        resource_type=SMALL,
        resource_name=NAMES,
        pattern_type=SMALL,
        principal=NAMES,
        host=NAMES,
        operation=SMALL,
        permission_type=SMALL,
    ),
    st.builds(RemoveAccessControlEntryRecord, id=IDS),
    st.builds(
        UserScramCredentialRecord,
        name=NAMES,
        mechanism=SMALL,
        salt=st.just(b"salt"),
        stored_key=st.just(b"stored"),
        server_key=st.just(b"server"),
        iterations=SMALL,
    ),
    st.builds(RemoveUserScramCredentialRecord, name=NAMES, mechanism=SMALL),
    st.builds(
        DelegationTokenRecord,
        owner=NAMES,
        requester=NAMES,
        issue_timestamp=SMALL,
        max_timestamp=SMALL,
        expiration_timestamp=SMALL,
        token_id=NAMES,
    ),
    st.builds(RemoveDelegationTokenRecord, token_id=NAMES),
)


def about_topics(draw: st.DrawFn, image: ClusterImage) -> MetadataRecord:
    """Create a topic, or change or remove the one of that name."""
    name = draw(NAMES)
    topic = image.topics_by_name.get(name)
    if topic is None:
        return TopicRecord(name=name, topic_id=UUID(int=1000 + image.end_offset))
    topic_id = topic.topic_id
    index = draw(SMALL)
    if draw(st.integers(0, 9)) == 0:
        return RemoveTopicRecord(topic_id=topic_id)
    if index not in topic.partitions:
        return PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=draw(MEMBERS),
            isr=draw(MEMBERS),
            leader=draw(BROKERS),
            leader_epoch=draw(SMALL),
            partition_epoch=draw(SMALL),
            eligible_leader_replicas=draw(MAYBE_MEMBERS),
        )
    return PartitionChangeRecord(
        partition_id=index,
        topic_id=topic_id,
        isr=draw(MAYBE_MEMBERS),
        leader=draw(st.integers(-2, 4)),
        replicas=draw(MAYBE_MEMBERS),
        leader_recovery_state=draw(st.integers(-1, 1)),
        last_known_elr=draw(MAYBE_MEMBERS),
    )


def about_brokers(draw: st.DrawFn, image: ClusterImage) -> MetadataRecord:
    """Change or remove a broker, if it is there."""
    known = image.brokers.get(draw(BROKERS))
    if known is None:
        return NoOpRecord()
    if draw(st.integers(0, 4)) == 0:
        return UnregisterBrokerRecord(broker_id=known.broker_id, broker_epoch=known.broker_epoch)
    return BrokerRegistrationChangeRecord(
        broker_id=known.broker_id,
        broker_epoch=known.broker_epoch,
        fenced=draw(st.integers(-1, 1)),
        in_controlled_shutdown=draw(st.integers(0, 1)),
        cordoned_log_dirs=draw(st.sampled_from((None, (), (DIRECTORY,)))),
    )


def about_the_rest(draw: st.DrawFn, _image: ClusterImage) -> MetadataRecord:
    return draw(ALWAYS_FITTING)


KINDS: tuple[Callable[[st.DrawFn, ClusterImage], MetadataRecord], ...] = (
    about_topics,
    about_topics,
    about_brokers,
    about_the_rest,
    about_the_rest,
)


@st.composite
def histories(draw: st.DrawFn) -> list[MetadataRecord]:
    """Records of which each fits the state that the earlier ones made."""
    image = ClusterImage()
    history: list[MetadataRecord] = []
    for kind in draw(st.lists(st.sampled_from(KINDS), max_size=25)):
        record = kind(draw, image)
        image.replay(record, len(history))
        history.append(record)
    return history


def image_of(records: Iterable[MetadataRecord]) -> ClusterImage:
    image = ClusterImage()
    image.replay_all(enumerate(records))
    return image


def held(image: ClusterImage) -> dict[int, set[TopicIdPartition]]:
    found: dict[int, set[TopicIdPartition]] = {}
    for topic in image.topics_by_name.values():
        for index, state in topic.partitions.items():
            for replica in state.replicas:
                found.setdefault(replica, set()).add(TopicIdPartition(topic.topic_id, index))
    return found


@settings(max_examples=examples(100), deadline=None)
@given(histories())
def test_a_snapshot_builds_the_same_state(history: list[MetadataRecord]) -> None:
    image = image_of(history)
    again = image_of(image.snapshot_records())
    assert again == image
    assert again.digest() == image.digest()
    assert held(image) == {
        number: {TopicIdPartition(t.topic_id, index) for t, index, _ in image.partitions_of(number)}
        for number in held(image)
    }


@settings(max_examples=examples(100), deadline=None)
@given(histories(), st.data())
def test_deltas_carry_one_state_into_the_next(
    history: list[MetadataRecord], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(history)))
    image = image_of(history[:cut])
    before = image.copy()
    delta = image.replay_all(enumerate(history[cut:], start=cut))

    assert image == image_of(history)
    for key, change in delta.partitions.items():
        assert change.before == partition_in(before, key)
        assert change.after == partition_in(image, key)
    for number in before.brokers.keys() | image.brokers.keys():
        if before.brokers.get(number) != image.brokers.get(number):
            assert delta.brokers[number].before == before.brokers.get(number)
            assert delta.brokers[number].after == image.brokers.get(number)
    touched = {key for owner in (before, image) for key in keys_of(owner)}
    changed = {key for key in touched if partition_in(before, key) != partition_in(image, key)}
    assert changed <= delta.partitions.keys()
    resources = before.configs.keys() | image.configs.keys()
    assert {r for r in resources if before.config(*r) != image.config(*r)} <= delta.configs.keys()


@settings(max_examples=examples(100), deadline=None)
@given(histories(), st.data())
def test_the_difference_of_two_images_is_what_the_log_between_them_changed(
    history: list[MetadataRecord], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(history)))
    before, after = image_of(history[:cut]), image_of(history)
    told = before.copy().replay_all(enumerate(history[cut:], start=cut))
    seen = difference(before, after)

    assert seen.topics_created.keys() <= told.topics_created.keys()
    assert seen.topics_deleted.keys() <= told.topics_deleted.keys()
    for key in {*keys_of(before), *keys_of(after)}:
        changes = partition_in(before, key) != partition_in(after, key)
        assert changes == (key in seen.partitions)
        if changes:
            change = seen.partitions[key]
            assert change.before == partition_in(before, key)
            assert change.after == partition_in(after, key)
            assert key in told.partitions
    for number in before.brokers.keys() | after.brokers.keys():
        changes = before.brokers.get(number) != after.brokers.get(number)
        assert changes == (number in seen.brokers)
    assert seen.configs.keys() <= told.configs.keys()
    assert seen.features.keys() <= told.features.keys()
    assert seen.controllers.keys() <= told.controllers.keys()
    assert (before == after) == (seen == ImageDelta(end_offset=after.end_offset))


def keys_of(image: ClusterImage) -> Iterable[TopicIdPartition]:
    for topic in image.topics_by_name.values():
        for index in topic.partitions:
            yield TopicIdPartition(topic.topic_id, index)


def partition_in(image: ClusterImage, key: TopicIdPartition) -> object:
    topic = image.topics_by_id.get(key.topic_id)
    return None if topic is None else topic.partitions.get(key.partition)
