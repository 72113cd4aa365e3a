"""Whole Spark processes that are killed: a driver, and an executor of a standalone cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pyspark
import pytest
from tests.integration.raw import until
from tests.spark.conftest import MakeTopic, Write
from tests.spark.delivery_rounds import visible

from tidelog.testing.ports import free_ports

ROOT = Path(__file__).parents[2]
SPARK = Path(pyspark.__file__).parent
ROWS = 3000
START_S = 180

pytestmark = pytest.mark.xdist_group("spark")
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts processes, each with its own group, that are gone after the test."""
    with ExitStack() as cleanup:

        def run(name: str, *command: str) -> subprocess.Popen[bytes]:
            environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
            environment |= {"SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1"}
            log = cleanup.enter_context((tmp_path / f"{name}.log").open("ab"))
            process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, env=environment
            )
            cleanup.callback(process.wait)
            cleanup.callback(kill_group, process)
            return process

        yield run


def kill_group(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def copy_command(bootstrap: str, source: str, target: str, place: Path, *more: str) -> list[str]:
    return [
        sys.executable, str(ROOT / "examples" / "spark_copy.py"), "--bootstrap", bootstrap,
        "--source", source, "--target", target, "--checkpoint", str(place / "checkpoint"),
        "--batch", "300", *more,
    ]  # fmt: skip


def expect_each_once(bootstrap: str, target: str) -> None:
    assert sorted(map(int, visible(bootstrap, target))) == list(range(ROWS))


def test_a_driver_that_is_killed_repeats_nothing(
    bootstrap: str, make_topic: MakeTopic, write: Write, start: Start, tmp_path: Path
) -> None:
    source, target = make_topic(), make_topic("driver-target")
    write(source, [b"%d" % each for each in range(ROWS)])
    command = copy_command(bootstrap, source, target, tmp_path, "--master", "local[2]")
    driver = start("killed", *command)
    until(lambda: len(visible(bootstrap, target)) >= ROWS // 3, within_s=START_S)
    kill_group(driver)
    driver.wait()
    again = start("again", *command)
    assert again.wait(START_S) == 0, (tmp_path / "again.log").read_text()
    expect_each_once(bootstrap, target)


def test_an_executor_of_a_standalone_cluster_is_killed(
    bootstrap: str, make_topic: MakeTopic, write: Write, start: Start, tmp_path: Path
) -> None:
    source, target = make_topic(), make_topic("executor-target")
    write(source, [b"%d" % each for each in range(ROWS)])
    port, *ports = free_ports(5)
    spark_class = str(SPARK / "bin" / "spark-class")
    deploy = "org.apache.spark.deploy"
    start("master", spark_class, f"{deploy}.master.Master", "--host", "127.0.0.1",
          "--port", str(port), "--webui-port", str(ports[0]))  # fmt: skip
    master = f"spark://127.0.0.1:{port}"
    for number, web_port in enumerate(ports[1:3]):
        start(f"worker{number}", spark_class, f"{deploy}.worker.Worker", master, "--cores", "1",
              "--memory", "1g", "--webui-port", str(web_port),
              "--work-dir", str(tmp_path / f"work{number}"))  # fmt: skip
    for number in range(2):
        log = tmp_path / f"worker{number}.log"
        until(partial(says, log, "Successfully registered"), within_s=START_S)
    driver = start("driver", *copy_command(bootstrap, source, target, tmp_path, "--master", master))
    until(lambda: len(visible(bootstrap, target)) >= ROWS // 3, within_s=START_S)
    executors = executor_processes(tmp_path)
    assert len(executors) == 2, "each worker runs an executor"
    os.kill(executors[0], signal.SIGKILL)
    assert driver.wait(START_S) == 0, (tmp_path / "driver.log").read_text()
    expect_each_once(bootstrap, target)


def says(log: Path, words: str) -> bool:
    return words in log.read_text()


def executor_processes(place: Path) -> list[int]:
    """The JVMs that run tasks for the workers of this test."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
                ours = str(place).encode() in os.readlink(entry / "cwd").encode()
            except OSError:
                continue
            if b"CoarseGrainedExecutorBackend" in line and ours:
                found.append(int(entry.name))
    return found
