"""Where two logs part, and where a follower cuts."""

from __future__ import annotations

import pytest

from tidelog.replication.divergence import divergence, truncation_point
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.leader_epoch_cache import LeaderEpochCache


def epochs(*entries: tuple[int, int]) -> LeaderEpochCache:
    files = MemoryFileSystem()
    files.make_directory("/data")
    cache = LeaderEpochCache(files, "/data/leader-epoch-checkpoint")
    cache.replace(entries)
    return cache


LEADERS = (1, 10), (4, 20), (6, 30)
"""Epoch 1 begins at 10, epoch 4 at 20, epoch 6 at 30; the log ends at 40."""


@pytest.mark.parametrize(
    ("last_fetched_epoch", "fetch_offset", "told"),
    [
        (6, 40, None),
        (6, 41, (6, 40)),
        (4, 30, None),
        (4, 31, (4, 30)),
        (5, 25, (4, 30)),
        (3, 20, (1, 20)),
        (0, 10, None),
        (0, 11, (0, 10)),
        (7, 40, (-1, -1)),
    ],
)
def test_a_leader_names_the_largest_epoch_it_shares_and_its_end(
    last_fetched_epoch: int, fetch_offset: int, told: tuple[int, int] | None
) -> None:
    assert divergence(epochs(*LEADERS), 40, last_fetched_epoch, fetch_offset) == told


def test_a_log_without_epochs_knows_no_epoch_of_a_reader() -> None:
    assert divergence(epochs(), 40, 1, 5) == (-1, -1)


FOLLOWERS = (1, 10), (3, 20), (5, 30)
"""Of the follower; its log ends at 35."""


@pytest.mark.parametrize(
    ("epoch", "end", "point"),
    [
        (5, -1, 35),
        (-1, 25, 25),
        (-1, 99, 35),
        (3, 25, 25),
        (3, 99, 30),
        (5, 99, 35),
        (4, 99, 30),
        (2, 11, 20),
        (0, 99, 10),
        (7, 25, 25),
        (7, 99, 35),
    ],
    ids=[
        "end undefined: the fetch offset, which is the end",
        "epoch undefined: the leader's end",
        "epoch undefined: not behind the own end",
        "same epoch: the leader's end",
        "same epoch: the own end of it",
        "the latest epoch ends with the log",
        "epoch not here: the end of the one before",
        "epoch not here: the next fetch looks further",
        "all own epochs are later: back to their start",
        "later than all own ones: the leader's end",
        "later than all own ones: not behind the own end",
    ],
)
def test_a_follower_cuts_where_both_logs_can_agree(epoch: int, end: int, point: int) -> None:
    assert truncation_point(epochs(*FOLLOWERS), 35, epoch, end) == point
