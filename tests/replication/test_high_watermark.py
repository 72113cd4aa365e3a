"""The high watermark of one replica."""

from __future__ import annotations

import pytest

from tidelog.model.errors import InvariantBroken
from tidelog.replication.high_watermark import HighWatermark


def test_the_mark_rises_and_says_so() -> None:
    mark = HighWatermark(3)
    assert mark.raise_to(5, 10)
    assert mark.offset == 5


@pytest.mark.parametrize("candidate", [0, 3])
def test_the_mark_never_falls_within_an_epoch(candidate: int) -> None:
    mark = HighWatermark(3)
    assert not mark.raise_to(candidate, 10)
    assert mark.offset == 3


def test_the_mark_lies_within_the_log() -> None:
    with pytest.raises(InvariantBroken):
        HighWatermark(3).raise_to(11, 10)


@pytest.mark.parametrize(
    ("offset", "start", "end", "kept"), [(5, 0, 10, 5), (5, 0, 3, 3), (5, 7, 10, 7)]
)
def test_a_log_whose_ends_moved_takes_the_mark_along(
    offset: int, start: int, end: int, kept: int
) -> None:
    mark = HighWatermark(offset)
    mark.clamp(start, end)
    assert mark.offset == kept
