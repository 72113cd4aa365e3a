"""The same seed goes the same way, in any process and whatever its string hashes are."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.long


def run(hash_seed: int, *arguments: str) -> list[str]:
    """The hashes of some runs, one JSON object per line, from a process of their own."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    command = [sys.executable, "-m", "tidelog", "sim", "--json", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("brokers", ["1", "3"])
def test_equal_seeds_give_equal_traces_under_any_hash_seed(brokers: str) -> None:
    arguments = ("--seeds", "3", "--seed", "1", "--brokers", brokers)

    first, second = run(1, *arguments), run(2, *arguments)

    assert len(first) == 3
    assert first == second
    assert len(set(first)) == 3
