"""Times and durations as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from tidelog.cli.moments import duration_ms, moment_ms, since_ms, timestamp_ms

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("1970-01-02", DAY_MS),
        ("1970-01-01T00:00:01.250", 1250),
        ("1970-01-01T00:00:01.250Z", 1250),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1970-01-01T02:00:00+0200", 0),
    ],
)
def test_a_moment_is_in_utc_unless_it_says_otherwise(text: str, expected_ms: int) -> None:
    assert moment_ms(text, "--at") == expected_ms


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9999, 1, 1)))
def test_every_moment_is_read_to_the_millisecond(moment: datetime) -> None:
    exact = moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=UTC)
    since = exact - datetime(1970, 1, 1, tzinfo=UTC)
    assert moment_ms(exact.isoformat(), "--at") == since // timedelta(milliseconds=1)


@pytest.mark.parametrize("text", ["", "soon", "12:00", "2026-13-01", "1969-12-31T23:59:59"])
def test_what_is_no_moment_of_a_record_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        moment_ms(text, "--at")


def test_a_timestamp_that_no_record_can_bear_is_refused() -> None:
    assert timestamp_ms((1 << 63) - 1, "@", "--at") == (1 << 63) - 1
    with pytest.raises(typer.BadParameter):
        timestamp_ms(1 << 63, "@", "--at")


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("PT0S", 0),
        ("PT1.5S", 1500),
        ("PT30M", 1_800_000),
        ("P1D", DAY_MS),
        ("P1DT2H3M4.005S", DAY_MS + 7_200_000 + 180_000 + 4005),
        ("PT48H", 2 * DAY_MS),
        ("P" + "0" * 400 + "1D", DAY_MS),
    ],
)
def test_a_duration_is_days_and_smaller(text: str, expected_ms: int) -> None:
    assert duration_ms(text, "--by") == expected_ms


def test_a_duration_may_be_longer_than_time() -> None:
    assert duration_ms("P" + "9" * 400 + "D", "--by") > 10**400


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1D", "P1M", "P1Y", "-P1D", "PT1S ", "1h"])
def test_what_is_no_such_duration_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        duration_ms(text, "--by")


@pytest.mark.parametrize(
    ("text", "ago_ms"), [("30s", 30_000), ("10m", 600_000), ("2h", 7_200_000), ("3d", 3 * DAY_MS)]
)
def test_how_long_ago_is_as_good_as_a_moment(text: str, ago_ms: int) -> None:
    assert since_ms(text, 10 * DAY_MS, "--since") == 10 * DAY_MS - ago_ms
    assert since_ms("1970-01-02", 10 * DAY_MS, "--since") == DAY_MS


@pytest.mark.parametrize("text", ["", "10", "m", "-5m", "1w", "10 m", "yesterday"])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="10m"):
        since_ms(text, 0, "--since")
