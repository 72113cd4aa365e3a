"""Following the metadata log: fetch, append, make durable where that is promised, and again.

Invariant  One fetch is under way at a time, or a pause before the next one; what comes of an older
           one is not used.
Invariant  Whatever goes wrong on the way, the follower goes on asking; it gives up only when the
           quorum has lost what was committed, or when most controllers are of another cluster. One
           of them may be the stranger itself.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.controller.records import MetadataRecord
from tidelog.model.errors import DiskError, ErrorCode
from tidelog.model.time import Now
from tidelog.node.core.checkpointing import lower
from tidelog.node.core.deadlines import Deadline
from tidelog.node.core.effects import Lane
from tidelog.node.core.links import LinkLost
from tidelog.node.core.runtime import Runtime
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.metadata.controller_locator import ControllerLocator
from tidelog.node.metadata.controller_watch import ControllerWatch
from tidelog.node.metadata.metadata_feed import MetadataFeed
from tidelog.node.metadata.quorum_member import QuorumMember
from tidelog.node.metadata.quorum_messages import (
    FETCH_VERSION,
    SNAPSHOT_VERSION,
    fetch_request,
    fetched,
    longest_wait_ms,
    snapshot_piece,
    snapshot_request,
)
from tidelog.observe.cluster_events import StrangeController
from tidelog.protocol.fetch import FetchResponse
from tidelog.protocol.messages.fetch_snapshot import FetchSnapshotResponse
from tidelog.quorum.fetching import MetadataFetch, MetadataFetchResponse
from tidelog.quorum.messages import Address
from tidelog.quorum.quorum import AfterFetch, Quorum
from tidelog.quorum.roles import Follower
from tidelog.quorum.snapshots import SnapshotDownload

PURPOSE: Final = "metadata"


class _UnderWay(NamedTuple):
    """A question to somebody, as a node of some epoch."""

    number: int
    address: Address
    epoch: int


class MetadataFollower:
    """Keeps this node's log up to date with the leader's, while another node leads."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: ClusterView,
        controller_watch: ControllerWatch,
        quorum: Quorum[MetadataRecord],
        member: QuorumMember,
        feed: MetadataFeed,
        locator: ControllerLocator,
    ) -> None:
        self._runtime = runtime
        self._cluster = cluster
        self._controller_watch = controller_watch
        self._quorum = quorum
        self._member = member
        self._feed = feed
        self._locator = locator
        self._asked = 0
        self._under_way: _UnderWay | None = None
        self._rests: Deadline | None = None
        self._strangers: set[Address] = set()
        """Controllers that do not know the cluster of this node."""
        self.failure: str | None = None
        """Why this node can never follow that quorum."""

    def look(self, now: Now) -> None:
        """Ask, unless that is under way already, or of no use."""
        config = self._cluster.config
        asked = self._quorum.next_fetch(config.controller_quorum_fetch_max_bytes)
        address = self._locator.who_knows
        before = self._under_way
        if asked is None:
            return
        if before is not None and (before.address, before.epoch) == (address, asked.leader_epoch):
            return
        self._asked += 1
        question = self._under_way = _UnderWay(self._asked, address, asked.leader_epoch)
        if self._rests is not None:
            self._rests.cancel()
        # Who does not know the leader wants to hear of it, not to wait for records.
        longest_ms = longest_wait_ms(config)
        max_wait_ms = longest_ms if address == self._quorum.leader_address else 0
        self._runtime.links.to_controller(address, PURPOSE).ask_fetch(
            now,
            FETCH_VERSION,
            fetch_request(asked, self._cluster.cluster_id, max_wait_ms),
            lambda answer, later: self._answered(question, asked, answer, later),
            timeout_ms=longest_ms + config.controller_quorum_request_timeout_ms,
        )

    def _answered(
        self,
        question: _UnderWay,
        asked: MetadataFetch,
        response: FetchResponse | LinkLost,
        now: Now,
    ) -> None:
        if question is not self._under_way:
            return
        watch = self._controller_watch
        if isinstance(response, LinkLost):
            if response.by_peer and question.address == self._quorum.leader_address:
                self._quorum.elections.leader_disconnected(now)
            self._useless(question, now)
            return
        watch.answered(question.address, now)
        answer = fetched(response)
        if isinstance(answer, ErrorCode):
            if answer is ErrorCode.inconsistent_cluster_id:
                self._is_stranger(question.address)
            self._useless(question, now)
            return
        self._strangers.discard(question.address)
        cannot_be = self._quorum.elections.contradiction(answer.leader_epoch, answer.leader_id)
        if cannot_be is None and self._is_doubtful(answer, now):
            self._useless(question, now)
            return
        step = self._quorum.handle_fetch_response(asked, answer, now)
        if step is AfterFetch.DISBELIEVE:
            self._member.doubt(question.address, cannot_be or self._why_not)
            self._useless(question, now)
            return
        if step is not AfterFetch.BACK_OFF and question.address == self._quorum.leader_address:
            watch.heard(now)
            self._member.recognition.leader_answered(now)
            self._member.doubt(question.address, None)
        if step is AfterFetch.FETCH_AGAIN:
            self._under_way = None
            self._member.settle(now)
        elif step is AfterFetch.FETCH_SNAPSHOT and answer.snapshot is not None:
            self._fetch_piece(question, self._quorum.replica.download(answer.snapshot), now)
        else:
            self._useless(question, now)

    def _is_doubtful(self, answer: MetadataFetchResponse[memoryview], now: Now) -> bool:
        """Whether it would have this node follow somebody who has yet to show who that is."""
        quorum, recognition = self._quorum, self._member.recognition
        role, named = quorum.role, (answer.leader_epoch, answer.leader_id)
        follows = isinstance(role, Follower) and named == (role.epoch, role.leader_id)
        if follows or answer.leader_epoch < quorum.epoch:
            return False
        if recognition.believes(answer.leader_id, quorum.voters, now):
            return False
        if recognition.wants_proof(answer.leader_id, answer.leader_epoch):
            quorum.elections.ask_voters(now)
        return True

    @property
    def _why_not(self) -> str:
        """Why what a leader gave was of no use."""
        log = self._quorum.log
        return (
            f"what it gives does not go on from offset {log.end_offset} of epoch "
            f"{log.latest_epoch}, where the log of this node ends"
        )

    def _is_stranger(self, address: Address) -> None:
        """A controller is of another cluster: it, or this node, was formatted for the wrong one."""
        own, (host, port) = self._cluster.cluster_id, address
        if address not in self._strangers:
            self._strangers.add(address)
            cause = f"it refuses the cluster id {own} of this node (inconsistent_cluster_id)"
            self._runtime.announce(StrangeController(address=f"{host}:{port}", cause=cause))
        if self._locator.are_most(self._strangers):
            where = ", ".join(f"{host}:{port}" for host, port in sorted(self._strangers))
            self.failure = (
                f"this node is formatted for cluster {own}, and the controllers at {where} are of "
                f"another cluster (inconsistent_cluster_id): format its directories with their "
                f"cluster id"
            )

    def _useless(self, question: _UnderWay, now: Now) -> None:
        """Try the next one after a while, or at once should the leader become known."""
        self._locator.is_gone(question.address)
        self._rest(question, now)
        self._member.settle(now)

    def _rest(self, question: _UnderWay, now: Now) -> None:
        def rested(later: Now) -> None:
            if self._under_way is not None and self._under_way.number == question.number:
                self._under_way = None
                self.look(later)

        # While we rest, the question stands as if it were under way: only news end the rest.
        self._under_way = question._replace(address=self._locator.who_knows)
        pause_ms = self._cluster.config.controller_quorum_retry_backoff_ms
        self._rests = self._runtime.deadlines.at(now.monotonic_ms + pause_ms, rested)

    # Snapshots

    def _fetch_piece(self, question: _UnderWay, download: SnapshotDownload, now: Now) -> None:
        config = self._cluster.config
        self._runtime.links.to_controller(question.address, PURPOSE).ask(
            now,
            snapshot_request(
                download,
                self._quorum.identity,
                question.epoch,
                self._cluster.cluster_id,
                config.controller_quorum_fetch_snapshot_max_bytes,
            ),
            SNAPSHOT_VERSION,
            lambda answer, later: self._piece_arrived(question, download, answer, later),
            timeout_ms=config.controller_quorum_request_timeout_ms,
        )

    def _piece_arrived(
        self,
        question: _UnderWay,
        download: SnapshotDownload,
        answer: FetchSnapshotResponse | LinkLost,
        now: Now,
    ) -> None:
        piece = None if isinstance(answer, LinkLost) else snapshot_piece(answer)
        if question is not self._under_way:
            download.give_up()
            return
        is_next = piece is not None and piece.position == download.position and len(piece.data) > 0
        if piece is None or piece.error or not is_next:
            download.give_up()  # the leader may have another one by now
            self._useless(question, now)
            return
        self._quorum.elections.leader_answered(now)
        self._controller_watch.heard(now)
        download.append(piece.data)
        if download.position < piece.size:
            self._fetch_piece(question, download, now)
            return

        def finished(later: Now, error: str | None) -> None:
            if error is not None:
                raise DiskError(f"the metadata snapshot could not be stored: {error}")
            install(later)

        def install(later: Now) -> None:
            if question is not self._under_way or question.epoch != self._quorum.epoch:
                return  # the log may have gone on without it
            if not download.is_stored:
                self._useless(question, later)
                return
            lowering = self._quorum.log.lowering_for_snapshot(download.id)
            if lowering is not None:
                lower(self._runtime.jobs, lowering, install)
                return
            self._quorum.replica.install(download.id, later)
            self._feed.load_snapshot(later)
            self._under_way = None
            self._member.settle(later)

        self._runtime.jobs.run(Lane.QUORUM, download.finish, finished)
