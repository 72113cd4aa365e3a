"""What holds for every test: its tier, its order, its worker."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings
from tests.tiers import (
    FOLDERS,
    LONGEST,
    QUICK_MOST_CPU_S,
    SMOKE,
    SPREAD,
    TIER,
    Tier,
    examples,
)
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling, Scheduling

TESTS: Final = Path(__file__).parent

for number, default in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    # Whoever runs the tests in the background may have them ignored, which processes inherit.
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, default)

# JVMs of tests live for seconds: compilers that look further ahead cost them half of their time.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# A cluster that a test starts by command is looked at by nobody, unless the test says so.
os.environ.setdefault("TIDELOG_NO_VIEW", "1")

settings.register_profile(TIER, max_examples=examples(100))
settings.load_profile(TIER)


class WholeFiles(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """A file is one worker's, so that what it starts is started once; those of SPREAD are not."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, _ = nodeid.partition("::")
        return nodeid if file in SPREAD else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Any number of workers takes files in our order, whatever part of the tests they run."""
    if config.option.dist != "load":
        return None
    config.option.loadscopereorder = False
    return WholeFiles(config, log)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """`make quick` does not even import what it does not run: Spark and clients take seconds."""
    if TIER is not Tier.QUICK or collection_path.suffix != ".py":
        return None
    folder, *rest = collection_path.relative_to(TESTS).parts
    is_smoke = str(collection_path.relative_to(TESTS.parent)) in SMOKE
    return True if rest and FOLDERS[folder] is not Tier.QUICK and not is_smoke else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take what the tier asks for, long files first."""
    if TIER is Tier.QUICK:
        left_out = [item for item in items if not is_quick(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if is_quick(item)]
    items.sort(key=place)


def is_quick(item: pytest.Item) -> bool:
    """Whether `make quick` runs it."""
    if item.get_closest_marker("smoke") is not None:
        return True
    folder = item.path.relative_to(TESTS).parts[0]
    return FOLDERS[folder] is Tier.QUICK and item.get_closest_marker("long") is None


def place(item: pytest.Item) -> int:
    """Where it stands in the order of tests."""
    starts = (number for number, each in enumerate(LONGEST) if item.nodeid.startswith(each))
    return next(starts, len(LONGEST))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """What `make quick` runs is quick, in CPU time: a busy machine does not stretch that."""
    started = time.process_time()
    yield
    took_s = time.process_time() - started
    if TIER is Tier.QUICK and took_s > QUICK_MOST_CPU_S:
        pytest.fail(f"{took_s:.1f} s of CPU: mark it `long`, or make it cheaper")
