"""From the committed metadata log to this node's image of the cluster, and back into snapshots.

Invariant  Every committed record is replayed once, in order; whoever is to act on a change is told
           after the image holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tidelog.controller.image import ClusterImage, difference
from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.records import MetadataRecord
from tidelog.model.errors import DiskError
from tidelog.model.time import Now
from tidelog.node.core.deadlines import Deadline
from tidelog.node.core.effects import Lane
from tidelog.node.core.runtime import Runtime
from tidelog.node.core.signal import Signal
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.quorum.metadata_replica import MetadataReplica


class _Waiting(NamedTuple):
    """Somebody who goes on once the image is as he wants it, or when his time is up."""

    is_so: Callable[[ClusterImage], bool]
    then: Callable[[], None]
    deadline: Deadline


class MetadataFeed:
    """Reads one replica of the metadata log."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: ClusterView,
        replica: MetadataReplica[MetadataRecord],
        changed: Signal[[ImageDelta, Now]],
    ) -> None:
        """`changed` tells that the image holds something new."""
        self._runtime = runtime
        self._cluster = cluster
        self._replica = replica
        self._image_changed = changed
        self._snapshotting = False
        self._waiting: list[_Waiting] = []
        self.applied = 0
        """Exclusive end of what the image holds."""

    def load_snapshot(self, now: Now) -> None:
        """Go on from what the newest snapshot holds, if that is more than the image does."""
        snapshot = self._replica.latest_snapshot()
        if snapshot is None or snapshot.end_offset <= self.applied:
            return
        self.applied = snapshot.end_offset
        last = snapshot.end_offset - 1
        image = ClusterImage()
        image.replay_all((last, record) for record in snapshot.records)
        delta = difference(self._cluster.image, image)
        self._cluster.image = image
        self._changed(delta, now)

    def catch_up(self, now: Now) -> None:
        """Replay what has been committed since the last time."""
        high_watermark = self._replica.high_watermark
        if high_watermark <= self.applied:
            return
        committed = self._replica.committed_since(self.applied)
        self.applied = high_watermark
        image = self._cluster.image
        self._changed(image.replay_all((each.offset, each.record) for each in committed), now)

    def once(
        self,
        is_so: Callable[[ClusterImage], bool],
        now: Now,
        within_ms: int,
        then: Callable[[], None],
    ) -> None:
        """Go on when the image holds something, or without it when that takes too long."""
        if is_so(self._cluster.image):
            then()
            return

        def time_is_up(later: Now) -> None:
            self._waiting.remove(waiting)
            then()

        deadline = self._runtime.deadlines.at(now.monotonic_ms + within_ms, time_is_up)
        waiting = _Waiting(is_so, then, deadline)
        self._waiting.append(waiting)

    def _changed(self, delta: ImageDelta, now: Now) -> None:
        self._image_changed.tell(delta, now)
        ready = [waiting for waiting in self._waiting if waiting.is_so(self._cluster.image)]
        for waiting in ready:
            self._waiting.remove(waiting)
            waiting.deadline.cancel()
            waiting.then()

    def take_snapshot_if_due(self, now: Now) -> None:
        """Write the committed state as a snapshot once enough has happened since the last."""
        image = self._cluster.image
        if self._snapshotting or image.in_transaction or not self._replica.snapshot_due(now):
            return
        self._snapshotting = True
        job = self._replica.snapshot_job(tuple(image.snapshot_records()), self.applied, now)

        def written(now: Now, error: str | None) -> None:
            self._snapshotting = False
            if error is not None:
                raise DiskError(f"the metadata snapshot could not be written: {error}")
            self._replica.snapshot_written(job, now)

        self._runtime.jobs.run(Lane.LONG, job.run, written)
