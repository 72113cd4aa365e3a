"""Three real brokers and stock clients with default settings: no partition stands still for long.

The bounds are wide, because the machine that runs tests has other work to do; what they exclude is
a client that waits on its own, for a second or for ten. `make bench-failover` measures.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from benchmarks.failover import KILL, RETURN, SETTINGS, WRITES, Trial
from benchmarks.servers import Tidelog, running

READS = "librdkafka"
AWAY_S = 1.6
"""A reader that looks for the leader on its own does so after a second and then needs as long again
as one that does not."""
RETURNS_S = 1.6
"""A reader that waits before it tries the broker again waits for two to ten seconds."""


@pytest.fixture
def trial() -> Iterator[Trial]:
    with running(Tidelog(3, SETTINGS)) as server:
        yield Trial(server)


def test_reads_and_writes_of_every_partition_go_on_when_a_leader_dies_and_returns(
    trial: Trial,
) -> None:
    with trial.live([READS]):
        trial.round(KILL, of_controller=False, number=signal.SIGKILL)
    assert trial.errors == 0
    for who in (WRITES, READS):
        assert max(trial.figures[KILL][who]) < AWAY_S, trial.figures
        assert max(trial.figures[RETURN][who]) < RETURNS_S, trial.figures
