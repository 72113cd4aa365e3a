"""One voter, and peers that say anything at all: whatever they say, it goes on, keeps what it
promised, and can be elected by those who speak the truth.

What it cannot do is tell the truth from a lie that could be true: a leader that it follows gives it
a log, and a log that lacks what was committed stops it (`LostCommittedMetadata`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.quorum.voter_bench import GRANTED, VoterBench, address, key

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.quorum.batches import control_batch, record_batch
from tidelog.quorum.control_records import KRaftVersionRange, Voter, VoterEndpoint, Voters
from tidelog.quorum.fetching import MetadataFetch, MetadataFetchResponse, SnapshotFetch
from tidelog.quorum.messages import (
    EPOCH_MAX,
    BeginQuorumEpoch,
    EndQuorumEpoch,
    OutboundRequest,
    QuorumResponse,
    ReplicaKey,
    Vote,
)
from tidelog.quorum.metadata_replica import LostCommittedMetadata
from tidelog.quorum.quorum import AfterFetch
from tidelog.quorum.snapshots import SnapshotId, write_snapshot
from tidelog.quorum.timeouts import NEVER_MS
from tidelog.quorum.voters import AddVoter, RemoveVoter, UpdateVoter, VoterChange
from tidelog.storage.log_place import Lowering

INT64_MAX: Final = (1 << 63) - 1
near: Final = st.integers(-2, 6)
ids: Final = st.integers(-2, 4) | st.sampled_from([77, EPOCH_MAX])
epochs: Final = near | st.sampled_from([1 << 30, (1 << 30) + 1, EPOCH_MAX - 1, EPOCH_MAX])
offsets: Final = st.integers(-2, 60) | st.sampled_from([INT64_MAX - 1, INT64_MAX])
directories: Final = st.sampled_from(
    [ZERO_UUID, UUID(int=5), *(key(voter).directory_id for voter in (1, 2, 3))]
)
keys: Final = st.builds(ReplicaKey, ids, directories) | st.sampled_from([key(1), ReplicaKey(-1)])
addresses: Final = st.none() | st.sampled_from([address(2), ("", 0), ("nowhere", -1)])
errors: Final = st.sampled_from([0, 0, 0, -1, 6, 35, 42, 74, 75, 125, 4711])
votes: Final = st.builds(Vote, epochs, keys, keys, epochs, offsets, st.booleans())
begun: Final = st.builds(BeginQuorumEpoch, epochs, ids, keys, addresses)
ended: Final = st.builds(EndQuorumEpoch, epochs, ids, st.lists(keys).map(tuple), addresses)
responses: Final = st.builds(QuorumResponse, errors, epochs, ids, addresses, st.booleans())
fetches: Final = st.builds(
    MetadataFetch, ids, directories, epochs, offsets, epochs, offsets, st.integers(-1, 5000)
)
snapshots: Final = st.builds(SnapshotId, offsets, epochs)
snapshot_fetches: Final = st.builds(
    SnapshotFetch, keys, epochs, snapshots, offsets, st.integers(-1, 5000)
)
endpoints: Final = st.builds(
    VoterEndpoint,
    name=st.sampled_from(["CONTROLLER", "OTHER"]),
    host=st.sampled_from(["", "0.0.0.0", "node-2"]),
    port=st.sampled_from([0, 9093]),
)
voters: Final = st.builds(
    Voter,
    voter_id=ids,
    voter_directory_id=directories,
    endpoints=st.lists(endpoints, max_size=2).map(tuple),
    kraft_version_feature=st.builds(
        KRaftVersionRange, min_supported_version=near, max_supported_version=near
    ),
)
changes: Final = (
    st.builds(AddVoter, voters)
    | st.builds(RemoveVoter, keys)
    | st.builds(UpdateVoter, voters, near)
)


@st.composite
def batches(draw: Callable[..., Any]) -> bytes:
    """Some that fit, some that do not, and some that are none."""
    base_offset, epoch = draw(st.integers(0, 60)), draw(st.integers(-1, 6))
    kind = draw(st.sampled_from(["records", "voters", "other", "noise"]))
    if kind == "noise":
        return bytes(draw(st.binary(max_size=100)))
    if kind == "voters":
        members = tuple(draw(st.lists(voters.filter(lambda each: each.voter_id >= 0), max_size=3)))
        batch = control_batch(
            [Voters(voters=members)], 0, base_offset=base_offset, leader_epoch=epoch
        )
    else:
        values = [draw(st.sampled_from([b"one", b"other"]))] * draw(st.integers(1, 3))
        batch = record_batch(values, 0, base_offset=base_offset, leader_epoch=epoch)
    if kind == "other":
        batch[draw(st.integers(0, len(batch) - 1))] ^= draw(st.integers(1, 255))
    return bytes(batch)


given_by_a_leader: Final = st.fixed_dictionaries(
    {},
    optional={
        "high_watermark": offsets,
        "records": batches().map(lambda data: memoryview(bytearray(data))),
        "diverging": st.tuples(epochs, offsets),
        "snapshot": snapshots,
    },
)
truthful: Final = st.booleans()


class Voter1:
    """Voter 1 of three, with all that it was ever heard to promise."""

    def __init__(self) -> None:
        self.bench = VoterBench()
        self.sent: list[OutboundRequest] = []
        self.votes: dict[int, ReplicaKey] = {}
        self.epoch = 0
        self.committed: dict[int, str] = {}

    def hears(self, draw: Callable[..., Any]) -> None:
        """One thing happens to it."""
        act = draw(
            st.sampled_from(
                [
                    self._is_asked_for_a_vote,
                    self._is_told_of_a_leader,
                    self._is_answered,
                    self._is_given,
                    self._is_asked_for_the_log,
                    self._waits,
                    self._restarts,
                    self._follows_or_wins,
                    self._changes_voters,
                ]
            )
        )
        act(draw)
        self.sent += self.bench.requests()
        self._sync()
        self.keeps_its_promises()

    def _is_asked_for_a_vote(self, draw: Callable[..., Any]) -> None:
        vote: Vote = draw(votes)
        response = self.bench.elections.handle_vote(vote, self.bench.now)
        if response.granted and not vote.pre_vote:
            first = self.votes.setdefault(vote.epoch, vote.candidate)
            assert first.is_same(vote.candidate), f"two votes in epoch {vote.epoch}"

    def _is_told_of_a_leader(self, draw: Callable[..., Any]) -> None:
        words: BeginQuorumEpoch | EndQuorumEpoch = draw(begun | ended)
        if isinstance(words, BeginQuorumEpoch):
            self.bench.elections.handle_begin_quorum_epoch(words, self.bench.now)
        else:
            self.bench.elections.handle_end_quorum_epoch(words, self.bench.now)

    def _is_answered(self, draw: Callable[..., Any]) -> None:
        if self.sent:
            sent = self.sent.pop(draw(st.integers(0, len(self.sent) - 1)))
            self.bench.elections.handle_response(sent, draw(responses), self.bench.now)

    def _is_given(self, draw: Callable[..., Any]) -> None:
        quorum = self.bench.quorum
        asked = quorum.next_fetch()
        if asked is None:
            return
        leader_id, epoch, error = draw(ids), draw(epochs), draw(errors)
        if draw(truthful):
            leader_id, epoch, error = quorum.leader_id, quorum.epoch, ErrorCode.none
        answer = MetadataFetchResponse(
            error=error,
            leader_id=leader_id,
            leader_epoch=epoch,
            leader_address=draw(addresses),
            **draw(given_by_a_leader),
        )
        step = quorum.handle_fetch_response(asked, answer, self.bench.now)
        if step is AfterFetch.FETCH_SNAPSHOT and answer.snapshot is not None:
            self._installs(answer.snapshot)
        if (lowering := quorum.lowering()) is not None:
            run(lowering)
            quorum.lowered()

    def _installs(self, snapshot: SnapshotId) -> None:
        log = self.bench.quorum.log
        write_snapshot(
            self.bench.files,
            log.path_of(snapshot),
            [b"state"],
            epoch=snapshot.epoch,
            last_contained_timestamp=0,
            timestamp=0,
            kraft_version=1,
            voters=self.bench.quorum.voters.voters,
        )
        if (lowering := log.lowering_for_snapshot(snapshot)) is not None:
            run(lowering)
        self.bench.quorum.replica.install(snapshot, self.bench.now)

    def _is_asked_for_the_log(self, draw: Callable[..., Any]) -> None:
        quorum = self.bench.quorum
        asked: MetadataFetch = draw(fetches)
        if draw(truthful):
            asked = asked._replace(leader_epoch=quorum.epoch, last_epoch=quorum.log.latest_epoch)
        quorum.handle_fetch(asked, self.bench.now)
        quorum.handle_snapshot_fetch(draw(snapshot_fetches), self.bench.now)

    def _changes_voters(self, draw: Callable[..., Any]) -> None:
        change: VoterChange = draw(changes)
        self.bench.quorum.change_voters(change, self.bench.now)

    def _waits(self, draw: Callable[..., Any]) -> None:
        self.bench.wait(draw(st.sampled_from([1, 100, 2500])))

    def _restarts(self, draw: Callable[..., Any]) -> None:
        self.sent.clear()
        self.bench.start()

    def _follows_or_wins(self, draw: Callable[..., Any]) -> None:
        """Others speak the truth for once."""
        bench = self.bench
        if draw(st.booleans()):
            words = BeginQuorumEpoch(bench.quorum.epoch + 1, 2, key(1), address(2))
            bench.elections.handle_begin_quorum_epoch(words, bench.now)
            bench.elections.leader_answered(bench.now)
        else:
            self.is_elected()

    def is_elected(self) -> None:
        """Those whom it asks vote for it, as often as it stands."""
        bench = self.bench
        for _ in range(8):
            if not bench.quorum.is_leader and bench.elections.due_ms < NEVER_MS:
                bench.wait_until_due()
            while (sent := bench.requests()) and not bench.quorum.is_leader:
                for each in sent:
                    bench.answer(each, GRANTED)

    def _sync(self) -> None:
        while (job := self.bench.quorum.sync_job()) is not None:
            job.run()
            self.bench.quorum.synced(job)

    @property
    def can_be_elected(self) -> bool:
        """By the voters of its log, which somebody whom it followed may have changed."""
        others = self.bench.quorum.voters
        return others.find(*key(1)) is not None and self.bench.quorum.epoch < EPOCH_MAX

    def keeps_its_promises(self) -> None:
        """Its disk knows what it is, and nothing that was committed has changed."""
        quorum, stored = self.bench.quorum, self.bench.stored
        assert quorum.epoch >= self.epoch, "an epoch fell"
        assert stored.epoch == quorum.epoch
        assert stored.leader_id >= -1 and stored.voted_id >= -1
        voted = self.votes.get(stored.epoch)
        if voted is not None and stored.voted_id >= 0:
            assert voted.id == stored.voted_id, "a vote was forgotten"
        self.epoch = quorum.epoch
        replica = quorum.replica
        assert replica.high_watermark <= quorum.log.end_offset
        for offset, _, record in replica.committed_since(quorum.log.start_offset):
            assert self.committed.setdefault(offset, record) == record


def run(lowering: Lowering) -> None:
    lowering.run()
    while lowering.done(None):
        lowering.run()


@settings(deadline=None)
@given(st.data())
def test_whatever_peers_say_a_voter_goes_on_and_keeps_what_it_promised(data: st.DataObject) -> None:
    voter = Voter1()
    with suppress(LostCommittedMetadata):
        for _ in range(data.draw(st.integers(1, 25))):
            voter.hears(data.draw)
        voter.bench.start()
        voter.keeps_its_promises()
        if voter.can_be_elected:
            voter.is_elected()
            assert voter.bench.quorum.is_leader
