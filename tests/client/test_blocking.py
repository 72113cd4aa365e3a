"""Finding brokers, trying again, and giving up: against a peer whose answers are scripted."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.protocol.kio_messages.entity_messages import encode_response

from tidelog.client.admin import Admin
from tidelog.client.blocking import Client, parse_bootstrap
from tidelog.client.connection import Connection
from tidelog.client.errors import NoController, RequestRefused, Unreachable
from tidelog.client.offsets import LATEST, BoundsSurvey, find_offsets
from tidelog.client.probe import is_unfenced
from tidelog.local.ports import free_ports
from tidelog.model.errors import ConfigError, ErrorCode
from tidelog.protocol.apis import ApiKey

Scripted = Callable[[Callable[[Any, Any, Any], Any]], Any]


def test_addresses_are_read_one_by_one() -> None:
    assert parse_bootstrap("one:9092, [::1]:9093") == [("one", 9092), ("::1", 9093)]


@pytest.mark.parametrize("text", ["", "host", "host:", ":9092", "host:0", "host:99999", "a:1,,b:2"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_bootstrap(text)


def test_the_first_contact_fails_at_once_and_names_everyone_who_is_missing() -> None:
    one, two = free_ports(2)
    before = time.monotonic()

    with pytest.raises(Unreachable) as caught:
        Client(f"127.0.0.1:{one},127.0.0.1:{two}")

    assert time.monotonic() - before < 5
    assert f":{one}" in str(caught.value)
    assert f":{two}" in str(caught.value)


def test_a_connection_whose_greeting_is_refused_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        refusal = encode_response(ApiKey.API_VERSIONS, 4, 0, {"error_code": 31, "api_keys": []})
        heard: list[bytes] = []

        def refuse() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(len(refusal).to_bytes(4, "big") + refusal)
                peer.settimeout(10)
                heard.append(peer.recv(1))

        thread = threading.Thread(target=refuse)
        thread.start()
        with pytest.raises(RequestRefused) as caught:
            Connection("127.0.0.1", server.getsockname()[1], client_id="t", timeout_s=10)
        thread.join()

    assert caught.value.code is ErrorCode.cluster_authorization_failed
    assert heard == [b""]


def test_one_live_broker_among_dead_ones_is_enough(scripted: Scripted) -> None:
    (dead,) = free_ports(1)
    peer = scripted(lambda self, header, body: self.metadata(orders=2))

    with Client(f"127.0.0.1:{dead},{peer.bootstrap}") as client:
        view = client.refresh()

    assert view.cluster_id == "scripted"
    assert [each.leader_epoch for each in view.topic("orders").partitions] == [3, 3]


def test_a_peer_that_stays_silent_is_unreachable_after_the_timeout(scripted: Scripted) -> None:
    never = threading.Event()
    peer = scripted(lambda self, header, body: never.wait(10) and None)

    with (
        Client(peer.bootstrap, request_timeout_s=0.05, timeout_s=0.05) as client,
        pytest.raises(Unreachable, match="did not answer"),
    ):
        client.refresh()
    never.set()


def test_a_lost_connection_is_made_anew(scripted: Scripted) -> None:
    def cut_once(self: Any, header: Any, body: Any) -> Any:
        return None if len(self.asked) == 1 else self.metadata(orders=1)

    peer = scripted(cut_once)

    with Client(peer.bootstrap) as client:
        view = Admin(client).topics()

    assert list(view.topics) == ["orders"]
    assert peer.asked == [ApiKey.METADATA, ApiKey.METADATA]


def test_a_retriable_refusal_is_tried_again(scripted: Scripted) -> None:
    def busy_twice(self: Any, header: Any, body: Any) -> Any:
        code = ErrorCode.not_controller if len(self.asked) < 3 else ErrorCode.none
        return {"topics": [{"name": "orders", "error_code": code, "num_partitions": 4}]}

    peer = scripted(busy_twice)

    with Client(peer.bootstrap) as client:
        assert Admin(client).create_topic("orders") == 4
    assert peer.asked == [ApiKey.CREATE_TOPICS] * 3


def test_a_retriable_refusal_makes_the_client_ask_anew_who_leads(scripted: Scripted) -> None:
    def moved_once(self: Any, header: Any, body: Any) -> Any:
        if header.api_key is ApiKey.METADATA:
            return self.metadata(orders=1)
        moved = ErrorCode.not_leader_or_follower if len(self.asked) == 2 else ErrorCode.none
        answer = {"partition_index": 0, "error_code": moved, "offset": 7}
        return {"topics": [{"name": "orders", "partitions": [answer]}]}

    peer = scripted(moved_once)

    with Client(peer.bootstrap) as client:
        assert find_offsets(client, "orders", {0: LATEST}) == {0: 7}
    assert peer.asked == [ApiKey.METADATA, ApiKey.LIST_OFFSETS] * 2


def test_what_a_leader_refuses_of_one_partition_is_told_of_that_partition_alone(
    scripted: Scripted,
) -> None:
    def one_disk_failed(self: Any, header: Any, body: Any) -> Any:
        if header.api_key is ApiKey.METADATA:
            return self.metadata(orders=3, more=1)
        codes = [ErrorCode.none, ErrorCode.kafka_storage_error, ErrorCode.none]
        answers = [
            {"partition_index": index, "error_code": code, "offset": 7}
            for index, code in enumerate(codes)
        ]
        return {"topics": [{"name": "orders", "partitions": answers}]}

    peer = scripted(one_disk_failed)

    with Client(peer.bootstrap) as client:
        survey = BoundsSurvey(client, patience_s=0.0)
        found = survey.of("orders", [0, 1, 2])
        more = survey.of("more", [0])

    assert found == {0: (7, 7), 1: "leader 1: KAFKA_STORAGE_ERROR", 2: (7, 7)}
    assert more == {0: (7, 7)}


def test_a_leader_that_refuses_is_waited_for_once(scripted: Scripted) -> None:
    def no_offsets_yet(self: Any, header: Any, body: Any) -> Any:
        if header.api_key is ApiKey.METADATA:
            return self.metadata(orders=1, more=1)
        refused = {"partition_index": 0, "error_code": ErrorCode.offset_not_available}
        return {"topics": [{"name": "orders", "partitions": [refused]}]}

    peer = scripted(no_offsets_yet)

    with Client(peer.bootstrap) as client:
        survey = BoundsSurvey(client, patience_s=0.3)
        assert survey.of("orders", [0]) == {0: "leader 1: OFFSET_NOT_AVAILABLE"}
        waiting = len(peer.asked)
        assert survey.of("more", [0]) == {0: "leader 1: OFFSET_NOT_AVAILABLE"}

    assert waiting > 3
    assert peer.asked[waiting:] == [ApiKey.LIST_OFFSETS] * 2


def test_a_leader_that_hangs_up_does_not_answer(scripted: Scripted) -> None:
    def hang_up(self: Any, header: Any, body: Any) -> Any:
        return self.metadata(orders=2) if header.api_key is ApiKey.METADATA else None

    peer = scripted(hang_up)

    with Client(peer.bootstrap) as client:
        found = BoundsSurvey(client, patience_s=0.0).of("orders", [0, 1])

    assert found == dict.fromkeys([0, 1], "leader 1 does not answer")


@pytest.mark.parametrize(
    "code", [ErrorCode.cluster_authorization_failed, ErrorCode.unsupported_version]
)
def test_whoever_may_not_ask_for_the_controller_goes_on(
    scripted: Scripted, code: ErrorCode
) -> None:
    peer = scripted(lambda self, header, body: {"error_code": code, "topics": []})

    with Client(peer.bootstrap) as client:
        Admin(client).require_controller()

    assert peer.asked == [ApiKey.DESCRIBE_QUORUM]


def test_a_cluster_without_a_controller_says_why(scripted: Scripted) -> None:
    missing = {
        "error_code": ErrorCode.not_controller,
        "error_message": "1 of 3 controllers can be reached",
        "topics": [],
    }
    peer = scripted(lambda self, header, body: missing)

    with (
        Client(peer.bootstrap) as client,
        pytest.raises(NoController, match="1 of 3 controllers can be reached"),
    ):
        Admin(client).require_controller()


def test_a_final_refusal_is_passed_on_with_the_brokers_words(scripted: Scripted) -> None:
    refusal = {
        "name": "orders",
        "error_code": ErrorCode.topic_already_exists,
        "error_message": "there is one already",
    }
    peer = scripted(lambda self, header, body: {"topics": [refusal]})

    with Client(peer.bootstrap) as client, pytest.raises(RequestRefused) as caught:
        Admin(client).create_topic("orders")

    assert caught.value.code is ErrorCode.topic_already_exists
    assert "there is one already" in str(caught.value)
    assert peer.asked == [ApiKey.CREATE_TOPICS]


def test_a_topic_that_is_not_there_is_not_waited_for(scripted: Scripted) -> None:
    missing = {"name": "orders", "error_code": ErrorCode.unknown_topic_or_partition}
    peer = scripted(lambda self, header, body: {"responses": [missing]})

    with Client(peer.bootstrap) as client, pytest.raises(RequestRefused):
        Admin(client).delete_topic("orders")

    assert peer.asked == [ApiKey.DELETE_TOPICS]


def test_trying_again_ends_when_the_time_is_up(scripted: Scripted) -> None:
    peer = scripted(
        lambda self, header, body: {
            "topics": [{"name": "orders", "error_code": ErrorCode.not_controller}]
        }
    )

    with Client(peer.bootstrap, timeout_s=0.1) as client, pytest.raises(RequestRefused) as caught:
        Admin(client).create_topic("orders")

    assert caught.value.code is ErrorCode.not_controller
    assert len(peer.asked) > 1


def test_a_broker_is_ready_when_it_shows_itself(scripted: Scripted) -> None:
    peer = scripted(lambda self, header, body: self.metadata())
    (dead,) = free_ports(1)

    assert is_unfenced("127.0.0.1", peer.port, 1, timeout_s=5)
    assert not is_unfenced("127.0.0.1", peer.port, 2, timeout_s=5)
    assert not is_unfenced("127.0.0.1", dead, 1, timeout_s=5)
