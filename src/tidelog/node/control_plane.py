"""This node's part in the quorum: it leads the metadata log and runs the active controller.

A change goes decide → record → replay: the controller's decision is appended, synced by a job,
committed, replayed into the broker's image, and only then answered.

Invariant  An answer is given after its records are committed and this broker has applied them.
Invariant  A failed sync of the metadata log stops the node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from tidelog.controller.controller import Controller
from tidelog.controller.decision import Decision
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import MetadataRecord
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.time import Now
from tidelog.node.broker_state import BrokerState
from tidelog.node.controller_chores import ControllerChores
from tidelog.node.decision_events import events_of
from tidelog.node.metadata_feed import MetadataFeed
from tidelog.node.metadata_fetches import MetadataFetches
from tidelog.node.request import Fields, Reply, Request
from tidelog.observe.events import Event
from tidelog.quorum.description import QuorumDescription
from tidelog.quorum.quorum import Quorum

R = TypeVar("R")


class _Pending(NamedTuple):
    """What is to be told once the log is committed up to `end`."""

    end: int
    events: tuple[Event, ...]
    then: Callable[[Now], None]


NOT_CONTROLLER = Refusal(ErrorCode.not_controller, "this node is not the active controller")


class ControlPlane:
    """Appends decisions, waits for them to be committed, applies them."""

    def __init__(
        self,
        broker: BrokerState,
        quorum: Quorum[MetadataRecord],
        feed: MetadataFeed,
        bootstrap: tuple[MetadataRecord, ...],
        on_active: Callable[[Now], None],
    ) -> None:
        self._broker = broker
        self._quorum = quorum
        self._feed = feed
        self._bootstrap = bootstrap
        self._on_active = on_active
        self._controller: Controller | None = None
        self._syncing = False
        self._pending: deque[_Pending] = deque()
        self.chores = ControllerChores(broker, self)
        self.fetches = MetadataFetches(broker, quorum, self.chores.applied)
        self.last_append_ms = 0

    @property
    def leader_id(self) -> int:
        """The active controller."""
        return self._quorum.leader_id

    @property
    def is_active(self) -> bool:
        """Whether the controller of this node decides."""
        return self._controller is not None

    @property
    def next_offset(self) -> int:
        """Where the next record of the metadata log will stand."""
        return self._quorum.end_offset

    def start(self, now: Now) -> None:
        """Read the newest snapshot, then lead: the rest of the log commits with our epoch."""
        self._feed.load_snapshot(now)
        self._quorum.start(now)
        self._sync(now)

    def describe(self, now: Now) -> QuorumDescription:
        """The quorum as DescribeQuorum shows it."""
        return self._quorum.describe(now)

    # Deciding

    def decide(
        self,
        request: Request,
        decide: Callable[[Controller], Decision[R]],
        answer: Callable[[R], Fields],
        refused: Callable[[Refusal], Fields],
        why: str = "",
    ) -> Reply:
        """Let the controller decide on a request; answer it once the decision is committed.

        `why` is told as the cause of what the decision does to brokers.
        """
        controller = self._controller
        if controller is None:
            return refused(NOT_CONTROLLER)
        decision = decide(controller)
        if not decision.records and not self._pending:
            return answer(decision.reply)
        later = request.park()
        self._submit(decision, request.now, lambda now: request.answer(answer(decision.reply)), why)
        return later

    def propose(
        self,
        now: Now,
        decide: Callable[[Controller], Decision[R]],
        then: Callable[[R | Refusal, Now], None],
        why: str = "",
    ) -> None:
        """Let the controller decide on something of this node's own."""
        controller = self._controller
        if controller is None:
            then(NOT_CONTROLLER, now)
            return
        decision = decide(controller)
        if decision.records or self._pending:
            self._submit(decision, now, lambda later: then(decision.reply, later), why)
        else:
            then(decision.reply, now)

    def append(self, records: tuple[MetadataRecord, ...], now: Now, *, atomic: bool = True) -> int:
        """Write records and let the controller see them at once; where they end."""
        controller = self._controller
        start = self._quorum.end_offset
        end = self._quorum.append(records, now, atomic=atomic)
        if controller is not None:
            for offset, record in enumerate(records, start):
                controller.image.replay(record, offset)
        self.last_append_ms = now.monotonic_ms
        self.fetches.have_news = True
        self.chores.watch_sessions()
        self._sync(now)
        return end

    def _submit(
        self, decision: Decision[R], now: Now, then: Callable[[Now], None], why: str
    ) -> None:
        """Go on once the decision, or if it changes nothing what it was based on, is committed."""
        if decision.records:
            end = self.append(decision.records, now, atomic=decision.atomic)
        else:
            end = self._pending[-1].end
        self._pending.append(_Pending(end, tuple(events_of(decision, why)), then))

    # Committing

    def _sync(self, now: Now) -> None:
        if self._syncing:
            return
        job = self._quorum.sync_job()
        if job is None:
            return
        self._syncing = True

        def synced(now: Now, error: str | None) -> None:
            self._syncing = False
            if error is not None:
                self._quorum.sync_failed(job, error)
            if self._quorum.synced(job):
                self._committed(now)
            self._sync(now)

        self._broker.jobs.run(job.run, synced)

    def _committed(self, now: Now) -> None:
        mark = self._quorum.high_watermark
        self.fetches.have_news = True
        committed = []
        while self._pending and self._pending[0].end <= mark:
            committed.append(self._pending.popleft())
        for pending in committed:  # what the controller decided, before what comes of it
            for event in pending.events:
                self._broker.announce(event)
        self._feed.catch_up(now)
        self.chores.applied(self._broker.node_id, mark - 1)
        for pending in committed:
            pending.then(now)
        if self._controller is None and self._quorum.is_active:
            self._activate(self._broker.image, now)

    def _activate(self, image: ClusterImage, now: Now) -> None:
        broker = self._broker
        controller = Controller(image.copy(), broker.entropy, broker.config, broker.cluster_id)
        self._controller = controller
        decision = controller.activate(now, self._bootstrap)
        if decision.records:
            self._submit(decision, now, self._on_active, "")
        else:
            self._on_active(now)
        self.chores.start(controller, now)
