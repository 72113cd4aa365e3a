"""D4, D17 and D18 in the form that compacted topics keep: records may be missing, none is another.

K1  compaction keeps the newest committed record of every key, but for tombstones
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.replication.partition import Partition
from tidelog.simulator.rules.ghost import PartitionGhost
from tidelog.simulator.rules.held_log import HeldBatch, HeldLog
from tidelog.simulator.rules.newest_records import is_thinned
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.machine import Machine


def judge_thinned(
    ghost: PartitionGhost, held: HeldLog, before: HeldBatch | None, added: Sequence[HeldBatch]
) -> None:
    """D17: offsets and epochs rise; D4: an epoch and an offset name one batch, thinned or not."""
    last = before
    for batch in added:
        if last is not None and (batch.base_offset < last.next_offset or batch.epoch < last.epoch):
            why = f"epoch {batch.epoch} at {batch.base_offset} follows epoch {last.epoch} up to "
            raise Violation("D17", f"{held.name} on {held.node_id}: {why}{last.next_offset}")
        original, _ = ghost.written.setdefault(batch.key, (batch.data, None))
        if batch.data != original and not is_thinned(batch.data, original):
            what = f"another batch of epoch {batch.epoch} at {batch.base_offset}"
            raise Violation("D4", f"{held.node_id} holds {what} of {held.name} than others")
        last = batch


def judge_kept(machine: Machine, ghost: PartitionGhost, agreed: int) -> None:
    """K1: after a pass a replica holds as much of what counts as before."""
    after = ghost.agreement(machine.node_id)
    if after < agreed:
        what = f"{machine.name} held what is committed of {ghost.name} below {agreed}"
        raise Violation("K1", f"{what}, and after compaction below {after}")


def judge_thinned_epochs(machine: Machine, partition: Partition, held: HeldLog) -> None:
    """D18: the cache may know of more epochs than are left, and of every one that is."""
    log = partition.log
    for epoch, base_offset in held.epoch_starts:
        known = log.epochs.epoch_for_offset(max(base_offset, log.start_offset))
        if base_offset >= log.start_offset and known != epoch:
            why = f"epoch {known} at {base_offset} of {partition.name}, where epoch {epoch} is"
            raise Violation("D18", f"{machine.name} knows of {why}")
