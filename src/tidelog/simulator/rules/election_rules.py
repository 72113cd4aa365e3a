"""Who leads the quorum and who votes for whom, C1, C2, C3 and, by `majority_fetches.py`, C8.

Invariant  A replica of the metadata log is judged by its directory: a node with another disk is
           another replica, which owes nothing to what the one before has promised.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tidelog.model.ids import METADATA_TOPIC_ID, NO_LEADER
from tidelog.node.core.effects import Send, SendOnLink
from tidelog.node.core.inputs import FrameArrived
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.codec import decode_request, decode_response
from tidelog.protocol.frame import read_request_header
from tidelog.protocol.messages import request_class
from tidelog.protocol.parts import joined
from tidelog.quorum.election_state import FILE_NAME, ElectionState, read_election_state
from tidelog.quorum.leader import Leader
from tidelog.quorum.messages import LogEnd, ReplicaKey
from tidelog.quorum.roles import NO_VOTE, Candidate, Follower, Role, voted_in
from tidelog.simulator.disk.memory_filesystem import DiskEntry, MemoryFileSystem
from tidelog.simulator.rules.carried import api_of, metadata_follower
from tidelog.simulator.rules.majority_fetches import MajorityFetches
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.happenings import Started, Stepped
from tidelog.simulator.world.machine import Machine

METADATA: Final = "/data/__cluster_metadata-0"
_ABOUT_EPOCHS: Final = (ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH)


class ElectionRules:
    """Looks at what a node is in the quorum, at what its disk says of it, and at what it says."""

    def __init__(self) -> None:
        self._leaders: dict[int, int] = {}
        self._epochs: dict[ReplicaKey, int] = {}
        """The latest epoch that was on the disk of each replica."""
        self._votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}
        self._stood: dict[tuple[ReplicaKey, int], LogEnd] = {}
        """Where the log of each candidate of each epoch ended."""
        self._seen: dict[int, tuple[Role, ReplicaKey]] = {}
        self._stored: dict[int, tuple[bytes | None, ElectionState]] = {}
        self._promises = Promises()
        self._majority_fetches = MajorityFetches()

    def look_at(self, machine: Machine, happening: Started | Stepped) -> None:
        """After a step of this machine's node, or after its start."""
        node = machine.node
        if node is None:
            return
        role, own = node.quorum.role, node.quorum.identity
        if isinstance(role, Leader) and isinstance(happening, Stepped):
            self._majority_fetches.look_at(machine, role, happening)
        stored = self._read(machine, own)
        if node.cluster.config.is_controller:
            self._promises.look_at(machine, happening, own, stored)
        seen = self._seen.get(machine.node_id)
        if seen is not None and seen[0] is role and seen[1] is role.voted:
            return
        self._seen[machine.node_id] = (role, role.voted)
        if role.epoch < self._epochs.get(own, 0):
            why = f"went from quorum epoch {self._epochs[own]} to {role.epoch}"
            raise Violation("C2", f"{machine.name} {why}")
        self._judge_leader(machine, role)
        self._judge_log(machine, own, role, node.quorum.log.log_end)

    def forget(self, node_id: int) -> None:
        """A node has an older copy of its disk, which knows of earlier epochs only."""
        self._epochs = {own: epoch for own, epoch in self._epochs.items() if own.id != node_id}
        self._stored.pop(node_id, None)

    def _read(self, machine: Machine, own: ReplicaKey) -> ElectionState:
        """What a loss of power would leave of its promises, C2: one vote in an epoch, for ever."""
        content = machine.disk.durable(f"{METADATA}/{FILE_NAME}")
        known = self._stored.get(machine.node_id)
        if known is not None and known[0] == content:
            return known[1]
        stored = _state_in(content)
        self._stored[machine.node_id] = (content, stored)
        if stored.epoch < self._epochs.get(own, 0):
            why = f"forgets quorum epoch {self._epochs[own]} for {stored.epoch}"
            raise Violation("C2", f"{machine.name} {why}")
        self._epochs[own] = stored.epoch
        voted = own if stored.leader_id == own.id else voted_in(stored)
        if voted != NO_VOTE:
            before = self._votes.setdefault((own, stored.epoch), voted)
            if before != voted:
                why = f"voted for {before.id} and for {voted.id} in quorum epoch {stored.epoch}"
                raise Violation("C2", f"{machine.name} {why}")
        return stored

    def _judge_leader(self, machine: Machine, role: Role) -> None:
        if not isinstance(role, Leader | Follower) or role.leader_id == NO_LEADER:
            return
        known = self._leaders.setdefault(role.epoch, role.leader_id)
        if known != role.leader_id:
            why = f"{known} and {role.leader_id} lead quorum epoch {role.epoch}"
            raise Violation("C1", f"{why}, says {machine.name}")

    def _judge_log(self, machine: Machine, own: ReplicaKey, role: Role, log_end: LogEnd) -> None:
        """C3: a vote is for somebody whose log is not behind."""
        if isinstance(role, Candidate):
            self._stood[own, role.epoch] = log_end
        if role.voted == NO_VOTE or (own, role.epoch) in self._votes:
            return
        stood = self._stood.get((role.voted, role.epoch))
        if stood is not None and stood < log_end:
            why = f"whose log ends at {tuple(stood)}, its own at {tuple(log_end)}"
            raise Violation("C3", f"{machine.name} votes for {role.voted.id}, {why}")


