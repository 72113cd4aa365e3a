"""From the committed metadata log to this node's image of the cluster, and back into snapshots.

Invariant  Every committed record is replayed once, in order; whoever is to act on a change is told
           after the image holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.records import MetadataRecord
from tidelog.model.errors import DiskError
from tidelog.model.time import Now
from tidelog.node.broker_state import BrokerState
from tidelog.quorum.replica import MetadataReplica

Apply: TypeAlias = Callable[[ImageDelta, Now], None]


class MetadataFeed:
    """Reads one replica of the metadata log."""

    def __init__(
        self, broker: BrokerState, replica: MetadataReplica[MetadataRecord], apply: Apply
    ) -> None:
        self._broker = broker
        self._replica = replica
        self._apply = apply
        self._snapshotting = False
        self.applied = 0
        """Exclusive end of what the image holds."""

    def load_snapshot(self, now: Now) -> None:
        """Begin with what the newest snapshot holds."""
        snapshot = self._replica.latest_snapshot()
        if snapshot is not None:
            self.applied = snapshot.end_offset
            last = snapshot.end_offset - 1
            self._apply(self._broker.image.replay_all((last, r) for r in snapshot.records), now)

    def catch_up(self, now: Now) -> None:
        """Replay what has been committed since the last time."""
        mark = self._replica.high_watermark
        if mark <= self.applied:
            return
        committed = self._replica.committed_since(self.applied)
        self.applied = mark
        image = self._broker.image
        self._apply(image.replay_all((each.offset, each.record) for each in committed), now)

    def take_snapshot_if_due(self, now: Now) -> None:
        """Write the committed state as a snapshot once enough has happened since the last."""
        image = self._broker.image
        if self._snapshotting or image.in_transaction or not self._replica.snapshot_due(now):
            return
        self._snapshotting = True
        job = self._replica.snapshot_job(tuple(image.snapshot_records()), self.applied, now)

        def written(now: Now, error: str | None) -> None:
            self._snapshotting = False
            if error is not None:
                raise DiskError(f"the metadata snapshot could not be written: {error}")
            self._replica.snapshot_written(job, now)

        self._broker.jobs.run(job.run, written)
