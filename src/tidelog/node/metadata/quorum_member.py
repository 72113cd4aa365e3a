"""This node in the quorum: carries out what the quorum wants, and tells the node what changed.

Invariant  After everything that happens to the quorum, and before anything else does, its
           requests are on their way, its log is being synced, and whoever acts on its state has
           looked.
Invariant  One sync of the metadata log is under way at a time; a failed one stops the node.
Invariant  What the quorum promises is on disk before it is said to anybody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.controller.records import MetadataRecord
from tidelog.model.errors import DiskError
from tidelog.model.time import Now
from tidelog.node.core.checkpointing import lower
from tidelog.node.core.deadlines import Deadline
from tidelog.node.core.effects import Lane
from tidelog.node.core.links import LinkLost
from tidelog.node.core.promise import Promise
from tidelog.node.core.runtime import Runtime
from tidelog.node.core.signal import Signal
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.metadata.controller_watch import ControllerWatch
from tidelog.node.metadata.quorum_requests import ask_voter
from tidelog.node.metadata.voter_recognition import VoterRecognition
from tidelog.observe.cluster_events import ControllerDisbelieved
from tidelog.quorum.messages import (
    Address,
    BeginQuorumEpoch,
    EndQuorumEpoch,
    OutboundRequest,
    QuorumRequest,
    QuorumResponse,
    Vote,
)
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.timeouts import NEVER_MS

PURPOSE: Final = "quorum"
LEAVE_WITHIN_MS: Final = 100
"""So long a leader that stops waits for the others to know it."""


class QuorumMember:
    """Runs one quorum in one node."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: ClusterView,
        controller_watch: ControllerWatch,
        quorum: Quorum[MetadataRecord],
        listener: str,
    ) -> None:
        self._runtime = runtime
        self._cluster = cluster
        self._controller_watch = controller_watch
        self._quorum = quorum
        self._listener = listener
        self.recognition: Final = VoterRecognition(cluster.config, quorum.identity)
        self._timer: Deadline | None = None
        self._leader = (quorum.leader_id, quorum.epoch)
        self._left: Callable[[Now], None] | None = None
        self._unsaid: list[Callable[[], None]] = []
        """Answers that wait for a promise to be on disk."""
        self._disbelieved: set[Address] = set()
        """Controllers whose latest answer cannot be."""
        self.changed: Signal[[Now]] = Signal()
        """The quorum may have changed."""
        self.leader_changed: Signal[[Now]] = Signal()
        """Somebody else leads, or nobody, or in another epoch."""

    def start(self, now: Now) -> None:
        """Take part."""
        self.recognition.start(now)
        self._quorum.start(now)
        self.settle(now)

    # What voters ask

    def asked(self, question: QuorumRequest, now: Now) -> Promise[QuorumResponse]:
        """The answer, settled once what it promises is on disk."""
        answer: Promise[QuorumResponse] = Promise()
        elections = self._quorum.elections
        match question:
            case Vote():
                said = elections.handle_vote(question, now)
            case BeginQuorumEpoch():
                said = elections.handle_begin_quorum_epoch(question, now)
            case EndQuorumEpoch():
                said = elections.handle_end_quorum_epoch(question, now)
        if self._quorum.state.awaits_disk:
            self._unsaid.append(lambda: answer.settle(said))
            self.settle(now)
        else:
            self.settle(now)
            answer.settle(said)
        return answer

    def leave(self, now: Now, left: Callable[[Now], None]) -> None:
        """Hand the lead over, if this node has it; then, or in time, call `left`."""
        self._left = left
        self._runtime.deadlines.at(now.monotonic_ms + LEAVE_WITHIN_MS, self._has_left)
        self._quorum.elections.resign(now)
        self.settle(now)

    def _has_left(self, now: Now) -> None:
        left, self._left = self._left, None
        if left is not None:
            left(now)

    # What the quorum wants

    def settle(self, now: Now) -> None:
        """Something happened to the quorum: do what comes of it."""
        self._keep_promise()
        for outbound in self._quorum.elections.take_requests():
            self._send(outbound, now)
        self.sync()
        self._lower()
        self.changed.tell(now)
        leader = (self._quorum.leader_id, self._quorum.epoch)
        if leader != self._leader:
            self._leader = leader
            self.leader_changed.tell(now)
        self._set_timer()
        if self._left is not None and self._quorum.elections.has_handed_over:
            self._has_left(now)

    def sync(self) -> None:
        """Make durable what was appended."""
        job = self._quorum.sync_job()
        if job is None:
            return

        def synced(now: Now, error: str | None) -> None:
            if error is not None:
                self._quorum.sync_failed(job, error)
            self._quorum.synced(job)
            self.settle(now)

        self._runtime.jobs.run(Lane.QUORUM, job.run, synced)

    def _keep_promise(self) -> None:
        job = self._quorum.state.write_job()
        if job is not None:

            def kept(now: Now, error: str | None) -> None:
                if error is not None:
                    raise DiskError(f"a promise to the quorum could not be written: {error}")
                self._quorum.elections.election_state_written(job, now)
                if not self._quorum.state.awaits_disk:
                    unsaid, self._unsaid = self._unsaid, []
                    for say in unsaid:
                        say()
                self.settle(now)

            self._runtime.jobs.run(Lane.QUORUM, job.run, kept)

    def _lower(self) -> None:
        lowering = self._quorum.lowering()
        if lowering is not None:

            def lowered(now: Now) -> None:
                self._quorum.lowered()
                self.settle(now)

            lower(self._runtime.jobs, lowering, lowered)

    def _set_timer(self) -> None:
        due_ms = self._quorum.elections.due_ms
        if self._timer is not None:
            if self._timer.due_ms == due_ms and self._timer.action is not None:
                return
            self._timer.cancel()
            self._timer = None
        if due_ms < NEVER_MS:
            self._timer = self._runtime.deadlines.at(due_ms, self._time_passed)

    def _time_passed(self, now: Now) -> None:
        self._quorum.elections.time_passed(now)
        self.settle(now)

    def _send(self, outbound: OutboundRequest, now: Now) -> None:
        address = outbound.to.address(self._listener)
        if address is None:
            self._runtime.deadlines.at(
                now.monotonic_ms + self._cluster.config.controller_quorum_request_timeout_ms,
                lambda later: self._failed(outbound, later),
            )
            return
        ask_voter(
            self._runtime.links.to_controller(address, PURPOSE),
            outbound,
            self._cluster.cluster_id,
            self._listener,
            lambda answer, later: self._heard(outbound, address, answer, later),
            now,
            self._cluster.config.controller_quorum_request_timeout_ms,
        )

    def _failed(self, outbound: OutboundRequest, now: Now) -> None:
        self._quorum.elections.request_failed(outbound, now)
        self.settle(now)

    def _heard(
        self,
        outbound: OutboundRequest,
        address: Address,
        answer: QuorumResponse | LinkLost,
        now: Now,
    ) -> None:
        if isinstance(answer, LinkLost):
            self._failed(outbound, now)
            return
        self._controller_watch.answered(address, now)
        elections = self._quorum.elections
        said = self.recognition.answered(outbound, answer, now)
        self.doubt(address, elections.contradiction(said.epoch, said.leader_id))
        elections.handle_response(outbound, said, now)
        self.settle(now)

    def doubt(self, address: Address, why: str | None) -> None:
        """A controller answered what cannot be, and why that is; or, with None, what can. Tell of
        the former once, until the latter."""
        if why is None:
            self._disbelieved.discard(address)
        elif address not in self._disbelieved:
            self._disbelieved.add(address)
            host, port = address
            self._runtime.announce(ControllerDisbelieved(address=f"{host}:{port}", cause=why))
