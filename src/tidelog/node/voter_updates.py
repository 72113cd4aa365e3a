"""A voter that listens elsewhere than the log says tells the leader so (UpdateRaftVoter).

Invariant  It asks once in a fetch timeout at most, and only while it follows a leader.
"""

from __future__ import annotations

from typing import Any, Final

from tidelog.controller.records import MetadataRecord
from tidelog.model.time import Now
from tidelog.node.broker_state import BrokerState
from tidelog.quorum.control_records import KRaftVersionRange
from tidelog.quorum.quorum import Quorum
from tidelog.wire.apis import ApiKey

VERSION: Final = 0
PURPOSE: Final = "quorum"


class VoterUpdates:
    """Looks whenever the quorum changed."""

    def __init__(self, broker: BrokerState, quorum: Quorum[MetadataRecord]) -> None:
        self._broker = broker
        self._quorum = quorum
        self._next_ms = 0

    def look(self, now: Now) -> None:
        """Tell the leader, if there is one and it is time."""
        address = self._quorum.leader_address
        if (
            address is None
            or now.monotonic_ms < self._next_ms
            or not self._quorum.is_described_wrongly
        ):
            return
        config = self._broker.config
        self._next_ms = now.monotonic_ms + config.controller_quorum_fetch_timeout_ms
        supported = KRaftVersionRange()
        own = self._quorum.identity
        fields = {
            "cluster_id": self._broker.cluster_id,
            "current_leader_epoch": self._quorum.epoch,
            "voter_id": own.id,
            "voter_directory_id": own.directory_id,
            "listeners": [
                {"name": point.name, "host": point.host, "port": point.port}
                for point in self._quorum.endpoints
            ],
            "k_raft_version_feature": {
                "min_supported_version": supported.min_supported_version,
                "max_supported_version": supported.max_supported_version,
            },
        }
        self._broker.links.to(address, PURPOSE).ask(
            now,
            ApiKey.UPDATE_RAFT_VOTER,
            VERSION,
            fields,
            _told,
            timeout_ms=config.controller_quorum_request_timeout_ms,
        )


def _told(answer: Any, now: Now) -> None:
    """The log will say whether it worked; until it does, the leader is told again."""