class Promises:
    """C2: whatever a voter says to others of epochs and votes is on its disk by then.

    Read from the requests and answers that the network is about to carry.
    """

    def __init__(self) -> None:
        self._asked: dict[tuple[int, int], dict[int, _Asked]] = {}
        """What a node was asked about its vote, by connection and correlation id."""

    def look_at(
        self, machine: Machine, happening: Started | Stepped, own: ReplicaKey, stored: ElectionState
    ) -> None:
        """Before the effects of a step are carried out."""
        if isinstance(happening, Started):
            for key in [key for key in self._asked if key[0] == machine.node_id]:
                del self._asked[key]
        elif isinstance(happening.happened, FrameArrived):
            self._note_question(machine, happening.happened.connection, happening.frame)
        for effect in happening.effects:
            if isinstance(effect, Send):
                self._judge_answer(machine, effect, stored)
            elif isinstance(effect, SendOnLink):
                _judge_request(machine, effect, own, stored)

    def _note_question(self, machine: Machine, connection: int, frame: bytes) -> None:
        if api_of(frame) in _ABOUT_EPOCHS:
            header = read_request_header(frame)
            asked = _Asked(header.api_key, header.api_version, frame)
            questions = self._asked.setdefault((machine.node_id, connection), {})
            questions[header.correlation_id] = asked

    def _judge_answer(self, machine: Machine, effect: Send, stored: ElectionState) -> None:
        questions = self._asked.get((machine.node_id, effect.connection))
        if not questions:
            return
        frame = joined(effect.parts)
        asked = questions.pop(int.from_bytes(frame[:4], "big"), None)
        if asked is None:
            return
        response = request_class(asked.api_key).RESPONSE
        answer: Any = decode_response(response, asked.version, frame)[1]
        for topic in answer.topics:
            said = topic.partitions[0]
            _require(machine, said.leader_epoch <= stored.epoch, f"answers {said}", stored)
            if getattr(said, "vote_granted", False):
                vote = _partition_of(asked.frame)
                is_kept = (
                    vote.pre_vote
                    or stored.epoch > vote.replica_epoch
                    or stored.voted_id == vote.replica_id
                )
                _require(machine, is_kept, f"votes for {vote.replica_id}", stored)


class _Asked(NamedTuple):
    api_key: int
    version: int
    frame: bytes


def _judge_request(
    machine: Machine, effect: SendOnLink, own: ReplicaKey, stored: ElectionState
) -> None:
    frame = joined(effect.parts)
    api_key = api_of(frame)
    if api_key == ApiKey.FETCH and METADATA_TOPIC_ID.bytes in frame:
        follower = metadata_follower(frame)
        if follower is not None:
            _require(machine, follower.epoch <= stored.epoch, f"fetches: {follower}", stored)
    elif api_key == ApiKey.VOTE:
        vote = _partition_of(frame)
        epoch = vote.replica_epoch
        is_own = vote.pre_vote or own.id in (stored.voted_id, stored.leader_id)
        is_kept = stored.epoch > epoch or (stored.epoch == epoch and is_own)
        _require(machine, is_kept, f"asks for votes: {vote}", stored)
    elif api_key in _ABOUT_EPOCHS:
        said = _partition_of(frame)
        _require(machine, said.leader_epoch <= stored.epoch, f"says {said}", stored)


def _require(machine: Machine, is_kept: bool, why: str, stored: ElectionState) -> None:
    if not is_kept:
        raise Violation("C2", f"{machine.name} {why}, while its disk has {stored}")


def _partition_of(frame: bytes) -> Any:
    header = read_request_header(frame)
    body = memoryview(frame)[header.body_offset :]
    request: Any = decode_request(header.api_key, header.api_version, body)
    return request.topics[0].partitions[0]


def _state_in(content: bytes | None) -> ElectionState:
    if content is None:
        return ElectionState()
    disk = MemoryFileSystem((DiskEntry(f"/{FILE_NAME}", 1, 0, content),), record_trace=False)
    return read_election_state(disk, "")
