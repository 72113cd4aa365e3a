"""Exactly once while tasks, drivers and brokers are killed with SIGKILL."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

from tests.spark.apache_kafka import ApacheKafka
from tests.spark.conftest import MakeTopic, create_topic
from tests.spark.delivery_rounds import DRIVER_STEPS, TASK_STEPS

from tidelog.testing.cluster import Cluster

ROOT = Path(__file__).parents[2]
SEED = 7
EVERY_STEP = [" + ".join(pair) for pair in zip(TASK_STEPS, cycle(DRIVER_STEPS), strict=False)]
"""In each round a task dies at one step and the driver at another; together that is all of them."""


def deliver(bootstrap: str, topic: str, steps: list[str]) -> None:
    command = [sys.executable, "-m", "tests.spark.delivery_rounds", bootstrap, topic, *steps]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    assert ran.stdout.count("batch") == len(steps)


def test_every_row_arrives_once_whichever_step_a_process_dies_at(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    deliver(bootstrap, make_topic(), EVERY_STEP)


def test_the_same_on_apache_kafka_within_the_timeout(apache: ApacheKafka, topic: str) -> None:
    create_topic(apache.bootstrap, topic, 2, 1)
    deliver(apache.bootstrap, topic, EVERY_STEP)


@contextmanager
def brokers_being_killed(cluster: Cluster) -> Iterator[None]:
    """Kill one broker after the other, each as soon as the one before is back."""
    over = threading.Event()

    def kill_and_start() -> None:
        chosen = random.Random(SEED)
        while not over.wait(0.3):
            broker = chosen.choice([101, 102])
            cluster.kill(broker)
            over.wait(0.3)
            cluster.start(broker)

    killer = threading.Thread(target=kill_and_start)
    killer.start()
    try:
        yield
    finally:
        over.set()
        killer.join()


def test_every_row_arrives_once_while_brokers_are_killed(
    cluster: Cluster, bootstrap: str, make_topic: MakeTopic
) -> None:
    steps = random.Random(SEED).choices([*EVERY_STEP, *TASK_STEPS, *DRIVER_STEPS, "nothing"], k=8)
    topic = make_topic(partitions=3)
    with brokers_being_killed(cluster):
        deliver(bootstrap, topic, steps)
