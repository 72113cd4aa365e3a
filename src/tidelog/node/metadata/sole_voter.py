"""The only voter of a quorum, where the configuration names more controllers: are they of it?

They may be about to join, and follow this node. If most of them follow somebody else, then the
cluster has a quorum, and this node was formatted as the first of another one by mistake.

Invariant  Only who leads alone asks; a quorum of several finds out by its elections.
Invariant  Only a quorum gives way that no other node ever joined and that keeps no topic: whoever
           has something to lose is not stopped by what others say.
Invariant  One question is under way at a time.
"""

from __future__ import annotations

from typing import Final

from tidelog.controller.records import MetadataRecord
from tidelog.model.errors import ErrorCode
from tidelog.model.time import Now
from tidelog.node.core.links import LinkLost
from tidelog.node.core.runtime import Runtime
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.metadata.controller_locator import ControllerLocator
from tidelog.node.metadata.quorum_messages import FETCH_VERSION, fetch_request, fetched
from tidelog.node.metadata.voter_recognition import REMEDY, VoterRecognition
from tidelog.protocol.fetch import FetchResponse
from tidelog.quorum.fetching import MetadataFetch, MetadataFetchResponse
from tidelog.quorum.messages import Address
from tidelog.quorum.quorum import Quorum

PURPOSE: Final = "metadata"


class SoleVoter:
    """Asks the other controllers, one after the other, whom they follow."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: ClusterView,
        quorum: Quorum[MetadataRecord],
        locator: ControllerLocator,
        recognition: VoterRecognition,
    ) -> None:
        self._runtime = runtime
        self._cluster = cluster
        self._quorum = quorum
        self._own = quorum.identity
        self._locator = locator
        self._recognition = recognition
        self._next = 0
        self._is_asking = False
        self._elsewhere: dict[Address, int] = {}
        """Controllers that follow another leader, and whom."""

    def look(self, now: Now) -> None:
        """Ask the next one, unless somebody is being asked, or there is no reason to."""
        others = self._locator.others
        if self._is_asking or not others or not self._leads_alone:
            return
        self._is_asking = True
        address = others[self._next % len(others)]
        self._next += 1
        asked = MetadataFetch(
            replica_id=self._own.id,
            directory_id=self._own.directory_id,
            leader_epoch=self._quorum.epoch,
            offset=self._quorum.log.end_offset,
            last_epoch=self._quorum.log.latest_epoch,
            high_watermark=self._quorum.replica.high_watermark,
            max_bytes=1,
        )
        self._runtime.links.to_controller(address, PURPOSE).ask_fetch(
            now,
            FETCH_VERSION,
            fetch_request(asked, self._cluster.cluster_id, 0),
            lambda answer, later: self._answered(address, answer, later),
            timeout_ms=self._cluster.config.controller_quorum_request_timeout_ms,
        )

    @property
    def _leads_alone(self) -> bool:
        return self._quorum.is_active and len(self._quorum.voters.voters) == 1

    @property
    def _has_nothing(self) -> bool:
        image = self._cluster.image
        others = {*image.brokers, *image.controllers} - {self._own.id}
        return not others and not image.topics_by_name

    def _is_another(self, answer: MetadataFetchResponse[memoryview]) -> bool:
        """Whether the leader that a controller follows is not this node: it has another id, or the
        same one and listens elsewhere, or leads an epoch that this node has not come to."""
        if answer.leader_id != self._own.id:
            return answer.leader_id >= 0
        own = {(point.host, point.port) for point in self._quorum.endpoints}
        listens_here = answer.leader_address is None or answer.leader_address in own
        return not listens_here or answer.leader_epoch > self._quorum.epoch

    def _answered(self, address: Address, response: FetchResponse | LinkLost, now: Now) -> None:
        self._elsewhere.pop(address, None)
        answer = response if isinstance(response, LinkLost) else fetched(response)
        if not isinstance(answer, LinkLost | ErrorCode) and self._is_another(answer):
            self._elsewhere[address] = answer.leader_id
        if self._locator.are_most(self._elsewhere) and self._leads_alone and self._has_nothing:
            where = ", ".join(f"{host}:{port}" for host, port in sorted(self._elsewhere))
            leader = next(iter(self._elsewhere.values()))
            self._recognition.misplaced = (
                f"the controllers at {where} of the same cluster follow controller {leader}, while "
                f"this node's directory says that it is the only voter: {REMEDY}"
            )
        pause_ms = self._cluster.config.controller_quorum_election_timeout_ms
        self._runtime.deadlines.at(now.monotonic_ms + pause_ms, self._again)

    def _again(self, now: Now) -> None:
        self._is_asking = False
        self.look(now)
