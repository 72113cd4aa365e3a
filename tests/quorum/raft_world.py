"""A quorum of several voters in one process: a network that loses, disks that forget, one clock.

Whatever happens is checked at once against what must always hold; the ghost knows what no voter
may know: all votes, all leaders, everything that was ever committed.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from random import Random
from uuid import UUID

from tidelog.model.time import Now
from tidelog.quorum.control_records import Voter, VoterEndpoint
from tidelog.quorum.fetching import MetadataFetch, MetadataFetchResponse
from tidelog.quorum.formatting import format_directory
from tidelog.quorum.leader import Leader
from tidelog.quorum.messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    OutboundRequest,
    QuorumResponse,
    ReplicaKey,
    Vote,
)
from tidelog.quorum.metadata_log import metadata_log_config
from tidelog.quorum.metadata_replica import RecordCodec
from tidelog.quorum.quorum import AfterFetch, Quorum
from tidelog.quorum.roles import Follower
from tidelog.quorum.snapshots import SnapshotRules
from tidelog.quorum.timeouts import DEFAULT_TIMEOUTS
from tidelog.simulator.disk.crash import after_crash, data_drawn, names_undone
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.filesystem import read_all
from tidelog.storage.flush import FlushJob
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.log_values import LogSlice

CODEC: RecordCodec[str] = RecordCodec(str.encode, bytes.decode)
LISTENER = "CONTROLLER"
LOST_AFTER_MS = 300
PARKED_MS = 100


class Dice:
    def __init__(self, random: Random) -> None:
        self._random = random

    def uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128))

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


def voter(node_id: int) -> Voter:
    endpoint = VoterEndpoint(name=LISTENER, host=f"node-{node_id}", port=9093)
    return Voter(
        voter_id=node_id, voter_directory_id=UUID(int=node_id + 1000), endpoints=(endpoint,)
    )


class Member:
    """A disk, and while it runs a voter on it."""

    def __init__(self, world: RaftWorld, node_id: int) -> None:
        self.world = world
        self.node_id = node_id
        self.starts = 0
        self.quorum: Quorum[str] | None = None
        self.files = MemoryFileSystem()
        self.files.make_directory("/data")
        self.shown: list[tuple[int, int, str]] = []
        self.durable_end = 0
        self.epoch = 0
        self._fetching: int | None = None
        self._fetches = count()
        self._looks_at: int | None = None
        format_directory(
            self.files,
            "/data",
            cluster_id="4L6g3nShT-eMCtK--X86sw",
            node_id=node_id,
            directory_id=UUID(int=node_id + 1000),
            bootstrap=(),
            voters=tuple(map(voter, world.voter_ids)),
            wall_ms=0,
        )

    def start(self) -> None:
        self.starts += 1
        now = self.world.now
        dice = Dice(self.world.random)
        directory = LogDirectory(self.files, "/data", dice)
        directory.begin()
        self.quorum = Quorum(
            files=self.files,
            log=directory.load_metadata_log(now, metadata_log_config()),
            own=ReplicaKey(self.node_id, UUID(int=self.node_id + 1000)),
            endpoints=voter(self.node_id).endpoints,
            listener=LISTENER,
            codec=CODEC,
            entropy=dice,
            now=now,
            rules=self.world.rules,
        )
        self.shown = []
        self._fetching = None
        self._looks_at = None
        self.quorum.start(now)
        self.settle()

    def crash(self) -> None:
        assert self.quorum is not None
        self.quorum = None
        self.files = after_crash(self.files, data_drawn(Dice(self.world.random)), names_undone)

    def append(self, *records: str) -> None:
        if self.quorum is not None and self.quorum.is_active:
            self.quorum.append(records, self.world.now)
            self.settle()

    # Carrying out what the quorum wants

    def settle(self) -> None:
        quorum = self.quorum
        if quorum is None:
            return
        self.world.check(self, quorum)
        for sent in quorum.elections.take_requests():
            self._send(sent)
        job = quorum.sync_job()
        if job is not None:
            self._after(self.world.random.randrange(30), lambda: self._synced(job))
        self._fetch(quorum)
        self.world.look_at_parked(self)
        due_ms = max(quorum.elections.due_ms, self.world.now.monotonic_ms + 1)
        if due_ms != self._looks_at:
            self._looks_at = due_ms
            self._after(due_ms - self.world.now.monotonic_ms, lambda: self._time_passed(due_ms))

    def _time_passed(self, due_ms: int) -> None:
        if self._looks_at == due_ms and self.quorum is not None:
            self._looks_at = None
            self.quorum.elections.time_passed(self.world.now)

    def _synced(self, job: FlushJob) -> None:
        assert self.quorum is not None
        job.run()
        self.quorum.synced(job)

    def _after(self, wait_ms: int, action: Callable[[], None]) -> None:
        """Go on later, if this very process still lives then."""
        starts = self.starts

        def still_there() -> None:
            if self.quorum is not None and self.starts == starts:
                action()
                self.settle()

        self.world.later(wait_ms, still_there)

    def _send(self, sent: OutboundRequest) -> None:
        other = self.world.members[sent.to.voter_id]

        def arrived() -> None:
            if other.quorum is None:
                return
            answer = other.heard(sent)
            other.settle()
            self.world.send(other, self, lambda: answered(answer))

        pending = [True]
        starts = self.starts

        def answered(answer: QuorumResponse) -> None:
            if pending and self.quorum is not None and self.starts == starts:
                pending.clear()
                self.quorum.elections.handle_response(sent, answer, self.world.now)
                self.settle()

        def lost() -> None:
            if pending and self.quorum is not None:
                pending.clear()
                self.quorum.elections.request_failed(sent, self.world.now)

        self._after(LOST_AFTER_MS, lost)
        self.world.send(self, other, arrived)

    def heard(self, sent: OutboundRequest) -> QuorumResponse:
        assert self.quorum is not None
        question, now = sent.request, self.world.now
        match question:
            case Vote():
                answer = self.quorum.elections.handle_vote(question, now)
                if answer.granted and not question.pre_vote:
                    self.world.voted(self, question)
                return answer
            case BeginQuorumEpoch():
                return self.quorum.elections.handle_begin_quorum_epoch(question, now)
            case EndQuorumEpoch():
                return self.quorum.elections.handle_end_quorum_epoch(question, now)

    # Fetching

    def _fetch(self, quorum: Quorum[str]) -> None:
        asked = quorum.next_fetch(self.world.fetch_bytes)
        if asked is None or self._fetching is not None:
            return
        number = self._fetching = next(self._fetches)
        leader_id = quorum.leader_id if quorum.leader_address is not None else -1
        others = [each for each in self.world.voter_ids if each != self.node_id]
        target = leader_id if leader_id in others else self.world.random.choice(others)
        starts = self.starts

        def answered(answer: MetadataFetchResponse[memoryview]) -> None:
            if self._fetching != number or self.starts != starts or self.quorum is None:
                return
            step = self.quorum.handle_fetch_response(asked, answer, self.world.now)
            assert step is not AfterFetch.FETCH_SNAPSHOT
            self._after(0 if step is AfterFetch.FETCH_AGAIN else 20, again)
            self.settle()

        def again() -> None:
            if self._fetching == number:
                self._fetching = None

        self._after(LOST_AFTER_MS, again)
        other = self.world.members[target]
        self.world.send(self, other, lambda: self.world.park(other, self, asked, answered))


class RaftWorld:
    """Voters, what lies between them, and what nobody but the test may know."""

    def __init__(self, seed: int, voters: int) -> None:
        self.random = Random(seed)
        self.now = Now(0, 1_000_000)
        self.voter_ids = range(1, voters + 1)
        self.rules = SnapshotRules()
        self.fetch_bytes = self.random.choice((200, 1000, 1 << 20))
        self.drops = 0.0
        self.cut: set[frozenset[int]] = set()
        self.steps = 0
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()
        self._parked: list[tuple[Member, MetadataFetch, Callable[..., None], Member, int]] = []
        self.leaders: dict[int, int] = {}
        self.votes: dict[tuple[int, int], int] = {}
        self.committed: list[tuple[int, int, str]] = []
        self.marks: dict[int, int] = {}
        self.elected_ms: dict[int, int] = {}
        self.heard_ms: dict[tuple[int, int], int] = {}
        self.members = {node_id: Member(self, node_id) for node_id in self.voter_ids}
        self._written = count()

    # Time and network

    def later(self, wait_ms: int, action: Callable[[], None]) -> None:
        due_ms = self.now.monotonic_ms + max(0, wait_ms)
        heappush(self._queue, (due_ms, next(self._numbers), action))

    def run(self, for_ms: int) -> None:
        until_ms = self.now.monotonic_ms + for_ms
        while self._queue and self._queue[0][0] <= until_ms:
            due_ms, _, action = heappop(self._queue)
            self.now = Now(due_ms, 1_000_000 + due_ms)
            self.steps += 1
            action()
        self.now = Now(until_ms, 1_000_000 + until_ms)

    def send(self, sender: Member, receiver: Member, arrive: Callable[[], None]) -> None:
        pair = frozenset((sender.node_id, receiver.node_id))
        if pair not in self.cut and self.random.random() >= self.drops:
            self.later(self.random.randrange(1, 30), arrive)

    def park(
        self,
        leader: Member,
        follower: Member,
        asked: MetadataFetch,
        answered: Callable[[MetadataFetchResponse[memoryview]], None],
    ) -> None:
        if leader.quorum is None:
            return
        leader.quorum.handle_fetch(asked, self.now)
        self.heard_ms[leader.node_id, follower.node_id] = self.now.monotonic_ms
        self.check(leader, leader.quorum)
        until_ms = self.now.monotonic_ms + PARKED_MS
        self._parked.append((leader, asked, answered, follower, until_ms))
        self.later(PARKED_MS, lambda: self.look_at_parked(leader))
        leader.settle()

    def look_at_parked(self, leader: Member) -> None:
        """Answer whoever has waited long enough, or for something that is there now."""
        mine = [each for each in self._parked if each[0] is leader]
        if leader.quorum is None:
            self._parked = [each for each in self._parked if each[0] is not leader]
            return
        for each in mine:
            _, asked, answered, follower, until_ms = each
            answer = leader.quorum.answer_for(asked)
            if answer.is_news_for(asked) or self.now.monotonic_ms >= until_ms:
                self._parked.remove(each)
                self._deliver(leader, follower, answer, answered)

    def _deliver(
        self,
        leader: Member,
        follower: Member,
        answer: MetadataFetchResponse[LogSlice],
        answered: Callable[[MetadataFetchResponse[memoryview]], None],
    ) -> None:
        data = None if answer.records is None else memoryview(bytearray(answer.records.read()))
        self.send(leader, follower, lambda: answered(answer._replace(records=data)))  # type: ignore[arg-type]  # the slice became its bytes

    # What must hold

    def voted(self, member: Member, asked: Vote) -> None:
        """C2: one vote in an epoch, for ever. C3: for somebody whose log is not behind."""
        before = self.votes.setdefault((member.node_id, asked.epoch), asked.candidate.id)
        assert before == asked.candidate.id, f"{member.node_id} voted twice in {asked.epoch}"
        assert member.quorum is not None
        own = member.quorum.log
        behind = (asked.last_epoch, asked.end_offset) < (own.latest_epoch, own.end_offset)
        assert not behind, f"{member.node_id} voted for one whose log is behind (C3)"

    def check(self, member: Member, quorum: Quorum[str]) -> None:
        role = quorum.role
        assert role.epoch >= member.epoch, "the epoch never falls, across restarts too (C2)"
        member.epoch = role.epoch
        member.durable_end = quorum.log.durable_end
        if isinstance(role, Leader):
            leader = self.leaders.setdefault(role.epoch, member.node_id)
            assert leader == member.node_id, f"epoch {role.epoch} has two leaders (C1)"
            self.votes.setdefault((member.node_id, role.epoch), member.node_id)
            assert self.votes[member.node_id, role.epoch] == member.node_id
            self._check_commitment(member, quorum, role)
            self._check_majority(member, role)
        elif isinstance(role, Follower):
            leader = self.leaders.get(role.epoch, role.leader_id)
            assert leader == role.leader_id, f"epoch {role.epoch} is led by {leader} (C1)"
        self._check_shown(member, quorum)

    def _check_commitment(self, member: Member, quorum: Quorum[str], leader: Leader) -> None:
        mark = leader.high_watermark
        if mark <= self.marks.setdefault(leader.epoch, mark):
            return
        self.marks[leader.epoch] = mark
        assert quorum.log.epoch_at(mark - 1) == leader.epoch, "an own record is committed (C4)"
        holding = [each for each in self.members.values() if each.durable_end >= mark]
        assert len(holding) > len(self.voter_ids) // 2, f"{mark} is not with a majority (C5)"

    def _check_majority(self, member: Member, leader: Leader) -> None:
        """C8: who has not heard from a majority for so long does not lead any more."""
        now_ms = self.now.monotonic_ms
        elected_ms = self.elected_ms.setdefault(leader.epoch, now_ms)
        others = [each for each in self.voter_ids if each != member.node_id]
        heard = sorted(self.heard_ms.get((member.node_id, each), 0) for each in others)
        with_majority_ms = max(elected_ms, heard[-(len(self.voter_ids) // 2)])
        assert now_ms - with_majority_ms <= DEFAULT_TIMEOUTS.check_quorum_ms + 1, "alone (C8)"

    def _check_shown(self, member: Member, quorum: Quorum[str]) -> None:
        """C7: all see the same, and what was seen once stays."""
        start = member.shown[-1][0] + 1 if member.shown else 0
        if quorum.replica.high_watermark <= start:
            return
        member.shown += [tuple(each) for each in quorum.replica.committed_since(start)]  # type: ignore[misc]  # a triple by its definition
        fresh = member.shown[len(self.committed) :]
        known = min(len(member.shown), len(self.committed))
        assert member.shown[:known] == self.committed[:known], "two nodes disagree (C7)"
        self.committed += fresh

    # Convenience

    def write(self) -> None:
        for member in self.members.values():
            member.append(f"record {next(self._written)}")

    @property
    def running(self) -> list[Member]:
        return [member for member in self.members.values() if member.quorum is not None]

    def leader(self) -> Member | None:
        """Whoever leads the latest epoch, actively."""
        active = [each for each in self.running if each.quorum and each.quorum.is_active]
        return max(active, key=lambda each: each.epoch, default=None)

    def log_bytes(self, node_id: int) -> bytes:
        path = "/data/__cluster_metadata-0/00000000000000000000.log"
        return bytes(read_all(self.members[node_id].files, path))
