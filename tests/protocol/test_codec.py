from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from tests.protocol.generated.fetch import FetchRequest
from tests.protocol.generated.produce import ProduceRequest
from tests.protocol.kio_judge import judged, kio_class, with_dates_that_kio_keeps
from tests.protocol.pairs import PAIRS
from tests.protocol.samples import full_message, random_messages
from tests.tiers import examples

from tidelog.model.errors import ErrorCode, InvariantBroken
from tidelog.protocol.apis import SUPPORTED, ApiKey
from tidelog.protocol.codec import (
    decode,
    decode_body,
    decode_request,
    decode_response,
    encode,
    encode_request,
    encode_response,
)
from tidelog.protocol.frame import MalformedRequest, read_request_header
from tidelog.protocol.message import Message, RequestMessage, replace
from tidelog.protocol.messages import request_class
from tidelog.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from tidelog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
)
from tidelog.protocol.messages.init_producer_id import InitProducerIdResponse
from tidelog.protocol.messages.join_group import JoinGroupRequest
from tidelog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tidelog.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tidelog.protocol.stored import consumer_protocol, groups, metadata, quorum, transactions
from tidelog.protocol.struct_writer import EncodedArray, Unwritable

TOPIC_ID = UUID(int=0xC0FFEE)
NOT_SERVED = (
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
)
WRITTEN_BY_HAND: dict[ApiKey, type[RequestMessage[Any]]] = {
    ApiKey.PRODUCE: ProduceRequest,
    ApiKey.FETCH: FetchRequest,
}


def request_of(api_key: ApiKey) -> type[RequestMessage[Any]]:
    return WRITTEN_BY_HAND.get(api_key) or request_class(api_key)


MESSAGES: list[tuple[type[Message], int]] = [
    (message, version)
    for api_key, version in PAIRS
    for request in [request_of(api_key)]
    for message in (request, request.RESPONSE)
]
MESSAGES += [
    (message, version)
    for request in map(request_class, NOT_SERVED)
    for message in (request, request.RESPONSE)
    for version in request.VERSIONS
]
MESSAGES += [
    (message, version)
    for module in (quorum, consumer_protocol)
    for message in vars(module).values()
    if isinstance(message, type) and issubclass(message, Message)
    if message.__module__ == module.__name__
    for version in range(message.VERSIONS[0], message.VERSIONS[1] + 1)
]
RECORDS: list[tuple[type[Message], int]] = [
    (message, version)
    for module in (metadata, groups, transactions)
    for message in vars(module).values()
    if isinstance(message, type) and issubclass(message, Message)
    if message.__module__ == module.__name__
    for version in range(message.VERSIONS[0], message.VERSIONS[1] + 1)
]


def named(value: object) -> str:
    return value.__name__ if isinstance(value, type) else str(value)


@pytest.mark.parametrize(("message", "version"), MESSAGES, ids=named)
def test_messages_are_kios_byte_for_byte_and_field_for_field(
    message: type[Message], version: int
) -> None:
    entity = kio_class(message, version)
    assert entity is not None

    @given(sample=random_messages(message, version))
    @settings(max_examples=examples(12), deadline=None, database=None)
    def agree(sample: Any) -> None:
        sample = with_dates_that_kio_keeps(sample, entity, version)
        body = encode(sample, version)

        assert decode(message, version, memoryview(body)) == sample
        assert judged(sample, version, body) == (sample, body)

    agree()


@pytest.mark.parametrize(("message", "version"), [*MESSAGES, *RECORDS], ids=named)
def test_an_empty_message_and_a_full_one_come_back(message: type[Message], version: int) -> None:
    for sample in (message(), full_message(message, version)):
        assert decode(message, version, encode(sample, version)) == sample


@pytest.mark.parametrize(("message", "version"), RECORDS, ids=named)
def test_a_stored_record_that_is_cut_or_continued_is_malformed(
    message: type[Message], version: int
) -> None:
    body = encode(full_message(message, version), version)

    for length in range(len(body)):
        with pytest.raises(MalformedRequest):
            decode(message, version, body[:length])
    with pytest.raises(MalformedRequest):
        decode(message, version, body + b"\x00")


