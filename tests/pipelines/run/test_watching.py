"""A watch outlives all that goes by, and says so; it ends when Spark does."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from tests.pipelines.conftest import Describe
from tests.spark.test_session import java_that_says
from typer import Exit

from tidelog.cli.exits import answering
from tidelog.cli.pipelines import spark_for
from tidelog.pipelines.description.mistakes import NotYet, PipelineTrouble
from tidelog.pipelines.run.spark_process import SparkGone, SparkProcess, spark_process
from tidelog.pipelines.run.summary import TableSummary
from tidelog.pipelines.run.watching import Steps, runs, wait_until_prepared
from tidelog.spark.errors import SourceError

ONE = "name: x\ntables: {a: {topics: o}}"
SUMMARY = [TableSummary("a", 1, 1, 0, 0, 0)]
AWAY = SourceError("127.0.0.1:9092 cannot answer")


class Script:
    """A function that gives, or raises, one thing after the other."""

    def __init__(self, *results: Any) -> None:
        self._results: Iterator[Any] = iter(results)

    def __call__(self, *_: Any) -> Any:
        result = next(self._results)
        if isinstance(result, Exception):
            raise result
        return result


class NoSpark:
    """Nobody asks it here."""

    def run(self, project: Path) -> None:
        raise AssertionError(project)


def test_what_goes_by_is_told_and_waited_out(describe: Describe) -> None:
    empty = NotYet("its topics hold no JSON object yet")
    steps = Steps(
        run_once=Script(AWAY, SUMMARY, SUMMARY, SparkGone("gone")),
        prepare=Script(empty, None, AWAY, None, None),
        lag_of=Script(0, AWAY, 3, 1),
    )
    told: list[str] = []
    found = runs(describe(ONE), NoSpark(), 0, told.append, steps)
    assert [next(found), next(found)] == [SUMMARY, SUMMARY]
    with pytest.raises(SparkGone):
        next(found)
    away = f"waiting: {AWAY}"
    assert told == [away, f"waiting: {empty}", away, away]


def test_what_stays_wrong_ends_a_watch(describe: Describe) -> None:
    wrong = PipelineTrouble("column id of a is string and would be long")
    told: list[str] = []
    with pytest.raises(PipelineTrouble, match="would be long"):
        next(runs(describe(ONE), NoSpark(), 0, told.append, Steps(run_once=Script(wrong))))
    with pytest.raises(PipelineTrouble, match="would be long"):
        wait_until_prepared(describe(ONE), 0, told.append, Steps(prepare=Script(wrong)))
    assert told == []


def test_a_spark_that_died_ends_the_command_with_its_message(
    describe: Describe,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    short_lived = tmp_path / "spark"
    short_lived.write_text("#!/bin/sh\necho '{\"ready\": true}'\n")
    short_lived.chmod(0o755)

    start = partial(spark_process, python=str(short_lived))
    monkeypatch.setenv("JAVA_HOME", java_that_says(tmp_path, "17.0.1"))
    with (
        pytest.raises(Exit) as ended,
        answering(),
        spark_for(describe(ONE), None, lambda: None, start) as spark,
    ):
        os.waitid(os.P_PID, spark.pid, os.WEXITED | os.WNOWAIT)
        spark.run(tmp_path)
    assert ended.value.exit_code == 1
    assert "Spark is gone" in capsys.readouterr().err


def test_a_command_that_is_terminated_takes_its_spark_along(describe: Describe) -> None:
    """Otherwise Spark goes on for a while, with the lock that the next command needs."""
    ended = []

    @contextmanager
    def start(*_: object) -> Iterator[SparkProcess]:
        try:
            yield cast(SparkProcess, NoSpark())
        finally:
            ended.append(True)

    before = signal.getsignal(signal.SIGTERM)
    try:
        with (
            pytest.raises(KeyboardInterrupt),
            spark_for(describe(ONE), None, lambda: None, start),
        ):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended == [True]
