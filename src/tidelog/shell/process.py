"""A node as a process: how it starts, and the ways in which it ends.

Invariant  An exception that reaches the loop ends the process at once, before anything else is
           done: the event loop would swallow it, and a node that reasoned wrongly must not go on.
Invariant  The first signal asks the node to stop in an orderly way, within a bound; the second
           one does not ask.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeAlias

import uvloop

from tidelog.model.config import NodeConfig
from tidelog.model.entropy import Entropy
from tidelog.model.errors import ConfigError, DiskError
from tidelog.model.settings.endpoints import Endpoint
from tidelog.model.time import Now
from tidelog.node.core.effects import Effect
from tidelog.node.inspection.inspection import Inspection
from tidelog.node.quotas.rate import Windows
from tidelog.observe.events import Event
from tidelog.protocol.frame import FRAME_LIMIT
from tidelog.shell.certificates import NodeCertificates
from tidelog.shell.clock import read_clock
from tidelog.shell.descriptors import raise_descriptor_limit
from tidelog.shell.directory_lock import DirectoryLock
from tidelog.shell.effects import ConnectionLimits, NodeDriver, SteppedNode, World
from tidelog.shell.ending import Cause, Ending
from tidelog.shell.entropy import SystemEntropy
from tidelog.shell.event_journal import EventJournal
from tidelog.shell.links import LinkLimits
from tidelog.shell.listener import Listener, SocketOptions
from tidelog.shell.os_filesystem import OsFileSystem
from tidelog.storage.filesystem import FileSystem

if TYPE_CHECKING:
    from tidelog.shell.node_http import NodeHttp

EXIT_FINE: Final = 0
EXIT_FAILED: Final = 1
EXIT_BROKEN: Final = 70
EXIT_DISK: Final = 74
_STOP_WITHIN_S: Final = 60.0
_STDERR: Final = 2
_ANSWER_FRAMING_BYTES: Final = 16 << 20
"""What an answer says of all its partitions, besides their records."""


class DrivenNode(SteppedNode, Protocol):
    """A node that can also begin, and tell about itself."""

    @property
    def inspection(self) -> Inspection: ...

    @property
    def problems(self) -> list[str]:
        """Why it is not well."""
        ...

    def start(self, now: Now) -> list[Effect]:
        """Load what is on disk; called once, before any step."""
        ...


NodeFactory: TypeAlias = Callable[[NodeConfig, FileSystem, Entropy], DrivenNode]


TellEnding: TypeAlias = Callable[[Ending], None]


def run_node(
    config: NodeConfig,
    build_node: NodeFactory,
    journal_path: str | None = None,
    tell_ending: TellEnding | None = None,
    log_path: str | None = None,
) -> int:
    """Run a node until it stops; its exit code. `TidelogError` when it cannot start.

    `tell_ending` hears how it ends before anybody can see that it has; `log_path` is the file
    behind stderr, if it is this process's to replace when it is full.
    """
    descriptors = raise_descriptor_limit()
    with ExitStack() as cleanup:
        for directory in dict.fromkeys((*config.log_directories, config.metadata_directory)):
            cleanup.callback(DirectoryLock(directory).release)
        journal = EventJournal(
            config.node_id,
            _STDERR,
            journal_path,
            readable_path=log_path,
            size_limit=config.journal_max_bytes,
        )
        cleanup.callback(journal.close)
        loop = uvloop.new_event_loop()
        cleanup.callback(loop.close)
        certificates = NodeCertificates(config)
        listeners = _bind_listeners(config, loop, cleanup)
        for setting in config.without_effect:
            why = setting.doc[0].lower() + setting.doc[1:]
            journal.say(f"warning: {setting.name} {why}", read_clock())
        http = _bind_http(config, loop, cleanup)
        # Half of the descriptors for files, the rest for connections.
        files = OsFileSystem(max_descriptors=max(64, descriptors // 2))
        node = build_node(_with_real_ports(config, listeners), files, SystemEntropy())
        process = _Process(loop, config, node, listeners, certificates, journal, tell_ending)
        if http is not None:
            process.answer_questions(http, journal_path)
        cleanup.callback(process.close)
        return process.run()


class _Process:
    """The loop with everything that hangs on it, from the first step to the last."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: NodeConfig,
        node: DrivenNode,
        listeners: dict[str, Listener],
        certificates: NodeCertificates,
        journal: EventJournal,
        tell_ending: TellEnding | None,
    ) -> None:
        self._loop = loop
        self._tell_ending = tell_ending
        self._node = node
        self._node_id = config.node_id
        self._listeners = listeners
        self._journal = journal
        self._exit_code = EXIT_FAILED
        self._stopping: signal.Signals | None = None
        world = World(journal.write, self._open_listeners, self._stopped)
        self._http: NodeHttp | None = None
        self._driver = NodeDriver(
            loop,
            node,
            world,
            connection_limits(config),
            link_limits=link_limits(config),
            certificates=certificates,
        )
        loop.set_exception_handler(self._fail)

    def answer_questions(self, listener: Listener, journal_path: str | None) -> None:
        """Have an HTTP listener from the start of the loop on."""
        from tidelog.shell.node_http import NodeHttp  # only who has one waits for its import

        self._http = NodeHttp(
            self._loop, listener, self._node, self._driver, self._journal, journal_path
        )

    def run(self) -> int:
        effects = self._node.start(read_clock())
        self._loop.call_soon(self._begin, effects)
        self._loop.run_forever()
        return self._exit_code

    def close(self) -> None:
        if self._http is not None:
            self._loop.run_until_complete(self._http.close())
        self._driver.close()

    def _begin(self, effects: list[Effect]) -> None:
        # Not earlier: a signal that arrives before the loop runs would be lost with a handler.
        ending = [signal.SIGTERM, signal.SIGINT]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup wants it
            ending.append(signal.SIGHUP)
        for number in ending:
            self._loop.add_signal_handler(number, self._asked_to_stop, number)
        self._driver.begin(effects)
        if self._http is not None:
            self._open_http(self._http)

    def _open_http(self, http: NodeHttp) -> None:
        try:
            http.open(self._announce)
        except ConfigError as error:
            self._stopped(str(error))
            return
        self._journal.say(f"node {self._node_id} answers questions at {http.url}", read_clock())

    def _open_listeners(self, names: tuple[str, ...]) -> None:
        for name in names:
            listener = self._listeners[name]
            try:
                listener.open(self._loop, self._driver.accept, self._announce)
            except ConfigError as error:
                self._stopped(str(error))
                return
            host, port = listener.endpoint.host or "*", listener.endpoint.port
            self._journal.say(
                f"node {self._node_id} listens on {name}://{host}:{port}", read_clock()
            )

    def _announce(self, event: Event) -> None:
        self._journal.write(event, read_clock())

    def _asked_to_stop(self, number: signal.Signals) -> None:
        if self._stopping is not None:
            self._ends(Cause.KILLED, 128 + number, f"a second {number.name} while it stopped")
            os._exit(128 + number)
        self._stopping = number
        self._loop.call_later(_STOP_WITHIN_S, self._stop_took_too_long)
        self._driver.request_stop(number.name)

    def _stop_took_too_long(self) -> None:
        said = f"did not stop within {_STOP_WITHIN_S:g} s and is ended"
        self._journal.say(f"node {self._node_id} {said}", read_clock())
        self._ends(Cause.FAILED, EXIT_FAILED, f"it {said}")
        os._exit(EXIT_FAILED)

    def _stopped(self, failure: str | None) -> None:
        if failure is not None:
            self._journal.say(f"node {self._node_id} stops: {failure}", read_clock())
            self._ends(Cause.FAILED, EXIT_FAILED, failure)
        else:
            asked = "it was told to" if self._stopping is None else self._stopping.name
            self._ends(Cause.CLEAN, EXIT_FINE, asked)
        self._exit_code = EXIT_FINE if failure is None else EXIT_FAILED
        self._loop.stop()

    def _ends(self, cause: Cause, exit_code: int, reason: str) -> None:
        if self._tell_ending is not None:
            self._tell_ending(Ending(cause, exit_code, reason))

    def _fail(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> NoReturn:
        from traceback import format_exception

        error = context.get("exception")
        said = f"{type(error).__name__}: {error}" if error is not None else context["message"]
        if isinstance(error, DiskError):
            self._ends(Cause.FAILED, EXIT_DISK, said)
        else:
            self._ends(Cause.CRASHED, EXIT_BROKEN, said)
        self._journal.say(f"node {self._node_id} stops at once: {said}", read_clock())
        if isinstance(error, DiskError):
            os._exit(EXIT_DISK)
        try:
            if isinstance(error, BaseException):
                sys.stderr.write("".join(format_exception(error)))
                sys.stderr.flush()
        finally:
            os._exit(EXIT_BROKEN)


def connection_limits(config: NodeConfig) -> ConnectionLimits:
    return ConnectionLimits(
        frame_bytes=config.socket_request_max_bytes,
        idle_ms=config.connections_max_idle_ms,
        per_host=config.max_connections_per_ip,
        in_all=config.max_connections,
        of_hosts=config.connections_of_hosts,
        rate=config.max_connection_creation_rate,
        windows=Windows(config.quota_window_num, config.quota_window_size_seconds * 1000),
        any_rate=frozenset({*config.controller_names, *_protected(config)}),
        unlimited=frozenset(config.controller_names),
    )


def _protected(config: NodeConfig) -> tuple[str, ...]:
    """The listener of brokers among themselves, where clients have another one."""
    names = [endpoint.name for endpoint in config.endpoints]
    of_clients = [name for name in names if name not in config.controller_names]
    return (config.inter_broker_name,) if config.is_broker and len(of_clients) > 1 else ()


def link_limits(config: NodeConfig) -> LinkLimits:
    # A fetch is answered with what it asks for, or with one batch of any size that a request may
    # have brought to the leader.
    records = max(
        FRAME_LIMIT, config.socket_request_max_bytes, config.replica_fetch_response_max_bytes
    )
    return LinkLimits(
        frame_bytes=records + _ANSWER_FRAMING_BYTES,
        # As with listeners, the system tunes the size better than Kafka's default would.
        receive_buffer_bytes=config.replica_socket_receive_buffer_bytes
        if "replica.socket.receive.buffer.bytes" in config.given
        else -1,
    )


def _with_real_ports(config: NodeConfig, listeners: Mapping[str, Listener]) -> NodeConfig:
    """The configuration with the ports the system chose where it was asked to (port 0)."""
    if all(endpoint.port for endpoint in config.endpoints):
        return config
    bound = [listener.endpoint for listener in listeners.values()]
    texts = [
        f"{name}://{f'[{host}]' if ':' in host else host}:{port}" for name, host, port in bound
    ]
    return NodeConfig.from_properties({**config.given, "listeners": ",".join(texts)})


def _bind_http(
    config: NodeConfig, loop: asyncio.AbstractEventLoop, cleanup: ExitStack
) -> Listener | None:
    address = config.http_address
    if address is None:
        return None
    listener = Listener(Endpoint("HTTP", *address), SocketOptions(), "http.listener")
    cleanup.callback(listener.close, loop)
    return listener


def _bind_listeners(
    config: NodeConfig, loop: asyncio.AbstractEventLoop, cleanup: ExitStack
) -> dict[str, Listener]:
    given = config.given
    options = SocketOptions(
        backlog=config.socket_listen_backlog_size,
        # Kafka's default of 100 kB would stand in the way of the system's own tuning.
        send_buffer_bytes=config.socket_send_buffer_bytes
        if "socket.send.buffer.bytes" in given
        else -1,
        receive_buffer_bytes=config.socket_receive_buffer_bytes
        if "socket.receive.buffer.bytes" in given
        else -1,
    )
    listeners: dict[str, Listener] = {}
    for endpoint in config.endpoints:
        listener = Listener(endpoint, options)
        cleanup.callback(listener.close, loop)
        listeners[endpoint.name] = listener
    return listeners
