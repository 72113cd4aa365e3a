"""What holds for every test."""

from __future__ import annotations

import signal
from typing import Final

import pytest

LONG: Final = ("tests/pipelines/", "tests/spark/", "tests/integration/", "tests/simulator/")
"""What takes minutes, and would be waited for if it came last."""

for number, default in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    # Whoever runs the tests in the background may have them ignored, which processes inherit.
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, default)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests first, so that the workers end at about the same time."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))
