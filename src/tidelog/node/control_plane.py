"""This node's part in the control plane: the metadata log, the controller, the committed image.

A change goes decide → record → replay: the controller's decision is appended, synced by a job,
committed, replayed into the broker's image, and only then answered.

Invariant  An answer is given after its records are committed and this broker has applied them.
Invariant  A failed sync of the metadata log stops the node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

from tidelog.controller.controller import Controller
from tidelog.controller.decision import Decision
from tidelog.controller.image import ClusterImage
from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.producer_ids import ProducerIdBlock
from tidelog.controller.records import MetadataRecord, NoOpRecord
from tidelog.controller.topics import NewTopic
from tidelog.model.errors import DiskError, ErrorCode, Refusal
from tidelog.model.time import Now
from tidelog.node.broker_state import BrokerState
from tidelog.node.request import Fields, Reply, Request
from tidelog.quorum.description import QuorumDescription
from tidelog.quorum.quorum import Quorum

R = TypeVar("R")
NOT_CONTROLLER = Refusal(ErrorCode.not_controller, "this node is not the active controller")


class ControlPlane:
    """Appends decisions, waits for them to be committed, applies them."""

    def __init__(
        self,
        broker: BrokerState,
        quorum: Quorum[MetadataRecord],
        bootstrap: tuple[MetadataRecord, ...],
        apply: Callable[[ImageDelta, Now], None],
        on_active: Callable[[Now], None],
    ) -> None:
        self._broker = broker
        self._quorum = quorum
        self._bootstrap = bootstrap
        self._apply = apply
        self._controller: Controller | None = None
        self._syncing = False
        self._snapshotting = False
        self._pending: deque[tuple[int, Callable[[Now], None]]] = deque()
        self._applied = 0
        self._last_append_ms = 0
        self._on_active = on_active

    @property
    def leader_id(self) -> int:
        """The active controller."""
        return self._quorum.leader_id

    @property
    def next_offset(self) -> int:
        """Where the next record of the metadata log will stand."""
        return self._quorum.end_offset

    def start(self, now: Now) -> None:
        """Read the newest snapshot, then lead: the rest of the log commits with our epoch."""
        snapshot = self._quorum.latest_snapshot()
        if snapshot is not None:
            self._applied = snapshot.end_offset
            last = snapshot.end_offset - 1
            self._apply(self._broker.image.replay_all((last, r) for r in snapshot.records), now)
        self._quorum.start(now)
        self._sync(now)

    def describe(self, now: Now) -> QuorumDescription:
        """The quorum as DescribeQuorum shows it."""
        return self._quorum.describe(now)

    def decide(
        self,
        request: Request,
        decide: Callable[[Controller], Decision[R]],
        answer: Callable[[R], Fields],
        refused: Callable[[Refusal], Fields],
    ) -> Reply:
        """Let the controller decide on a request; answer it once the decision is committed."""
        controller = self._controller
        if controller is None:
            return refused(NOT_CONTROLLER)
        decision = decide(controller)
        if not decision.records and not self._pending:
            return answer(decision.reply)
        later = request.park()
        self._submit(decision, request.now, lambda now: request.answer(answer(decision.reply)))
        return later

    def propose(
        self,
        now: Now,
        decide: Callable[[Controller], Decision[R]],
        then: Callable[[R | Refusal, Now], None],
    ) -> None:
        """Let the controller decide on something of this node's own."""
        controller = self._controller
        if controller is None:
            then(NOT_CONTROLLER, now)
            return
        decision = decide(controller)
        if decision.records or self._pending:
            self._submit(decision, now, lambda later: then(decision.reply, later))
        else:
            then(decision.reply, now)

    def create_missing_topics(
        self,
        names: list[str],
        now: Now,
        refusals: dict[str, ErrorCode],
        then: Callable[[], None],
    ) -> None:
        """Create topics with every default; what cannot be created is noted in `refusals`."""

        def created(outcome: object, now: Now) -> None:
            if isinstance(outcome, list):
                for name, result in outcome:
                    if isinstance(result, Refusal):
                        refusals[name] = result.code
            then()

        self.propose(
            now,
            lambda controller: controller.create_topics([NewTopic(name) for name in names]),
            created,
        )

    def allocate_producer_ids(self, now: Now, then: Callable[[range | Refusal], None]) -> None:
        """A block of producer ids for this broker."""
        node_id = self._broker.node_id
        registration = self._broker.image.brokers.get(node_id)
        epoch = -1 if registration is None else registration.broker_epoch

        def allocated(outcome: ProducerIdBlock | Refusal, now: Now) -> None:
            if isinstance(outcome, ProducerIdBlock):
                then(range(outcome.first, outcome.first + outcome.length))
            else:
                then(outcome)

        self.propose(
            now, lambda controller: controller.allocate_producer_ids(node_id, epoch), allocated
        )

    def _submit(self, decision: Decision[R], now: Now, then: Callable[[Now], None]) -> None:
        """Go on once the decision, or if it changes nothing what it was based on, is committed."""
        if decision.records:
            end = self._append(decision.records, decision.atomic, now)
        else:
            end, _ = self._pending[-1]
        self._pending.append((end, then))

    def _append(self, records: tuple[MetadataRecord, ...], atomic: bool, now: Now) -> int:
        controller = self._controller
        start = self._quorum.end_offset
        end = self._quorum.append(records, now, atomic=atomic)
        if controller is not None:
            for offset, record in enumerate(records, start):
                controller.image.replay(record, offset)
        self._last_append_ms = now.monotonic_ms
        self._sync(now)
        return end

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
        image = self._broker.image
        mark = self._quorum.high_watermark
        committed = self._quorum.committed_since(self._applied)
        self._applied = mark
        self._apply(image.replay_all((each.offset, each.record) for each in committed), now)
        while self._pending and self._pending[0][0] <= mark:
            self._pending.popleft()[1](now)
        if self._controller is None and self._quorum.is_active:
            self._activate(image, now)

    def _activate(self, image: ClusterImage, now: Now) -> None:
        broker = self._broker
        controller = Controller(image.copy(), broker.entropy, broker.config, broker.cluster_id)
        self._controller = controller
        decision = controller.activate(now, self._bootstrap)
        if decision.records:
            self._submit(decision, now, self._on_active)
        else:
            self._on_active(now)
        idle_ms = broker.config.metadata_max_idle_interval_ms
        if idle_ms > 0:
            broker.deadlines.every(now.monotonic_ms + idle_ms, idle_ms, self._write_when_idle)

    def take_snapshot_if_due(self, now: Now) -> None:
        """Write the committed state as a snapshot once enough has happened since the last."""
        image = self._broker.image
        if self._snapshotting or image.in_transaction or not self._quorum.snapshot_due(now):
            return
        self._snapshotting = True
        job = self._quorum.snapshot_job(tuple(image.snapshot_records()), self._applied, now)

        def written(now: Now, error: str | None) -> None:
            self._snapshotting = False
            if error is not None:
                raise DiskError(f"the metadata snapshot could not be written: {error}")
            self._quorum.snapshot_written(job, now)

        self._broker.jobs.run(job.run, written)

    def _write_when_idle(self, now: Now) -> None:
        """A record that says nothing, so that whoever follows the log can tell it is alive."""
        idle_ms = self._broker.config.metadata_max_idle_interval_ms
        if self._controller is not None and now.monotonic_ms - self._last_append_ms >= idle_ms:
            self._append((NoOpRecord(),), True, now)
