"""The view's server with simulated nodes: it asks them only while somebody looks, and denies."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pytest
from tests.view.simulated_nodes import SimulatedCluster, running

from tidelog.http.questions import EventParser, NodeListener
from tidelog.local.view_process import ViewProcess
from tidelog.view.server import ViewedCluster, ViewServer, listening_socket

TOKEN = "a-token-of-this-test"


@contextmanager
def serving(viewed: ViewedCluster, report: Callable[[str], None] = print) -> Iterator[int]:
    """A view in a thread; its port."""
    listener = listening_socket(0, or_next_free=False)
    loop = asyncio.new_event_loop()
    tasks: list[asyncio.Task[None]] = []
    started = threading.Event()

    async def serve() -> None:
        tasks.append(loop.create_task(ViewServer(viewed, report).serve(listener)))
        started.set()
        await asyncio.gather(*tasks, return_exceptions=True)

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    started.wait(10)
    try:
        yield listener.getsockname()[1]
    finally:
        loop.call_soon_threadsafe(tasks[0].cancel)
        thread.join(10)
        loop.close()
        listener.close()


def asked(port: int, method: str, path: str, **headers: str) -> tuple[int, HTTPResponse, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    body = b'{"action": "kill", "node": 100}' if method == "POST" else None
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, named)
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response.status, response, content


def wait_until(holds: Any, within_s: float = 10.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Stream:
    """A browser that looks."""

    def __init__(self, port: int, path: str = "/stream") -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=10)
        self._connection.request("GET", path)
        self._response = self._connection.getresponse()
        self._parser = EventParser()
        self._heard: list[tuple[str, Any]] = []

    def wait_for(self, name: str, fits: Any = lambda _: True, within_s: float = 20.0) -> Any:
        deadline = time.monotonic() + within_s
        while True:
            assert time.monotonic() < deadline, self._heard[-5:]
            for index, (heard, told) in enumerate(self._heard):
                if heard == name and fits(told):
                    del self._heard[: index + 1]
                    return told
            events = self._parser.receive(self._response.read1(65_536))
            self._heard += [(each.name, json.loads(each.data)) for each in events]

    def leave(self) -> None:
        self._response.close()
        self._connection.close()


def test_nodes_are_asked_only_while_somebody_looks() -> None:
    cluster = SimulatedCluster({"orders": 3})
    with running(cluster) as addresses, serving(ViewedCluster(tuple(addresses), "x:1")) as port:
        assert asked(port, "GET", "/")[0] == 200
        assert cluster.watchers == 0

        browser = Stream(port)
        rows = browser.wait_for("partitions", lambda told: len(told["rows"]) == 3)["rows"]
        assert [row[:4] for row in sorted(rows)] == [
            ["orders", 0, 0, 100],
            ["orders", 1, 0, 101],
            ["orders", 2, 0, 102],
        ]
        wait_until(lambda: cluster.watchers == 3)

        browser.leave()
        wait_until(lambda: cluster.watchers == 0)


def test_an_event_reaches_the_browser_with_its_sentence() -> None:
    cluster = SimulatedCluster({"orders": 1})
    with running(cluster) as addresses, serving(ViewedCluster(tuple(addresses), "x:1")) as port:
        browser = Stream(port)
        cluster.announce(101, "BrokerFenced", broker_id=100, broker_epoch=7, cause="it is gone")
        (event,) = browser.wait_for("events")
        status, response, trace = asked(port, "GET", "/api/trace")
        browser.leave()

    assert event["sentence"] == "broker 100 of epoch 7 fenced: it is gone"
    assert (status, "attachment" in response.headers["Content-Disposition"]) == (200, True)
    assert "BrokerFenced" in {each["name"] for each in json.loads(trace)["traceEvents"]}


def test_a_lost_leader_becomes_a_problem_first() -> None:
    cluster = SimulatedCluster({"orders": 2})
    with running(cluster) as addresses, serving(ViewedCluster(tuple(addresses), "x:1")) as port:
        browser = Stream(port)
        browser.wait_for("partitions", lambda told: told["rows"])
        cluster.change(1, leader=-1, isr=[])
        problems = browser.wait_for("cluster", lambda told: told["problems"])["problems"]
        browser.leave()

    assert problems[0]["what"].startswith("orders-1 has no leader that answers")
    assert problems[0]["severity"] == "critical"


def test_nobody_acts_on_a_cluster_that_is_not_for_development() -> None:
    with serving(ViewedCluster((NodeListener("127.0.0.1", 1),), "x:1", Path("/nowhere"))) as port:
        own = {"Origin": f"http://127.0.0.1:{port}", "X_Tidelog_Token": TOKEN}
        status, _, body = asked(port, "POST", "/api/act", **own)

    assert (status, b"--dev" in body) == (403, True)


@pytest.mark.parametrize(
    ("origin", "token"),
    [(None, TOKEN), ("http://127.0.0.1:{port}", ""), ("http://127.0.0.1:{port}", "other"),
     ("http://evil.example", TOKEN), ("null", TOKEN)],
    ids=["no origin", "no token", "wrong token", "another site", "a sandboxed page"],
)  # fmt: skip
def test_only_its_own_page_with_the_token_acts(
    origin: str | None, token: str, tmp_path: Path
) -> None:
    ViewProcess(tmp_path).allow_acting(True)
    viewed = ViewedCluster((NodeListener("127.0.0.1", 1),), "x:1", tmp_path, TOKEN)
    with serving(viewed) as port:
        headers = {"X_Tidelog_Token": token}
        if origin is not None:
            headers["Origin"] = origin.format(port=port)
        assert asked(port, "POST", "/api/act", **headers)[0] == 403

        own = {"Origin": f"http://127.0.0.1:{port}", "X_Tidelog_Token": TOKEN}
        status, _, body = asked(port, "POST", "/api/act", **own)

    assert (status, json.loads(body)["error"]) == (409, f"there is no cluster in {tmp_path}")


def test_nobody_acts_on_a_cluster_that_was_started_again_for_other_ends(tmp_path: Path) -> None:
    development = ViewProcess(tmp_path)
    development.allow_acting(True)
    viewed = ViewedCluster((NodeListener("127.0.0.1", 1),), "x:1", tmp_path, TOKEN)
    with serving(viewed) as port:
        development.allow_acting(False)
        own = {"Origin": f"http://127.0.0.1:{port}", "X_Tidelog_Token": TOKEN}
        status, _, body = asked(port, "POST", "/api/act", **own)

    assert (status, b"without --dev" in body) == (409, True)


def test_other_sites_and_other_names_read_nothing() -> None:
    with serving(ViewedCluster((NodeListener("127.0.0.1", 1),), "x:1")) as port:
        assert asked(port, "GET", "/api/groups", Origin="http://evil.example")[0] == 403
        assert asked(port, "GET", "/stream", Sec_Fetch_Site="cross-site")[0] == 403
        assert asked(port, "GET", "/", Host="evil.example")[0] == 421
        assert (
            asked(port, "GET", "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")[0]
            == 200
        )


def test_a_page_may_load_nothing_from_elsewhere_and_holds_no_secret() -> None:
    viewed = ViewedCluster((NodeListener("127.0.0.1", 1),), "x:1", Path("/nowhere"), TOKEN)
    with serving(viewed) as port:
        _, response, body = asked(port, "GET", "/")

    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert TOKEN.encode() not in body


def test_what_was_asked_wrongly_is_answered_in_words() -> None:
    with serving(ViewedCluster((NodeListener("127.0.0.1", 1),), "127.0.0.1:1")) as port:
        assert asked(port, "GET", "/api/topic")[::2] == (400, b'{"error":"name is missing"}\n')
        assert asked(port, "GET", "/stream?microscope=orders")[0] == 400
        status, _, body = asked(port, "GET", "/api/groups")

    assert (status, b"cannot reach 127.0.0.1:1" in body) == (409, True)
