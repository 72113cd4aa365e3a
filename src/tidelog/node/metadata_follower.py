"""A broker that follows the metadata log: fetch, append, replay, and again.

Invariant  One fetch is under way at a time, or a pause before the next one.
Invariant  Whatever goes wrong on the way, the follower goes on asking; it gives up only when the
           quorum has lost what was committed.
"""

from __future__ import annotations

from typing import Final

from tidelog.controller.records import MetadataRecord
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER
from tidelog.model.time import Now
from tidelog.node.broker_state import BrokerState
from tidelog.node.controller_locator import Address, ControllerLocator
from tidelog.node.links import LinkLost
from tidelog.node.metadata_feed import MetadataFeed
from tidelog.node.quorum_messages import FETCH_VERSION, MAX_WAIT_MS, fetch_request, fetched
from tidelog.quorum.observer import Observer, Step
from tidelog.quorum.serving import MetadataFetch
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
        else:
            self._rest(now)

    def _rest(self, now: Now) -> None:
        pause_ms = self._broker.config.controller_quorum_retry_backoff_ms
        self._broker.deadlines.at(now.monotonic_ms + pause_ms, self._ask)
