"""One kind of quota: what is measured of whom, and for how long that is kept."""

from __future__ import annotations

from tidelog.controller.client_quotas import owner_of
from tidelog.node.quotas.client_quota import (
    CLEANED_ABOVE,
    CLIENT_ID_MAX,
    MEASURES_MAX,
    RateQuota,
    TokenQuota,
)
from tidelog.node.quotas.rate import Windows

KEY = "producer_byte_rate"
WINDOWS = Windows(11, 1000)
ANY_CLIENT = {owner_of((("client-id", None),)): {KEY: 100.0}}


def test_a_measurement_lasts_when_the_limit_changes() -> None:
    quota = RateQuota(WINDOWS)
    quota.change(ANY_CLIENT, KEY)
    assert quota.record("ann", "app", 1_000, 0) == 0
    quota.change({**ANY_CLIENT, owner_of((("client-id", "app"),)): {KEY: 50.0}}, KEY)
    assert quota.record("ann", "app", 0, 0) == 10_000


def test_clients_that_are_gone_take_no_room() -> None:
    rates, tokens = RateQuota(WINDOWS), TokenQuota(WINDOWS)
    for quota in (rates, tokens):
        quota.change(ANY_CLIENT, KEY)
    for number in range(20 * CLEANED_ABOVE):
        now_ms = number * 100
        rates.record("ann", f"client-{number}", 10, now_ms)
        bounded = tokens.bounded("ann", f"client-{number}", now_ms)
        assert bounded is not None
        bounded.measure.take(10, bounded.limit, now_ms)
    assert len(rates._measures) < 3 * CLEANED_ABOVE
    assert len(tokens._measures) < 3 * CLEANED_ABOVE


def test_a_client_that_still_waits_is_not_forgotten_for_others() -> None:
    quota = RateQuota(WINDOWS)
    quota.change(ANY_CLIENT, KEY)
    assert quota.record("ann", "app", 2_000, 0) == 10_000
    for number in range(3 * CLEANED_ABOVE):
        quota.record("ann", f"client-{number}", 1, 0)
    assert quota.record("ann", "app", 0, 0) == 10_000


def test_names_that_clients_choose_take_a_bounded_room() -> None:
    quota = RateQuota(WINDOWS)
    quota.change(ANY_CLIENT, KEY)
    for number in range(MEASURES_MAX + 50):
        quota.record("ann", f"{number}" + "x" * 40_000, 1, 0)
    assert len(quota._measures) == MEASURES_MAX
    assert max(len(client_id) for _, client_id in quota._clients) == CLIENT_ID_MAX
    assert quota.record("ann", "one too many", 3_000, 0) > 0
    assert quota.record("ann", "another one", 1, 0) > 0, "they share what is measured"
