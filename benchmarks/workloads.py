"""What is measured: stock clients doing ordinary things to a cluster."""

from __future__ import annotations

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import quantiles

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.servers import JARS, Server

PARTITIONS = 6
RUN = 500
"""How many records are handed to the client at once: Python must not be what is measured."""


@dataclass(frozen=True)
class Figure:
    """One measured number."""

    name: str
    value: float
    unit: str


def create_topic(server: Server, name: str, partitions: int = PARTITIONS) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})
    config = {"min.insync.replicas": str(server.min_in_sync)}
    new = NewTopic(name, partitions, server.replicas, config=config)
    admin.create_topics([new])[name].result(30)
    until = time.monotonic() + 30
    while True:
        found = admin.list_topics(name, timeout=10).topics[name].partitions
        if len(found) == partitions and all(
            len(each.isrs) == server.replicas for each in found.values()
        ):
            return
        if time.monotonic() > until:
            raise SystemExit(f"{server.name}: topic {name} is not in sync after 30 s")
        time.sleep(0.05)


def fill(
    server: Server, topic: str, megabytes: int, record_bytes: int, partitions: int = PARTITIONS
) -> tuple[float, float]:
    """Produce with acks=all; seconds taken and CPU seconds of the brokers."""
    producer = Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "acks": "all",
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 0,
            "queue.buffering.max.kbytes": 2_000_000,
            "log_level": 0,
        }
    )
    producer.list_topics(topic, timeout=10)
    run = [{"value": os.urandom(record_bytes)}] * RUN
    runs = megabytes * 1_000_000 // record_bytes // RUN
    cpu, began = server.cpu_seconds(), time.monotonic()
    for number in range(runs):
        queued = producer.produce_batch(topic, run, partition=number % partitions)
        if queued != RUN:
            raise SystemExit(f"{server.name}: the client queued {queued} of {RUN} records")
    left = producer.flush(120)
    if left:
        raise SystemExit(f"{server.name}: {left} records were not acknowledged")
    return time.monotonic() - began, server.cpu_seconds() - cpu


def drain(server: Server, topic: str, records: int) -> tuple[float, float]:
    """Consume from the beginning; seconds taken and CPU seconds of the brokers."""
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "queued.max.messages.kbytes": 1_000_000,
            "queued.min.messages": 1_000_000,
            "fetch.message.max.bytes": 4_000_000,
            "check.crcs": False,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    cpu, began = server.cpu_seconds(), time.monotonic()
    seen = 0
    while seen < records:
        batch = consumer.consume(10_000, 10)
        if not batch:
            raise SystemExit(f"{server.name}: consumed {seen} of {records} records, then nothing")
        seen += len(batch)
    taken = time.monotonic() - began
    consumer.close()
    return taken, server.cpu_seconds() - cpu


def throughput(server: Server, megabytes: int) -> list[Figure]:
    """MB/s and CPU per GB, produced and consumed, 1000 B records over six partitions."""
    create_topic(server, "throughput")
    seconds, cpu = fill(server, "throughput", megabytes, 1000)
    read_seconds, read_cpu = drain(server, "throughput", megabytes * 1000)
    gigabytes = megabytes / 1000
    return [
        Figure("librdkafka produce", megabytes / seconds, "MB/s"),
        Figure("CPU per GB produced", cpu / gigabytes, "s"),
        Figure("librdkafka consume", megabytes / read_seconds, "MB/s"),
        Figure("CPU per GB consumed", read_cpu / gigabytes, "s"),
    ]


def live_consumer(server: Server, megabytes: int) -> list[Figure]:
    """MB/s produced while a consumer reads at the end of the log."""
    create_topic(server, "live")
    with ThreadPoolExecutor(1) as beside:
        reading = beside.submit(drain, server, "live", megabytes * 1000)
        seconds, _ = fill(server, "live", megabytes, 1000)
        reading.result()
    return [Figure("produce with a live consumer", megabytes / seconds, "MB/s")]


def many_partitions(server: Server, megabytes: int) -> list[Figure]:
    """MB/s produced over a hundred partitions."""
    create_topic(server, "wide", 100)
    seconds, _ = fill(server, "wide", megabytes, 1000, 100)
    return [Figure("produce over 100 partitions", megabytes / seconds, "MB/s")]


