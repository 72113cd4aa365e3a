"""A pipeline in real Spark over a real cluster, whose processes are killed at any moment.

A round writes records, waits for a moment of the run, and kills: the whole run, one process of
its driver, Python workers of Spark, or brokers. Whoever is left goes on; when the run is gone,
the next one starts at once, beside what may be left of it. Now and then, and at the end, the
tables are looked at without Spark: each committed offset once, in the table or in quarantine.

    python -m tests.pipelines.killing --rounds 20 --seed 7
    python -m tests.pipelines.killing --rounds 20 --seed 7 --standalone

With `--standalone` Spark runs on a master and two workers, and executors are killed too.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, Self

from tests.integration.raw import until
from tests.pipelines.comparing import committed_records, expect_places
from tests.pipelines.moments import STEPS, checkpoint_of, reached
from tests.spark.conftest import create_topic, write_records
from tests.spark.processes import kill_group, processes_below, python_workers, tidelog
from tests.spark.standalone import Standalone, standalone

from tidelog.pipelines.description.parsing import load_pipeline
from tidelog.pipelines.run.state import State
from tidelog.pipelines.run.summary import lag_of
from tidelog.testing.cluster import Cluster

TIMEOUT_S: Final = 900
ENDS_S: Final = 120
RECORDS: Final = 200
TOO_LARGE: Final = 10**9
PIPELINE: Final = f"""
name: killed
max_offsets_per_batch: 90
spark: {{spark.sql.pipelines.execution.maxConcurrentFlows: 2}}  # all of it is on one machine
tables:
  kept:
    pattern: killed-.*
    decode: {{format: json, schema: {{id: bigint not null, name: string}}}}
    rules: {{id is not too large: id < {TOO_LARGE}}}
    partition_by: _topic
    compact_files: 8
  files:
    from: kept
    steps: [{{where: id % 2 = 0}}]
    format: parquet
  copied:
    from: kept
    rules: {{id does not end in seven: id % 10 <> 7}}
    to_topic: {{topic: copies, key: id, value: cast(id as string)}}
