"""Whole Spark processes that are killed: a driver, and an executor of a standalone cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from tests.integration.raw import until
from tests.spark.conftest import MakeTopic, Write
from tests.spark.delivery_rounds import visible
from tests.spark.processes import kill_group
from tests.spark.standalone import SPARK_ENVIRONMENT, Standalone, standalone

ROOT = Path(__file__).parents[2]
ROWS = 900
BATCH = 300
SMALL_BATCH = 30
START_S = 180

DRIVER_ENVIRONMENT = {
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_DRIVER_PYTHON": sys.executable,
    "PYTHONPATH": "",
    **SPARK_ENVIRONMENT,
}
PLAIN_JOB = """
import sys
from pyspark.sql import SparkSession
master, bootstrap, topic = sys.argv[1:]
spark = SparkSession.builder.master(master).config("spark.task.maxFailures", "1").getOrCreate()
options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
spark.read.format("tidelog").options(**options).load().count()
"""
"""A job that does not ship the package."""

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts processes, each with its own group, that are gone after the test."""
    with ExitStack() as cleanup:

        def run(name: str, *command: str, **more: str) -> subprocess.Popen[bytes]:
            environment = {**os.environ, **DRIVER_ENVIRONMENT, **more}
            log = cleanup.enter_context((tmp_path / f"{name}.log").open("ab"))
            process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, env=environment
            )
            cleanup.callback(process.wait)
            cleanup.callback(kill_group, process)
            return process

        yield run


def copy_command(
    bootstrap: str, source: str, target: str, place: Path, *more: str, batch: int = BATCH
) -> list[str]:
    return [
        sys.executable, str(ROOT / "examples" / "spark_copy.py"), "--bootstrap", bootstrap,
        "--source", source, "--target", target, "--checkpoint", str(place / "checkpoint"),
        "--batch", str(batch), *more,
    ]  # fmt: skip


def expect_each_once(bootstrap: str, target: str) -> None:
    assert sorted(map(int, visible(bootstrap, target))) == list(range(ROWS))


def test_a_driver_that_is_killed_repeats_nothing(
    bootstrap: str, make_topic: MakeTopic, write: Write, start: Start, tmp_path: Path
) -> None:
    source, target = make_topic(), make_topic("driver-target")
    write(source, [b"%d" % each for each in range(ROWS)])
    command = partial(copy_command, bootstrap, source, target, tmp_path, "--master", "local[2]")
    driver = start("killed", *command(batch=SMALL_BATCH), PYTHONPATH=str(ROOT / "src"))
    until(lambda: len(visible(bootstrap, target)) >= SMALL_BATCH, within_s=START_S)
    kill_group(driver)
    assert driver.wait() == -signal.SIGKILL, "it was still at work"
    again = start("again", *command(), PYTHONPATH=str(ROOT / "src"))
    assert again.wait(START_S) == 0, (tmp_path / "again.log").read_text()
    expect_each_once(bootstrap, target)


BARE_PYTHON = """#!/bin/sh
kept={installed}
IFS=:
for each in $PYTHONPATH; do
  [ -n "$WITHOUT_TIDELOG" -a -d "$each/tidelog" ] || kept="$kept:$each"
done
PYTHONPATH="$kept" exec {python} -S "$@"
"""
"""Has what we depend on, and on workers not us: without `site` no .pth file adds our source, and
the path that Spark passes on from the driver is left out."""


@pytest.fixture
def bare_python(tmp_path: Path) -> str:
    script = tmp_path / "bare-python"
    installed = sysconfig.get_path("purelib")
    script.write_text(BARE_PYTHON.format(installed=installed, python=sys.executable))
    script.chmod(0o755)
    return str(script)


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Standalone]:
    """A master and two workers that never heard of us."""
    with standalone(tmp_path / "spark", cores=1, PYTHONPATH="", WITHOUT_TIDELOG="1") as running:
        yield running


def test_the_package_reaches_executors_that_lack_it_and_one_of_them_is_killed(
    bootstrap: str,
    make_topic: MakeTopic,
    write: Write,
    start: Start,
    workers: Standalone,
    bare_python: str,
    tmp_path: Path,
) -> None:
    source, target = make_topic(), make_topic("executor-target")
    write(source, [b"%d" % each for each in range(ROWS)])
    driver = {"PYSPARK_PYTHON": bare_python, "PYSPARK_DRIVER_PYTHON": bare_python,
              "PYTHONPATH": str(ROOT / "src")}  # fmt: skip
    without = start("without", sys.executable, "-c", PLAIN_JOB, workers.url, bootstrap, source,
                    **driver)  # fmt: skip
    assert without.wait(START_S) != 0
    assert says(tmp_path / "without.log", "has no module tidelog: run `pip install")

    copy = copy_command(bootstrap, source, target, tmp_path, "--master", workers.url)
    copying = start("driver", *copy, **driver)
    until(lambda: len(visible(bootstrap, target)) >= BATCH, within_s=START_S)
    executors = workers.executors()
    assert len(executors) == 2, "each worker runs an executor"
    os.kill(executors[0], signal.SIGKILL)
    assert copying.wait(START_S) == 0, (tmp_path / "driver.log").read_text()
    expect_each_once(bootstrap, target)


def says(log: Path, words: str) -> bool:
    return words in log.read_text()