def small_records(server: Server, megabytes: int) -> list[Figure]:
    """100 B records a second."""
    create_topic(server, "small")
    seconds, _ = fill(server, "small", megabytes, 100)
    return [Figure("100 B records", megabytes * 10_000 / seconds, "1/s")]


def latency(server: Server, rounds: int) -> list[Figure]:
    """Time from produce to acknowledgement, one record at a time."""
    create_topic(server, "latency", 1)
    producer = Producer(
        {"bootstrap.servers": server.bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0}
    )
    taken: list[float] = []

    def acknowledged(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise SystemExit(f"{server.name}: {error}")
        taken.append(time.monotonic())

    spans = []
    for number in range(rounds + rounds // 10):
        began = time.monotonic()
        producer.produce("latency", b"x" * 1000, on_delivery=acknowledged)
        while not taken:
            producer.poll(1)
        if number >= rounds // 10:
            spans.append((taken[0] - began) * 1000)
        taken.clear()
    cuts = quantiles(spans, n=100)
    return [
        Figure("acknowledgement p50", cuts[49], "ms"),
        Figure("acknowledgement p99", cuts[98], "ms"),
    ]


def single_record_requests(server: Server, seconds: float) -> list[Figure]:
    """Requests a second when each carries one record, from one producer and from sixteen."""
    create_topic(server, "requests", PARTITIONS)
    figures = []
    for producers in (1, 16):
        with ThreadPoolExecutor(producers) as pool:
            rates = pool.map(lambda _: _request_rate(server, seconds), range(producers))
        name = "one-record requests, " + ("1 producer" if producers == 1 else "16 producers")
        figures.append(Figure(name, sum(rates), "1/s"))
    return figures


def _request_rate(server: Server, seconds: float) -> float:
    producer = Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "acks": "all",
            "linger.ms": 0,
            "batch.num.messages": 1,
            "queue.buffering.max.messages": 1000,
            "log_level": 0,
        }
    )
    producer.list_topics("requests", timeout=10)
    sent, began = 0, time.monotonic()
    while time.monotonic() - began < seconds:
        try:
            producer.produce("requests", b"x" * 100)
        except BufferError:
            producer.poll(0.01)
            continue
        sent += 1
        producer.poll(0)
    if producer.flush(120):
        raise SystemExit(f"{server.name}: some requests were not acknowledged")
    return sent / (time.monotonic() - began)


def java_clients(server: Server, megabytes: int) -> list[Figure]:
    """Apache Kafka's own ProducerPerformance and ConsumerPerformance."""
    create_topic(server, "java")
    records = megabytes * 1000
    produced = _tool(
        "org.apache.kafka.tools.ProducerPerformance",
        "--bootstrap-server", server.bootstrap, "--topic", "java", "--num-records", str(records),
        "--record-size", "1000", "--throughput", "-1",
        "--command-property", "acks=all", "--command-property", "batch.size=262144",
        "--command-property", "linger.ms=5",
    )  # fmt: skip
    rate = produced.splitlines()[-1].split("records/sec")[0].split(",")[-1]
    consumed = _tool(
        "org.apache.kafka.tools.ConsumerPerformance",
        "--bootstrap-server", server.bootstrap, "--topic", "java", "--num-records", str(records),
        "--timeout", "60000",
    )  # fmt: skip
    mebibytes_a_second = consumed.strip().splitlines()[-1].split(",")[3]
    return [
        Figure("Java ProducerPerformance", float(rate.strip()) / 1000, "MB/s"),
        Figure("Java ConsumerPerformance", float(mebibytes_a_second) * 1.048576, "MB/s"),
    ]


def _tool(main: str, *arguments: str) -> str:
    ran = subprocess.run(
        ["java", "-Xmx512m", "-cp", f"{JARS}/*", main, *arguments], capture_output=True, text=True
    )
    if ran.returncode != 0:
        raise SystemExit(f"{main} failed:\n{ran.stdout}\n{ran.stderr}")
    return ran.stdout
