"""The controller of this node: it follows the log like any other, and decides while it leads.

A change goes decide → record → replay: the active controller's decision is appended, committed by
the quorum, replayed into this node's image, and only then answered.

Invariant  An answer is given after its records are committed and this node has applied them.
Invariant  The active controller decides on an image of its own, which holds what it has appended;
           whoever loses the quorum throws it away, and every answer still due says so (C10).
Invariant  The image of this node holds only what is committed, so that a controller needs nothing
           but a copy of it to become the active one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from tidelog.controller.controller import Controller
from tidelog.controller.records import MetadataRecord
from tidelog.controller.result import ControllerResult
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.time import Now
from tidelog.node.control.calls.controller_call import ControllerCall
from tidelog.node.control.decision_events import events_of
from tidelog.node.control.periodic_tasks import PeriodicTasks
from tidelog.node.core.authorization import CLUSTER_DENIED, Authorization
from tidelog.node.core.request import Later, Request
from tidelog.node.core.runtime import Runtime
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.metadata.metadata_feed import MetadataFeed
from tidelog.node.metadata.metadata_fetches import MetadataFetches
from tidelog.node.metadata.quorum_member import QuorumMember
from tidelog.observe.cluster_events import (
    ControllerActivated,
    ControllerDeactivated,
    LeaderElected,
)
from tidelog.observe.counters import UncleanElection
from tidelog.observe.events import Event
from tidelog.protocol.message import RequestMessage, ResponseMessage
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.voters import VoterChange

OutcomeT = TypeVar("OutcomeT")
ResponseT = TypeVar("ResponseT", bound=ResponseMessage)


class _Pending(NamedTuple):
    """What is to be told once the log is committed up to `end`, or when it never will be."""

    end: int
    events: tuple[Event, ...]
    then: Callable[[Now], None]
    lost: Callable[[Now], None]


NOT_CONTROLLER = Refusal(ErrorCode.not_controller, "this node is not the active controller")


class ControlPlane:
    """Appends decisions, waits for them to be committed, applies them."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: ClusterView,
        quorum: Quorum[MetadataRecord],
        member: QuorumMember,
        feed: MetadataFeed,
        bootstrap: tuple[MetadataRecord, ...],
        on_active: Callable[[Now], None],
        authorization: Authorization,
    ) -> None:
        self._runtime = runtime
        self._cluster = cluster
        self._quorum = quorum
        self._feed = feed
        self._bootstrap = bootstrap
        self._on_active = on_active
        self._authorization = authorization
        self._controller: Controller | None = None
        self._epoch = 0
        self._pending: deque[_Pending] = deque()
        self._unclean_elections = 0
        self.member = member
        self.periodic_tasks: PeriodicTasks | None = None
        """What the active controller does by the clock."""
        self.fetches = MetadataFetches(runtime, cluster, quorum, self._has_applied, member.settle)
        self.last_append_ms = 0

    @property
    def leader_id(self) -> int:
        """Who leads the quorum, as far as this node knows."""
        return self._quorum.leader_id

    @property
    def is_active(self) -> bool:
        """Whether the controller of this node decides."""
        return self._controller is not None

    @property
    def next_offset(self) -> int:
        """Where the next record of the metadata log will stand."""
        return self._quorum.log.end_offset

    def _has_applied(self, replica_id: int, offset: int) -> None:
        if self.periodic_tasks is not None:
            self.periodic_tasks.applied(replica_id, offset)

    # Deciding

    def decide(
        self,
        request: Request[RequestMessage[ResponseT]],
        decide: Callable[[Controller], ControllerResult[OutcomeT]],
        answer: Callable[[OutcomeT], ResponseT],
        refused: Callable[[Refusal], ResponseT],
        why: str = "",
        lost: Callable[[Now], None] | None = None,
    ) -> ResponseT | Later:
        """Let the controller decide on a request; answer it once the decision is committed.

        What one permission is needed for is refused without it, whoever leads.
        `why` is told as the cause of what the decision does to brokers. When the lead is lost
        before, the request is refused, or `lost` sees to it.
        """
        if not self._authorization.allows_whole(request):
            return refused(CLUSTER_DENIED)
        controller = self._controller
        if controller is None:
            return refused(NOT_CONTROLLER)
        decision = decide(controller)
        if not decision.records and not self._pending:
            return answer(decision.reply)
        later = request.park()
        self._submit(
            decision,
            request.now,
            lambda now: request.answer(answer(decision.reply)),
            lost or (lambda now: request.refuse(NOT_CONTROLLER, refused)),
            why,
        )
        return later

    def propose(
        self,
        now: Now,
        decide: Callable[[Controller], ControllerResult[OutcomeT]],
        then: Callable[[OutcomeT | Refusal, Now], None],
        why: str = "",
    ) -> None:
        """Let the controller decide on something of this node's own."""
        controller = self._controller
        if controller is None:
            then(NOT_CONTROLLER, now)
            return
        decision = decide(controller)
        if decision.records or self._pending:
            self._submit(
                decision,
                now,
                lambda later: then(decision.reply, later),
                lambda later: then(NOT_CONTROLLER, later),
                why,
            )
        else:
            then(decision.reply, now)

    def ask(
        self,
        now: Now,
        call: ControllerCall[ResponseT, OutcomeT],
        then: Callable[[OutcomeT | Refusal, Now], None],
    ) -> None:
        """Let the controller decide on a call of this node's own."""
        self.propose(
            now,
            lambda controller: call.decide(controller, self.next_offset, now),
            then,
            call.cause,
        )

    def answer(
        self,
        request: Request[RequestMessage[ResponseT]],
        call: ControllerCall[ResponseT, OutcomeT],
    ) -> ResponseT | Later:
        """Let the controller decide on the call in a request; answer it then."""
        return self.decide(
            request,
            lambda controller: call.decide(controller, self.next_offset, request.now),
            call.answer,
            call.answer,
            call.cause,
        )

    def append(self, records: tuple[MetadataRecord, ...], now: Now, *, atomic: bool = True) -> int:
        """Write records and let the controller see them at once; where they end."""
        controller = self._controller
        start = self._quorum.log.end_offset
        end = self._quorum.append(records, now, atomic=atomic)
        if controller is not None:
            for offset, record in enumerate(records, start):
                controller.image.replay(record, offset)
        self.last_append_ms = now.monotonic_ms
        self.fetches.have_news = True
        if self.periodic_tasks is not None:
            self.periodic_tasks.watch_sessions()
        self.member.sync()
        return end

    def _submit(
        self,
        decision: ControllerResult[OutcomeT],
        now: Now,
        then: Callable[[Now], None],
        lost: Callable[[Now], None],
        why: str,
    ) -> None:
        """Go on once the decision, or if it changes nothing what it was based on, is committed."""
        if decision.records:
            end = self.append(decision.records, now, atomic=decision.atomic)
        else:
            end = self._pending[-1].end
        events = tuple(events_of(decision, why, self._unclean_elections))
        self._unclean_elections += sum(
            isinstance(event, LeaderElected) and event.unclean for event in events
        )
        self._pending.append(_Pending(end, events, then, lost))

    def change_voters(
        self, change: VoterChange, now: Now, *, await_commit: bool = True
    ) -> Refusal | None:
        """Change who votes; whatever is decided from now on waits for it to be committed."""
        end = self._quorum.change_voters(change, now)
        if isinstance(end, Refusal):
            return end
        if await_commit:
            self._pending.append(_Pending(end, (), _nothing, _nothing))
        self.fetches.have_news = True
        self.member.sync()
        return None

    # Leading, committing, and losing the lead

    def quorum_changed(self, now: Now) -> None:
        """Catch up with what the quorum has come to."""
        if self.is_active and (not self._quorum.is_leader or self._quorum.epoch != self._epoch):
            self._deactivate(now)
        if self._quorum.replica.high_watermark > self._feed.applied:
            self._committed(now)
        if not self.is_active and self._quorum.is_active:
            self._activate(now)

    def _committed(self, now: Now) -> None:
        high_watermark = self._quorum.replica.high_watermark
        self.fetches.have_news = True
        committed = []
        while self._pending and self._pending[0].end <= high_watermark:
            committed.append(self._pending.popleft())
        for pending in committed:  # what the controller decided, before what comes of it
            for event in pending.events:
                self._runtime.announce(event)
                if isinstance(event, LeaderElected):
                    self._count(event, now)
        self._feed.catch_up(now)
        self._has_applied(self._cluster.node_id, high_watermark - 1)
        for pending in committed:
            pending.then(now)

    def _count(self, elected: LeaderElected, now: Now) -> None:
        counters = self._runtime.elections
        counters.elections += 1
        if elected.unclean:
            counters.unclean_elections += 1
            counters.unclean.append(
                UncleanElection(
                    elected.partition, elected.leader_epoch, elected.may_lose, now.wall_ms
                )
            )

    def _activate(self, now: Now) -> None:
        image = self._cluster.image.copy()
        controller = Controller(
            image, self._runtime.entropy, self._cluster.config, self._cluster.cluster_id
        )
        self._controller = controller
        self._epoch = self._quorum.epoch
        self._runtime.announce(
            ControllerActivated(
                epoch=self._epoch,
                cause=f"it leads the quorum and has applied the log up to {self._feed.applied}",
            )
        )
        decision = controller.activate(now, self._bootstrap)
        self.periodic_tasks = PeriodicTasks(self._runtime, self._cluster, self, controller, now)
        lost_leader = self._quorum.elections.take_lost_leader()
        if lost_leader is not None:
            # The process that hung up on us as leader may be a broker as well.
            controller.broker_disconnected(lost_leader, now)
        self.periodic_tasks.watch_sessions()
        if decision.records:
            self._submit(decision, now, self._on_active, _nothing, "")
        else:
            self._on_active(now)

    def _deactivate(self, now: Now) -> None:
        """Forget all that is not committed, and say so to whoever waits for it."""
        self._controller = None
        self.fetches.have_news = True
        if self.periodic_tasks is not None:
            self.periodic_tasks.stop()
            self.periodic_tasks = None
        self._runtime.announce(
            ControllerDeactivated(
                epoch=self._epoch,
                cause=f"it is {self._quorum.role.name} in epoch {self._quorum.epoch}",
            )
        )
        pending, self._pending = self._pending, deque()
        for each in pending:
            each.lost(now)


def _nothing(now: Now) -> None:
    """Nobody waits for this."""
