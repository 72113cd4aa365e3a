"""Commands at brokers that answer otherwise than ours: later, less, or only to some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from tidelog.cli.main import app
from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey

Scripted = Callable[[Callable[[Any, Any, Any], Any]], Any]


@pytest.mark.parametrize(("options", "ending"), [(["--if-exists"], 0), ([], 1)])
def test_a_topic_that_only_the_broker_still_shows_is_gone(
    scripted: Scripted, options: list[str], ending: int
) -> None:
    def late(self: Any, header: Any, body: Any) -> Any:
        if header.api_key is ApiKey.METADATA:
            return self.metadata(orders=1)
        if header.api_key is ApiKey.DESCRIBE_QUORUM:
            return {"error_code": ErrorCode.unsupported_version, "topics": []}
        gone = {"name": "orders", "error_code": ErrorCode.unknown_topic_or_partition}
        return {"responses": [gone]}

    peer = scripted(late)

    ended = CliRunner().invoke(
        app, ["topics", "delete", "orders", *options, "--bootstrap", peer.bootstrap]
    )

    assert ended.exit_code == ending, ended.output
    assert "there is no such topic" in ended.output


def test_a_topic_is_created_by_whoever_may_do_that_and_nothing_else(scripted: Scripted) -> None:
    def with_access_control(self: Any, header: Any, body: Any) -> Any:
        if header.api_key is ApiKey.DESCRIBE_QUORUM:
            return {"error_code": ErrorCode.cluster_authorization_failed, "topics": []}
        return {"topics": [{"name": "orders", "error_code": 0, "num_partitions": 4}]}

    peer = scripted(with_access_control)

    ended = CliRunner().invoke(app, ["topics", "create", "orders", "--bootstrap", peer.bootstrap])

    assert ended.exit_code == 0, ended.output
    assert "created orders with 4 partitions" in ended.output


def test_records_that_nobody_can_take_are_given_up_at_once_with_the_reason(
    scripted: Scripted,
) -> None:
    why = "1 of 3 controllers can be reached, and 2 are needed"

    def without_controllers(self: Any, header: Any, body: Any) -> Any:
        if header.api_key is ApiKey.METADATA:
            return self.metadata(orders=1)
        if header.api_key is ApiKey.DESCRIBE_QUORUM:
            return {"error_code": ErrorCode.not_controller, "error_message": why, "topics": []}
        return {"error_code": ErrorCode.request_timed_out, "producer_id": -1, "producer_epoch": -1}

    peer = scripted(without_controllers)

    ended = CliRunner().invoke(
        app, ["produce", "orders", "--file", __file__, "--bootstrap", peer.bootstrap]
    )

    assert ended.exit_code == 3, ended.output
    assert why in ended.output
    assert peer.asked[-2:] == [ApiKey.INIT_PRODUCER_ID, ApiKey.DESCRIBE_QUORUM]


def test_health_goes_by_what_a_broker_tells_and_names_what_it_does_not(scripted: Scripted) -> None:
    def reserved(self: Any, header: Any, body: Any) -> Any:
        if header.api_key is ApiKey.METADATA:
            return self.metadata(orders=2)
        if header.api_key is ApiKey.DESCRIBE_CLUSTER:
            host, _, port = self.bootstrap.rpartition(":")
            broker = {"broker_id": 1, "host": host, "port": int(port)}
            return {"error_code": 0, "cluster_id": "c", "controller_id": 1, "brokers": [broker]}
        if header.api_key is ApiKey.DESCRIBE_CONFIGS:
            return {"results": []}
        denied = ErrorCode.cluster_authorization_failed
        if header.api_key is ApiKey.DESCRIBE_LOG_DIRS:
            return {"error_code": denied, "results": []}
        return {"error_code": denied, "topics": []}

    peer = scripted(reserved)

    ended = CliRunner().invoke(app, ["cluster", "health", "--bootstrap", peer.bootstrap])

    assert ended.exit_code == 0, ended.output
    assert ended.stdout == "all is well: 1 broker, 2 partitions\n"
    assert "does not tell: metadata quorum: " in ended.stderr
    assert "does not tell: reassignments: " in ended.stderr
