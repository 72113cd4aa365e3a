"""Who asks for an append, and so how much of it is still to be checked."""

from __future__ import annotations

from enum import IntEnum


class Origin(IntEnum):
    """CLIENT is checked in full, COORDINATOR by epoch only, REPLICA and RAFT are taken as they are.

    What a replica fetches, or reads back from its own disk, was checked by the leader that first
    accepted it.
    """

    CLIENT = 0
    COORDINATOR = 1
    REPLICA = 2
    RAFT = 3