@pytest.mark.parametrize(("message", "version"), RECORDS, ids=named)
def test_stored_records_come_back(message: type[Message], version: int) -> None:
    @given(sample=random_messages(message, version))
    @settings(max_examples=examples(12), deadline=None, database=None)
    def comes_back(sample: Any) -> None:
        assert decode(message, version, encode(sample, version)) == sample

    comes_back()


def test_every_served_version_has_its_messages() -> None:
    for api_key, served in SUPPORTED.items():
        request = request_of(api_key)
        assert (api_key, api_key) == (request.API_KEY, request.RESPONSE.API_KEY)
        assert request.VERSIONS[0] <= served.decodable_from <= served.max <= request.VERSIONS[1]
        assert min(request.FLEXIBLE_SINCE, 1 << 15) == served.first_flexible
        assert request.RESPONSE.FLEXIBLE_SINCE == request.FLEXIBLE_SINCE


def test_api_versions_5_names_the_node_that_the_client_means() -> None:
    """No second opinion knows this version; the bytes follow from the definition."""
    request = ApiVersionsRequest(
        client_software_name="me", client_software_version="1", cluster_id="c", node_id=7
    )

    body = encode(request, 5)

    assert body == b"\x03me\x021" + b"\x02c" + struct.pack(">i", 7) + b"\x00"
    assert decode(ApiVersionsRequest, 5, body) == request


def test_offsets_in_a_transaction_name_topics_by_identity_from_version_6_on() -> None:
    """No second opinion knows this version; the bytes follow from the definition."""
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id="g",
        producer_id=9,
        producer_epoch=2,
        generation_id_or_member_epoch=4,
        member_id="m",
        topics=(
            TxnOffsetCommitRequestTopic(
                topic_id=TOPIC_ID,
                partitions=(
                    TxnOffsetCommitRequestPartition(
                        partition_index=1, committed_offset=5, committed_metadata=None
                    ),
                ),
            ),
        ),
    )

    body = encode(request, 6)

    assert body == (
        b"\x02t\x02g"
        + struct.pack(">qhi", 9, 2, 4)
        + b"\x02m\x00"
        + b"\x02"
        + TOPIC_ID.bytes
        + b"\x02"
        + struct.pack(">iqi", 1, 5, -1)
        + b"\x00\x00"
        + b"\x00\x00"
    )
    assert decode(TxnOffsetCommitRequest, 6, body) == request


@pytest.mark.parametrize("version", [1, 2])
def test_fields_of_our_own_come_back(version: int) -> None:
    topic = WritableTxnMarkerTopic(name="orders", partition_indexes=(0, 4), leader_epochs=(7, 8))
    marker = WritableTxnMarker(producer_id=9, decided_ms=1_700, topics=(topic,))
    request = WriteTxnMarkersRequest(markers=(marker,))

    assert decode(WriteTxnMarkersRequest, version, encode(request, version)) == request


def test_one_response_serves_every_version() -> None:
    partition = MetadataResponsePartition(
        error_code=ErrorCode.leader_not_available,
        leader_id=-1,
        leader_epoch=4,
        replica_nodes=[100],
        isr_nodes=[100],
    )
    given_response = MetadataResponse(
        throttle_time_ms=20,
        cluster_id="cluster",
        controller_id=100,
        brokers=[MetadataResponseBroker(node_id=100, host="localhost", port=9092)],
        topics=[MetadataResponseTopic(name="orders", topic_id=TOPIC_ID, partitions=[partition])],
        cluster_authorized_operations=0,
    )

    for version in range(14):
        frame = encode_response(given_response, version, 7)
        correlation_id, response = decode_response(MetadataResponse, version, frame)

        (topic,) = response.topics
        assert (correlation_id, topic.name) == (7, "orders")
        assert topic.partitions[0].error_code is ErrorCode.leader_not_available
        assert topic.partitions[0].leader_epoch == (4 if version >= 7 else -1)
        assert topic.topic_id == (TOPIC_ID if version >= 10 else None)
        assert response.throttle_time_ms == (20 if version >= 3 else 0)


