"""Which quota counts for a client, and with whom it is shared."""

from __future__ import annotations

from itertools import combinations

import pytest

from tidelog.controller.client_quotas import owner_of
from tidelog.model.config import NodeConfig
from tidelog.node.quotas.client_limits import ClientLimits
from tidelog.node.quotas.connection_quotas import connection_limits

KEY = "producer_byte_rate"
PRECEDENCE: tuple[tuple[tuple[tuple[str, str | None], ...], tuple[str, str]], ...] = (
    ((("user", "ann"), ("client-id", "app")), ("ann", "app")),
    ((("user", "ann"), ("client-id", None)), ("ann", "app")),
    ((("user", "ann"),), ("ann", "")),
    ((("user", None), ("client-id", "app")), ("ann", "app")),
    ((("user", None), ("client-id", None)), ("ann", "app")),
    ((("user", None),), ("ann", "")),
    ((("client-id", "app"),), ("", "app")),
    ((("client-id", None),), ("", "app")),
)
"""Of Kafka: whom a quota is for, and who shares it with ann's connection as app."""


@pytest.mark.parametrize("first", range(len(PRECEDENCE)))
def test_the_most_specific_quota_counts_and_is_shared_by_those_it_names(first: int) -> None:
    quotas = {
        owner_of(entity): {KEY: 1.0 + place}
        for place, (entity, _) in enumerate(PRECEDENCE)
        if place >= first
    }
    found = ClientLimits(quotas, KEY).of("ann", "app")
    assert found is not None
    assert found == (PRECEDENCE[first][1], 1.0 + first)


def test_of_any_two_quotas_the_more_specific_counts() -> None:
    for (first, (entity, sharers)), (_, (other, _)) in combinations(enumerate(PRECEDENCE), 2):
        quotas = {owner_of(other): {KEY: 99.0}, owner_of(entity): {KEY: 1.0 + first}}
        assert ClientLimits(quotas, KEY).of("ann", "app") == (sharers, 1.0 + first)


def test_quotas_of_others_and_of_other_kinds_do_not_count() -> None:
    quotas = {
        owner_of((("user", "bob"),)): {KEY: 1.0},
        owner_of((("client-id", "other"),)): {KEY: 1.0},
        owner_of((("user", "ann"), ("client-id", "other"))): {KEY: 1.0},
        owner_of((("user", "ann"),)): {"consumer_byte_rate": 1.0},
        owner_of((("ip", None),)): {KEY: 1.0},
    }
    limits = ClientLimits(quotas, KEY)
    assert limits
    assert limits.of("ann", "app") is None


def test_a_client_without_an_id_has_the_quota_of_its_user_or_none() -> None:
    of_ids = {owner_of(entity): {KEY: 1.0} for entity, _ in PRECEDENCE if len(entity) == 2}
    of_ids[owner_of((("client-id", None),))] = {KEY: 2.0}
    assert ClientLimits(of_ids, KEY).of("ann", "") is None
    of_users = {**of_ids, owner_of((("user", None),)): {KEY: 3.0}}
    assert ClientLimits(of_users, KEY).of("ann", "") == (("ann", ""), 3.0)


@pytest.mark.parametrize("value", [0.0, -1.0, 1e300, float("inf"), float("nan")])
def test_what_is_no_number_above_0_bounds_nobody(value: float) -> None:
    entity = {owner_of((("user", "ann"),)): {KEY: value}}
    assert not ClientLimits(entity, KEY)
    address = {owner_of((("ip", "10.0.0.1"),)): {"connection_creation_rate": value}}
    config = NodeConfig.from_properties(
        {
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": "localhost:9093",
            "log.dirs": "/data",
        }
    )
    assert connection_limits(config, address).rates_of_hosts == {}
