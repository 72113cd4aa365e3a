"""What `tidelog top` draws, at sizes that terminals have."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from tests.monitor.test_problems import WELL

from tidelog.cli.top_picture import Picture, short_bytes, short_number
from tidelog.model.ids import TopicPartition
from tidelog.monitor.activity import NodeActivity, PartitionActivity, PartitionEnd
from tidelog.monitor.problems import Problem, Severity

BUSY = NodeActivity("100", True, 3333, 1_234_567, 2e9, 123_456, 54_321, 99_999, 1.5, 48e6)
END = PartitionEnd(100, 12, (100, 101), (100, 101, 102), 123_456_789, 123_456_700, 123_450_000)


def crowded(problems: int, nodes: int, partitions: int, groups: int) -> Picture:
    return Picture(
        seen=WELL,
        trouble=None,
        problems=[Problem(Severity.DEGRADED, "k", "what " * 40, "r")] * problems,
        nodes=[BUSY] * nodes,
        partitions=[
            PartitionActivity(TopicPartition("a-topic-with-a-very-long-name" * 3, index), END, 5e5)
            for index in range(partitions)
        ],
        lags={f"group-{index}": 10**12 for index in range(groups)},
    )


def drawn(picture: Picture, width: int = 80, height: int = 24) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    with console.capture() as captured:
        console.print(picture.drawn(width, height))
    return [line.rstrip() for line in captured.get().splitlines()]


@pytest.mark.parametrize("problems", [0, 1, 4, 30])
@pytest.mark.parametrize("nodes", [0, 1, 3, 30])
@pytest.mark.parametrize("groups", [0, 2, 30])
def test_it_fits_whatever_there_is_to_see(problems: int, nodes: int, groups: int) -> None:
    lines = drawn(crowded(problems, nodes, 100, groups))

    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_figures_are_whole_at_eighty_columns() -> None:
    lines = drawn(crowded(1, 1, 1, 1))

    for part in ("3333", "1.2M", "2.0 GB", "123.5 kB", "54.3k", "100.0k", "150%", "48.0 MB"):
        assert part in lines[4]
    assert "2 of 3" in lines[7] and "123456789" in lines[7] and "500k" in lines[7]
    assert lines[-1].split() == ["group-0", "1000000000000"]


def test_brokers_that_tell_nothing_leave_the_reason() -> None:
    lines = drawn(crowded(0, 1, 0, 0)._replace(seen=None, trouble="cannot reach h:1"))

    assert "cannot reach h:1" in lines[0]


def test_a_node_that_does_not_answer_is_called_silent() -> None:
    lines = drawn(crowded(0, 0, 0, 0)._replace(nodes=[NodeActivity("101", answers=False)]))

    assert lines[4].split() == ["101", "silent"]


@pytest.mark.parametrize(
    ("value", "number", "size"),
    [
        (None, "-", "-"),
        (0.4, "0", "0 B"),
        (9999, "9999", "10.0 kB"),
        (12_345, "12.3k", "12.3 kB"),
        (345_678, "346k", "345.7 kB"),
        (7.25e6, "7.2M", "7.2 MB"),
        (3e11, "300G", "300.0 GB"),
    ],
)
def test_figures_are_short(value: float | None, number: str, size: str) -> None:
    assert (short_number(value), short_bytes(value)) == (number, size)
