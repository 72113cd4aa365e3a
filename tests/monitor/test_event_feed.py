"""Events of several nodes as one stream: from files, and from a node that tells them over HTTP."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path

import pytest
from tests.http.test_server import LIMITS, Served

from tidelog.client.errors import Unreachable
from tidelog.http.messages import (
    Chunks,
    HttpRequest,
    HttpResponse,
    Routes,
    error_response,
    json_response,
)
from tidelog.http.questions import NodeListener, NodeSilent
from tidelog.http.server_sent_events import event_stream, event_text
from tidelog.monitor.event_feed import (
    SETTLING_S,
    LocalJournal,
    RemoteJournal,
    Settling,
    followed_events,
    kept_events,
)
from tidelog.monitor.node_survey import PATIENCE_S, MixedClusters, NodeSurvey, survey
from tidelog.observe.events import NodeStopped
from tidelog.observe.journal import as_dict
from tidelog.observe.told_event import ToldEvent, told

STOPPED = NodeStopped(clean=True, cause="SIGTERM")


def event(at_ms: int, node: int = 100, number: int = 1) -> ToldEvent:
    return told(STOPPED, node, at_ms, number)


def line(at_ms: int, node: int, number: int) -> str:
    return json.dumps(as_dict(STOPPED, node, at_ms, number), separators=(",", ":"))


def journal(directory: Path, node: int, *at_ms: int) -> LocalJournal:
    path = directory / f"{node}.jsonl"
    path.write_text("".join(line(at, node, number) + "\n" for number, at in enumerate(at_ms, 1)))
    return LocalJournal(str(path))


class Telling:
    """A node that tells two events, hangs up, and tells the rest to whoever asks behind them."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []

    async def events(self, request: HttpRequest) -> HttpResponse:
        self.asked.append(dict(request.query))
        if "refuse" in request.query:
            return error_response(404, "this node keeps no journal")
        return event_stream(self._told(int(request.query.get("after", "0"))))

    async def _told(self, after: int) -> Chunks:
        if after:
            yield event_text('{"after":2,"oldest":4}', "gap")
        for number in range(after + 1 if not after else 4, after + 3 if not after else 6):
            yield event_text(line(1000 * number, 101, number), event_id=number)


@pytest.fixture
def telling() -> Telling:
    return Telling()


@pytest.fixture
def listener(telling: Telling) -> Iterator[NodeListener]:
    routes: Routes = {"/events": {"GET": telling.events}}
    served = Served(routes, LIMITS)
    yield NodeListener("127.0.0.1", served.port)
    served.close()


def test_files_are_merged_by_time_from_a_moment_on(tmp_path: Path) -> None:
    sources = [journal(tmp_path, 100, 1000, 3000), journal(tmp_path, 101, 500, 2000)]

    found = kept_events(sources, 1000, print)

    assert [(each.at_ms, each.node) for each in found] == [(1000, 100), (2000, 101), (3000, 100)]


def test_a_node_without_a_journal_has_no_events(tmp_path: Path) -> None:
    assert kept_events([LocalJournal(str(tmp_path / "none"))], 0, print) == []


def test_a_file_is_followed_as_it_grows(tmp_path: Path) -> None:
    source = journal(tmp_path, 100, 1000)
    followed = followed_events([source], 0, print)

    assert next(followed).sequence == 1
    with (tmp_path / "100.jsonl").open("a") as file:
        file.write(line(2000, 100, 2) + "\n" + line(3000, 100, 3) + "\n")
    assert [each.sequence for each in islice(followed, 2)] == [2, 3]


def test_a_node_is_followed_over_http_behind_what_was_read_and_gaps_are_told(
    telling: Telling, listener: NodeListener
) -> None:
    said: list[str] = []

    found = list(islice(followed_events([RemoteJournal(listener)], 2000, said.append), 3))

    assert [each.sequence for each in found] == [2, 4, 5]
    assert [each["after"] for each in telling.asked[:2]] == ["0", "2"]
    assert said[0] == f"{listener} no longer has its events 3 to 3"


def test_what_a_node_keeps_is_asked_for_without_waiting_for_more(
    telling: Telling, listener: NodeListener
) -> None:
    assert [each.sequence for each in kept_events([RemoteJournal(listener)], 0, print)] == [1, 2]
    assert telling.asked == [{"follow": "false"}]


def test_a_node_that_does_not_answer_is_named_and_hinders_no_other(tmp_path: Path) -> None:
    said: list[str] = []
    nobody = RemoteJournal(NodeListener("127.0.0.1", 1))

    assert len(kept_events([nobody, journal(tmp_path, 100, 1)], 0, said.append)) == 1
    assert "its events are missing here" in said[0]
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
        kept_events([nobody], 0, print)


def test_silent_nodes_are_asked_at_once_and_with_little_patience(tmp_path: Path) -> None:
    said: list[str] = []
    with ExitStack() as stack:
        doors = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(4)]
        silent = [RemoteJournal(NodeListener(*door.getsockname())) for door in doors]
        began_s = time.monotonic()
        found = kept_events([*silent, journal(tmp_path, 100, 1)], 0, said.append)
        took_s = time.monotonic() - began_s

    assert len(found) == 1
    assert len(said) == 4
    assert took_s < 2 * PATIENCE_S


def test_nodes_of_two_clusters_are_refused_with_the_ids_of_both() -> None:
    with ExitStack() as stack:
        listeners = [stack.enter_context(telling_of(name)) for name in ("one", "one", "two")]
        assert survey(listeners[:2]).cluster_id == "one"
        with pytest.raises(MixedClusters, match=r"is of cluster one, and .* of two"):
            survey(listeners)
    with socket.create_server(("127.0.0.1", 0)) as door:
        nobody = NodeListener(*door.getsockname())
        assert survey([nobody]) == NodeSurvey(
            None, (), {nobody: f"{nobody} does not answer in time"}, False
        )


@contextmanager
def telling_of(cluster_id: str) -> Iterator[NodeListener]:
    async def state(request: HttpRequest) -> HttpResponse:
        return json_response({"cluster_id": cluster_id, "quorum": {"leader": 1}})

    served = Served({"/state": {"GET": state}}, LIMITS)
    yield NodeListener("127.0.0.1", served.port)
    served.close()


def test_a_refusal_is_told_in_the_words_of_the_node(listener: NodeListener) -> None:
    with pytest.raises(NodeSilent, match="this node keeps no journal"):
        list(listener.stream("/events?refuse=yes", 5.0))


def test_events_wait_a_moment_for_those_that_happened_before() -> None:
    settling, began_s = Settling(), 0.0
    settling.put([event(20)], began_s)

    assert settling.take(began_s + SETTLING_S / 2) == []
    settling.put([event(10, node=101), event(30)], began_s + SETTLING_S / 2)
    assert [each.at_ms for each in settling.take(began_s + SETTLING_S)] == [10, 20]
    assert [each.at_ms for each in settling.take(began_s + 2 * SETTLING_S)] == [30]
