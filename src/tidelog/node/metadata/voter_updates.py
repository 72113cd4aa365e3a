"""A controller sees to it that the log names it as it is: where it listens, and that it votes.

A voter that listens elsewhere than the log says tells the leader so (UpdateRaftVoter). With
`controller.quorum.auto.join.enable` a controller without a vote asks for one (AddRaftVoter), after
the vote of the directory it had before is gone (RemoveRaftVoter, KIP-1186).

Invariant  It asks once in a fetch timeout at most, and only while it follows a leader.
"""

from __future__ import annotations

from typing import Final

from tidelog.controller.records import MetadataRecord
from tidelog.model.time import Now
from tidelog.node.core.runtime import Runtime
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.protocol.message import RequestMessage, ResponseT
from tidelog.protocol.messages.add_raft_voter import (
    AddRaftVoterRequest,
    AddRaftVoterRequestListener,
)
from tidelog.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from tidelog.protocol.messages.update_raft_voter import (
    UpdateRaftVoterRequest,
    UpdateRaftVoterRequestKRaftVersionFeature,
    UpdateRaftVoterRequestListener,
)
from tidelog.quorum.control_records import KRaftVersionRange, Voter
from tidelog.quorum.messages import Address
from tidelog.quorum.quorum import Quorum

UPDATE_VERSION: Final = 0
ADD_VERSION: Final = 1
REMOVE_VERSION: Final = 0
PURPOSE: Final = "quorum"


class VoterUpdates:
    """Looks whenever the quorum changed."""

    def __init__(
        self, runtime: Runtime, cluster: ClusterView, quorum: Quorum[MetadataRecord]
    ) -> None:
        self._runtime = runtime
        self._cluster = cluster
        self._quorum = quorum
        self._next_ms = 0

    def look(self, now: Now) -> None:
        """Tell the leader, if there is one, it is time, and there is something to say."""
        quorum, config = self._quorum, self._cluster.config
        address = quorum.leader_address
        if address is None or now.monotonic_ms < self._next_ms:
            return
        if quorum.is_described_wrongly:
            self._ask(now, address, self._description(), UPDATE_VERSION)
        elif config.controller_quorum_auto_join_enable and quorum.may_join:
            before = quorum.voters.by_id(quorum.identity.id)
            if before is None:
                self._ask(now, address, self._joining(), ADD_VERSION)
            else:
                self._ask(now, address, self._leaving(before), REMOVE_VERSION)

    def _ask(
        self, now: Now, address: Address, request: RequestMessage[ResponseT], version: int
    ) -> None:
        config = self._cluster.config
        self._next_ms = now.monotonic_ms + config.controller_quorum_fetch_timeout_ms
        self._runtime.links.to_controller(address, PURPOSE).ask(
            now,
            request,
            version,
            _told,
            timeout_ms=config.controller_quorum_request_timeout_ms,
        )

    def _description(self) -> UpdateRaftVoterRequest:
        supported = KRaftVersionRange()
        own = self._quorum.identity
        return UpdateRaftVoterRequest(
            cluster_id=self._cluster.cluster_id,
            current_leader_epoch=self._quorum.epoch,
            voter_id=own.id,
            voter_directory_id=own.directory_id,
            listeners=[
                UpdateRaftVoterRequestListener(name=point.name, host=point.host, port=point.port)
                for point in self._quorum.endpoints
            ],
            kraft_version_feature=UpdateRaftVoterRequestKRaftVersionFeature(
                min_supported_version=supported.min_supported_version,
                max_supported_version=supported.max_supported_version,
            ),
        )

    def _leaving(self, before: Voter) -> RemoveRaftVoterRequest:
        return RemoveRaftVoterRequest(
            cluster_id=self._cluster.cluster_id,
            voter_id=before.voter_id,
            voter_directory_id=before.voter_directory_id,
        )

    def _joining(self) -> AddRaftVoterRequest:
        own = self._quorum.identity
        return AddRaftVoterRequest(
            cluster_id=self._cluster.cluster_id,
            timeout_ms=self._cluster.config.controller_quorum_request_timeout_ms,
            voter_id=own.id,
            voter_directory_id=own.directory_id,
            listeners=[
                AddRaftVoterRequestListener(name=point.name, host=point.host, port=point.port)
                for point in self._quorum.endpoints
            ],
            # Who joins is needed to commit that it does, so it must not wait for that.
            ack_when_committed=False,
        )


def _told(answer: object, now: Now) -> None:
    """The log will say whether it worked; until it does, the leader is told again."""
