"""What holds for every test."""

from __future__ import annotations

import signal
from typing import Final

import pytest
from tests.tiers import NOT_QUICK, TIER, Tier

LONG: Final = ("tests/pipelines/", "tests/spark/", "tests/integration/", "tests/simulator/")
"""What takes minutes, and would be waited for if it came last."""

for number, default in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    # Whoever runs the tests in the background may have them ignored, which processes inherit.
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, default)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take what the tier asks for, long tests first, a file on one worker unless it is `spread`."""
    if TIER is Tier.QUICK:
        left_out = [item for item in items if not is_quick(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if is_quick(item)]
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))
    for item in items:
        if item.get_closest_marker("spread") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


def is_quick(item: pytest.Item) -> bool:
    """Whether `make quick` runs it."""
    slow = item.nodeid.startswith(NOT_QUICK) or item.get_closest_marker("long") is not None
    return not slow or item.get_closest_marker("smoke") is not None
