"""Exactly once while tasks, drivers and brokers are killed with SIGKILL."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from subprocess import PIPE
from typing import Any

from confluent_kafka.admin import AdminClient
from tests.integration.metadata import metadata
from tests.integration.raw import until
from tests.spark.apache_kafka import ApacheKafka
from tests.spark.conftest import MakeTopic, create_topic
from tests.spark.delivery_rounds import ABORT_STEPS, DRIVER_STEPS, TASK_STEPS

from tidelog.testing.cluster import Cluster

ROOT = Path(__file__).parents[3]
SEED = 7
WITHIN_S = 600
DRIVERS = [*DRIVER_STEPS, *ABORT_STEPS]
EVERY_STEP = [" + ".join(pair) for pair in zip(TASK_STEPS, DRIVERS, strict=True)]
"""In each round a task dies at one step and the driver at another; together that is all of them."""
MOMENTS = re.compile("|".join([*TASK_STEPS, *DRIVERS]))
BROKERS = (100, 101, 102)


def deliver(bootstrap: str, topic: str, steps: list[str], cluster: Cluster | None = None) -> None:
    """As many batches as there are steps, and then every row is there once."""
    command = [sys.executable, "-m", "tests.spark.delivery_rounds", bootstrap, topic, *steps]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, cwd=ROOT, stdin=PIPE, stdout=PIPE, stderr=errors, text=True
        ) as rounds,
    ):
        overdue = threading.Timer(WITHIN_S, rounds.kill)
        overdue.start()
        try:
            told = list(follow(rounds, cluster, bootstrap))
            rounds.wait()
        finally:
            overdue.cancel()
            rounds.kill()
        errors.seek(0)
        assert rounds.returncode == 0, f"{told} {errors.read()}"
    assert [each["step"] for each in told if "batch" in each] == steps
    reached = Counter(each["reached"] for each in told if "reached" in each)
    assert reached == Counter(moment for step in steps for moment in MOMENTS.findall(step))


def follow(
    rounds: subprocess.Popen[str], cluster: Cluster | None, bootstrap: str
) -> Iterator[dict[str, Any]]:
    """What is told on the way; brokers are killed where they have to die, and started again."""
    assert rounds.stdin is not None
    for line in rounds.stdout or ():
        told = json.loads(line)
        yield told
        if (broker := told.get("broker")) is not None:
            assert cluster is not None
            until(lambda: in_sync(bootstrap), within_s=WITHIN_S)
            cluster.kill(broker)
            rounds.stdin.write(".")
            rounds.stdin.flush()
            cluster.start(broker)


def in_sync(bootstrap: str) -> bool:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    topics = metadata(admin).topics.values()
    partitions = [each for topic in topics for each in topic.partitions.values()]
    return all(len(each.isrs) == len(each.replicas) for each in partitions)


def with_brokers(steps: list[str]) -> list[str]:
    """The same steps, but at each of them a broker dies, one after the other."""
    brokers = cycle(BROKERS)
    return [
        " + ".join(f"{next(brokers)} {moment}" for moment in step.split(" + ")) for step in steps
    ]


def test_every_row_arrives_once_whichever_step_a_process_dies_at(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    deliver(bootstrap, make_topic(), EVERY_STEP)


def test_the_same_on_apache_kafka_within_the_timeout(apache: ApacheKafka, topic: str) -> None:
    create_topic(apache.bootstrap, topic, 2, 1)
    deliver(apache.bootstrap, topic, EVERY_STEP)


def test_every_row_arrives_once_whichever_step_a_broker_dies_at(
    cluster: Cluster, bootstrap: str, make_topic: MakeTopic
) -> None:
    deliver(bootstrap, make_topic(partitions=3), with_brokers(EVERY_STEP), cluster)


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
    steps = random.Random(SEED).choices([*EVERY_STEP, *TASK_STEPS, *DRIVER_STEPS, "nothing"], k=5)
    topic = make_topic(partitions=3)
    with brokers_being_killed(cluster):
        deliver(bootstrap, topic, steps)
