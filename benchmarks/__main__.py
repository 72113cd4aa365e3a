"""`python -m benchmarks`: measure a cluster, with Apache Kafka beside it if asked."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from benchmarks.servers import ApacheKafka, Server, Tidelog, running
from benchmarks.table import show
from benchmarks.workloads import (
    Figure,
    java_clients,
    latency,
    live_consumer,
    many_partitions,
    single_record_requests,
    small_records,
    throughput,
)


def measure(
    server: Server, megabytes: int, with_java: bool, say: Callable[[str], None]
) -> list[Figure]:
    """All figures of one server."""
    with running(server):
        say(f"{server.name}: started")
        figures = [
            Figure("start to first acknowledgement", server.start_to_first_ack_s, "s"),
            Figure("memory, idle", server.rss_mb(), "MB"),
        ]
        steps: list[tuple[str, Callable[[], list[Figure]]]] = [
            ("throughput", lambda: throughput(server, megabytes)),
            ("produce with a live consumer", lambda: live_consumer(server, megabytes // 2)),
            ("100 partitions", lambda: many_partitions(server, megabytes // 2)),
            ("small records", lambda: small_records(server, megabytes // 5)),
            ("latency", lambda: latency(server, 3000)),
            ("one-record requests", lambda: single_record_requests(server, 3.0)),
        ]
        if with_java:
            steps.append(("Java clients", lambda: java_clients(server, megabytes)))
        for name, step in steps:
            say(f"{server.name}: {name}")
            figures += step()
        figures.append(Figure("memory, loaded", server.rss_mb(), "MB"))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument(
        "--versus-kafka", action="store_true", help="measure Apache Kafka 4.3.1 too"
    )
    parser.add_argument(
        "--megabytes", type=int, default=1000, help="how much to produce and consume"
    )
    parser.add_argument("--brokers", type=int, default=3, help="how many brokers")
    arguments = parser.parse_args()
    servers: list[Server] = [Tidelog(arguments.brokers)]
    if arguments.versus_kafka:
        servers.append(ApacheKafka(arguments.brokers))
    columns = {
        server.name: measure(
            server,
            arguments.megabytes,
            arguments.versus_kafka,
            lambda text: print(text, file=sys.stderr),
        )
        for server in servers
    }
    brokers = arguments.brokers
    cluster = f"{brokers} brokers" if brokers > 1 else "One broker"
    show(f"{cluster}, RF {min(3, brokers)}, acks=all, 6 partitions, 1000 B records", columns)


main()
