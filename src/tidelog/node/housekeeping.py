"""What a broker does on its own, by the clock: checkpoints, retention, flushes, sweeping.

Invariant  Nothing here is needed for an answer to be right; it bounds disk use and restart time.
"""

from __future__ import annotations

from tidelog.model.time import Now
from tidelog.node.broker_state import BrokerState
from tidelog.node.hosting import Hosting

SWEEP_INTERVAL_MS = 1000


class Housekeeping:
    """Sets its own deadlines; starts once the logs are loaded, lest it writes down too little."""

    def __init__(self, broker: BrokerState, hosting: Hosting) -> None:
        self._broker = broker
        self._hosting = hosting

    def start(self, now: Now) -> None:
        """Begin; every chore has the interval that Kafka's settings give it."""
        config = self._broker.config
        delay_ms = config.log_initial_task_delay_ms
        chores = (
            (config.log_retention_check_interval_ms, self._delete_expired),
            (config.replica_high_watermark_checkpoint_interval_ms, self._checkpoint_marks),
            (config.log_flush_offset_checkpoint_interval_ms, self._checkpoint_recovery_points),
            (config.producer_id_expiration_check_interval_ms, self._expire_producers),
            (max(1, config.replica_lag_time_max_ms // 2), self._shrink_in_sync),
        )
        deadlines = self._broker.deadlines
        for interval_ms, chore in chores:
            deadlines.every(now.monotonic_ms + min(delay_ms, interval_ms), interval_ms, chore)
        deadlines.every(now.monotonic_ms + SWEEP_INTERVAL_MS, SWEEP_INTERVAL_MS, self._every_second)

    def _delete_expired(self, now: Now) -> None:
        self._hosting.delete_expired(now)

    def _checkpoint_marks(self, now: Now) -> None:
        self._hosting.checkpoint_high_watermarks()

    def _checkpoint_recovery_points(self, now: Now) -> None:
        self._hosting.checkpoint_everything()

    def _expire_producers(self, now: Now) -> None:
        for partition in self._broker.replicas:
            partition.log.producers.expire(now.wall_ms)

    def _shrink_in_sync(self, now: Now) -> None:
        for partition in self._broker.replicas:
            partition.shrink_if_due(now)

    def _every_second(self, now: Now) -> None:
        self._hosting.sweep(now)
        self._hosting.flush_due(now)
        self._broker.metadata.take_snapshot_if_due(now)
