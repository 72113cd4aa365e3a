"""What really happened in a run: the picture that the rules compare the nodes with.

Invariant  COMMITTED holds every batch that was ever below the high watermark of any replica, and
           never changes, except that an unclean election takes away what the new leader lacks.
Invariant  WRITTEN knows every batch that any replica ever held by its epoch and offset.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from uuid import UUID

from tidelog.controller.image import ClusterImage
from tidelog.controller.partition_image import PartitionImage
from tidelog.coordinator.internal_topics import partition_of
from tidelog.model.ids import TopicPartition
from tidelog.records.batch import read_header
from tidelog.simulator.rules.held_log import HeldBatch, HeldLog
from tidelog.simulator.rules.newest_records import NewestRecords


@dataclass(slots=True)
class PartitionGhost:
    """One partition of one topic, over all nodes and times."""

    name: TopicPartition
    topic_id: UUID
    control: PartitionImage | None = None
    """CTRL: as the newest committed metadata has it."""
    members: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    """The last partition epoch and in-sync replicas of each leader epoch, by committed metadata."""
    leaders: dict[int, int] = field(default_factory=dict)
    """Who leads in each epoch, by committed metadata."""
    committed: list[HeldBatch] = field(default_factory=list)
    place: dict[int, int] = field(default_factory=dict)
    """Where in `committed` a base offset stands."""
    written: dict[tuple[int, int], tuple[bytes, tuple[int, int] | None]] = field(
        default_factory=dict
    )
    held: dict[int, HeldLog] = field(default_factory=dict)
    agreed: dict[int, int] = field(default_factory=dict)
    """Below this a replica was compared with COMMITTED and found equal."""
    compared_from: dict[int, int] = field(default_factory=dict)
    """Where the log of a replica started then; what it has deleted counts as equal."""
    forgiven: list[HeldBatch] = field(default_factory=list)
    """Was committed, and lost in an unclean election."""
    sent_away: dict[int, int] = field(default_factory=dict)
    """Brokers that a reassignment took the partition from: they may throw their logs away once they
    know of that partition epoch."""
    is_unclean: bool = False
    """An unclean election was allowed: what older leaders still commit is promised to nobody."""
    is_murky: bool = False
    """A leader's files were damaged: nobody can say any more what it committed."""
    sequences: dict[tuple[int, int], int] = field(default_factory=dict)
    """The last sequence number committed of each producer id and epoch."""
    is_compacted: bool = False
    """Replicas need not hold what a newer record of the same key has replaced."""
    newest: NewestRecords = field(default_factory=NewestRecords)

    @property
    def true_high_watermark(self) -> int:
        """One behind the last committed offset."""
        return self.committed[-1].next_offset if self.committed else 0

    @property
    def last_epoch(self) -> int:
        """Of the last committed batch; -1 before there is one."""
        return self.committed[-1].epoch if self.committed else -1

    def take_control(self, control: PartitionImage) -> None:
        """The metadata has it so from now on."""
        self.control = control
        self.members[control.leader_epoch] = (control.partition_epoch, tuple(control.isr))
        self.leaders[control.leader_epoch] = control.leader

    def members_in(self, leader_epoch: int, known_epoch: int) -> tuple[int, ...]:
        """Who was in sync in an epoch to the end, unless a leader knows of a later change there."""
        partition_epoch, members = self.members.get(leader_epoch, (-1, ()))
        return members if known_epoch <= partition_epoch else ()

    def agreement(self, node_id: int) -> int:
        """How far from the start a replica holds what is committed, looked at now."""
        held = self.held.get(node_id)
        if held is None:
            return 0
        if held.start_offset < self.compared_from.get(node_id, 0):
            self.agreed[node_id] = 0  # what it had deleted is there again, and nobody compared it
        self.compared_from[node_id] = held.start_offset
        agreed = max(self.agreed.get(node_id, 0), held.start_offset)
        if agreed >= self.true_high_watermark or held.unreadable:
            return agreed
        agreement = self._thinned_agreement if self.is_compacted else self._exact_agreement
        self.agreed[node_id] = agreement(held, agreed)
        return self.agreed[node_id]

    def _exact_agreement(self, held: HeldLog, agreed: int) -> int:
        for batch in self._batches_from(held, agreed):
            slot = self.place.get(batch.base_offset)
            if slot is None or self.committed[slot].data != batch.data:
                break
            agreed = batch.next_offset
        return agreed

    def _thinned_agreement(self, held: HeldLog, agreed: int) -> int:
        """The same where a newer committed record of its key stands for a missing one."""
        self.newest.follow(self.committed)
        kept = {batch.base_offset: batch for batch in self._batches_from(held, agreed)}
        first = bisect_right(self.committed, agreed, key=lambda batch: batch.next_offset)
        for original in self.committed[first:]:
            if original.next_offset > held.end_offset:
                break
            if self.newest.has_dropped(original, kept.get(original.base_offset)):
                break
            agreed = original.next_offset
        return agreed

    def was_cut(self, node_id: int, offset: int) -> None:
        """A replica lost what it held from `offset` on."""
        self.agreed[node_id] = min(self.agreed.get(node_id, 0), offset)

    def has_other_log(self, node_id: int, partition_epoch: int) -> None:
        """A broker has another log than before: it begins anew if the partition was taken from it.

        Who does not know yet that it was only started anew, with the log that it had.
        """
        if partition_epoch >= self.sent_away.get(node_id, partition_epoch + 1):
            del self.sent_away[node_id]
            self.held.pop(node_id, None)
            self.agreed.pop(node_id, None)

    def commit(self, batch: HeldBatch) -> None:
        """A batch fell below somebody's high watermark."""
        self.place[batch.base_offset] = len(self.committed)
        self.committed.append(batch)

    def is_deleted_below(self, held: HeldLog) -> bool:
        """Whether a replica that was elected unclean has deleted more than is still committed."""
        return self.is_unclean and self.true_high_watermark < held.start_offset

    def elect_unclean(self, leader: int) -> None:
        """What the new leader does not hold is committed no more."""
        self.is_unclean = True
        keep = self.agreement(leader)
        while self.committed and self.committed[-1].next_offset > keep:
            lost = self.committed.pop()
            del self.place[lost.base_offset]
            self.forgiven.append(lost)
        self.newest = NewestRecords()
        self.sequences.clear()
        for batch in self.committed:
            header = read_header(batch.data)
            if header.producer_id >= 0 and header.base_sequence >= 0:
                self.sequences[header.producer_id, header.producer_epoch] = header.last_sequence
        for node_id, agreed in self.agreed.items():
            self.agreed[node_id] = min(agreed, self.true_high_watermark)

    @staticmethod
    def _batches_from(held: HeldLog, offset: int) -> list[HeldBatch]:
        batches = held.batches
        index = len(batches)
        while index and batches[index - 1].next_offset > offset:
            index -= 1
        return batches[index:]


