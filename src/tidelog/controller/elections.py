"""Elections that somebody asked for, and unclean ones that are tried again from time to time.

Invariant  An unclean election happens only in a partition without a leader, and only where the
           topic allows it or an operator asks for it by name (C15).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from tidelog.controller.image import ClusterImage
from tidelog.controller.leadership import HostedPartition, PartitionLeadership
from tidelog.controller.partition_change import Election, PartitionTarget
from tidelog.controller.records import MetadataRecord
from tidelog.controller.result import ControllerResult
from tidelog.model.config import NodeConfig
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.time import Now
from tidelog.protocol.stored.metadata import PartitionChangeRecord

MAX_PER_REQUEST: Final = 10_000
MAX_PER_PASS: Final = 1000


class ElectionType(IntEnum):
    """What a client can ask for."""

    PREFERRED = 0
    UNCLEAN = 1


class ElectionPass(NamedTuple):
    """How many elections a look at the cluster led to, and when to look again."""

    elections: int
    next_check_ms: int
    """On the monotonic clock; at once when there is more to do than one pass may."""


NOT_NEEDED: Final = Refusal(
    ErrorCode.election_not_needed, "Leader election not needed for topic partition."
)
ElectedTopics: TypeAlias = list[tuple[str, list[tuple[int, Refusal | None]]]]


def elect_leaders(
    image: ClusterImage,
    leadership: PartitionLeadership,
    election_type: int,
    requests: Iterable[tuple[str, Sequence[int]]] | None,
) -> ControllerResult[ElectedTopics | Refusal]:
    """Of the named partitions, or of all: then those that need no election go unmentioned."""
    if election_type not in ElectionType.__members__.values():
        why = f"Unknown election type {election_type}"
        return ControllerResult((), Refusal(ErrorCode.invalid_request, why))
    asked_for_all = requests is None
    if requests is None:
        requests = [
            (name, sorted(topic.partitions)) for name, topic in sorted(image.topics_by_name.items())
        ]
    records: list[MetadataRecord] = []
    reply: ElectedTopics = []
    for topic_name, partition_ids in requests:
        topic = image.topics_by_name.get(topic_name)
        outcomes: list[tuple[int, Refusal | None]] = []
        reply.append((topic_name, outcomes))
        for partition_id in partition_ids:
            place = None if topic is None else leadership.find(topic, partition_id)
            outcome = (
                _unknown(topic_name, partition_id, is_topic=topic is not None)
                if place is None
                else _elected(leadership, ElectionType(election_type), place)
            )
            if isinstance(outcome, PartitionChangeRecord):
                records.append(outcome)
                outcomes.append((partition_id, None))
            elif not asked_for_all or outcome.code is not ErrorCode.election_not_needed:
                outcomes.append((partition_id, outcome))
    if len(records) > MAX_PER_REQUEST:
        why = f"A request may elect at most {MAX_PER_REQUEST} leaders."
        return ControllerResult((), Refusal(ErrorCode.policy_violation, why))
    return ControllerResult(tuple(records), reply, atomic=False, causes=leadership.causes)


def _unknown(topic_name: str, partition_id: int, *, is_topic: bool) -> Refusal:
    what = f"partition as {topic_name}-{partition_id}" if is_topic else f"topic as {topic_name}"
    return Refusal(ErrorCode.unknown_topic_or_partition, f"No such {what}")


def _elected(
    leadership: PartitionLeadership, election_type: ElectionType, place: HostedPartition
) -> PartitionChangeRecord | Refusal:
    partition = place.partition
    if election_type is ElectionType.PREFERRED:
        if partition.leader == partition.replicas[0]:
            return NOT_NEEDED
        nobody = Refusal(
            ErrorCode.preferred_leader_not_available,
            f"The preferred replica {partition.replicas[0]} is not in sync or not live.",
        )
        election, words = Election.PREFERRED, "a preferred election was asked for"
    else:
        if partition.has_leader:
            return NOT_NEEDED
        nobody = Refusal(ErrorCode.eligible_leaders_not_available, "No replica is live.")
        election, words = Election.UNCLEAN, "an unclean election was asked for"
    record = leadership.change(place, PartitionTarget.of(partition), words, election=election)
    return nobody if record is None else record


def retry_unclean_elections(
    leadership: PartitionLeadership, config: NodeConfig, now: Now
) -> ControllerResult[ElectionPass]:
    """Give a leader to partitions that have none, where an unclean one is allowed."""
    records: list[MetadataRecord] = []
    for place in leadership.everywhere():
        if len(records) >= MAX_PER_PASS:
            break
        if place.partition.has_leader or not leadership.rules(place.topic).unclean:
            continue
        words = "the partition had no leader, and its topic allows unclean elections"
        record = leadership.change(
            place, PartitionTarget.of(place.partition), words, election=Election.UNCLEAN
        )
        if record is not None:
            records.append(record)
    wait_ms = config.unclean_leader_election_interval_ms
    reply = election_pass(len(records), wait_ms, now)
    return ControllerResult(tuple(records), reply, atomic=False, causes=leadership.causes)


def election_pass(elections: int, wait_ms: int, now: Now) -> ElectionPass:
    """A full pass is followed by the next at once."""
    wait_ms = 0 if elections >= MAX_PER_PASS else wait_ms
    return ElectionPass(elections, now.monotonic_ms + wait_ms)
