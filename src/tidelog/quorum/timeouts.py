"""How long the members of a quorum wait for each other, and how they avoid doing it in step.

Invariant  Two voters that lost their leader do not stand at the same time if it can be helped:
           by chance where nothing else is known, by rank where both saw it hang up.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.model.entropy import Entropy

NEVER_MS: Final = 1 << 62


class QuorumTimeouts(NamedTuple):
    """The settings of waiting; the defaults are Kafka's, but for the last."""

    election_ms: int = 1000
    """controller.quorum.election.timeout.ms"""
    fetch_ms: int = 2000
    """controller.quorum.fetch.timeout.ms"""
    backoff_max_ms: int = 1000
    """controller.quorum.election.backoff.max.ms"""
    retry_ms: int = 20
    """controller.quorum.retry.backoff.ms"""
    disconnect_grace_ms: int = 200
    """broker.disconnect.grace.ms; 0: a closed connection tells nothing"""

    @property
    def check_quorum_ms(self) -> int:
        """So long a leader goes on without fetches from a majority (C8)."""
        return self.fetch_ms * 3 // 2

    def election(self, entropy: Entropy) -> int:
        """How long to wait for an election to come to something."""
        return self.election_ms + entropy.below(max(1, self.election_ms))

    def first_election(self, entropy: Entropy) -> int:
        """A voter that has just started asks soon whether it is needed, since asking is free."""
        return entropy.below(max(1, self.election_ms // 10))

    def after_disconnect(self, rank: int, others: int) -> int | None:
        """How long the voter of that rank waits for a leader that hung up to come back."""
        if self.disconnect_grace_ms == 0:
            return None
        return self.disconnect_grace_ms * (rank + 1) // max(1, others)

    def after_resignation(self, rank: int | None, successors: int) -> int:
        """How long a successor waits before it stands; the first does not."""
        if rank == 0:
            return 0
        if rank is None:
            return self.backoff_max_ms
        step_ms = self.backoff_max_ms >> min(successors - 1, 63)
        return min(self.backoff_max_ms, step_ms << (rank - 1))


DEFAULT_TIMEOUTS: Final = QuorumTimeouts()