class Ghost:
    """All partitions, and the metadata they belong to."""

    def __init__(self) -> None:
        self.image: ClusterImage | None = None
        """The committed metadata of the controller, as of its last step or of its death."""
        self.image_end = -1
        self.partitions: dict[tuple[UUID, int], PartitionGhost] = {}

    def partition(self, topic_id: UUID, name: TopicPartition) -> PartitionGhost:
        key = (topic_id, name.partition)
        known = self.partitions.get(key)
        if known is None:
            known = self.partitions[key] = PartitionGhost(name, topic_id)
        return known

    def by_name(self, name: TopicPartition) -> PartitionGhost | None:
        """The living topic of that name."""
        topic = None if self.image is None else self.image.topics_by_name.get(name.topic)
        if topic is None:
            return None
        return self.partitions.get((topic.topic_id, name.partition))

    def has_lost(self, internal_topic: str, key: str) -> bool:
        """Whether what a coordinator wrote of a key may be gone with too many disks."""
        topic = None if self.image is None else self.image.topics_by_name.get(internal_topic)
        if topic is None:
            return False
        index = partition_of(key, len(topic.partitions))
        ghost = self.by_name(TopicPartition(internal_topic, index))
        return ghost is not None and (ghost.is_murky or bool(ghost.forgiven))
