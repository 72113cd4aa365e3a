"""The laws of leadership: what each change of a partition, and the state after it, must obey."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tidelog.controller.alter_partition import AlteredPartition, IsrProposal
from tidelog.controller.image import ClusterImage
from tidelog.controller.partition_image import PartitionImage, TopicIdPartition
from tidelog.controller.records import (
    RECOVERED,
    RECOVERING,
    decode_record,
    encode_record,
)
from tidelog.controller.result import ControllerResult, PartitionLeaderChange
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import NO_LEADER
from tidelog.protocol.stored.metadata import PartitionChangeRecord

MIN_ISR = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"


class Request(NamedTuple):
    """What the decision under way was asked for."""

    kind: str
    isr: tuple[int, ...] = ()
    """The ISR a leader proposes."""
    lost: int = NO_LEADER
    """The broker whose data can no longer be relied upon."""


NOTHING = Request("nothing")


class Step(NamedTuple):
    """One partition before and after one record."""

    topic: str
    before: PartitionImage
    after: PartitionImage
    change: PartitionLeaderChange | None


def minimum(image: ClusterImage, topic: str, replicas: int) -> int:
    """The minimum ISR of a partition with so many replicas."""
    cluster_wide = image.config(4, "").get(MIN_ISR, "1")
    return min(int(image.config(2, topic).get(MIN_ISR, cluster_wide)), replicas)


def active(image: ClusterImage, broker_ids: set[int]) -> set[int]:
    """Those of the brokers that may lead and be in sync."""
    return {b for b in broker_ids if b in image.brokers and image.brokers[b].active}


@dataclass
class Laws:
    """Checks decisions against what no controller can know."""

    elr: bool
    running: dict[int, int]
    """The epoch of each broker process that lives."""
    complete: dict[TopicIdPartition, set[int]] = field(default_factory=dict)
    """Who holds every committed record."""
    asked: Request = NOTHING

    def check_decision(
        self, image: ClusterImage, decision: ControllerResult[Any], offset: int
    ) -> None:
        """Replay a decision into an image from before it, and judge every step and the end."""
        changes = {
            (change.topic, change.partition, change.epoch): change
            for change in decision.causes
            if isinstance(change, PartitionLeaderChange)
        }
        steps = []
        for record in decision.records:
            assert decode_record(encode_record(record)) == record
            if not isinstance(record, PartitionChangeRecord):
                image.replay(record, offset)
                continue
            topic = image.topics_by_id[record.topic_id]
            before = topic.partitions[record.partition_id]
            image.replay(record, offset)
            after = topic.partitions[record.partition_id]
            change = changes.pop((topic.name, record.partition_id, after.leader_epoch), None)
            key = TopicIdPartition(record.topic_id, record.partition_id)
            self.complete[key] -= {*before.replicas} - {*after.replicas}
            if change is not None and change.unclean:
                self.complete[key] = {after.leader}
            steps.append(Step(topic.name, before, after, change))
        assert not changes
        for step in steps:
            self._check_epochs(step)
            self._check_election(image, step)
            self._check_reassignment(image, step)
        self._check_state(image)

    def _check_epochs(self, step: Step) -> None:
        """C13, and every new epoch has its cause."""
        _, before, after, change = step
        assert after.partition_epoch == before.partition_epoch + 1
        assert after.leader_epoch in (before.leader_epoch, before.leader_epoch + 1)
        assert (change is not None) == (after.leader_epoch > before.leader_epoch)
        if change is None:
            assert after.leader == before.leader
            assert {*before.replicas} <= {*after.replicas}
        else:
            assert (change.old, change.new) == (before.leader, after.leader)
            assert change.why
            assert bool(change.may_lose) == change.unclean

    def _check_election(self, image: ClusterImage, step: Step) -> None:
        """C15 and C19."""
        topic, before, after, change = step
        if change is None or after.leader in (NO_LEADER, before.leader):
            return
        in_sync = {*(self.asked.isr or before.isr)} & {*after.replicas}
        nobody_in_sync = not active(image, in_sync)
        clean = after.leader in in_sync or (nobody_in_sync and after.leader in before.elr)
        assert change.unclean == (not clean)
        nobody_eligible = not {*before.isr, *before.elr} - {self.asked.lost}
        led_last = after.leader in before.last_known_elr and nobody_eligible
        if self.asked.kind == "preferred":
            assert clean or led_last
        if change.unclean:
            allowed = image.config(2, topic).get(UNCLEAN, "false") == "true"
            assert allowed or self.asked.kind == "unclean" or led_last
            assert (after.isr, after.elr) == ((after.leader,), ())
            assert after.recovery_state == RECOVERING

    def _check_reassignment(self, image: ClusterImage, step: Step) -> None:
        """C18."""
        topic, before, after, _ = step
        elected = (after.leader,) == after.isr and after.leader != before.leader
        assert elected or {*after.isr} <= {*(self.asked.isr or before.isr)}
        if self.asked.kind == "cancel" or after.adding or after.removing:
            return
        coming = {*after.replicas} - ({*before.replicas} - {*before.adding})
        gone = {*before.replicas} - {*after.replicas}
        if self.asked.kind == "reassign":
            # Those who were about to come, and never were in sync, may just be dropped.
            gone -= {*before.adding} - {*before.isr, *before.elr}
        if not coming and not gone:
            return
        assert coming <= {*after.isr}
        assert len(coming) >= len(gone) or {*after.replicas} <= {*after.isr}
        assert len(after.isr) >= minimum(image, topic, len(after.replicas))

    def check_proposal(
        self,
        image: ClusterImage,
        sender: int,
        before: PartitionImage,
        proposal: IsrProposal,
        wrote: bool,
        outcome: AlteredPartition | Refusal,
    ) -> None:
        """C12."""
        error = outcome.code if isinstance(outcome, Refusal) else None
        taken = error in (None, ErrorCode.new_leader_elected)
        if (
            proposal.leader_epoch > before.leader_epoch
            or proposal.partition_epoch > before.partition_epoch
        ):
            assert error is ErrorCode.not_controller
        elif proposal.leader_epoch < before.leader_epoch:
            assert error is ErrorCode.fenced_leader_epoch
        elif sender != before.leader:
            assert error is ErrorCode.invalid_request
        elif proposal.partition_epoch < before.partition_epoch:
            assert error is ErrorCode.invalid_update_version
        else:
            eligible = all(
                image.brokers[member].active and epoch in (-1, image.brokers[member].broker_epoch)
                for member, epoch in proposal.isr
                if member in image.brokers
            )
            registered = all(member in image.brokers for member, _ in proposal.isr)
            assert taken == (eligible and registered)
        assert taken or not wrote
        if isinstance(outcome, AlteredPartition):
            assert outcome.leader == before.leader
            assert outcome.recovery_state == RECOVERED

    def _check_state(self, image: ClusterImage) -> None:
        """C14, completeness of whoever may lead, and a leader wherever there can be one."""
        for name, topic in image.topics_by_name.items():
            for index, partition in topic.partitions.items():
                isr, elr = {*partition.isr}, {*partition.elr}
                assert isr | elr <= {*partition.replicas}
                assert not isr & elr
                assert {*partition.adding, *partition.removing} <= {*partition.replicas}
                assert partition.leader in (*partition.isr, NO_LEADER)
                assert len(isr) < minimum(image, name, len(partition.replicas)) or not elr
                assert self.elr or isr
                live = active(image, isr)
                last_one_stays = not self.elr and len(isr) == 1 and not partition.has_leader
                assert live == isr or last_one_stays
                assert partition.has_leader or not (live or (not isr and active(image, elr)))
                complete = self.complete.setdefault(TopicIdPartition(topic.topic_id, index), {*isr})
                for member in isr | elr:
                    broker = image.brokers.get(member)
                    if broker is not None and self.running.get(member) == broker.broker_epoch:
                        assert member in complete, (name, index, member)
