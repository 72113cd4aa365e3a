"""`python -m benchmarks.nats`: three brokers beside three servers of NATS JetStream, in one run.

JetStream is the replicated log of NATS: another protocol, so each side has the client of its own
world, librdkafka here and a bare socket there. Records of 1000 B, three replicas on files, each
acknowledged by a majority (NATS) or by all that are in sync, two at least (here); neither side
syncs to disk before it answers.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from statistics import median, quantiles

from benchmarks.failover import KILL, SETTINGS, WRITES, Trial
from benchmarks.nats_servers import SERVER, STREAM, Nats, NatsClient
from benchmarks.servers import Tidelog, running
from benchmarks.table import show
from benchmarks.waiting import wait
from benchmarks.workloads import Figure, create_topic, fill, latency

_IN_FLIGHT = 2_000
_RECORD = os.urandom(1000)


def of_nats(megabytes: int, rounds: int, say: Callable[[str], None]) -> list[Figure]:
    nats = Nats()
    try:
        nats.start()
        say(f"{nats.name}: started")
        start, idle = nats.start_to_first_ack_s, nats.rss_mb()
        speed = _publish(nats, megabytes * 1000)
        cuts = quantiles(_one_at_a_time(nats, 3000), n=100)
        pauses = []
        for number in range(1, rounds + 1):
            say(f"{nats.name}: kill -9, round {number} of {rounds}")
            pauses.append(_pause(nats))
        return _figures(start, idle, megabytes / speed, cuts[49], cuts[98], pauses, nats.rss_mb())
    finally:
        nats.stop()


def of_tidelog(megabytes: int, rounds: int, say: Callable[[str], None]) -> list[Figure]:
    with running(Tidelog(3, SETTINGS)) as server:
        say(f"{server.name}: started")
        start, idle = server.start_to_first_ack_s, server.rss_mb()
        create_topic(server, "one", 1)
        seconds, _ = fill(server, "one", megabytes, len(_RECORD), 1)
        typical, rare = (figure.value for figure in latency(server, 3000))
        trial = Trial(server)
        with trial.live(clients=()):
            for number in range(1, rounds + 1):
                say(f"{server.name}: kill -9, round {number} of {rounds}")
                trial.round(KILL, of_controller=False, number=signal.SIGKILL)
        pauses = trial.figures[KILL][WRITES]
        return _figures(start, idle, megabytes / seconds, typical, rare, pauses, server.rss_mb())


def _figures(
    start: float,
    idle: float,
    speed: float,
    typical: float,
    rare: float,
    pauses: list[float],
    loaded: float,
) -> list[Figure]:
    return [
        Figure("start to first acknowledgement", start, "s"),
        Figure("memory, idle", idle, "MB"),
        Figure("publish to one partition or stream", speed, "MB/s"),
        Figure("acknowledgement p50", typical, "ms"),
        Figure("acknowledgement p99", rare, "ms"),
        Figure("kill -9 of the leader, median pause", median(pauses), "s"),
        Figure("kill -9 of the leader, worst pause", max(pauses), "s"),
        Figure("memory, loaded", loaded, "MB"),
    ]


def _publish(nats: Nats, count: int) -> float:
    """Seconds until `count` records are acknowledged."""
    with nats.client() as client:
        began = time.monotonic()
        for number in range(1, count + _IN_FLIGHT + 1):
            if number > _IN_FLIGHT:
                _require_stored(client)
            if number <= count:
                client.publish(number, STREAM, _RECORD)
        return time.monotonic() - began


def _one_at_a_time(nats: Nats, rounds: int) -> list[float]:
    """Milliseconds from each record to its acknowledgement, through the leader itself."""
    leader = nats.leader()
    client = NatsClient(nats.ports[leader])
    spans = []
    for number in range(1, rounds + 1):
        began = time.monotonic()
        client.publish(number, STREAM, _RECORD)
        _require_stored(client)
        spans.append((time.monotonic() - began) * 1000)
    client.close()
    return spans


def _require_stored(client: NatsClient) -> None:
    _, answer = client.answer()
    if b'"seq"' not in answer:
        raise SystemExit(f"NATS refused a record: {answer.decode(errors='replace')}")


def _pause(nats: Nats) -> float:
    """A record every millisecond through a server that stays: the longest time unanswered."""
    leader = nats.leader()
    answered: list[float] = []
    stopping = threading.Event()
    with nats.client(avoiding=leader) as client:

        def take() -> None:
            with suppress(OSError, ValueError):
                while not stopping.is_set():
                    if b'"seq"' in client.answer()[1]:
                        answered.append(time.monotonic())

        def send() -> None:
            number = 1
            while not stopping.is_set():
                client.publish(number, STREAM, b"x" * 100)
                number += 1
                time.sleep(0.001)

        threads = [threading.Thread(target=work, daemon=True) for work in (take, send)]
        for thread in threads:
            thread.start()
        wait(lambda: len(answered) > 200, "NATS gives no answers")
        began = time.monotonic()
        nats.kill(leader)
        killed = time.monotonic() + 0.1
        wait(lambda: answered[-1] > killed, "NATS acknowledged nothing after the kill")
        stopping.set()
        for thread in threads:
            thread.join()
    nats.restart(leader)
    moments = [began, *(each for each in answered if each >= began)]
    return max(after - before for before, after in pairwise(moments))


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.nats", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=500, help="how much to publish")
    parser.add_argument("--rounds", type=int, default=5, help="how often a leader is killed")
    arguments = parser.parse_args()
    if not SERVER.exists():
        raise SystemExit("nats-server is not built; run `make bench-nats`, which does that")

    def say(text: str) -> None:
        print(text, file=sys.stderr)

    ours = of_tidelog(arguments.megabytes, arguments.rounds, say)
    theirs = of_nats(arguments.megabytes, arguments.rounds, say)
    title = "Three servers, three replicas, 1000 B records, one partition or stream"
    show(title, {"Tidelog": ours, Nats.name: theirs})


if __name__ == "__main__":
    main()
