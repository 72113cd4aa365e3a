"""Who leads the quorum and who votes for whom, C1, C2, C3 and, by `company.py`, C8.

Invariant  A replica of the metadata log is judged by its directory: a node with another disk is
           another replica, which owes nothing to what the one before has promised.
"""

from __future__ import annotations

from typing import Final

from tidelog.model.ids import NO_LEADER
from tidelog.quorum.election_state import FILE_NAME, ElectionState, read_election_state
from tidelog.quorum.leader import Leader
from tidelog.quorum.messages import LogEnd, ReplicaKey
from tidelog.quorum.roles import NO_VOTE, Candidate, Follower, Role
from tidelog.simulator.checkers.company import Company
from tidelog.simulator.happenings import Started, Stepped
from tidelog.simulator.machine import Machine
from tidelog.simulator.violation import Violation
from tidelog.storage.memory_filesystem import DiskEntry, MemoryFileSystem

METADATA: Final = "/data/__cluster_metadata-0"


class ElectionRules:
    """Looks at the part of a node in the quorum when that has changed."""

    def __init__(self) -> None:
        self._leaders: dict[int, int] = {}
        self._epochs: dict[ReplicaKey, int] = {}
        """The latest epoch each replica has been in, across its lives."""
        self._votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}
        self._stood: dict[tuple[ReplicaKey, int], LogEnd] = {}
        """Where the log of each candidate of each epoch ended."""
        self._seen: dict[int, tuple[Role, ReplicaKey]] = {}
        self._company = Company()

    def look_at(self, machine: Machine, happening: Started | Stepped) -> None:
        """After a step of this machine's node, or after its start."""
        node = machine.node
        if node is None:
            return
        role = node.quorum.role
        if isinstance(role, Leader) and isinstance(happening, Stepped):
            self._company.look_at(machine, role, happening)
        seen = self._seen.get(machine.node_id)
        if seen is not None and seen[0] is role and seen[1] is role.voted:
            return
        self._seen[machine.node_id] = (role, role.voted)
        own = node.quorum.identity
        self._judge_epoch(machine, own, role.epoch)
        self._judge_leader(machine, role)
        self._judge_vote(machine, own, role, node.quorum.log_end)
        _judge_promise(machine, role)

    def forget(self, node_id: int) -> None:
        """A node has an older copy of its disk, which knows of earlier epochs only."""
        self._epochs = {own: epoch for own, epoch in self._epochs.items() if own.id != node_id}

    def _judge_epoch(self, machine: Machine, own: ReplicaKey, epoch: int) -> None:
        before = self._epochs.get(own, 0)
        if epoch < before:
            raise Violation("C2", f"{machine.name} went from quorum epoch {before} to {epoch}")
        self._epochs[own] = epoch

    def _judge_leader(self, machine: Machine, role: Role) -> None:
        if not isinstance(role, Leader | Follower) or role.leader_id == NO_LEADER:
            return
        known = self._leaders.setdefault(role.epoch, role.leader_id)
        if known != role.leader_id:
            why = f"{known} and {role.leader_id} lead quorum epoch {role.epoch}"
            raise Violation("C1", f"{why}, says {machine.name}")

    def _judge_vote(self, machine: Machine, own: ReplicaKey, role: Role, log_end: LogEnd) -> None:
        """C2: one vote in an epoch, for ever. C3: for somebody whose log is not behind."""
        if isinstance(role, Candidate):
            self._stood[own, role.epoch] = log_end
        voted = own if isinstance(role, Leader) else role.voted
        if voted == NO_VOTE:
            return
        known = self._votes.get((own, role.epoch))
        if known is None:
            self._votes[own, role.epoch] = voted
            stood = self._stood.get((voted, role.epoch))
            if stood is not None and stood < log_end:
                why = f"whose log ends at {tuple(stood)}, its own at {tuple(log_end)}"
                raise Violation("C3", f"{machine.name} votes for {voted.id}, {why}")
        elif known != voted:
            why = f"voted for {known.id} and for {voted.id} in quorum epoch {role.epoch}"
            raise Violation("C2", f"{machine.name} {why}")


def _judge_promise(machine: Machine, role: Role) -> None:
    """C2: what a loss of power would leave names this epoch and this vote."""
    stored, promised = _durable_state(machine), role.promised
    if (stored.epoch, stored.voted_id) != (promised.epoch, promised.voted_id):
        why = f"promises {promised}, and its disk {stored}"
        raise Violation("C2", f"{machine.name} {why}")


def _durable_state(machine: Machine) -> ElectionState:
    content = machine.disk.durable(f"{METADATA}/{FILE_NAME}")
    if content is None:
        return ElectionState()
    disk = MemoryFileSystem((DiskEntry(f"/{FILE_NAME}", 1, 0, content),), record_trace=False)
    return read_election_state(disk, "")
