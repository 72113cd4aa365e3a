"""Real nodes over HTTP: metrics, health, events, and what a live view is told."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from tidelog.node.inspection.metrics import NODE_METRICS
from tidelog.shell.process_metrics import PROCESS_METRICS
from tidelog.testing.cluster import Cluster

ROOT = Path(__file__).parents[2]
OF_OURS = re.compile(r"\b(?:kafka|tidelog|process)_\w+")


class ServerSentEvent(NamedTuple):
    name: str | None
    id: int | None
    data: Any


class EventSource:
    """Reads a stream, event by event."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response

    def __iter__(self) -> Iterator[ServerSentEvent]:
        lines: dict[str, str] = {}
        while line := self._response.readline().decode().rstrip("\n") or "end":
            if line != "end":
                key, _, value = line.partition(": ")
                lines[key] = value
            elif "data" in lines:
                number = int(lines["id"]) if "id" in lines else None
                yield ServerSentEvent(lines.get("event"), number, json.loads(lines["data"]))
                lines = {}

    def until(self, fits: Callable[[ServerSentEvent], bool], within_s: float) -> ServerSentEvent:
        deadline = time.monotonic() + within_s
        for event in self:
            if fits(event):
                return event
            assert time.monotonic() < deadline, "it did not come in time"
        raise AssertionError("the stream ended")


@contextmanager
def stream(listener: str, path: str, **headers: str) -> Iterator[EventSource]:
    connection = http.client.HTTPConnection(listener, timeout=15)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        assert response.status == 200, response.read()
        yield EventSource(response)
        response.close()
    finally:
        connection.close()


def get(listener: str, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(listener, timeout=15)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def until(is_so: Callable[[], bool], within_s: float = 30) -> None:
    deadline = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, http=True) as three:
        admin = AdminClient({"bootstrap.servers": three.bootstrap})
        for created in admin.create_topics([NewTopic("orders", 3, 3)]).values():
            created.result(30)
        yield three


def produce(cluster: Cluster, count: int = 100) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for n in range(count):
        producer.produce("orders", str(n).encode(), partition=n % 3)
    assert producer.flush(30) == 0


def values(cluster: Cluster, node_id: int) -> dict[str, float]:
    status, text = get(cluster.http(node_id), "/metrics")
    assert status == 200
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_are_those_that_are_declared_and_those_that_the_dashboard_shows(
    cluster: Cluster,
) -> None:
    produce(cluster)
    _, text = get(cluster.http(100), "/metrics")
    given = set(re.findall(r"^# TYPE (\w+) ", text, re.M))
    assert given == {family.name for family in (*NODE_METRICS, *PROCESS_METRICS)}
    told = {
        node: values(cluster, node)["kafka_server_brokertopicmetrics_messagesin_total"]
        for node in (100, 101, 102)
    }
    assert sum(told.values()) == 100

    dashboard = json.loads((ROOT / "dashboards" / "tidelog.json").read_text())
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    names = {name for expression in shown for name in OF_OURS.findall(expression)}
    assert len(names) > 30
    ends = ("_bucket", "_sum", "_count")
    assert names <= given | {f"{name}{end}" for name in given for end in ends}


def test_a_node_is_ready_when_it_is_back_in_sync_and_says_what_is_missing_until_then(
    cluster: Cluster,
) -> None:
    until(lambda: all(get(cluster.http(node), "/readyz")[0] == 200 for node in (100, 101, 102)))
    assert get(cluster.http(101), "/healthz") == (200, '{"healthy":true}\n')
    cluster.kill(101)
    survivor = cluster.http(102)
    under = "kafka_server_replicamanager_underreplicatedpartitions"
    until(lambda: sum(values(cluster, node)[under] for node in (100, 102)) == 3)
    produce(cluster)
    cluster.start(101)
    answers: list[tuple[int, str]] = []

    def is_ready() -> bool:
        answers.append(get(cluster.http(101), "/readyz"))
        return answers[-1][0] == 200

    until(is_ready)
    for status, text in answers:
        assert json.loads(text)["ready"] == (status == 200) == (json.loads(text)["missing"] == [])
    until(lambda: sum(values(cluster, node)[under] for node in (100, 101, 102)) == 0)
    state = json.loads(get(survivor, "/state")[1])
    assert {partition["partition"] for partition in state["partitions"]} == {0, 1, 2}
    assert all(len(partition["isr"]) == 3 for partition in state["partitions"])
    everything = json.loads(get(survivor, "/state?partitions=metadata")[1])["partitions"]
    assert len(everything) == 3
    assert get(survivor, "/state?partitions=some")[0] == 400


def test_events_are_followed_and_resumed_after_a_restart(cluster: Cluster) -> None:
    with stream(cluster.http(102), "/events") as events:
        first = next(iter(events))
    assert first.id == first.data["seq"] and first.data["node"] == 102
    newest = json.loads((cluster.data(102) / "events.jsonl").read_text().splitlines()[-1])["seq"]
    cluster.stop(102)
    cluster.start(102)
    with stream(cluster.http(102), "/events", **{"Last-Event-ID": str(newest)}) as events:
        behind = iter(events)
        assert [next(behind).id for _ in range(3)] == [newest + 1, newest + 2, newest + 3]
    with stream(cluster.http(102), "/events?after=now") as events:
        listening = iter(events)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("new", 1, 3)])["new"].result(30)
        kinds = set()
        while "TopicCreated" not in kinds:
            kinds.add(next(listening).data["event"])
    assert get(cluster.http(102), "/events?after=soon")[0] == 400


def test_who_watches_sees_a_leader_change_soon_after_the_kill(cluster: Cluster) -> None:
    until(lambda: all(get(cluster.http(node), "/readyz")[0] == 200 for node in (100, 101, 102)))
    state = json.loads(get(cluster.http(100), "/state")[1])
    orders = {each["partition"]: each for each in state["partitions"] if each["topic"] == "orders"}
    index, victim = 0, orders[0]["leader"]
    watched = next(node for node in (100, 101, 102) if node != victim)
    path = f"/watch?microscope=orders-{index}&metadata=true"
    with stream(cluster.http(watched), path) as events:
        hello = next(iter(events))
        assert (hello.name, hello.data["node"]) == ("hello", watched)
        assert events.until(lambda event: event.name == "cluster", 5).data["brokers"]
        events.until(lambda each: each.name == "partitions" and each.data["left"] == 0, 5)
        told = events.until(lambda each: each.name == "metadata" and each.data["left"] == 0, 5)
        assert told.data["snapshot"]
        produce(cluster, 30)
        seen: set[str] = set()
        while not {"fetch_sent", "answer_received", "appended", "high_watermark"} <= seen:
            event = events.until(lambda each: each.name == "microscope", 5)
            seen |= {each["what"] for each in event.data["happened"]}
        cluster.kill(victim)

        def is_led_by_another(event: ServerSentEvent) -> bool:
            return event.name == "partitions" and any(
                each["topic"] == "orders"
                and each["partition"] == index
                and each["leader"] not in (victim, -1)
                for each in event.data["partitions"]
            )

        events.until(is_led_by_another, 15)
        events.until(lambda each: each.name == "cluster", 5)
    cluster.start(victim)
    until(lambda: values(cluster, watched)["tidelog_http_watchers"] == 0)
    assert get(cluster.http(watched), "/watch?microscope=a-0,a-1,a-2,a-3,a-4")[0] == 400
    assert get(cluster.http(watched), "/watch?microscope=nonsense")[0] == 400