def test_a_request_loses_what_its_version_lacks() -> None:
    joining = JoinGroupRequest(group_id="g", reason="restarted")
    assert decode(JoinGroupRequest, 2, encode(joining, 2)) == JoinGroupRequest(group_id="g")

    deleting = DeleteTopicsRequest(topic_names=["a"], topics=[DeleteTopicState(name="a")])
    assert decode(DeleteTopicsRequest, 5, encode(deleting, 5)).topic_names == ("a",)
    assert decode(DeleteTopicsRequest, 6, encode(deleting, 6)).topics[0].name == "a"


def test_a_record_that_does_not_fit_is_refused_as_a_value_of_the_world() -> None:
    key = groups.OffsetCommitKey(group="g" * 40_000)

    with pytest.raises(Unwritable, match="group is longer than 32767 bytes"):
        encode(key, 0)
    with pytest.raises(Unwritable, match="directories"):
        encode(metadata.PartitionRecord(directories=(TOPIC_ID,)), 0)
    with pytest.raises(Unwritable, match="no such version"):
        encode(key, 1)


def test_text_in_an_old_response_is_cut_off_where_its_length_ends() -> None:
    response = MetadataResponse(brokers=[MetadataResponseBroker(host="é" * 40_000)])

    _, read = decode_response(MetadataResponse, 0, encode_response(response, 0, 7))

    assert read.brokers[0].host == "é" * 16_383