"""
FLOWS: Final = ("kept", "files", "copied", "copied_quarantine")
MOMENTS: Final = tuple(
    f"{flow} {step}"
    for flow in FLOWS
    for step in STEPS
    if flow != "copied" or step in ("planned", "checkpointed")  # its decisions are records
)
ANY_TIME: Final = "any time"
DRIVER: Final = ("run", "command", "runner", "jvm")
WORKERS: Final = ("a python", "workers", "daemons")
BROKERS: Final = ("1 broker", "2 brokers", "3 brokers")
EXECUTORS: Final = ("an executor", "a spark worker")


class Killing:
    """One pipeline, its cluster, and the run that is alive now."""

    def __init__(
        self, cluster: Cluster, directory: Path, seed: int, spark: Standalone | None = None
    ) -> None:
        self._cluster, self._directory, self._spark = cluster, directory, spark
        self._master = "local[2,8]" if spark is None else spark.url
        self._random = random.Random(seed)
        self._topics: list[str] = []
        self._written = 0
        self._runs: list[subprocess.Popen[str]] = []
        create_topic(cluster.bootstrap, "copies", partitions=2, replicas=3)
        (directory / "pipeline.yaml").write_text(f"bootstrap: {cluster.bootstrap}\n{PIPELINE}")
        self.pipeline = load_pipeline(directory)
        self._state = State(self.pipeline.storage)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for run in self._runs:
            kill_group(run)
            run.wait()

    def add_topic(self) -> None:
        """One more for the pattern."""
        name = f"killed-{len(self._topics)}"
        self._topics.append(create_topic(self._cluster.bootstrap, name, partitions=2, replicas=3))

    def write(self) -> None:
        """Rows of both tables and of one, a record that is no JSON, and one that breaks a rule."""
        first, self._written = self._written, self._written + RECORDS
        values = [
            json.dumps({"id": each, "name": f"order {each}"}).encode()
            for each in range(first, self._written)
        ]
        wrong = [b"no order", json.dumps({"id": TOO_LARGE}).encode()]
        write_records(self._cluster.bootstrap, self._random.choice(self._topics), values + wrong)

    def kill(self, victim: str, moment: str) -> None:
        """Wait for the moment and kill; see to it that a run is alive afterwards."""
        before = reached(self._state, FLOWS)
        self.write()
        self._wait_for(moment, before)
        if victim in BROKERS:
            brokers = self._random.sample(self._cluster.node_ids, int(victim[0]))
            for broker in brokers:
                self._cluster.kill(broker)
            self._cluster.local.start(TIMEOUT_S)
            return
        if victim in EXECUTORS:
            assert self._spark is not None
            self._kill_executor(victim, self._spark)
            return
        run = self._runs[-1]
        if victim in DRIVER:
            self._until(lambda: bool(self._pids(victim)))
        for pid in self._pids(victim):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if victim in DRIVER:
            run.wait(ENDS_S)
            if victim in ("runner", "jvm"):
                said = self._said().read_text()
                assert "Spark is gone" in said or "Spark does not start" in said, said
            self.start()

    def start(self) -> None:
        """A run that goes on; what is left of the one before may have to end first."""
        while not self._started():
            pass

    def finish(self) -> None:
        """Let the run take all that is there, and compare."""
        self._until(self._is_up_to_date)
        state, bootstrap = self._state, self._cluster.bootstrap
        records = committed_records(bootstrap, self._topics)
        expect_places(state.table("kept"), records, is_order)
        expect_places(state.quarantine("kept"), records, lambda value: not is_order(value))
        expect_places(state.table("files"), records, lambda value: number_of(value) % 2 == 0)
        expect_places(state.quarantine("copied"), records, lambda value: number_of(value) % 10 == 7)
        copies = Counter(map(int, committed_records(bootstrap, ["copies"]).values()))
        orders = (number_of(value) for value in records.values() if is_order(value))
        assert copies == Counter(number for number in orders if number % 10 != 7)

    def summaries(self) -> list[dict[str, object]]:
        """What the run that is alive has told of tables so far."""
        lines = self._said().read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def end(self) -> None:
        """End the run as a user does."""
        os.kill(self._runs[-1].pid, signal.SIGINT)
        assert self._runs[-1].wait(TIMEOUT_S) == 130

    def rounds(self, count: int) -> Iterator[dict[str, object]]:
        """Kill and kill again; tells of each round what it was."""
        victims = (DRIVER, DRIVER, WORKERS if self._spark is None else EXECUTORS, BROKERS)
        self.add_topic()
        self.start()
        for number in range(count):
            if number % 5 == 4:
                self.add_topic()
            started = time.monotonic()
            victim = self._random.choice(self._random.choice(victims))
            moment = self._random.choice((*MOMENTS, ANY_TIME))
            finish = number == count - 1 or self._random.random() < 0.3
            self.kill(victim, moment)
            if finish:
                self.finish()
            yield {"round": number, "victim": victim, "moment": moment, "compared": finish,
                   "seconds": round(time.monotonic() - started, 1)}  # fmt: skip
        self.end()

    def _started(self) -> bool:
        with (self._directory / f"run-{len(self._runs) + 1}.txt").open("w") as out:
            run = tidelog("watch", str(self._directory), "--master", self._master,
                          "--every", "0.2", "--json", stdout=out, stderr=out)  # fmt: skip
        self._runs.append(run)
        said = self._said()
        until(lambda: run.poll() is not None or "starting Spark" in said.read_text(), TIMEOUT_S)
        if run.poll() is None:
            return True
        assert "another run of killed is at work" in said.read_text(), said.read_text()
        return False

    def _said(self) -> Path:
        return self._directory / f"run-{len(self._runs)}.txt"

    def _is_up_to_date(self) -> bool:
        positions = [checkpoint_of(self._state, flow).position() for flow in FLOWS]
        ends = [{each: at.offset for each, at in position.items()} for position in positions]
        return lag_of(self.pipeline, "kept") == 0 and all(each == ends[0] for each in ends)

    def _kill_executor(self, victim: str, spark: Standalone) -> None:
        self._until(lambda: bool(spark.executors()))
        if victim == "an executor":
            os.kill(self._random.choice(spark.executors()), signal.SIGKILL)
        else:
            os.kill(self._random.choice(spark.workers()), signal.SIGKILL)
            spark.add_worker()

    def _wait_for(self, moment: str, before: dict[str, int]) -> None:
        if moment == ANY_TIME:
            time.sleep(self._random.uniform(0, 20))
            return
        self._until(lambda: reached(self._state, FLOWS)[moment] > before[moment])

    def _until(self, holds: Callable[[], bool]) -> None:
        run = self._runs[-1]
        until(lambda: run.poll() is not None or holds(), TIMEOUT_S)
        assert run.poll() is None, "the run ended by itself"

    def _pids(self, victim: str) -> list[int]:
        root = self._runs[-1].pid
        below = processes_below(root)
        match victim:
            case "run":
                return [root, *(each.pid for each in below)]
            case "command":
                return [root]
            case "runner":
                return [
                    each.pid for each in below if b"tidelog.pipelines.run.runner" in each.command
                ]
            case "jvm":
                return [each.pid for each in below if b"org.apache.spark" in each.command]
            case "a python":
                known = sorted(each.pid for each in below if b"pyspark." in each.command)
                return self._random.sample(known, min(1, len(known)))
            case "workers":
                return python_workers(root)
            case "daemons":
                return [each.pid for each in below if b"pyspark.daemon" in each.command]
        return []


def is_order(value: bytes) -> bool:
    return number_of(value) >= 0


def number_of(value: bytes) -> int:
    """The number of an order; -1 where the record is none."""
    found = int(json.loads(value)["id"]) if value.startswith(b"{") else -1
    return found if found < TOO_LARGE else -1


def main(rounds: int, seed: int, directory: Path, *, on_workers: bool) -> None:
    """Kill, compare, and let the audit prove it once more."""
    print(json.dumps({"seed": seed, "directory": str(directory)}), flush=True)
    settings = {"transaction.two.phase.commit.enable": "true"}
    (directory / "shop").mkdir(parents=True)
    with ExitStack() as stack:
        cluster = Cluster(directory / "cluster", brokers=3, settings=settings)
        spark = stack.enter_context(standalone(directory / "spark")) if on_workers else None
        place = directory / "shop"
        killing = stack.enter_context(Killing(stack.enter_context(cluster), place, seed, spark))
        for told in killing.rounds(rounds):
            print(json.dumps(told), flush=True)
        audit = tidelog("audit", str(place))
        out, said = audit.communicate(timeout=TIMEOUT_S)
        print(out, said, flush=True)
        assert audit.returncode == 0, "the audit has findings"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1000))
    parser.add_argument("--directory", type=Path, help="where all of it lies; it stays")
    parser.add_argument("--standalone", action="store_true", help="on a master and two workers")
    given = parser.parse_args()
    directory = given.directory or Path(tempfile.mkdtemp(prefix="killing-"))
    main(given.rounds, given.seed, directory, on_workers=given.standalone)
