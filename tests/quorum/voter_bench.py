"""One voter, number 1 of several, with a clock of its own and the others played by a test."""

from __future__ import annotations

from functools import cache
from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import METADATA_TOPIC
from tidelog.model.time import Now
from tidelog.quorum.batches import record_batch
from tidelog.quorum.control_records import Voter, VoterEndpoint, Voters
from tidelog.quorum.election_state import ElectionState, read_election_state, write_election_state
from tidelog.quorum.formatting import format_directory
from tidelog.quorum.messages import (
    BeginQuorumEpoch,
    LogEnd,
    OutboundRequest,
    QuorumResponse,
    ReplicaKey,
    Vote,
)
from tidelog.quorum.metadata_log import MetadataLog, metadata_log_config
from tidelog.quorum.metadata_replica import RecordCodec
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.timeouts import QuorumTimeouts
from tidelog.simulator.disk.crash import image_after_crash
from tidelog.simulator.disk.memory_filesystem import DiskImage, MemoryFileSystem
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.partition_log import PartitionLog

TIMEOUTS = QuorumTimeouts()
END = LogEnd(3, 50)
FRESH = ElectionState(epoch=3)
GRANTED, REFUSED = True, False


class Dice:
    """The same throws every time."""

    def uuid(self) -> UUID:
        return UUID(int=4711)

    def below(self, bound: int) -> int:
        return bound // 2


def key(voter_id: int) -> ReplicaKey:
    return ReplicaKey(voter_id, UUID(int=1000 + voter_id))


def address(voter_id: int) -> tuple[str, int]:
    return f"node-{voter_id}", 9093


def member(voter_id: int) -> Voter:
    host, port = address(voter_id)
    endpoint = VoterEndpoint(name="CONTROLLER", host=host, port=port)
    return Voter(
        voter_id=voter_id, voter_directory_id=key(voter_id).directory_id, endpoints=(endpoint,)
    )


@cache
def _disk(own: int, voters: int) -> DiskImage:
    """Formatted, with a log that ends at `END`."""
    files, now = MemoryFileSystem(), Now(0, 0)
    files.make_directory("/data")
    format_directory(
        files,
        "/data",
        cluster_id="4L6g3nShT-eMCtK--X86sw",
        node_id=own,
        directory_id=key(own).directory_id,
        bootstrap=(),
        voters=tuple(map(member, range(1, voters + 1))),
        wall_ms=0,
    )
    log = MetadataLog(files, _log_in(files, now), now, may_refetch=False)
    log.append(record_batch([b"record"] * END.offset, 0), END.epoch, now)
    return image_after_crash(files)


def _log_in(files: MemoryFileSystem, now: Now) -> PartitionLog:
    directory = LogDirectory(files, "/data", Dice())
    directory.begin()
    return directory.load_metadata_log(now, metadata_log_config())


class VoterBench:
    """Voter 1 with a clock of its own."""

    def __init__(
        self,
        voters: int = 3,
        stored: ElectionState = FRESH,
        own: int = 1,
        *,
        writes_by_jobs: bool = False,
    ) -> None:
        self.now = Now(10_000, 0)
        self._own = own
        self._writes_by_jobs = writes_by_jobs
        self.files = MemoryFileSystem(_disk(own, voters))
        self._directory = f"/data/{METADATA_TOPIC}-0"
        write_election_state(
            self.files,
            self._directory,
            stored,
            kraft_version=1,
            voter_ids=tuple(range(1, voters + 1)),
        )
        self.start()

    def start(self) -> None:
        """Go on from what its disk has."""
        own, log = self._own, _log_in(self.files, self.now)
        self.quorum: Quorum[str] = Quorum(
            files=self.files,
            log=log,
            own=key(own),
            endpoints=member(own).endpoints,
            listener="CONTROLLER",
            codec=RecordCodec(str.encode, bytes.decode),
            entropy=Dice(),
            now=self.now,
            timeouts=TIMEOUTS,
            writes_by_jobs=self._writes_by_jobs,
        )
        self.elections = self.quorum.elections
        self.quorum.start(self.now)

    @property
    def stored(self) -> ElectionState:
        """What is on its disk."""
        return read_election_state(self.files, self._directory)

    def voters_become(self, *voter_ids: int) -> None:
        """Another set of voters stands in its log."""
        voters = Voters(voters=tuple(map(member, voter_ids)))
        self.quorum.replica.append_control([voters], self.quorum.epoch, self.now)

    @property
    def state(self) -> tuple[str, int, int]:
        """Role, epoch, leader."""
        return self.quorum.role.name, self.quorum.epoch, self.elections.leader_id

    def wait(self, milliseconds: int) -> None:
        until_ms = self.now.monotonic_ms + milliseconds
        while self.elections.due_ms <= until_ms:
            self.now = Now(max(self.elections.due_ms, self.now.monotonic_ms), 0)
            self.elections.time_passed(self.now)
        self.now = Now(until_ms, 0)

    def wait_until_due(self) -> None:
        self.wait(self.elections.due_ms - self.now.monotonic_ms)

    def requests(self) -> list[OutboundRequest]:
        return self.elections.take_requests()

    def answer(self, sent: OutboundRequest, granted: bool, error: int = ErrorCode.none) -> None:
        answer = QuorumResponse(error, sent.request.epoch, granted=granted)
        self.elections.handle_response(sent, answer, self.now)

    def ask_vote(
        self,
        candidate: int,
        epoch: int,
        *,
        pre_vote: bool = False,
        last: LogEnd = END,
        voter: ReplicaKey | None = None,
    ) -> QuorumResponse:
        asked = Vote(epoch, key(candidate), voter or key(1), *last, pre_vote)
        return self.elections.handle_vote(asked, self.now)

    def follow(self, leader: int, epoch: int) -> None:
        begun = BeginQuorumEpoch(epoch, leader, key(1), address(leader))
        assert self.elections.handle_begin_quorum_epoch(begun, self.now).error == ErrorCode.none

    def stand(self) -> list[OutboundRequest]:
        """Wait until it asks for pre-votes."""
        self.wait_until_due()
        return self.requests()

    def campaign(self) -> list[OutboundRequest]:
        """Let one of the others encourage it; its questions for real votes."""
        self.answer(self.stand()[0], GRANTED)
        return self.requests()

    def win(self) -> list[OutboundRequest]:
        """Let one of the others vote for it; what it says as leader."""
        self.answer(self.campaign()[0], GRANTED)
        return self.requests()
