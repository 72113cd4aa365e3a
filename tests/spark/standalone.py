"""A Spark cluster of our own on this machine: a master and two workers, which may be killed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark
from tests.integration.raw import until
from tests.spark.processes import kill_group, processes_below

from tidelog.local.ports import free_ports

START_S: Final = 300
WORKERS: Final = 2
SPARK: Final = Path(pyspark.__file__).parent
SPARK_ENVIRONMENT: Final = {"SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1"}


class Standalone:
    """A master, and those of its workers that are alive."""

    def __init__(self, directory: Path, cores: int, environment: Mapping[str, str]) -> None:
        self._directory, self._cores = directory, cores
        self._environment = {**os.environ, **SPARK_ENVIRONMENT, **environment}
        self._processes: list[subprocess.Popen[bytes]] = []
        host, (port, web_port) = "127.0.0.1", free_ports(2)
        self.url = f"spark://{host}:{port}"
        self._start("master.Master", "--host", host, "--port", str(port),
                    "--webui-port", str(web_port))  # fmt: skip

    def add_worker(self) -> None:
        (web_port,) = free_ports(1)
        place = self._directory / f"work-{len(self._processes)}"
        log = self._start("worker.Worker", self.url, "--cores", str(self._cores), "--memory", "1g",
                          "--webui-port", str(web_port), "--work-dir", str(place))  # fmt: skip
        until(lambda: "Successfully registered" in log.read_text(), START_S)

    def workers(self) -> list[int]:
        return [each.pid for each in self._processes[1:] if each.poll() is None]

    def executors(self) -> list[int]:
        """The JVMs that run tasks."""
        return [
            each.pid
            for worker in self.workers()
            for each in processes_below(worker)
            if b"CoarseGrainedExecutorBackend" in each.command
        ]

    def clear_away(self) -> None:
        for each in self._processes:
            kill_group(each)
            each.wait()

    def _start(self, kind: str, *arguments: str) -> Path:
        path = self._directory / f"spark-{len(self._processes)}.log"
        command = [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"]
        with path.open("wb") as log:
            self._processes.append(
                subprocess.Popen([*command, *arguments], stdout=log, stderr=log,
                                 env=self._environment, start_new_session=True)
            )  # fmt: skip
        return path


@contextmanager
def standalone(directory: Path, cores: int = 2, **environment: str) -> Iterator[Standalone]:
    """A master with its workers; afterwards no process of them is left."""
    directory.mkdir(parents=True)
    spark = Standalone(directory, cores, environment)
    try:
        for _ in range(WORKERS):
            spark.add_worker()
        yield spark
    finally:
        spark.clear_away()
