"""Simulated members of a group of the classic protocol: one of them leads and assigns.

Invariant  A member gives up what it reads before it asks to join again, or to leave.
Invariant  Whatever is committed is committed in the generation of which the member was told its
           part; now and then in an earlier one, as by a retry that comes too late.
Invariant  A static member that is restarted forgets its id, and takes its place by its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from tidelog.coordinator.groups.consumer_protocol import (
    CONSUMER,
    read_assignment,
    write_assignment,
    write_subscription,
)
from tidelog.model.errors import ErrorCode
from tidelog.protocol.messages.heartbeat import HeartbeatRequest
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tidelog.protocol.stored.consumer_protocol import NamedPartitions
from tidelog.simulator.clients.asking import Lost
from tidelog.simulator.clients.groups import SESSION_MS, GroupMember
from tidelog.simulator.clients.offset_history import NOBODY, Membership, OffsetHistory
from tidelog.simulator.clients.offsets import commit_next
from tidelog.simulator.clients.shifts import Shifts

REBALANCE_MS: Final = 10_000
"""Longer than anybody is sure of what it reads, shorter than the patience of a client."""
JOIN_VERSION: Final = 7
SYNC_VERSION: Final = 5
HEARTBEAT_VERSION: Final = 4
LEAVE_VERSION: Final = 4
PROTOCOL: Final = "everything"
COMMITS: Final = 0.4
COMMITS_LATE: Final = 0.1
"""How likely a member does so instead of what it would do next."""

_IS_NOBODY: Final = frozenset({ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id})
_MUST_JOIN: Final = _IS_NOBODY | {ErrorCode.illegal_generation, ErrorCode.rebalance_in_progress}


class ClassicMember(GroupMember):
    """Joins, assigns if it leads, commits, and leaves for a rest or for no reason."""

    def __init__(
        self,
        name: str,
        nodes: Sequence[int],
        topic: str,
        history: OffsetHistory,
        shifts: Shifts,
        stop_ms: int,
        *,
        is_static: bool,
    ) -> None:
        super().__init__(name, nodes, topic, stop_ms, history.group)
        self._history = history
        self._places = history.partitions
        self._shifts = shifts
        self._instance_id = name if is_static else None
        self._member_id = ""
        self._joined: Any = None
        """The answer to the last join, until the part in that generation is known."""
        self._membership = NOBODY
        """NOBODY while it has no part in a generation."""
        self._past: list[Membership] = []
        """What it was in earlier generations."""
        self._owned: frozenset[int] = frozenset()
        self._leaves = False
        self._may_be_in = False
        """Whether a coordinator may know of it."""

    @property
    def reads(self) -> tuple[int, ...]:
        return tuple(sorted(self._owned)) if self.is_sure else ()

    def act(self) -> None:
        if self._owned and not self.is_sure:
            self._join_later()
        if self._past and self.dice.random() < COMMITS_LATE:
            membership = self.dice.choice((self._past[-1], self.dice.choice(self._past)))
            commit_next(self, self._history, self.dice.choice(self._places), membership)
        elif self._leaves or self._shifts.are_over(self.now_ms):
            self._leave()
        elif self._joined is not None:
            self._sync(self._joined)
        elif self._membership is NOBODY:
            self._join()
        else:
            self._work()

    def _work(self) -> None:
        if self._wants_to_leave():
            self._quit()
        elif self._owned and self.dice.random() < COMMITS:
            place = self._places[self.dice.choice(self.reads)]
            commit_next(self, self._history, place, self._membership, self._refused)
        else:
            self._beat()

    # Joining.

    def _join(self) -> None:
        self._may_be_in = True
        self._history.join_asked = self._history.moment()
        subscription = write_subscription((self.topic,))
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type=CONSUMER,
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=subscription)],
        )
        self.ask_coordinator(request, JOIN_VERSION, self._told_generation)

    def _told_generation(self, answer: Any) -> None:
        if isinstance(answer, Lost):
            return
        error = ErrorCode(answer.error_code)
        if error in (ErrorCode.none, ErrorCode.member_id_required):
            self._member_id = str(answer.member_id)
        if error is ErrorCode.none:
            self._joined = answer
        else:
            self._refused(error)

    def _sync(self, joined: Any) -> None:
        indexes = [place.partition for place in self._places]
        members = [str(each.member_id) for each in joined.members]
        assignments = [
            SyncGroupRequestAssignment(
                member_id=member_id, assignment=self._part(indexes[place :: len(members)])
            )
            for place, member_id in enumerate(members)
        ]
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=joined.generation_id,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type=CONSUMER,
            protocol_name=PROTOCOL,
            assignments=assignments,
        )
        then = partial(self._told_part, joined.generation_id, self._history.moment(), self.now_ms)
        self.ask_coordinator(request, SYNC_VERSION, then)

    def _part(self, indexes: Sequence[int]) -> bytes:
        return write_assignment((NamedPartitions(topic=self.topic, partitions=tuple(indexes)),), 0)

    def _told_part(self, generation: int, asked: int, asked_ms: int, answer: Any) -> None:
        if isinstance(answer, Lost):
            return
        error = ErrorCode(answer.error_code)
        if error is not ErrorCode.none:
            self._refused(error)
            return
        self.heard_of(asked_ms)
        known_since = self._history.generation(generation, asked)
        self._joined = None
        self._membership = Membership(self._member_id, self._instance_id, generation, known_since)
        self._owned = frozenset(
            index
            for topic in read_assignment(bytes(answer.assignment))
            for index in topic.partitions
        )

    # Being a member.

    def _beat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self._membership.generation,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
        )
        then = partial(self._beaten, self.now_ms)
        self.ask_coordinator(request, HEARTBEAT_VERSION, then)

    def _beaten(self, asked_ms: int, answer: Any) -> None:
        if isinstance(answer, Lost):
            return
        error = ErrorCode(answer.error_code)
        if error is ErrorCode.none:
            self.heard_of(asked_ms)
        else:
            self._refused(error)

    def _refused(self, error: ErrorCode) -> None:
        self.refused(error)
        if error in _IS_NOBODY:
            self._member_id = ""
        if error in _MUST_JOIN:
            self._join_later()

    def _join_later(self) -> None:
        if self._membership is not NOBODY:
            self._past.append(self._membership)
        self._membership = NOBODY
        self._joined = None
        self._owned = frozenset()

    # Leaving.

    def _quit(self) -> None:
        """Leave; a static member is restarted instead."""
        self._join_later()
        if self._instance_id is None:
            self._leaves = True
            self._leave()
        else:
            self._member_id = ""

    def _leave(self) -> None:
        """Until it is known that the coordinator knows."""
        self._join_later()
        if not self._may_be_in:
            return
        leaver = MemberIdentity(member_id=self._member_id, group_instance_id=self._instance_id)
        request = LeaveGroupRequest(group_id=self.group, members=[leaver])
        self.ask_coordinator(request, LEAVE_VERSION, self._left)

    def _left(self, answer: Any) -> None:
        if isinstance(answer, Lost):
            return
        error = ErrorCode(answer.error_code or answer.members[0].error_code)
        self.refused(error)
        if error is ErrorCode.none or error in _IS_NOBODY:
            self._member_id = ""
            self._leaves = self._may_be_in = False
