"""Client quotas as the controller decides on them, and as they are described."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.controller.client_quotas import (
    MATCH_ANY,
    MATCH_DEFAULT,
    MATCH_EXACT,
    EntityFilter,
    QuotaAlteration,
    QuotaEntity,
    describe_client_quotas,
    owner_of,
)
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.protocol.stored.metadata import ClientQuotaRecord

if TYPE_CHECKING:
    from tests.controller.conftest import Cluster

ANN: QuotaEntity = (("user", "ann"),)
ANYBODY: QuotaEntity = (("user", None),)
ANN_AS_APP: QuotaEntity = (("client-id", "app"), ("user", "ann"))
ADDRESS: QuotaEntity = (("ip", "10.0.0.1"),)


def alter(
    cluster: Cluster, entity: QuotaEntity, *ops: tuple[str, float | None], validate: bool = False
) -> Refusal | None:
    """Alter one entity; why it was refused."""
    decision = cluster.controller.alter_client_quotas(
        [QuotaAlteration(entity, ops)], validate_only=validate
    )
    cluster.do(decision)
    [(named, refusal)] = decision.reply
    assert set(named) == set(entity)
    return refusal


def test_a_quota_is_set_changed_and_taken_away(cluster: Cluster) -> None:
    assert alter(cluster, ANN, ("producer_byte_rate", 1000.0)) is None
    assert cluster.image.access.quotas == {owner_of(ANN): {"producer_byte_rate": 1000.0}}
    assert alter(cluster, ANN, ("producer_byte_rate", 5.0), ("request_percentage", 0.5)) is None
    assert cluster.image.access.quotas[owner_of(ANN)] == {
        "producer_byte_rate": 5.0,
        "request_percentage": 0.5,
    }
    assert alter(cluster, ANN, ("producer_byte_rate", None), ("request_percentage", None)) is None
    assert cluster.image.access.quotas == {}


def test_only_what_changes_is_recorded(cluster: Cluster) -> None:
    alter(cluster, ANN_AS_APP, ("producer_byte_rate", 1000.0))
    decision = cluster.controller.alter_client_quotas(
        [
            QuotaAlteration(
                tuple(reversed(ANN_AS_APP)),
                [("producer_byte_rate", 1000.0), ("consumer_byte_rate", 7.0)],
            ),
            QuotaAlteration(ANN, [("consumer_byte_rate", None)]),
        ]
    )
    assert decision.records == (
        ClientQuotaRecord(entity=owner_of(ANN_AS_APP), key="consumer_byte_rate", value=7.0),
    )


def test_who_only_asks_whether_it_would_do_changes_nothing(cluster: Cluster) -> None:
    assert alter(cluster, ANN, ("producer_byte_rate", 1000.0), validate=True) is None
    assert cluster.image.access.quotas == {}
    assert alter(cluster, ANN, ("producer_byte_rate", -1.0), validate=True) is not None


@pytest.mark.parametrize(
    ("entity", "op", "why"),
    [
        ((), ("producer_byte_rate", 1.0), "Invalid empty client quota entity"),
        ((("group", "g"),), ("producer_byte_rate", 1.0), "Unhandled client quota entity type"),
        ((("user", ""),), ("producer_byte_rate", 1.0), "Empty user not supported"),
        ((*ADDRESS, *ANN), ("connection_creation_rate", 1.0), "Invalid quota entity combination"),
        ((("ip", "a.host"),), ("connection_creation_rate", 1.0), "not a valid IP address"),
        (ANN, ("no_such_rate", 1.0), "Invalid configuration key no_such_rate"),
        (ANN, ("connection_creation_rate", 1.0), "Invalid configuration key"),
        (ADDRESS, ("producer_byte_rate", 1.0), "Invalid configuration key"),
        (ANN, ("producer_byte_rate", 0.0), "must be greater than 0"),
        (ANN, ("request_percentage", -0.5), "must be greater than 0"),
        (ANN, ("request_percentage", float("nan")), "must be greater than 0"),
        (ANN, ("producer_byte_rate", 1.5), "cannot be a fractional value"),
        (ANN, ("consumer_byte_rate", 1e30), "too large for a LONG"),
        (ADDRESS, ("connection_creation_rate", 2.0**31), "too large for an INT"),
    ],
)
def test_what_cannot_be_is_refused(
    cluster: Cluster, entity: QuotaEntity, op: tuple[str, float], why: str
) -> None:
    refusal = alter(cluster, entity, op)
    assert refusal is not None
    assert refusal.code is ErrorCode.invalid_request
    assert why in refusal.why
    assert cluster.image.access.quotas == {}


def test_fractions_and_defaults_are_fine_where_they_have_a_meaning(cluster: Cluster) -> None:
    assert alter(cluster, ANYBODY, ("controller_mutation_rate", 0.1)) is None
    assert alter(cluster, (("ip", None),), ("connection_creation_rate", 5.0)) is None
    assert alter(cluster, (("ip", "::1"),), ("connection_creation_rate", 5.0)) is None


def test_one_bad_quota_keeps_all_others_of_its_entity_out_and_those_of_others_in(
    cluster: Cluster,
) -> None:
    decision = cluster.controller.alter_client_quotas(
        [
            QuotaAlteration(ANN, [("producer_byte_rate", 1.0), ("consumer_byte_rate", 0.0)]),
            QuotaAlteration(ANYBODY, [("producer_byte_rate", 2.0)]),
        ]
    )
    cluster.do(decision)
    assert [refusal is None for _, refusal in decision.reply] == [False, True]
    assert list(cluster.image.access.quotas) == [owner_of(ANYBODY)]


def test_an_entity_or_a_key_that_is_named_twice_is_refused(cluster: Cluster) -> None:
    decision = cluster.controller.alter_client_quotas(
        [
            QuotaAlteration(ANN, [("producer_byte_rate", 1.0)]),
            QuotaAlteration(ANN, [("producer_byte_rate", 2.0)]),
            QuotaAlteration(ANYBODY, [("producer_byte_rate", 1.0), ("producer_byte_rate", 1.0)]),
        ]
    )
    cluster.do(decision)
    assert all(
        refusal is not None and "duplicate entity" in refusal.why for _, refusal in decision.reply
    )
    assert cluster.image.access.quotas == {owner_of(ANN): {"producer_byte_rate": 1.0}}


def described(cluster: Cluster, *filters: tuple[str, int, str | None], strict: bool) -> list[str]:
    """The names of the entities that were found."""
    found = describe_client_quotas(
        cluster.image.access, [EntityFilter(*each) for each in filters], strict=strict
    )
    assert not isinstance(found, Refusal)
    return [
        "/".join(f"{part.entity_type}={part.entity_name}" for part in owner) for owner, _ in found
    ]


def test_filters_find_what_has_all_they_ask_for_and_strict_ones_nothing_else(
    cluster: Cluster,
) -> None:
    for entity in (ANN, ANYBODY, ANN_AS_APP, (("client-id", None),)):
        alter(cluster, entity, ("producer_byte_rate", 1.0))
    alter(cluster, ADDRESS, ("connection_creation_rate", 1.0))
    of_ann = ("user", MATCH_EXACT, "ann")
    assert described(cluster, of_ann, strict=True) == ["user=ann"]
    assert described(cluster, of_ann, strict=False) == ["client-id=app/user=ann", "user=ann"]
    assert described(cluster, ("user", MATCH_DEFAULT, None), strict=True) == ["user=None"]
    assert described(cluster, ("user", MATCH_ANY, None), strict=True) == ["user=None", "user=ann"]
    assert described(
        cluster, ("user", MATCH_ANY, None), ("client-id", MATCH_ANY, None), strict=True
    ) == ["client-id=app/user=ann"]
    assert described(cluster, ("ip", MATCH_ANY, None), strict=True) == ["ip=10.0.0.1"]
    assert len(described(cluster, strict=False)) == 5
    assert described(cluster, strict=True) == []


@pytest.mark.parametrize(
    ("filters", "code"),
    [
        ([("", MATCH_ANY, None)], ErrorCode.invalid_request),
        ([("user", MATCH_ANY, None)] * 2, ErrorCode.invalid_request),
        ([("group", MATCH_ANY, None)], ErrorCode.unsupported_version),
        ([("user", MATCH_EXACT, None)], ErrorCode.invalid_request),
        ([("user", MATCH_DEFAULT, "ann")], ErrorCode.invalid_request),
        ([("user", MATCH_ANY, "ann")], ErrorCode.invalid_request),
        ([("user", 3, None)], ErrorCode.invalid_request),
        ([("user", MATCH_ANY, None), ("ip", MATCH_ANY, None)], ErrorCode.invalid_request),
    ],
)
def test_filters_that_mean_nothing_are_refused(
    cluster: Cluster, filters: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    found = describe_client_quotas(
        cluster.image.access, [EntityFilter(*each) for each in filters], strict=False
    )
    assert isinstance(found, Refusal)
    assert found.code is code
