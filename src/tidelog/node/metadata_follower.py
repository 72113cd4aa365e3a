"""A broker that follows the metadata log: fetch, append, replay, and again.

Invariant  One fetch is under way at a time, or a pause before the next one.
Invariant  Whatever goes wrong on the way, the follower goes on asking; it gives up only when the
           quorum has lost what was committed.
"""

from __future__ import annotations

from typing import Any, Final

from tidelog.controller.records import MetadataRecord
from tidelog.model.errors import DiskError, ErrorCode
from tidelog.model.ids import NO_LEADER
from tidelog.model.time import Now
from tidelog.node.broker_state import BrokerState
from tidelog.node.controller_locator import Address, ControllerLocator
from tidelog.node.links import LinkLost
from tidelog.node.metadata_feed import MetadataFeed
from tidelog.node.quorum_messages import (
    FETCH_VERSION,
    MAX_WAIT_MS,
    SNAPSHOT_VERSION,
    fetch_request,
    fetched,
    snapshot_piece,
    snapshot_request,
)
from tidelog.quorum.observer import Observer, Step
from tidelog.quorum.serving import MetadataFetch
from tidelog.quorum.snapshot_transfer import SnapshotDownload
from tidelog.wire.apis import ApiKey
from tidelog.wire.fetch import FetchResponse

PURPOSE: Final = "metadata"


class MetadataFollower:
    """Keeps this node's image up to date from the leader of the quorum."""

    def __init__(
        self,
        broker: BrokerState,
        observer: Observer[MetadataRecord],
        feed: MetadataFeed,
        locator: ControllerLocator,
    ) -> None:
        self._broker = broker
        self._observer = observer
        self._feed = feed
        self._locator = locator

    def start(self, now: Now) -> None:
        """Begin with the newest snapshot, then follow."""
        self._feed.load_snapshot(now)
        self._ask(now)

    def _ask(self, now: Now) -> None:
        config = self._broker.config
        asked = self._observer.wants(config.controller_quorum_fetch_max_bytes)
        address = self._locator.address
        self._broker.links.to(address, PURPOSE).ask_fetch(
            now,
            FETCH_VERSION,
            fetch_request(asked, self._broker.cluster_id),
            lambda answer, later: self._answered(asked, address, answer, later),
            timeout_ms=MAX_WAIT_MS + config.controller_quorum_request_timeout_ms,
        )

    def _answered(
        self, asked: MetadataFetch, address: Address, response: FetchResponse | LinkLost, now: Now
    ) -> None:
        if isinstance(response, LinkLost):
            self._locator.is_gone(address)
            self._rest(now)
            return
        answer = fetched(response)
        if isinstance(answer, ErrorCode):
            self._locator.is_gone(address)
            self._rest(now)
            return
        step = self._observer.fetched(asked, answer, now)
        if answer.error == ErrorCode.not_leader_or_follower or answer.leader_id == NO_LEADER:
            leader = answer.leader_id
            found = [(node.host, node.port) for node in response.node_endpoints]
            self._locator.leads_elsewhere(address, leader, found[0] if found else None)
        else:
            self._locator.answered(answer.leader_id)
        self._feed.catch_up(now)
        if step is Step.AGAIN:
            self._ask(now)
        elif step is Step.SNAPSHOT and answer.snapshot is not None:
            self._fetch_piece(self._observer.download(answer.snapshot), now)
        else:
            self._rest(now)

    # Snapshots

    def _fetch_piece(self, download: SnapshotDownload, now: Now) -> None:
        config = self._broker.config
        self._broker.links.to(self._locator.address, PURPOSE).ask(
            now,
            ApiKey.FETCH_SNAPSHOT,
            SNAPSHOT_VERSION,
            snapshot_request(
                download,
                self._observer.wants(),
                self._broker.cluster_id,
                config.controller_quorum_fetch_snapshot_max_bytes,
            ),
            lambda answer, later: self._piece_arrived(download, answer, later),
            timeout_ms=config.controller_quorum_request_timeout_ms,
        )

    def _piece_arrived(self, download: SnapshotDownload, answer: Any, now: Now) -> None:
        piece = None if isinstance(answer, LinkLost) else snapshot_piece(answer)
        if piece is None or piece.error or piece.position != download.position:
            download.give_up()  # the leader may have another one by now
            self._rest(now)
            return
        download.append(piece.data)
        if download.position < piece.size:
            self._fetch_piece(download, now)
            return

        def finished(later: Now, error: str | None) -> None:
            if error is not None:
                raise DiskError(f"the metadata snapshot could not be stored: {error}")
            self._observer.install(download.id, later)
            self._feed.load_snapshot(later)
            self._ask(later)

        self._broker.jobs.run(download.finish, finished)

    def _rest(self, now: Now) -> None:
        pause_ms = self._broker.config.controller_quorum_retry_backoff_ms
        self._broker.deadlines.at(now.monotonic_ms + pause_ms, self._ask)
