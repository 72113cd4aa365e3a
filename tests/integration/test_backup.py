"""Files of a running cluster, copied with the script of the documentation and put back."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.integration.raw import until
from typer.testing import CliRunner

from tidelog.cli.main import app
from tidelog.testing.cluster import Cluster

ROOT = Path(__file__).parents[2]
TOPIC = "kept"


def script() -> str:
    """What docs/backup.md tells people to run."""
    found = re.search(r"```bash\n(.*?)```", (ROOT / "docs/backup.md").read_text(), re.DOTALL)
    assert found is not None
    return found[1]


class Writer:
    """Goes on writing numbers with acks=all until it is told to stop."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged = -1
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        )
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        number = 0
        while not self._is_done.is_set():
            self._producer.produce(TOPIC, b"%d" % number, partition=0, callback=self._note)
            self._producer.poll(0.001)
            number += 1
        assert self._producer.flush(30) == 0

    def _note(self, error: Any, message: Any) -> None:
        assert error is None
        self.acknowledged = int(message.value())

    def stop(self) -> None:
        self._is_done.set()
        self._thread.join()


def described(cluster: Cluster, *arguments: str) -> dict[str, Any]:
    ended = CliRunner().invoke(app, [*arguments, "--json", "--bootstrap", cluster.bootstrap])
    assert ended.exit_code == 0, ended.output
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def epochs(cluster: Cluster) -> tuple[object, list[object]]:
    partitions = described(cluster, "topics", "describe", TOPIC)["partitions"]
    controller = described(cluster, "cluster", "describe")["controller_epoch"]
    return controller, [each["leader_epoch"] for each in partitions]


def values(cluster: Cluster) -> list[int]:
    """All of the topic, in order."""
    (partition,) = described(cluster, "topics", "describe", TOPIC)["partitions"]
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "none", "log_level": 0}
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[int] = []
    while len(found) < partition["end_offset"]:
        for message in consumer.consume(1000, timeout=20):
            assert message.error() is None
            found.append(int(message.value()))
    consumer.close()
    return found


def test_a_cluster_comes_back_from_files_that_were_copied_while_it_ran(tmp_path: Path) -> None:
    settings = {"log.segment.bytes": "1048576", "auto.leader.rebalance.enable": "false"}
    with Cluster(tmp_path / "cluster", brokers=3, settings=settings) as cluster:
        create = ["topics", "create", TOPIC, "--partitions", "1", "--bootstrap", cluster.bootstrap]
        assert CliRunner().invoke(app, create).exit_code == 0
        writer = Writer(cluster.bootstrap)
        until(lambda: writer.acknowledged > 5000, within_s=60)
        before, promised = epochs(cluster), writer.acknowledged
        for node_id in cluster.node_ids:
            copy = ["bash", "-c", script(), "copy-node"]
            subprocess.run([*copy, cluster.data(node_id), tmp_path / str(node_id)], check=True)
        assert epochs(cluster) == before
        copied = writer.acknowledged
        until(lambda: writer.acknowledged > copied + 1000, within_s=60)
        writer.stop()

        for node_id in cluster.node_ids:
            cluster.kill(node_id)
        for node_id in cluster.node_ids:
            shutil.rmtree(cluster.data(node_id))
            (tmp_path / str(node_id)).rename(cluster.data(node_id))
        cluster.start_all()

        def is_whole() -> bool:
            (partition,) = described(cluster, "topics", "describe", TOPIC)["partitions"]
            return len(partition["isr"]) == 3 and partition["end_offset"] is not None

        until(is_whole, within_s=60)
        found = values(cluster)
        assert len(found) > promised
        assert found == list(range(len(found)))
        again = Writer(cluster.bootstrap)
        until(lambda: again.acknowledged >= 0, within_s=30)
        again.stop()
