"""A node while it runs on a simulated machine: the dull half, as `broker` is on a real one.

What arrives waits in an inbox; a turn hands all of it over with one and the same time, then ends
the tick, as the event loop of a broker does. Turns take time, and slow files make them take more.

Invariant  Effects are carried out in order, and what they cause arrives as a later input.
Invariant  Observers look at a node after each of its steps, before anybody else hears of it.
Invariant  The bytes of a frame are gone when the step that got them returns.
Invariant  A step that waits for a sync of any file or directory breaks rule S7: a slow disk must
           not stop heartbeats, elections and the partitions of other disks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, assert_never

from tidelog.model.errors import InvariantBroken, TidelogError
from tidelog.model.time import Now
from tidelog.node.core.effects import (
    Announce,
    Close,
    CloseLink,
    Effect,
    Lane,
    LimitConnections,
    LimitFrames,
    MeasureRequests,
    OpenLink,
    OpenListeners,
    PauseReading,
    ResumeReading,
    RunJob,
    Send,
    SendOnLink,
    Stopped,
)
from tidelog.node.core.inputs import (
    ConnectionClosed,
    ConnectionOpened,
    FrameArrived,
    Input,
    JobFinished,
    LinkClosed,
    LinkFrame,
    LinkOpened,
    StopRequested,
    TickEnded,
    TimePassed,
)
from tidelog.node.node import Node
from tidelog.observe.journal import words
from tidelog.protocol.parts import Part, joined
from tidelog.simulator.disk.machine_disk import ProcessDies
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.job_queue import JobQueue, WorkingMachine
from tidelog.simulator.world.network import TIMED_OUT, End, Host, Network
from tidelog.simulator.world.step_text import step_text
from tidelog.simulator.world.timeline import Timeline

_Waiting = tuple[Callable[..., Any], tuple[Any, ...]]
"""An input that has not been given its time yet."""


class ProcessMachine(WorkingMachine, Host, Protocol):
    """The machine under a process, which hears what becomes of it."""

    @property
    def node_id(self) -> int: ...

    def note(self, words: str) -> None:
        """Write a line of the trace."""
        ...

    def kill(self, cause: str = ...) -> None:
        """End the process at once."""
        ...

    def failed(self, error: TidelogError) -> None:
        """The node cannot go on."""
        ...

    def stopped(self, failure: str | None) -> None:
        """The node is done, in an orderly way."""
        ...

    def started(self, effects: Sequence[Effect]) -> None:
        """The node began; nobody has heard of it yet."""
        ...

    def stepped(self, happened: Input, effects: Sequence[Effect], frame: bytes) -> None:
        """The node took a step, whose effects are about to be carried out."""
        ...


class Process:
    """One node from its start to its end; connections have positive numbers, links negative."""

    def __init__(
        self,
        machine: ProcessMachine,
        node: Node,
        timeline: Timeline,
        network: Network,
        step_us: int,
    ) -> None:
        self.node = node
        self.ended = False
        self.ports: dict[int, str] = {}
        self.dies_before_effects = False
        self._machine = machine
        self._timeline = timeline
        self._network = network
        self._step_us = step_us
        self._inbox: list[_Waiting] = []
        self._unread: dict[int, list[_Waiting]] = {}
        self._ends: dict[int, End] = {}
        self._last_connection = 0
        self._turn_due = False
        self._busy_until_us = 0
        self._spent_us = 0
        self._wake_us: int | None = None
        self._jobs = {lane: JobQueue(machine, self, timeline) for lane in Lane}
        self._stopped: Stopped | None = None

    # From the machine.

    def begin(self) -> None:
        """Let the node load what is on disk and take its first turn."""
        effects = self._guard(self.node.start, self._now())
        if effects is None:
            return
        self._machine.started(effects)
        self._carry_out(effects)
        if not self.ended:
            self._end_if_stopped()
            self._turn_soon()

    def request_stop(self, reason: str) -> None:
        self._hear(StopRequested, reason)

    def resume(self) -> None:
        """Go on after a pause, with everything that has arrived meanwhile."""
        for lane in self._jobs.values():
            lane.resume()
        self._turn_soon()

    def give_up_connections(self, let_go: Callable[[End], None]) -> None:
        """The process is over: every connection meets the end it is given."""
        self.ended = True
        for end in list(self._ends.values()):
            let_go(end)
        self._ends.clear()

    # From its jobs.

    def job_finished(self, job_id: int, error: str | None) -> None:
        self._hear(JobFinished, job_id, error)

    # From the network.

    def accepted(self, end: End, listener: str, peer_address: str) -> None:
        self._last_connection += 1
        end.number = self._last_connection
        self._ends[end.number] = end
        self._hear(ConnectionOpened, end.number, listener, peer_address)

    def connected(self, end: End) -> None:
        self._hear(LinkOpened, -end.number)

    def frame_arrived(self, end: End, frame: bytes) -> None:
        if end.number < 0:
            self._hear(LinkFrame, -end.number, frame)
        elif end.number in self._unread:
            self._unread[end.number].append((FrameArrived, (end.number, frame)))
        else:
            self._hear(FrameArrived, end.number, frame)

    def disconnected(self, end: End, reason: str) -> None:
        self._ends.pop(end.number, None)
        if end.number < 0:
            self._hear(LinkClosed, -end.number, reason, reason != TIMED_OUT)
        elif end.number in self._unread:
            self._unread[end.number].append((ConnectionClosed, (end.number, reason)))
        else:
            self._hear(ConnectionClosed, end.number, reason)

    # Turns.

    def _hear(self, make: Callable[..., Any], *arguments: Any) -> None:
        self._inbox.append((make, arguments))
        self._turn_soon()

    def _turn_soon(self) -> None:
        if not self._turn_due and not self._machine.paused:
            self._turn_due = True
            self._timeline.at(self._busy_until_us, self._turn)

    def _now(self) -> Now:
        now = self._machine.clock.at(self._timeline.now_us)
        self._machine.disk.files.wall_ms = now.wall_ms
        return now

    def _turn(self) -> None:
        self._turn_due = False
        if self.ended or self._machine.paused:
            return
        now = self._now()
        self._spent_us = 0
        inbox, self._inbox = self._inbox, []
        for make, arguments in inbox:
            if make is FrameArrived or make is LinkFrame:
                self._step_with_frame(make, now, *arguments)
            else:
                self._step(make(now, *arguments))
            if self.ended:
                return
        self._step(TickEnded(now))
        if not self.ended:
            self._busy_until_us = self._timeline.now_us + self._spent_us
            self._set_timer()

    def _step_with_frame(
        self, make: Callable[..., Any], now: Now, number: int, frame: bytes
    ) -> None:
        buffer = bytearray(frame)
        self._step(make(now, number, memoryview(buffer)), buffer, frame)

    def _step(self, happened: Input, buffer: bytearray | None = None, frame: bytes = b"") -> None:
        machine = self._machine
        machine.note(step_text(happened))
        disk = machine.disk
        before, syncs = disk.files.operation_count, disk.files.sync_count
        effects = self._guard(self.node.step, happened)
        if isinstance(happened, JobFinished) and happened.error is not None:
            disk.failure_heard()
        if effects is None:
            return
        if disk.files.sync_count != syncs:
            why = f"waits for {disk.files.last_synced} to be on disk"
            raise Violation("S7", f"{machine.name} {why} within a step: {step_text(happened)}")
        if buffer is not None:
            # Whoever still looks at the frame must not see what he hopes to see.
            buffer[:] = b"\xa5" * len(buffer)
        if self.dies_before_effects and effects:
            machine.kill("killed after a step, before its effects")
            return
        self._spent_us += self._step_us
        if disk.write_us:
            self._spent_us += (disk.files.operation_count - before) * disk.write_us
        machine.stepped(happened, effects, frame)
        if effects:
            self._carry_out(effects)
            self._end_if_stopped()

    def _guard(self, work: Callable[[Any], list[Effect]], argument: object) -> list[Effect] | None:
        """Run code of the node; None when the process is over."""
        machine = self._machine
        try:
            return work(argument)
        except ProcessDies:
            machine.dies_here()
        except TidelogError as error:
            machine.failed(error)
        except (Exception, InvariantBroken) as error:  # whatever a node raises is a finding
            raise Violation("node", f"{machine.name} raised {type(error).__name__}: {error}") from (
                error
            )
        return None

    def _set_timer(self) -> None:
        deadline_ms = self.node.next_deadline_ms
        if deadline_ms is None:
            self._wake_us = None
            return
        wake_us = max(self._machine.clock.world_us(deadline_ms), self._busy_until_us)
        if wake_us != self._wake_us:
            self._wake_us = wake_us
            self._timeline.at(wake_us, self._wake, wake_us)

    def _wake(self, due_us: int) -> None:
        if self._wake_us == due_us and not self.ended:
            self._wake_us = None
            self._hear(TimePassed)

    # Effects.

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        machine = self._machine
        departs_us = self._timeline.now_us + self._spent_us
        for effect in effects:
            if self.ended:  # killed by a job that was to die at its first operation
                return
            match effect:
                case Send(number, parts):
                    self._send(number, parts, departs_us)
                case SendOnLink(link, parts):
                    self._send(-link, parts, departs_us)
                case Close(number, reason):
                    if (end := self._ends.get(number)) is not None:
                        self._hang_up(end, reason, departs_us)
                case OpenLink(link, host, port):
                    self._ends[-link] = self._network.connect(
                        machine, -link, host, port, departs_us
                    )
                case CloseLink(link):
                    if (end := self._ends.pop(-link, None)) is not None:
                        self._network.reset(end, departs_us)
                        self._forget(-link)
                case PauseReading(number):
                    if number in self._ends:
                        self._unread.setdefault(number, [])
                case ResumeReading(number):
                    self._inbox += self._unread.pop(number, ())
                    self._turn_soon()
                case RunJob():
                    self._jobs[effect.lane].add(effect)
                case Announce(event):
                    told = words(event, machine.node_id)
                    machine.note(f"! {told}: {event.cause}")
                case OpenListeners(names):
                    self._open(names)
                case LimitConnections() | LimitFrames():
                    pass  # nobody here opens so many
                case MeasureRequests():
                    pass  # a step takes no time here
                case Stopped():
                    self._stopped = effect
                case _:
                    assert_never(effect)

    def _send(self, number: int, parts: list[Part], departs_us: int) -> None:
        end = self._ends.get(number)
        if end is None:
            return
        try:
            frame = joined(parts)
        except TidelogError as error:  # the disk does not give the records back
            self._network.note_fault(end)
            self._hang_up(end, str(error), departs_us)
            return
        self._network.send(end, frame, departs_us)

    def _hang_up(self, end: End, reason: str, departs_us: int) -> None:
        self._network.close(end, reason, departs_us)
        self._unread.pop(end.number, None)
        self.disconnected(end, reason)

    def _forget(self, number: int) -> None:
        """Nothing more is to be heard of a link that was given up."""
        kinds = (LinkOpened, LinkFrame, LinkClosed)
        self._inbox = [
            waiting
            for waiting in self._inbox
            if waiting[0] not in kinds or waiting[1][0] != -number
        ]

    def _open(self, names: tuple[str, ...]) -> None:
        for endpoint in self.node.config.endpoints:
            if endpoint.name in names:
                self.ports[endpoint.port] = endpoint.name

    def _end_if_stopped(self) -> None:
        if self._stopped is not None and not self.ended:
            self._machine.stopped(self._stopped.failure)
