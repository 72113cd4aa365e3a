from __future__ import annotations

import pytest
from tests.http.test_server import Served, served, streams

from tidelog.http.questions import (
    EventParser,
    NodeListener,
    NodeSilent,
    ServerSentEvent,
    parse_listener,
)
from tidelog.model.errors import ConfigError

__all__ = ["served", "streams"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://node-1:8080/", "http://node-1:8080"),
        ("https://[::1]:8080", "https://[::1]:8080"),
    ],
)
def test_a_node_is_named_with_or_without_its_scheme(text: str, told: str) -> None:
    assert str(parse_listener(text)) == told


@pytest.mark.parametrize(
    "text",
    ["", "node-1", "ftp://node-1:80", "node-1:x", "http://:80", "h:1/metrics", "h:70000", "h:0",
     "[", "http://[", "[::1", "::1:80", "[::1]", "http://[x]:80", "h:1?a", "h:1#a", "u:p@h:1"],
)  # fmt: skip
def test_what_cannot_be_a_node_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_listener(text)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["LF", "CR LF"])
def test_events_are_read_whole_however_they_are_cut(end: bytes) -> None:
    parser = EventParser()
    lines = (b": still here", b"", b"id: 7", b"event: hello", b"data: one", b"data: two", b"", b"")
    text = end.join(lines)

    heard = [
        event for index in range(len(text)) for event in parser.receive(text[index : index + 1])
    ]

    assert heard == [ServerSentEvent("hello", "7", "one\ntwo")]


def test_an_event_without_an_end_is_given_up() -> None:
    parser = EventParser()

    with pytest.raises(ValueError, match="too long"):
        for _ in range(100):
            parser.receive(b"data: " + b"x" * 1_000_000 + b"\n")


def test_a_node_is_asked_and_its_stream_read(served: Served) -> None:
    node = NodeListener("127.0.0.1", served.port)

    assert node.ask("/", 5.0) == (200, b"hello")
    assert node.ask_json("/nowhere", 5.0)["error"].startswith("there is no /nowhere")
    stream = node.stream("/stream?bytes=3", 5.0)
    assert next(stream) == ServerSentEvent("more", "7", "xxx")
    stream.close()  # type: ignore[attr-defined]


def test_whoever_is_no_node_is_told_so(served: Served) -> None:
    node = NodeListener("127.0.0.1", served.port)

    with pytest.raises(NodeSilent, match="is it a node"):
        node.ask_json("/", 5.0)
    with pytest.raises(NodeSilent, match="there is no /nowhere"):
        next(node.stream("/nowhere", 5.0))
    with pytest.raises(NodeSilent, match="refused"):
        NodeListener("127.0.0.1", 1).ask("/", 5.0)
    with pytest.raises(NodeSilent, match=r"a\.\.b:1: "):
        NodeListener("a..b", 1).ask("/", 5.0)
