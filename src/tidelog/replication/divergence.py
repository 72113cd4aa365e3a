"""Where two logs part, found from leader epochs alone (KIP-101, KIP-279, KIP-595).

The leader names an epoch and where that ends in its log; the follower cuts its own log there and
asks again, until both agree. Each round drops at least one epoch of the follower's, so it ends.
"""

from __future__ import annotations

from tidelog.replication.messages import UNKNOWN_OFFSET
from tidelog.storage.leader_epoch_cache import UNDEFINED, LeaderEpochCache


def divergence(
    epochs: LeaderEpochCache, log_end: int, last_fetched_epoch: int, fetch_offset: int
) -> tuple[int, int] | None:
    """On the leader: the epoch and its end here, from which a reader's log differs.

    None when they agree; (-1, -1) for an epoch that this log knows nothing of.
    """
    epoch, end = epochs.end_offset_for(last_fetched_epoch, log_end)
    if epoch < last_fetched_epoch or end < fetch_offset:
        return epoch, end
    return None


def truncation_point(
    epochs: LeaderEpochCache, log_end: int, leaders_epoch: int, leaders_end: int
) -> int:
    """On the follower: the offset to cut to, given where an epoch ends in the leader's log.

    An epoch that the follower does not have sends it back to the end of the one before; whether
    that one agrees, the next fetch shows. A log whose epochs are all later goes back to its start.
    """
    if leaders_end == UNKNOWN_OFFSET:
        return log_end
    own_epoch, own_end = epochs.end_offset_for(leaders_epoch, log_end)
    if (own_epoch, own_end) == UNDEFINED:
        return min(leaders_end, log_end)
    if own_epoch != leaders_epoch:
        return min(own_end, log_end)
    return min(own_end, leaders_end, log_end)
