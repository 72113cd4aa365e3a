"""Our end of the process that holds Spark."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final, TypeAlias

from tidelog.model.errors import TidelogError
from tidelog.pipelines.description.mistakes import ClusterAway, NotYet, PipelineTrouble, Tell
from tidelog.pipelines.run.spark_failures import failure_in
from tidelog.spark.session import require_java

_STOP_S: Final = 30
_MEETING_S: Final = 120
_TAIL_BYTES: Final = 64 << 10
_NO_JVM: Final = "[JAVA_GATEWAY_EXITED]"
_COMPLAINT: Final = re.compile(
    r"^(?!\s+at |Traceback)(?!.*_GATEWAY_EXITED).*(?i:error|exception)\b"
)
"""A line of a log that gives a reason, and not the way to it."""
_RETRIED: Final = re.compile(
    r"Flow '?(?:\w+\.)*(\w+)'? has FAILED\.(?:\s*Error: (.*)|.*)", re.DOTALL
)


class SparkGone(TidelogError):
    """The process has ended, and nothing can be run in it any more."""


class SparkProcess:
    """A session that runs one project after the other."""

    def __init__(
        self, process: subprocess.Popen[str], log: Path, tell: Tell, log_start: int = 0
    ) -> None:
        self._process, self._log, self._tell = process, log, tell
        self._log_start = log_start
        self._until_answer()

    @property
    def pid(self) -> int:
        return self._process.pid

    def run(self, project: Path) -> None:
        """Run a project to its end; what goes wrong is raised."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"project": str(project)}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._gone() from None
        self._until_answer()

    def _until_answer(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            if "flow" in event:
                self._tell_failure(event["flow"])
            elif "failed" in event:
                kind = NotYet if event["passes"] else PipelineTrouble
                if event["away"]:
                    kind = ClusterAway
                why = event["failed"]
                if _NO_JVM in why:  # who knows more has told it to the log alone
                    why = f"{why} {last_complaint(self._log, self._log_start)}".strip()
                raise kind(f"{why} (all of it is in {self._log})")
            else:
                return
        raise self._gone()

    def _tell_failure(self, message: str) -> None:
        if (found := _RETRIED.fullmatch(message)) is not None:
            why = f": {failure_in(found[2]).why}" if found[2] else ""
            self._tell(f"{found[1]}: failed, Spark tries again{why}")

    def _gone(self) -> SparkGone:
        why = last_complaint(self._log, self._log_start) or "it left no word, as if killed"
        return SparkGone(
            f"Spark is gone: {why} (all of it is in {self._log}). Run again: the tables go on "
            "where they are"
        )


def last_complaint(log: Path, start: int = 0) -> str:
    """What a log says last, from a place in it on, about something that went wrong."""
    with open(log, "rb") as file:
        file.seek(max(start, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        lines = file.read().decode("utf-8", "replace").splitlines()
    for at in reversed(range(len(lines))):
        if _COMPLAINT.search(lines[at]):
            more = [each for each in lines[at + 1 : at + 2] if each[:1].isalpha()]
            return ": ".join(each.strip() for each in (lines[at], *more))
    return ""


StartSpark: TypeAlias = Callable[
    [str, Mapping[str, str], Path, int, Tell], AbstractContextManager[SparkProcess]
]
"""Who starts a Spark with this master and these settings; `spark_process` does."""


@contextmanager
def spark_process(
    master: str,
    settings: Mapping[str, str],
    log: Path,
    held: int,
    tell: Tell,
    python: str = sys.executable,
) -> Iterator[SparkProcess]:
    """Start Spark; `held` is a file that stays open as long as Spark may write."""
    require_java()
    log.parent.mkdir(parents=True, exist_ok=True)
    log_start = log.stat().st_size if log.exists() else 0
    environment = {
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        # On a busy machine Spark's processes need longer than 15 s to find each other.
        "SPARK_AUTH_SOCKET_TIMEOUT": str(_MEETING_S),
    }
    command = [
        python,
        "-m",
        "tidelog.pipelines.run.runner",
        master,
        json.dumps(dict(settings)),
    ]
    with (
        open(log, "ab") as chatter,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=chatter,
            text=True,
            pass_fds=[held],
            env={**environment, **os.environ},
        ) as process,
    ):
        try:
            yield SparkProcess(process, log, tell, log_start)
        finally:
            assert process.stdin is not None
            with suppress(BrokenPipeError):  # it is gone, which somebody else tells
                process.stdin.close()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
