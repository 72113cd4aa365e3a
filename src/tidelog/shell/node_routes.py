"""The questions that a node answers over HTTP (docs/http.md).

Invariant  What takes long over many partitions is done in slices, and once for all who ask at the
           same time: no question holds up the node's own work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Final, Protocol, TypeVar

from tidelog.http.messages import (
    JSON,
    Chunks,
    Handler,
    HttpRequest,
    HttpResponse,
    Routes,
    error_response,
    json_response,
    json_text,
    text_response,
)
from tidelog.http.server_sent_events import event_stream
from tidelog.model.ids import TopicPartition
from tidelog.node.inspection.inspection import Inspection
from tidelog.node.inspection.metrics import node_metrics
from tidelog.node.inspection.survey import SLICE, Survey
from tidelog.node.inspection.watching import MAGNIFIED_MAX
from tidelog.observe.metrics import CONTENT_TYPE, Metric, exposition, one
from tidelog.shell.clock import read_clock
from tidelog.shell.event_history import EventHistory
from tidelog.shell.live_watchers import LiveWatchers
from tidelog.shell.process_metrics import WATCHERS

_FRESH_MS: Final = 500
_STALE_MS: Final = 5000
_REST_FOR_WORK: Final = 50
_PARTITIONS: Final = ("hosted", "metadata", "none")
T = TypeVar("T")


class InspectedNode(Protocol):
    """A node that tells about itself."""

    @property
    def inspection(self) -> Inspection: ...

    @property
    def problems(self) -> list[str]:
        """Why it is not well."""
        ...


class NodeRoutes:
    """Everything that can be asked of one node."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        node: InspectedNode,
        process_metrics: Callable[[], Iterator[Metric]],
        history: EventHistory | None,
        report: Callable[[str], None],
    ) -> None:
        self._node = node
        self._inspection = node.inspection
        self._process_metrics = process_metrics
        self._history = history
        self._watchers = LiveWatchers(loop, self._inspection, report)
        self._survey: Survey | None = None
        self._fresh_until_ms = 0
        self._surveying: asyncio.Task[Survey] | None = None

    @property
    def routes(self) -> Routes:
        handlers: Mapping[str, Handler] = {
            "/": self._index,
            "/metrics": self._metrics,
            "/healthz": self._health,
            "/readyz": self._readiness,
            "/state": self._state,
            "/events": self._events,
            "/watch": self._watch,
        }
        return {path: {"GET": handler} for path, handler in handlers.items()}

    async def close(self) -> None:
        """Leave nothing behind on the loop."""
        if self._surveying is not None:
            self._surveying.cancel()
            with suppress(asyncio.CancelledError):
                await self._surveying

    async def _index(self, request: HttpRequest) -> HttpResponse:
        node = self._inspection.context.cluster.node_id
        paths = "".join(f"{path}\n" for path in self.routes if path != "/")
        return text_response(f"Tidelog, node {node}\n\n{paths}")

    # -- metrics and health --------------------------------------------------------------------

    async def _metrics(self, request: HttpRequest) -> HttpResponse:
        found = await self._surveyed()
        metrics = [
            *node_metrics(self._inspection, found, read_clock()),
            *self._process_metrics(),
            one(WATCHERS, len(self._watchers)),
        ]
        return text_response(exposition(metrics), CONTENT_TYPE)

    async def _health(self, request: HttpRequest) -> HttpResponse:
        problems = self._node.problems
        if problems:
            told = {"healthy": False, "problems": problems}
            return json_response(told, HTTPStatus.SERVICE_UNAVAILABLE)
        return json_response({"healthy": True})

    async def _readiness(self, request: HttpRequest) -> HttpResponse:
        found = await _in_slices(self._inspection.survey_assignments())
        missing = [*self._node.problems, *self._inspection.missing(found)]
        status = HTTPStatus.SERVICE_UNAVAILABLE if missing else HTTPStatus.OK
        return json_response({"ready": not missing, "missing": missing}, status)

    async def _surveyed(self) -> Survey:
        """A look at all partitions, not older than half a second, or a few where looks are dear."""
        if self._survey is not None and read_clock().monotonic_ms < self._fresh_until_ms:
            return self._survey
        if self._surveying is None:
            self._surveying = asyncio.ensure_future(self._look())
            self._surveying.add_done_callback(_hear_of_failure)
        return await asyncio.shield(self._surveying)

    async def _look(self) -> Survey:
        try:
            began_ms = read_clock().monotonic_ms
            self._survey = await _in_slices(self._inspection.survey())
            now_ms = read_clock().monotonic_ms
            rest_ms = _REST_FOR_WORK * (now_ms - began_ms)
            self._fresh_until_ms = now_ms + max(_FRESH_MS, min(_STALE_MS, rest_ms))
            return self._survey
        finally:
            self._surveying = None

    # -- state ---------------------------------------------------------------------------------

    async def _state(self, request: HttpRequest) -> HttpResponse:
        wanted = request.query.get("partitions", "hosted")
        if wanted not in _PARTITIONS:
            why = f"partitions is one of {', '.join(_PARTITIONS)}"
            return error_response(HTTPStatus.BAD_REQUEST, why)
        return HttpResponse(HTTPStatus.OK, JSON, self._state_in_pieces(wanted))

    async def _state_in_pieces(self, wanted: str) -> Chunks:
        text = json_text(self._inspection.state(read_clock()))
        if wanted == "none":
            yield f"{text}\n".encode()
            return
        yield f'{text[:-1]},"partitions":['.encode()
        watching = self._inspection.watching
        if wanted == "hosted":
            names, describe = watching.replicas(), watching.describe_replicas
        else:
            names, describe = watching.partitions(), watching.describe_partitions
        for start in range(0, len(names), SLICE):
            entries = describe(names[start : start + SLICE])
            comma = "," if start else ""
            yield f"{comma}{json_text(entries)[1:-1]}".encode()
            await asyncio.sleep(0)
        yield b"]}\n"

    # -- streams -------------------------------------------------------------------------------

    async def _events(self, request: HttpRequest) -> HttpResponse:
        if self._history is None:
            return error_response(HTTPStatus.NOT_FOUND, "this node keeps no journal")
        follow = request.query.get("follow", "true") == "true"
        after = request.query.get("after") or request.headers.get("last-event-id") or "0"
        if after == "now":
            return event_stream(self._history.events(self._history.newest, follow=follow))
        if not after.isascii() or not after.isdigit() or len(after) > 18:
            why = f"after is the number of an event, or now, and not {after}"
            return error_response(HTTPStatus.BAD_REQUEST, why)
        return event_stream(self._history.events(int(after), follow=follow))

    async def _watch(self, request: HttpRequest) -> HttpResponse:
        names = [name for name in request.query.get("microscope", "").split(",") if name]
        magnified = frozenset(map(_partition, names))
        if None in magnified or len(magnified) > MAGNIFIED_MAX:
            why = (
                f"microscope is a list of up to {MAGNIFIED_MAX} partitions, as in orders-0,orders-1"
            )
            return error_response(HTTPStatus.BAD_REQUEST, why)
        if self._watchers.are_enough:
            why = f"{len(self._watchers)} watch already"
            return error_response(HTTPStatus.SERVICE_UNAVAILABLE, why)
        wants_metadata = request.query.get("metadata", "false") == "true"
        found = frozenset(name for name in magnified if name is not None)
        return event_stream(self._watchers.stream(found, wants_metadata))


def _hear_of_failure(surveying: asyncio.Task[Survey]) -> None:
    """Who asked is told; if nobody is left, the loop must not be."""
    if not surveying.cancelled():
        surveying.exception()


def _partition(text: str) -> TopicPartition | None:
    topic, _, index = text.rpartition("-")
    is_number = index.isascii() and index.isdigit() and len(index) < 10
    return TopicPartition(topic, int(index)) if topic and is_number else None


async def _in_slices(work: Generator[None, None, T]) -> T:
    """The result of work that can be interrupted, with everybody's turn in between."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result
        await asyncio.sleep(0)
