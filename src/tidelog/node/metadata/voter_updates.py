"""A controller sees to it that the log names it as it is: where it listens, and that it votes.

A voter that listens elsewhere than the log says tells the leader so (UpdateRaftVoter). With
`controller.quorum.auto.join.enable` a controller without a vote asks for one (AddRaftVoter), after
the vote of the directory it had before is gone (RemoveRaftVoter, KIP-1186).

Invariant  It asks once in a fetch timeout at most, and only while it follows a leader.
"""

from __future__ import annotations

from typing import Any, Final

from tidelog.controller.records import MetadataRecord
from tidelog.model.time import Now
from tidelog.node.core.request import Fields
from tidelog.node.core.runtime import Runtime
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.protocol.apis import ApiKey
from tidelog.quorum.control_records import KRaftVersionRange
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
        address = self._quorum.leader_address
        if address is None or now.monotonic_ms < self._next_ms:
            return
        asking = self._asking()
        if asking is None:
            return
        api_key, version, fields = asking
        config = self._cluster.config
        self._next_ms = now.monotonic_ms + config.controller_quorum_fetch_timeout_ms
        self._runtime.links.to(address, PURPOSE).ask_fields(
            now,
            api_key,
            version,
            {"cluster_id": self._cluster.cluster_id, **fields},
            _told,
            timeout_ms=config.controller_quorum_request_timeout_ms,
        )

    def _asking(self) -> tuple[ApiKey, int, Fields] | None:
        quorum = self._quorum
        own = quorum.identity
        if quorum.is_described_wrongly:
            return ApiKey.UPDATE_RAFT_VOTER, UPDATE_VERSION, self._description()
        if not self._cluster.config.controller_quorum_auto_join_enable or not quorum.may_join:
            return None
        before = quorum.voters.by_id(own.id)
        if before is not None:
            who = {"voter_id": own.id, "voter_directory_id": before.voter_directory_id}
            return ApiKey.REMOVE_RAFT_VOTER, REMOVE_VERSION, who
        joining = {
            "timeout": self._cluster.config.controller_quorum_request_timeout_ms,
            "voter_id": own.id,
            "voter_directory_id": own.directory_id,
            "listeners": self._listeners(),
            # Who joins is needed to commit that it does, so it must not wait for that.
            "ack_when_committed": False,
        }
        return ApiKey.ADD_RAFT_VOTER, ADD_VERSION, joining

    def _description(self) -> Fields:
        supported = KRaftVersionRange()
        own = self._quorum.identity
        return {
            "current_leader_epoch": self._quorum.epoch,
            "voter_id": own.id,
            "voter_directory_id": own.directory_id,
            "listeners": self._listeners(),
            "k_raft_version_feature": {
                "min_supported_version": supported.min_supported_version,
                "max_supported_version": supported.max_supported_version,
            },
        }

    def _listeners(self) -> list[Fields]:
        return [
            {"name": point.name, "host": point.host, "port": point.port}
            for point in self._quorum.endpoints
        ]


def _told(answer: Any, now: Now) -> None:
    """The log will say whether it worked; until it does, the leader is told again."""
