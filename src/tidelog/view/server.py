"""The live view's server: pages from the package's files, one stream for each browser, questions
to the brokers and, on clusters for development, actions.

It is a process of its own and a client of the nodes like any other.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from importlib.resources.abc import Traversable
from itertools import combinations
from pathlib import Path
from typing import Any, Final, NamedTuple

from tidelog import __version__
from tidelog.client.security import ClientSecurity
from tidelog.http.connection import HttpLimits
from tidelog.http.messages import (
    JSON,
    Handler,
    HttpRequest,
    HttpResponse,
    Routes,
    error_response,
    json_response,
    strict_json,
)
from tidelog.http.questions import NodeListener
from tidelog.http.server import HttpServer
from tidelog.http.server_sent_events import event_stream
from tidelog.local.links import LinkFault
from tidelog.local.local_cluster import LocalCluster
from tidelog.model.errors import ConfigError, TidelogError
from tidelog.model.ids import TopicPartition
from tidelog.monitor.looking import processes
from tidelog.monitor.snapshot import ProcessSeen
from tidelog.view.actions import Actions, Commands
from tidelog.view.cluster_snapshot import ClusterLook, look_at
from tidelog.view.cluster_watch import MOST_MICROSCOPES, ClusterWatch
from tidelog.view.guard import Guard
from tidelog.view.page import assets, modules
from tidelog.view.pipeline_states import pipeline_states
from tidelog.view.questions import KafkaQuestions
from tidelog.view.reasons import Reasons
from tidelog.view.stories import Stories, StoryFailed
from tidelog.view.trace_export import trace_of

_THREADS: Final = 8
_BACKLOG: Final = 64
_TYPES: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
}
_HTML: Final = "text/html; charset=utf-8"

Question = Callable[[HttpRequest], Any]
"""Blocks, and gives what is sent as JSON."""


class ViewedCluster(NamedTuple):
    """What is looked at."""

    listeners: tuple[NodeListener, ...]
    bootstrap: str
    directory: Path | None = None
    """Of a cluster on this machine."""
    token: str | None = None
    """With it browsers may act; only on a cluster for development, which has a directory."""
    pipelines: tuple[Path, ...] = ()
    cluster_id: str | None = None
    """Where it is known beforehand; else the first node that answers says it."""
    security: ClientSecurity | None = None
    """How its brokers let us in."""

    @property
    def other_bootstrap(self) -> str | None:
        """Where the brokers are found, unless the directory says it."""
        if self.directory is not None:
            with suppress(TidelogError, OSError):
                if LocalCluster.open(self.directory).bootstrap == self.bootstrap:
                    return None
        return self.bootstrap


class ViewServer:
    """Serves browsers until it is closed."""

    def __init__(self, viewed: ViewedCluster, report: Callable[[str], None]) -> None:
        self._viewed = viewed
        self._questions = KafkaQuestions(viewed.bootstrap, viewed.security)
        self._actions = None
        self._commands = Commands(viewed.directory, viewed.other_bootstrap)
        if viewed.token is not None and viewed.directory is not None:
            self._actions = Actions(viewed.directory, self._questions, self._commands)
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="view")
        self._report = report
        self.watch = ClusterWatch(
            viewed.listeners,
            self._hello(),
            report,
            cluster_id=viewed.cluster_id,
            processes=self._processes,
            look_around=self._look_around,
        )
        self._stories = Stories()
        self._reasons = Reasons(lambda: self.watch.events, self._endings)

    async def serve(self, listener: socket.socket) -> None:
        """Accept browsers on a socket that listens, until cancelled."""
        loop = asyncio.get_running_loop()
        server = HttpServer(loop, self._routes(), self._report, HttpLimits())
        listener.setblocking(False)
        try:
            while True:
                peer, _ = await loop.sock_accept(listener)
                server.take(peer)
        finally:
            await server.close()
            await self.watch.end()
            await self._stories.end()
            self._executor.shutdown(wait=False, cancel_futures=True)

    async def serve_until_stopped(self, listener: socket.socket) -> None:
        """The same, until the process is asked to end."""
        serving = asyncio.ensure_future(self.serve(listener))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, serving.cancel)
        with suppress(asyncio.CancelledError):
            await serving

    # -- routes --------------------------------------------------------------------------------

    def _routes(self) -> Routes:
        files = _files(assets(), "/assets/")
        imports = {name: f"/assets/{path}" for name, path in modules().items()}
        import_map = json.dumps({"imports": imports})
        guard = Guard(self._viewed.token, import_map)
        page = assets().joinpath("live.html").read_text(encoding="utf-8")
        files["/"] = (_HTML, page.replace("{{modules}}", import_map).encode())
        routes: dict[str, dict[str, Handler]] = {
            path: {"GET": guard.reading(_file(content_type, content))}
            for path, (content_type, content) in files.items()
        }
        routes["/stream"] = {"GET": guard.reading(self._stream)}
        routes["/api/stories"] = {"GET": guard.reading(self._story)}
        routes["/api/trace"] = {"GET": guard.reading(self._trace)}
        for path, question in self._reads().items():
            routes[path] = {"GET": guard.reading(partial(self._ask, question))}
        routes["/api/messages"] = {"POST": guard.reading(partial(self._ask, self._messages))}
        routes["/api/command"] = {"POST": guard.reading(partial(self._ask, self._command))}
        routes["/api/act"] = {"POST": guard.acting(partial(self._ask, self._act))}
        return routes

    def _reads(self) -> Mapping[str, Question]:
        questions = self._questions
        return {
            "/api/topic": lambda request: questions.topic(request.query["name"]),
            "/api/groups": lambda _: questions.groups(),
            "/api/group": lambda request: questions.group(request.query["name"]),
            "/api/links": lambda _: self._links(),
            "/api/transactions": lambda _: questions.transactions(),
            "/api/reassignments": lambda _: questions.reassignments(),
            "/api/preview": lambda request: questions.preview(
                request.query["topic"], [int(each) for each in request.query["brokers"].split(",")]
            ),
            "/api/why": lambda request: self._why(request.query),
            "/api/pipelines": lambda _: pipeline_states(
                list(self._viewed.pipelines), self._viewed.bootstrap
            ),
        }

    async def _stream(self, request: HttpRequest) -> HttpResponse:
        names = [each for each in request.query.get("microscope", "").split(",") if each]
        found = [TopicPartition.from_directory(name) for name in names]
        if None in found or len(found) > MOST_MICROSCOPES:
            why = f"microscope takes up to {MOST_MICROSCOPES} partitions such as orders-0"
            return error_response(HTTPStatus.BAD_REQUEST, why)
        return event_stream(self.watch.look([each for each in found if each is not None]))

    async def _story(self, request: HttpRequest) -> HttpResponse:
        """The story of that name; without a name, what there is."""
        name = request.query.get("name")
        try:
            told = await (self._stories.catalogue() if name is None else self._stories.story(name))
        except StoryFailed as failed:
            return error_response(HTTPStatus.CONFLICT, str(failed))
        return HttpResponse(HTTPStatus.OK, JSON, told)

    async def _trace(self, _: HttpRequest) -> HttpResponse:
        save = ("Content-Disposition", 'attachment; filename="tidelog-trace.json"')
        return json_response(trace_of(self.watch.events))._replace(headers=(save,))

    def _messages(self, request: HttpRequest) -> Any:
        return self._questions.messages(_json_object(request))

    def _command(self, request: HttpRequest) -> Any:
        return {"command": self._commands.of(_json_object(request))}

    def _act(self, request: HttpRequest) -> Any:
        if self._actions is None:
            raise ConfigError("this cluster can only be looked at")
        return self._actions.carry_out(_json_object(request))

    async def _ask(self, question: Question, request: HttpRequest) -> HttpResponse:
        """Run what blocks in a thread; what goes wrong is told in words."""
        loop = asyncio.get_running_loop()
        try:
            return json_response(await loop.run_in_executor(self._executor, question, request))
        except TidelogError as error:
            return error_response(HTTPStatus.CONFLICT, str(error))
        except KeyError as error:
            return error_response(HTTPStatus.BAD_REQUEST, f"{error.args[0]} is missing")
        except (TypeError, ValueError, OverflowError) as error:
            return error_response(HTTPStatus.BAD_REQUEST, str(error))

    # -- what is looked at ---------------------------------------------------------------------

    def _hello(self) -> dict[str, Any]:
        viewed = self._viewed
        return {
            "version": __version__,
            "bootstrap": viewed.bootstrap,
            "directory": None if viewed.directory is None else str(viewed.directory),
            "acts": self._actions is not None,
            "pipelines": len(viewed.pipelines),
        }

    def _links(self) -> list[dict[str, Any]]:
        """The links between nodes that can be cut, and what is wrong with each."""
        if self._viewed.directory is None:
            return []
        cluster = LocalCluster.open(self._viewed.directory)
        if not cluster.has_links:
            return []
        faults = cluster.links.faults
        return [
            {"between": pair, **faults.get(pair, LinkFault())._asdict()}
            for pair in combinations(sorted(cluster.nodes), 2)
        ]

    def _why(self, asked: Mapping[str, str]) -> dict[str, Any]:
        """Of a partition, or of the event that a node numbered so."""
        if "partition" in asked:
            return self._reasons.of_partition(asked["partition"])
        return self._reasons.of_event(int(asked["node"]), int(asked["seq"]))

    async def _look_around(self) -> ClusterLook:
        loop = asyncio.get_running_loop()
        viewed = self._viewed
        return await loop.run_in_executor(
            self._executor, look_at, viewed.bootstrap, viewed.listeners, viewed.security
        )

    def _processes(self) -> Mapping[str, ProcessSeen]:
        if self._viewed.directory is None:
            return {}
        try:
            cluster = LocalCluster.open(self._viewed.directory)
        except (TidelogError, OSError):  # deleted while somebody looks
            return {}
        seen = processes(cluster)
        return {
            each.address: seen[each.node_id]
            for each in self._viewed.listeners
            if each.node_id is not None and each.node_id in seen
        }

    def _endings(self) -> dict[int, str]:
        nodes = self.watch.picture.nodes.values()
        return {
            node.node_id: node.process.ending
            for node in nodes
            if node.node_id is not None and node.process is not None and node.process.ending
        }


def listening_socket(port: int, *, or_next_free: bool) -> socket.socket:
    """A socket on loopback; if the port is taken, on the next that is free if that will do."""
    host = "127.0.0.1"
    last = port + 20 if or_next_free and port else port
    for candidate in range(port, last + 1):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, candidate))
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
        else:
            return listener
    raise ConfigError(f"port {port} is taken by another program: choose another one (--port)")


def url_of(listener: socket.socket, token: str | None) -> str:
    """Where a browser finds the view; the fragment never leaves the browser."""
    host, port = listener.getsockname()
    return f"http://{host}:{port}/" + ("" if token is None else f"#token={token}")


def redirect_page(url: str) -> str:
    """A page that leads a browser to an address which must not stand in its command line."""
    return (
        '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
        f"<title>Tidelog</title><script>location.replace({json.dumps(url)})</script>"
        f'<p><a href="{url}">the live view</a>'
    )


def write_secretly(path: Path, text: str) -> None:
    """Leave what only the owner may read, whole or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.unlink(missing_ok=True)
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as written:
        written.write(text + "\n")
    os.replace(temporary, path)


def _files(folder: Traversable, prefix: str) -> dict[str, tuple[str, bytes]]:
    found: dict[str, tuple[str, bytes]] = {}
    for each in folder.iterdir():
        if each.is_dir():
            found.update(_files(each, f"{prefix}{each.name}/"))
        elif (content_type := _TYPES.get(Path(each.name).suffix)) is not None:
            found[prefix + each.name] = (content_type, each.read_bytes())
    return found


def _file(content_type: str, content: bytes) -> Handler:
    async def answer(_: HttpRequest) -> HttpResponse:
        return HttpResponse(HTTPStatus.OK, content_type, content)

    return answer


def _json_object(request: HttpRequest) -> dict[str, Any]:
    try:
        found = strict_json(request.body.decode("utf-8"))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError("the body is no JSON object")
    return found