@pytest.mark.parametrize(
    "response",
    [
        MetadataResponse(brokers=[MetadataResponseBroker(node_id=1 << 31)]),
        MetadataResponse(brokers=[MetadataResponseBroker(host=None)]),  # type: ignore[arg-type]
        MetadataResponse(brokers=None),  # type: ignore[arg-type]
        MetadataResponse(topics=[MetadataResponseTopic(name=5)]),  # type: ignore[arg-type]
        MetadataResponse(topics=[MetadataResponseBroker()]),  # type: ignore[list-item]
        MetadataResponse(topics=[MetadataResponseTopic(topic_id="no")]),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_a_value_the_protocol_cannot_carry_is_a_bug_of_ours(response: MetadataResponse) -> None:
    with pytest.raises(InvariantBroken, match="MetadataResponse version 12"):
        encode_response(response, 12, 7)


def test_the_answer_to_api_versions_has_the_old_header_in_every_version() -> None:
    for version in range(5):
        response = ApiVersionsResponse(error_code=ErrorCode.unsupported_version)
        frame = encode_response(response, version, 7)

        assert frame[:6] == struct.pack(">ih", 7, 35)
        assert decode_response(ApiVersionsResponse, version, frame) == (7, response)


def test_supported_features_travel_as_tags() -> None:
    response = ApiVersionsResponse(
        api_keys=(ApiVersion(api_key=18, max_version=4),),
        supported_features=(SupportedFeatureKey(name="metadata.version", max_version=30),),
        finalized_features_epoch=12,
    )

    assert decode_response(ApiVersionsResponse, 3, encode_response(response, 3, 7))[1] == response


def test_a_tag_that_has_its_default_is_not_written() -> None:
    assert encode(ApiVersionsResponse(supported_features=[]), 3) == b"\x00\x00\x01" + bytes(5)


def test_unknown_tags_are_skipped() -> None:
    body = b"\x00" + b"\x01\x00" + b"\x02\x05\x03abc\x60\x00"

    assert decode_request(ApiKey.METADATA, 12, body) == MetadataRequest(topics=None)


def test_a_known_tag_must_fill_its_size() -> None:
    frame = encode_response(ApiVersionsResponse(finalized_features_epoch=12), 3, 7)
    assert frame.endswith(b"\x01\x01\x08" + struct.pack(">q", 12))

    with pytest.raises(MalformedRequest, match="finalized_features_epoch"):
        decode_response(ApiVersionsResponse, 3, frame.replace(b"\x01\x08", b"\x01\x09") + b"\x00")


def test_bytes_behind_the_last_field_are_ignored_in_requests_only() -> None:
    body = b"\x00\x00\x00\x00more"

    assert decode_request(ApiKey.METADATA, 0, body) == MetadataRequest()
    assert decode_body(MetadataRequest, 0, body) == MetadataRequest()
    with pytest.raises(MalformedRequest, match="4 bytes too many"):
        decode(MetadataRequest, 0, body)


def test_null_is_refused_where_the_version_forbids_it() -> None:
    null = b"\xff\xff\xff\xff"

    assert decode(MetadataRequest, 1, null).topics is None
    with pytest.raises(MalformedRequest, match="topic_names"):
        decode_request(ApiKey.DELETE_TOPICS, 1, null + null)


def test_an_error_code_that_is_news_to_us_is_an_unknown_server_error() -> None:
    frame = encode_response(InitProducerIdResponse(), 4, 7).replace(
        struct.pack(">ih", 0, 0), struct.pack(">ih", 0, 9999), 1
    )

    _, response = decode_response(InitProducerIdResponse, 4, frame)

    assert response.error_code is ErrorCode.unknown_server_error


def test_an_api_or_version_that_does_not_exist_is_malformed() -> None:
    with pytest.raises(MalformedRequest, match="MetadataRequest version 99"):
        decode_request(ApiKey.METADATA, 99, b"")
    with pytest.raises(MalformedRequest, match="API key 4"):
        decode_request(4, 0, b"")
    with pytest.raises(MalformedRequest, match="API key 76"):
        decode_request(ApiKey.SHARE_GROUP_HEARTBEAT, 1, b"")
    with pytest.raises(MalformedRequest):
        decode_response(MetadataResponse, 99, bytes(8))


@pytest.mark.parametrize(
    "cursor", [None, DescribeTopicPartitionsRequestCursor(topic_name="a", partition_index=4)]
)
def test_a_struct_can_be_null_behind_its_marker(
    cursor: DescribeTopicPartitionsRequestCursor | None,
) -> None:
    frame = encode_request(DescribeTopicPartitionsRequest(cursor=cursor), 0, 7, None)
    header = read_request_header(frame)

    body = memoryview(frame)[header.body_offset :]
    assert decode(DescribeTopicPartitionsRequest, 0, body).cursor == cursor


@pytest.mark.parametrize("classic", [None, groups.ClassicMemberMetadata(session_timeout_ms=5)])
def test_a_tagged_struct_that_may_be_null_says_so(
    classic: groups.ClassicMemberMetadata | None,
) -> None:
    member = groups.ConsumerGroupMemberMetadataValue(classic_member_metadata=classic)
    tag = (
        b"\x01\x00\x01\x00"
        if classic is None
        else b"\x01\x00\x07\x01" + b"\x00\x00\x00\x05\x01\x00"
    )

    body = encode(member, 0)

    assert body.endswith(tag)
    assert decode(groups.ConsumerGroupMemberMetadataValue, 0, body) == member


def test_nothing_of_a_request_refers_to_its_buffer() -> None:
    buffer = bytearray(b"\x00\x00\x00\x01\x00\x03abc")

    request = decode_request(ApiKey.METADATA, 0, memoryview(buffer))
    buffer.clear()

    assert request == MetadataRequest(topics=(MetadataRequestTopic(name="abc"),))


def test_an_array_can_be_encoded_before_its_message() -> None:
    topics = (MetadataResponseTopic(name="a"), MetadataResponseTopic(name="b"))
    body = encode(MetadataResponse(topics=topics), 12)
    (start,) = (i for i in range(len(body)) if body[i : i + 4] == b"\x03\x00\x00\x02")

    encoded = EncodedArray(2, body[start:-1])

    assert len(encoded) == 2
    assert encode(MetadataResponse(topics=encoded), 12) == body


def test_messages_are_values() -> None:
    one = MetadataRequest(topics=(MetadataRequestTopic(name="a"),))

    assert one == MetadataRequest(topics=(MetadataRequestTopic(name="a"),))
    assert one != MetadataRequest()
    assert one != "something else"
    assert {one: 1}[MetadataRequest(topics=(MetadataRequestTopic(name="a"),))] == 1
    assert "MetadataRequestTopic(topic_id=None, name='a')" in repr(one)
    assert replace(one, topics=None) == MetadataRequest(topics=None)
