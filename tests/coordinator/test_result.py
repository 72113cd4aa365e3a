"""Replies of coordinators."""

from __future__ import annotations

from tidelog.coordinator.result import once


def test_the_first_reply_to_somebody_who_was_kept_waiting_counts() -> None:
    heard: list[str] = []
    tell = once(heard.append)
    tell("not coordinator")
    tell("still ending")
    assert heard == ["not coordinator"]
