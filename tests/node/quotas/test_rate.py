"""Rates and buckets: what they measure, beside plainly written models of the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.node.quotas.plain_models import PlainBucket, PlainRate

from tidelog.node.quotas.rate import Rate, SimpleRate, Windows, throttle_ms
from tidelog.node.quotas.token_bucket import TokenBucket

ELEVEN_SECONDS = Windows(11, 1000)
HISTORIES = st.lists(
    st.tuples(st.integers(0, 6_000), st.integers(0, 50_000)), min_size=1, max_size=60
)


def test_a_burst_after_a_rest_is_spread_over_all_windows_but_one() -> None:
    rate = Rate(ELEVEN_SECONDS)
    rate.record(10_000, 5_000)
    assert rate.per_second(5_000) == 1_000


def test_who_sends_twice_the_quota_waits_as_long_again() -> None:
    rate = Rate(ELEVEN_SECONDS)
    rate.record(20_000, 0)
    assert throttle_ms(rate.per_second(0), 1_000, rate.window_ms(0)) == 10_000


def test_exactly_the_quota_is_not_throttled() -> None:
    rate = Rate(ELEVEN_SECONDS)
    rate.record(10_000, 0)
    assert throttle_ms(rate.per_second(0), 1_000, rate.window_ms(0)) == 0


def test_what_is_older_than_all_windows_is_forgotten() -> None:
    rate = Rate(ELEVEN_SECONDS)
    rate.record(99_000, 0)
    assert rate.per_second(10_999) > 0
    assert not rate.is_idle(10_999)
    assert rate.is_idle(11_000)
    assert rate.per_second(11_000) == 0


def test_what_was_recorded_can_be_taken_back() -> None:
    rate = Rate(ELEVEN_SECONDS)
    rate.record(500, 0)
    rate.record(70_000, 1_500)
    rate.record(-70_000, 1_500)
    assert rate.per_second(1_500) == 500 / 10.5


def test_a_rate_of_replication_is_taken_over_the_time_that_passed_and_one_window_at_least() -> None:
    rate = SimpleRate(ELEVEN_SECONDS)
    rate.record(4_000, 0)
    assert rate.per_second(0) == 4_000
    assert rate.per_second(2_000) == 2_000


@given(HISTORIES, st.integers(1, 12), st.integers(1, 3_000), st.integers(1, 100_000))
def test_any_history_gives_the_rate_and_the_throttle_time_of_the_plain_model(
    history: list[tuple[int, int]], count: int, size_ms: int, limit: int
) -> None:
    rate, plain, now_ms = Rate(Windows(count, size_ms)), PlainRate(count, size_ms), 0
    for waited_ms, value in history:
        now_ms += waited_ms
        rate.record(value, now_ms)
        plain.record(value, now_ms)
        assert rate.window_ms(now_ms) == plain.window_ms(now_ms)
        assert rate.per_second(now_ms) == pytest.approx(plain.per_second(now_ms))
        told_ms = throttle_ms(rate.per_second(now_ms), limit, rate.window_ms(now_ms))
        assert told_ms == pytest.approx(plain.throttle_ms(limit, now_ms), abs=1)


@given(HISTORIES, st.integers(1_000, 50_000))
def test_who_waits_as_told_has_done_what_the_quota_allows_in_the_longer_time(
    history: list[tuple[int, int]], limit: int
) -> None:
    rate, now_ms = Rate(ELEVEN_SECONDS), 0
    for waited_ms, value in history:
        now_ms += waited_ms
        rate.record(value, now_ms)
        window_ms = rate.window_ms(now_ms)
        total = rate.per_second(now_ms) * window_ms / 1000
        told_ms = throttle_ms(rate.per_second(now_ms), limit, window_ms)
        if told_ms:
            allowed = limit * (window_ms + told_ms) / 1000
            assert total == pytest.approx(allowed, abs=limit / 1000)
        else:
            assert total <= limit * (window_ms + 1) / 1000


def test_a_bucket_begins_full_and_fills_at_the_rate_of_the_quota() -> None:
    bucket = TokenBucket(ELEVEN_SECONDS)
    bucket.take(55, 5, 0)
    assert bucket.tokens(5, 0) == 0
    assert bucket.tokens(5, 2_000) == 10
    assert bucket.tokens(5, 60_000) == 55


def test_a_bucket_below_empty_tells_how_long_it_takes_to_be_empty_again() -> None:
    bucket = TokenBucket(ELEVEN_SECONDS)
    bucket.take(65, 5, 0)
    assert bucket.throttle_ms(5, 0) == 2_000
    assert bucket.throttle_ms(5, 500) == 1_500
    assert bucket.throttle_ms(5, 2_000) == 0


@given(
    st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 40)), min_size=1, max_size=20),
    st.integers(1, 20),
)
def test_any_history_leaves_as_many_tokens_as_the_plain_model(
    history: list[tuple[int, int]], limit: int
) -> None:
    bucket, plain, now_ms = TokenBucket(Windows(3, 1000)), PlainBucket(3_000, limit), 0
    for waited_ms, taken in history:
        now_ms += waited_ms
        bucket.take(taken, limit, now_ms)
        plain.take(taken, now_ms)
        assert bucket.tokens(limit, now_ms) == pytest.approx(plain.tokens, abs=1e-6)


@given(st.floats(1e-310, 2.0**63), st.integers(1, 1 << 40))
def test_no_quota_is_too_small_or_too_large_to_be_waited_for(limit: float, value: int) -> None:
    rate, bucket = Rate(ELEVEN_SECONDS), TokenBucket(ELEVEN_SECONDS)
    rate.record(value, 0)
    bucket.take(value, limit, 0)
    assert 0 <= throttle_ms(rate.per_second(0), limit, rate.window_ms(0)) < 1 << 31
    assert 0 <= bucket.throttle_ms(limit, 0) < 1 << 31
    assert bucket.full_at_ms > 0
