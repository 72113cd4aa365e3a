"""A live topic: a stock producer that writes to every partition, and stock consumers that read."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Self

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.servers import JARS, ROOT
from benchmarks.waiting import PATIENCE_S, wait
from tidelog.testing.pauses import Pauses

EVERY_S = 0.005
CLIENTS = {
    "librdkafka": [sys.executable, "-m", "benchmarks.reading", "librdkafka"],
    "Java": ["java", "-Xmx256M", "-cp", f"{JARS}/*", str(ROOT / "benchmarks" / "ReadAlong.java")],
    "franz-go": [str(ROOT / ".cache" / "clients" / "everyday-go"), "read"],
    "aiokafka": [sys.executable, "-m", "benchmarks.reading", "aiokafka"],
}
"""How to start a consumer of each; each has its default settings."""


class LiveWriter:
    """An idempotent librdkafka producer with default settings: a record to each partition."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._topic, self._partitions = topic, partitions
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "log_level": 0,
            }
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.pauses = Pauses(partitions)
        """Between acknowledgements."""
        self.failed: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        wait(lambda: self.pauses.all_began, "the producer gets no answers")
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        if self._producer.flush(PATIENCE_S):
            self.failed.append("some records were never answered")

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stopping.is_set():
            for partition in range(self._partitions):
                self._producer.produce(
                    self._topic, b"x" * 100, partition=partition, on_delivery=self._answered
                )
            due = max(due + EVERY_S, time.monotonic() - 0.1)
            while (left := due - time.monotonic()) > 0:
                self._producer.poll(left)
            self._producer.poll(0)

    def _answered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.pauses.note(message.partition() or 0, time.time())


class LiveReader:
    """A consumer in a process of its own, of one of `CLIENTS`."""

    def __init__(self, client: str, bootstrap: str, topic: str, partitions: int) -> None:
        self.client = client
        self.pauses = Pauses(partitions)
        """Between records received."""
        self._process = subprocess.Popen(
            [*CLIENTS[client], bootstrap, topic],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        wait(lambda: self.pauses.all_began, f"the consumer of {self.client} receives nothing")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        with self._process:
            self._thread.join()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            partition, moment = line.split()
            self.pauses.note(int(partition), float(moment))
