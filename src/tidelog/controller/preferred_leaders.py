"""Leader balance: leadership goes back to preferred replicas once too much of it is elsewhere.

The first replica of each partition is the one meant to lead it. Elections pile leadership up on
the brokers that survived; a broker that came back gets its share again when more than
`leader.imbalance.per.broker.percentage` of the partitions that prefer it are led by others.

Clients that lost a broker wait before they try it again, longer each time. Leadership that goes
back too early makes them wait for a partition that is served all the while: so it goes back when
the longest such wait is over (`broker.reconnect.grace.ms`).

Invariant  Only a live replica that is in sync, or eligible while nobody is, gets leadership (C19).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tidelog.controller.elections import MAX_PER_PASS, ElectionPass, election_pass
from tidelog.controller.image import ClusterImage
from tidelog.controller.leadership import HostedPartition, PartitionLeadership
from tidelog.controller.partition_change import Election, PartitionTarget
from tidelog.controller.records import MetadataRecord
from tidelog.controller.result import ControllerResult
from tidelog.model.config import NodeConfig
from tidelog.model.time import Now


def balance_leaders(
    image: ClusterImage,
    leadership: PartitionLeadership,
    config: NodeConfig,
    now: Now,
    *,
    hard_to_reach: Mapping[int, int],
) -> ControllerResult[ElectionPass]:
    """Move leadership back to every broker that misses more than its share may be.

    Those who are `hard_to_reach`, until the given time, get it then.
    """
    records: list[MetadataRecord] = []
    wait_ms = config.leader_imbalance_check_interval_seconds * 1000
    tolerated = config.leader_imbalance_per_broker_percentage
    prefer, elsewhere = _imbalance(leadership)
    for broker_id in sorted(elsewhere) if config.auto_leader_rebalance_enable else ():
        broker = image.brokers.get(broker_id)
        missing = elsewhere[broker_id]
        if (
            broker is None
            or not broker.active
            or len(missing) * 100 <= tolerated * prefer[broker_id]
        ):
            continue
        if broker_id in hard_to_reach:
            wait_ms = min(wait_ms, hard_to_reach[broker_id] - now.monotonic_ms)
            continue
        words = (
            f"{len(missing)} of {prefer[broker_id]} partitions that prefer {broker_id} were led "
            f"by others, more than {tolerated} percent"
        )
        for place in missing:
            if len(records) >= MAX_PER_PASS:
                break
            record = leadership.change(
                place, PartitionTarget.of(place.partition), words, election=Election.PREFERRED
            )
            if record is not None:
                records.append(record)
    reply = election_pass(len(records), wait_ms, now)
    return ControllerResult(tuple(records), reply, atomic=False, causes=leadership.causes)


def _imbalance(
    leadership: PartitionLeadership,
) -> tuple[Counter[int], dict[int, list[HostedPartition]]]:
    """By broker: how many partitions prefer it, and which of them it does not lead."""
    prefer: Counter[int] = Counter()
    elsewhere: dict[int, list[HostedPartition]] = {}
    for place in leadership.everywhere():
        preferred = place.partition.replicas[0]
        prefer[preferred] += 1
        if place.partition.leader != preferred:
            elsewhere.setdefault(preferred, []).append(place)
    return prefer, elsewhere
