"""One voter on a disk in memory: the quorum's own classes, and as much shell as carries them.

The shell does what a node does: it sends requests and takes the answers, fetches whenever there is
something else to fetch or the last fetch was answered, and syncs. Time stands still unless it is
told to pass.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeVar
from uuid import UUID

from tests.quorum.exploration.canonical import canonical, digest
from tests.quorum.exploration.happenings import (
    AllLost,
    Answered,
    Asked,
    FetchAnswered,
    FetchAsked,
    Happening,
    HungUp,
    Message,
    Restarted,
    Synced,
    TimePassed,
    VotersChanged,
    Written,
)
from tests.quorum.exploration.scope import Rules
from tests.quorum.exploration.seen import LogEntry, Seen
from tests.quorum.raft_world import CODEC, LISTENER, voter

from tidelog.model.time import Now
from tidelog.quorum.election_state import read_election_state
from tidelog.quorum.fetching import MetadataFetch, MetadataFetchResponse
from tidelog.quorum.formatting import format_directory
from tidelog.quorum.messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    OutboundRequest,
    QuorumResponse,
    ReplicaKey,
    Vote,
)
from tidelog.quorum.metadata_log import metadata_log_config
from tidelog.quorum.quorum import AfterFetch, Quorum
from tidelog.quorum.timeouts import DEFAULT_TIMEOUTS, NEVER_MS
from tidelog.records.batch import whole_batches
from tidelog.simulator.disk.crash import (
    data_kept,
    data_lost,
    image_after_crash,
    names_kept,
    names_undone,
)
from tidelog.simulator.disk.memory_filesystem import DiskImage, MemoryFileSystem
from tidelog.storage.flush import FlushJob
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.log_values import LogSlice

T = TypeVar("T")
WALL_MS: Final = 1_000_000
"""Always the same: it stands in the records, and nothing depends on it."""

KEPT: Final = data_kept, names_kept
LOST: Final = data_lost, names_undone


class OwnDice:
    """Each voter its own throw, always the same: no two wait equally long."""

    def __init__(self, node_id: int, voters: int) -> None:
        self._share = node_id - 1, voters

    def uuid(self) -> UUID:
        return UUID(int=4711)

    def below(self, bound: int) -> int:
        rank, voters = self._share
        return bound * rank // voters


@cache
def _formatted(node_id: int, voters: int) -> DiskImage:
    files = MemoryFileSystem()
    files.make_directory("/data")
    format_directory(
        files,
        "/data",
        cluster_id="4L6g3nShT-eMCtK--X86sw",
        node_id=node_id,
        directory_id=UUID(int=node_id + 1000),
        bootstrap=(),
        voters=tuple(map(voter, range(1, voters + 1))),
        wall_ms=WALL_MS,
    )
    return image_after_crash(files)


class Machine:
    """A disk, and the voter that runs on it."""

    def __init__(self, node_id: int, rules: Rules) -> None:
        self._node_id = node_id
        self._rules = rules
        self._clock_ms = 0
        image = _formatted(node_id, rules.voters)
        self._files = MemoryFileSystem(image, record_trace=False)
        self._sent: list[Message] = []
        self._start()
        self._settled()

    def _start(self) -> None:
        dice = OwnDice(self._node_id, self._rules.voters)
        directory = LogDirectory(self._files, "/data", dice)
        directory.begin()
        self._quorum: Quorum[str] = Quorum(
            files=self._files,
            log=directory.load_metadata_log(self._now, metadata_log_config()),
            own=ReplicaKey(self._node_id, UUID(int=self._node_id + 1000)),
            endpoints=voter(self._node_id).endpoints,
            listener=LISTENER,
            codec=CODEC,
            entropy=dice,
            now=self._now,
        )
        self._requests: set[OutboundRequest] = set()
        self._asked: MetadataFetch | None = None
        self._syncing: FlushJob | None = None
        self._quorum.start(self._now)

    @property
    def _now(self) -> Now:
        return Now(self._clock_ms, WALL_MS)

    def meets(self, happening: Happening) -> tuple[Message, ...]:
        """Let it happen; what this voter has to say then."""
        quorum = self._quorum
        match happening:
            case Restarted(power_lost):
                image = image_after_crash(self._files, *(LOST if power_lost else KEPT))
                self._files = MemoryFileSystem(image, record_trace=False)
                self._start()
            case TimePassed(ms):
                self._clock_ms += ms
                quorum.elections.time_passed(self._now)
            case Asked(sender, sent):
                self._say(sender, Answered(sent, self._heard(sent)))
            case Answered(sent, answer):
                quorum.elections.handle_response(sent, answer, self._now)
            case FetchAsked(sender, asked):
                found = _with_records_as(bytes, quorum.handle_fetch(asked, self._now))
                self._say(sender, FetchAnswered(self._node_id, asked, found))
            case FetchAnswered(_, asked, given):
                writable = _with_records_as(bytearray, given)
                step = quorum.handle_fetch_response(
                    asked, _with_records_as(memoryview, writable), self._now
                )
                assert step is not AfterFetch.FETCH_SNAPSHOT
                self._asked = None
            case AllLost():
                for sent in self._requests:
                    quorum.elections.request_failed(sent, self._now)
                self._asked = None
            case Synced():
                self._sync_done()
            case HungUp():
                quorum.elections.leader_disconnected(self._now)
            case Written(record):
                quorum.append([record], self._now)
            case VotersChanged(change):
                quorum.change_voters(change, self._now)
        return self._settled()

    def _heard(self, sent: OutboundRequest) -> QuorumResponse:
        match sent.request:
            case Vote() as asked:
                return self._quorum.elections.handle_vote(asked, self._now)
            case BeginQuorumEpoch() as begun:
                return self._quorum.elections.handle_begin_quorum_epoch(begun, self._now)
            case EndQuorumEpoch() as ended:
                return self._quorum.elections.handle_end_quorum_epoch(ended, self._now)

    def _settled(self) -> tuple[Message, ...]:
        """Carry out what the quorum wants; everything that was said since the last time."""
        self._sync()
        for sent in self._quorum.elections.take_requests():
            self._requests.add(sent)
            self._say(sent.to.voter_id, Asked(self._node_id, sent))
        asked, before = self._wants, self._asked
        self._asked = asked
        if asked is not None and asked != before:
            for other in self._fetches_from:
                self._say(other, FetchAsked(self._node_id, asked))
        said, self._sent = self._sent, []
        return tuple(said)

    @property
    def _wants(self) -> MetadataFetch | None:
        has_whom_to_ask = self._rules.gossip or self._quorum.leader_address is not None
        return self._quorum.next_fetch(self._rules.fetch_bytes) if has_whom_to_ask else None

    @property
    def _fetches_from(self) -> tuple[int, ...]:
        """The leader; whoever does not know it asks any of the others."""
        if self._quorum.leader_address is not None:
            return (self._quorum.leader_id,)
        return tuple(each for each in range(1, self._rules.voters + 1) if each != self._node_id)

    def _sync(self) -> None:
        while self._syncing is None and (job := self._quorum.sync_job()) is not None:
            self._syncing = job
            if not self._rules.slow_syncs:
                self._sync_done()

    def _sync_done(self) -> None:
        job, self._syncing = self._syncing, None
        assert job is not None
        job.run()
        self._quorum.synced(job)

    def _say(self, to: int, what: Happening) -> None:
        self._sent.append(Message(to, what))

    # What it is

    def seen(self) -> Seen:
        quorum, role = self._quorum, self._quorum.role
        log = quorum.log
        on_disk, lasting = (image_after_crash(self._files, *fates) for fates in (KEPT, LOST))
        stands_ms = role.due_ms
        if quorum.is_leader:  # no reminder, which says nothing new, but the end of patience
            stands_ms = self._clock_ms + DEFAULT_TIMEOUTS.check_quorum_ms
        return Seen(
            node_id=self._node_id,
            role=role.name,
            epoch=role.epoch,
            leader_id=quorum.leader_id,
            is_active=quorum.is_active,
            voter_ids=quorum.voters.voter_ids,
            log=tuple(
                LogEntry(header.base_offset, header.next_offset, header.leader_epoch, bytes(batch))
                for header, batch in log.batches(log.start_offset, log.end_offset)
            ),
            lasting_end=_log_end_in(lasting),
            high_watermark=quorum.replica.high_watermark,
            stored=read_election_state(self._files, log.directory),
            wants=self._wants,
            is_syncing=self._syncing is not None,
            stands_in_ms=self._until(stands_ms),
            looks_in_ms=self._until(quorum.elections.due_ms),
            hidden=(
                canonical(role, self._clock_ms),
                canonical(quorum._observers, self._clock_ms),
                quorum.voters,
                quorum.elections._lost_leader,
                log.durable_end,
                self._syncing and (self._syncing.up_to, self._is_overtaken(self._syncing)),
            ),
            disk=digest(on_disk, lasting),
        )

    def _is_overtaken(self, job: FlushJob) -> bool:
        """Whether the log was cut since the job was made."""
        return job.generation != self._quorum.log._log.flushes.generation

    def _until(self, due_ms: int) -> int | None:
        return None if due_ms == NEVER_MS else max(0, due_ms - self._clock_ms)


def _with_records_as(
    kind: Callable[[Any], T], given: MetadataFetchResponse[Any]
) -> MetadataFetchResponse[T]:
    """The records of an answer on their way from disk through the network to a node."""
    records = given.records.read() if isinstance(given.records, LogSlice) else given.records
    return given._replace(records=None if records is None else kind(records))


def _log_end_in(image: DiskImage) -> int:
    end = 0
    for entry in image:
        if entry.content is not None and entry.path.endswith(".log"):
            for header, _ in whole_batches(entry.content):
                end = header.next_offset
    return end
