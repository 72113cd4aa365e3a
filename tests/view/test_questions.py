"""What pages ask brokers: whatever records hold, the answer is JSON that a browser reads."""

from __future__ import annotations

import json
import time
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import pytest
from tests.view.test_actions import View
from tests.view.test_server import serving

from tidelog.client.admin import Admin
from tidelog.client.blocking import Client
from tidelog.client.consumer import ConsumedRecord
from tidelog.client.producer import Producer
from tidelog.http.questions import NodeListener
from tidelog.records.record import Record
from tidelog.testing.cluster import Cluster
from tidelog.view.questions import record_json
from tidelog.view.record_decoding import show
from tidelog.view.server import ViewedCluster

ODD = (
    b'{"a": NaN}',
    b'{"id": 9007199254740993}',
    b'{"half": "\\ud83d"}',
    b'{"half": "\xed\xa0\xbd"}',
    b"[" * 20_000 + b"]" * 20_000,
    b"[1e999]",
    b"\xff\x00",
    b"",
    b'{"fine": [1, 2.5, null, true, "\xc3\xa9"]}',
    "line\u2028separator\x7f\x1b[31m".encode(),
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as started, Client(started.bootstrap) as client:
        admin = Admin(client)
        admin.create_topic("odd", partitions=1, configs={"max.message.bytes": "20000000"})
        admin.create_topic("large", partitions=1, configs={"max.message.bytes": "20000000"})
        admin.create_topic("many", partitions=1)
        odd = Producer(client, "odd", batch_bytes=20_000_000)
        for value in ODD:
            odd.send(value, key=value, headers=(("h", value), ("none", None)))
        odd.send(None, key=None)
        odd.flush()
        large = Producer(client, "large", batch_bytes=20_000_000)
        for _ in range(300):
            large.send(b"x" * 100_000)
        large.flush()
        many = Producer(client, "many")
        for number in range(450):
            many.send(str(number).encode())
        many.flush()
        yield started


@pytest.fixture(scope="module")
def view(cluster: Cluster) -> Iterator[View]:
    with serving(ViewedCluster((NodeListener("127.0.0.1", 1),), cluster.bootstrap)) as port:
        yield View(port)


def restored(shown: dict[str, Any], original: bytes) -> bool:
    """Whether what a page shows is what was written."""
    assert shown["bytes"] == len(original)
    if "json" in shown:
        return bool(shown["json"] == json.loads(original))
    if "text" in shown:
        return bool(shown["text"].encode() == original)
    return b64decode(shown["base64"]) == original


@pytest.mark.parametrize("form", ["auto", "text", "base64"])
def test_every_record_is_shown_faithfully_and_none_breaks_the_answer(view: View, form: str) -> None:
    asked = {"topic": "odd", "from": "beginning", "form": form, "limit": 100}

    status, answer = view.ask("/api/messages", asked)

    assert (status, answer["complete"], len(answer["records"])) == (200, True, len(ODD) + 1)
    *shown, tombstone = answer["records"]
    for record, value in zip(shown, ODD, strict=True):
        assert restored(record["value"], value)
        assert restored(record["key"], value)
        assert restored(record["headers"][0][1], value)
        assert record["headers"][1][1] == {"bytes": None}
    assert tombstone["key"] == tombstone["value"] == {"bytes": None}


def test_large_values_come_in_several_answers_and_none_is_left_out(view: View) -> None:
    place: object = "beginning"
    offsets: list[int] = []
    answers = 0
    while len(offsets) < 300:
        asked = {"topic": "large", "from": place, "limit": 500}
        status, answer = view.ask("/api/messages", asked)
        assert status == 200
        assert sum(len(each["value"]["text"]) for each in answer["records"]) < 10_000_000
        offsets += [each["offset"] for each in answer["records"]]
        place = {"offsets": answer["next"]}
        answers += 1
    assert offsets == list(range(300))
    assert answers > 1


def test_a_tail_that_finds_more_than_it_may_show_goes_on_behind_what_it_showed(view: View) -> None:
    place: object = {"offsets": {"0": 0}}
    values: list[str] = []
    deadline = time.monotonic() + 20
    while len(values) < 450 and time.monotonic() < deadline:
        asked = {"topic": "many", "from": place, "limit": 200, "wait": True}
        _, answer = view.ask("/api/messages", asked)
        values += [each["value"]["text"] for each in answer["records"]]
        place = {"offsets": answer["next"]}

    assert values == [str(number) for number in range(450)]


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"topic": None},
        {"topic": "odd", "from": "middle"},
        {"topic": "odd", "from": {"time": -1}},
        {"topic": "odd", "from": {"time": 10**30}},
        {"topic": "odd", "from": {"time": "soon"}},
        {"topic": "odd", "from": {"offset": None}},
        {"topic": "odd", "from": {"offset": 2**63}},
        {"topic": "odd", "from": {"offsets": [1]}},
        {"topic": "odd", "from": {"offsets": {"x": 1}}},
        {"topic": "odd", "from": {"offsets": {"0": -5}}},
        {"topic": "odd", "from": []},
        {"topic": "odd", "partition": 7},
        {"topic": "odd", "partition": "x"},
        {"topic": "odd", "limit": "x"},
        {"topic": "odd", "form": "avro", "schema": "["},
        {"topic": "odd", "form": 7},
        {"topic": "\ud800"},
        [],
        7,
    ],
    ids=str,
)
def test_nonsense_is_refused_in_words(view: View, asked: object) -> None:
    status, answer = view.ask("/api/messages", asked)

    assert status in (400, 409)
    assert answer["error"]


@pytest.mark.parametrize(
    "path",
    [
        "/api/topic?name=", "/api/topic?name=no-such", "/api/group?name=%00",
        "/api/preview?topic=odd&brokers=", "/api/preview?topic=odd&brokers=x",
        "/api/preview?topic=odd&brokers=99999999999999999999", "/api/preview?topic=odd&brokers=7",
        "/stream?microscope=%ff", "/nowhere", "//[",
    ],
)  # fmt: skip
def test_nonsense_in_a_path_is_refused_in_words(view: View, path: str) -> None:
    status, answer = view.ask(path)

    assert status in (400, 404, 409)
    assert answer["error"]


def test_what_a_page_cannot_show_of_a_record_is_said_beside_its_value() -> None:
    headers = tuple((str(number), b"x") for number in range(1000))
    found = ConsumedRecord("t", 0, 1, Record(0, 2**62, None, b"v", headers))

    shown = record_json(found, show)

    assert shown["at_ms"] == 8_640_000_000_000_000
    assert len(shown["headers"]) == 200
    assert shown["value"] == {
        "text": "v",
        "bytes": 1,
        "trouble": "200 of its 1000 headers are shown; its timestamp is 4611686018427387904 ms, "
        "for which there is no date",
    }
