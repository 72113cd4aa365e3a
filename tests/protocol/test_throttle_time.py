"""The time that clients are told to wait, put into answers of every kind."""

from __future__ import annotations

import pytest

from tidelog.protocol.apis import FORWARDED, SUPPORTED, ApiKey
from tidelog.protocol.codec import decode_response, encode_response
from tidelog.protocol.message import ResponseMessage
from tidelog.protocol.messages.metadata import MetadataResponse
from tidelog.protocol.messages.write_txn_markers import WriteTxnMarkersResponse
from tidelog.protocol.parts import joined
from tidelog.protocol.throttle_time import (
    encoded_with_throttle_time,
    read_throttle_time,
    with_throttle_time,
)


def every_response(parent: type[ResponseMessage] = ResponseMessage) -> list[type[ResponseMessage]]:
    import tidelog.node.api  # noqa: F401

    return parent.__subclasses__()


ENCODED = {ApiKey.METADATA, *FORWARDED}
RESPONSES = [each for each in every_response() if each.API_KEY in SUPPORTED]


@pytest.mark.parametrize("response", RESPONSES, ids=lambda response: response.__name__)
def test_an_answer_tells_the_longer_of_two_times(response: type[ResponseMessage]) -> None:
    has_time = any(field.name == "throttle_time_ms" for field in response.FIELDS)
    told = with_throttle_time(response(), 700)
    assert getattr(told, "throttle_time_ms", None) == (700 if has_time else None)
    assert getattr(with_throttle_time(told, 5), "throttle_time_ms", 700) == 700


@pytest.mark.parametrize(
    "response",
    [each for each in RESPONSES if each.API_KEY in ENCODED],
    ids=lambda response: response.__name__,
)
def test_an_answer_that_is_bytes_already_tells_the_same_as_one_that_is_not(
    response: type[ResponseMessage],
) -> None:
    key = ApiKey(response.API_KEY)
    for version in range(SUPPORTED[key].min, SUPPORTED[key].max + 1):
        plain = encode_response(response(), version, 7)
        told = joined(encoded_with_throttle_time(key, version, [plain], 700))
        assert told == encode_response(with_throttle_time(response(), 700), version, 7)
        read_ms = read_throttle_time(key, version, told)
        assert read_ms == getattr(decode_response(response, version, told)[1], FIELD, 0)
        longer = joined(encoded_with_throttle_time(key, version, [told], 5))
        assert longer == told


FIELD = "throttle_time_ms"


def test_what_has_no_room_for_a_time_is_left_as_it_is() -> None:
    markers = WriteTxnMarkersResponse()
    assert with_throttle_time(markers, 700) is markers
    old = encode_response(MetadataResponse(), 2, 7)
    assert encoded_with_throttle_time(ApiKey.METADATA, 2, [old], 700) == [old]
    assert read_throttle_time(ApiKey.METADATA, 2, old) == 0
