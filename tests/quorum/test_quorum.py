from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from tests.quorum.conftest import VOTER, formatted

from tidelog.model.errors import ConfigError, DiskError, InvariantBroken
from tidelog.model.ids import METADATA_TOPIC, TopicPartition
from tidelog.model.time import Now
from tidelog.protocol.stored.quorum import (
    KRaftVersionRecord,
    LeaderChangeMessage,
)
from tidelog.quorum.batches import TooLargeForOneBatch
from tidelog.quorum.control_records import (
    ControlRecord,
    Voter,
    VoterEndpoint,
    Voters,
    read_control_record,
)
from tidelog.quorum.election_state import ElectionState, read_election_state, write_election_state
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.snapshots import SnapshotId, write_snapshot
from tidelog.records.batch import whole_batches
from tidelog.records.record import records_of
from tidelog.simulator.disk.crash import (
    after_crash,
    crashes,
    data_kept,
    data_lost,
    data_torn_at,
    names_undone,
    page_zeroed,
)
from tidelog.simulator.disk.disk_operation import FileSynced
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.checkpoint import RECOVERY_POINTS, OffsetCheckpoint
from tidelog.storage.filesystem import read_all

OpenQuorum = Callable[..., Quorum[str]]
DIRECTORY = "/data/__cluster_metadata-0"
LOG = f"{DIRECTORY}/00000000000000000000.log"


def at(ms: int) -> Now:
    return Now(ms, 1000 + ms)


def sync(quorum: Quorum[str]) -> bool:
    job = quorum.sync_job()
    if job is None:
        return False
    job.run()
    return quorum.synced(job)


def records(quorum: Quorum[str], offset: int = 0) -> list[tuple[int, int, str]]:
    return [tuple(committed) for committed in quorum.replica.committed_since(offset)]  # type: ignore[misc]  # a triple by its definition


def control_records(files: MemoryFileSystem, path: str = LOG) -> list[ControlRecord]:
    return [
        read_control_record(record)
        for header, batch in whole_batches(read_all(files, path))
        if header.is_control
        for record in records_of(batch)
    ]


def started(open_quorum: OpenQuorum, files: MemoryFileSystem, **options: object) -> Quorum[str]:
    quorum = open_quorum(files, **options)
    quorum.start(at(0))
    sync(quorum)
    return quorum


def test_the_sole_voter_leads_epoch_one_of_a_fresh_quorum(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    quorum = open_quorum(files)
    assert (quorum.leader_id, quorum.is_active) == (-1, False)
    quorum.start(at(0))

    assert (quorum.leader_id, quorum.epoch) == (1, 1)
    assert read_election_state(files, DIRECTORY) == ElectionState(epoch=1, leader_id=1)
    leader_change, version, voters = control_records(files)
    assert isinstance(leader_change, LeaderChangeMessage)
    assert [voter.voter_id for voter in leader_change.granting_voters] == [1]
    assert version == KRaftVersionRecord(kraft_version=1)
    assert isinstance(voters, Voters)
    assert voters.voters[0].endpoints[0].port == 9093


def test_nothing_is_committed_before_the_first_sync(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    quorum = open_quorum(files)
    quorum.start(at(0))
    assert (quorum.replica.high_watermark, quorum.is_active) == (0, False)
    assert sync(quorum)
    assert (quorum.replica.high_watermark, quorum.is_active) == (3, True)


def test_the_epoch_is_durable_before_a_record_of_it_is_written(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    quorum = open_quorum(files)
    quorum.start(at(0))
    for disk in crashes(files, data_kept, names_undone):
        if disk.exists(LOG) and disk.size(LOG) > 0:
            assert read_election_state(disk, DIRECTORY).epoch == 1


def test_records_are_committed_once_they_are_durable(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    quorum = started(open_quorum, files)
    assert quorum.append(["a", "b"], at(5)) == 5
    assert (records(quorum), quorum.replica.high_watermark) == ([], 3)

    assert sync(quorum)
    assert records(quorum) == [(3, 1, "a"), (4, 1, "b")]
    assert records(quorum, 4) == [(4, 1, "b")]
    assert quorum.replica.high_watermark == quorum.log.end_offset == 5


def test_one_sync_is_under_way_at_a_time_and_covers_what_was_there_when_it_began(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    quorum = started(open_quorum, files)
    quorum.append(["a"], at(1))
    first = quorum.sync_job()
    assert first is not None
    quorum.append(["b"], at(2))
    assert quorum.sync_job() is None
    first.run()
    assert quorum.synced(first)
    assert [record for _, _, record in records(quorum)] == ["a"]
    assert sync(quorum)
    assert [record for _, _, record in records(quorum)] == ["a", "b"]
    assert quorum.sync_job() is None


def test_a_failed_sync_stops_the_node(open_quorum: OpenQuorum, files: MemoryFileSystem) -> None:
    quorum = started(open_quorum, files)
    quorum.append(["a"], at(1))
    job = quorum.sync_job()
    assert job is not None
    files.fail_when(lambda operation: isinstance(operation, FileSynced))
    with pytest.raises(DiskError) as failure:
        job.run()
    with pytest.raises(DiskError, match="could not be synced"):
        quorum.sync_failed(job, str(failure.value))
    assert records(quorum) == []
    with pytest.raises(DiskError, match="cannot be written"):
        quorum.append(["b"], at(2))


def test_records_that_take_effect_together_stand_in_one_batch(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    quorum = started(open_quorum, files)
    quorum.append(["a", "b", "c"], at(7))
    *_, (header, _) = whole_batches(read_all(files, LOG))
    assert (header.base_offset, header.record_count, header.leader_epoch) == (3, 3, 1)
    assert (header.base_timestamp, header.producer_id) == (1007, -1)
    with pytest.raises(TooLargeForOneBatch):
        quorum.append(["x"] * 10_001, at(8))
    assert quorum.log.end_offset == 6


def test_other_records_may_be_split(open_quorum: OpenQuorum, files: MemoryFileSystem) -> None:
    quorum = started(open_quorum, files)
    assert quorum.append(["x"] * 10_001, at(8), atomic=False) == 10_004
    assert len(list(whole_batches(read_all(files, LOG)))) == 3
    assert quorum.append([], at(9)) == 10_004


def test_a_restart_begins_a_new_epoch_and_keeps_what_was_committed(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    quorum = started(open_quorum, files)
    quorum.append(["a"], at(1))
    sync(quorum)

    again = open_quorum(files)
    assert again.replica.latest_snapshot() is None
    again.start(at(10))
    assert (again.epoch, again.replica.high_watermark, again.is_active) == (2, 0, False)
    assert records(again) == []
    sync(again)
    assert records(again) == [(3, 1, "a")]
    assert again.replica.high_watermark == 5
    assert [type(record) for record in control_records(files)] == [
        LeaderChangeMessage,
        KRaftVersionRecord,
        Voters,
        LeaderChangeMessage,
    ]


def test_the_new_epoch_is_above_everything_voted_in_or_written(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    started(open_quorum, files)
    files.remove(f"{DIRECTORY}/quorum-state")
    again = started(open_quorum, files)
    assert again.epoch == 2


def test_a_voter_with_records_and_without_its_election_state_does_not_start(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    quorum = started(open_quorum, files)
    rivals = [voter(2), voter(3)]
    quorum.append(["a"], at(1))
    sync(quorum)
    quorum.replica.append_control(
        [Voters(voters=(*quorum.voters.voters, *rivals))], quorum.epoch, at(1)
    )
    files.remove(f"{DIRECTORY}/quorum-state")
    with pytest.raises(DiskError, match="could vote twice"):
        open_quorum(files).start(at(2))


def test_a_voter_with_a_snapshot_alone_and_without_its_election_state_does_not_start(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    own = started(open_quorum, files).voters.voters
    for name in files.list(DIRECTORY):
        files.remove(f"{DIRECTORY}/{name}")
    write_snapshot(
        files,
        f"{DIRECTORY}/{SnapshotId(7, 2).file_name}",
        (),
        epoch=2,
        last_contained_timestamp=0,
        timestamp=0,
        kraft_version=1,
        voters=(*own, voter(2)),
    )
    with pytest.raises(DiskError, match="could vote twice"):
        open_quorum(files).start(at(2))


def test_a_voter_that_was_just_formatted_has_voted_for_nobody(open_quorum: OpenQuorum) -> None:
    quorum = open_quorum(formatted((VOTER, voter(2))))
    quorum.start(at(0))
    assert (quorum.epoch, quorum.leader_id) == (0, -1)


def test_no_crash_loses_what_was_committed(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    quorum = started(open_quorum, files)
    promised: dict[int, list[str]] = {len(files.trace): []}
    for number in range(4):
        quorum.append([f"{number}a", f"{number}b"], at(number))
        sync(quorum)
        promised[len(files.trace)] = [record for _, _, record in records(quorum)]
    first = min(promised)
    for fate in (data_lost, data_kept, data_torn_at(100), page_zeroed(0)):
        for operations, disk in enumerate(crashes(files, fate, names_undone)):
            if operations < first:
                continue
            again = started(open_quorum, disk)
            found = [record for _, _, record in records(again)]
            kept = promised[max(count for count in promised if count <= operations)]
            assert found[: len(kept)] == kept
            assert again.epoch == 2


def test_what_a_killed_node_left_in_the_page_cache_is_synced_before_it_is_committed(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    killed = started(open_quorum, files, segment_bytes=300)
    written = [f"{number}" * 100 for number in range(4)]
    for record in written:
        killed.append([record], at(1))

    again = open_quorum(files, segment_bytes=300)
    again.start(at(2))
    assert records(again) == []
    sync(again)
    assert [record for _, _, record in records(again)] == written
    after_power_loss = after_crash(files, data_lost, names_undone)
    once_more = started(open_quorum, after_power_loss, segment_bytes=300)
    assert [record for _, _, record in records(once_more)] == written


def test_crashes_during_restarts_do_no_harm(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    quorum = started(open_quorum, files)
    quorum.append(["a"], at(1))
    sync(quorum)
    disk = after_crash(files, data_lost, names_undone)
    started(open_quorum, disk)
    for torn in crashes(disk, data_lost, names_undone):
        again = started(open_quorum, torn)
        assert [record for _, _, record in records(again)] == ["a"]
        assert again.epoch in (2, 3)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
def test_a_voter_that_listens_everywhere_stays_where_the_voters_have_it(
    open_quorum: OpenQuorum, files: MemoryFileSystem, host: str
) -> None:
    everywhere = VoterEndpoint(name="CONTROLLER", host=host, port=19093)
    before = started(open_quorum, files).nodes
    again = started(open_quorum, files, endpoints=(everywhere,))
    assert again.nodes == before
    assert not again.is_described_wrongly


def test_a_controller_that_listens_everywhere_and_is_no_voter_must_say_where_it_is(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    everywhere = VoterEndpoint(name="CONTROLLER", host="0.0.0.0", port=9093)
    with pytest.raises(ConfigError, match=r"advertised\.listeners"):
        open_quorum(files, endpoints=(everywhere,), node_id=2)


def test_a_voter_that_moved_is_described_anew(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    started(open_quorum, files)
    moved = VoterEndpoint(name="CONTROLLER", host="elsewhere", port=19093)
    again = started(open_quorum, files, endpoints=(moved,))
    assert again.nodes[0].endpoints == (moved,)
    *_, last = control_records(files)
    assert isinstance(last, Voters)
    assert last.voters[0].endpoints == (moved,)


def test_a_replaced_metadata_directory_is_not_the_voter(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    with pytest.raises(ConfigError, match="another metadata directory"):
        open_quorum(files, directory_id=UUID(int=9)).start(at(0))


def test_a_controller_that_is_no_voter_only_follows(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    quorum = open_quorum(files, node_id=2)
    quorum.start(at(0))
    quorum.elections.time_passed(at(1 << 40))
    assert (quorum.role.name, quorum.leader_id) == ("unattached", -1)
    assert quorum.elections.take_requests() == []


def voter(voter_id: int) -> Voter:
    endpoint = VoterEndpoint(name="CONTROLLER", host="localhost", port=9093)
    return Voter(voter_id=voter_id, voter_directory_id=UUID(int=0), endpoints=(endpoint,))


def test_voters_may_stand_in_the_configuration(
    open_quorum: OpenQuorum, files_without_voters: MemoryFileSystem
) -> None:
    files = files_without_voters
    quorum = started(open_quorum, files, static_voters=(voter(1),))
    assert [type(record) for record in control_records(files)] == [LeaderChangeMessage]
    assert b'"currentVoters":[{"voterId":1}]' in read_all(files, f"{DIRECTORY}/quorum-state")
    assert quorum.is_active


def test_the_leader_describes_the_quorum(open_quorum: OpenQuorum, files: MemoryFileSystem) -> None:
    quorum = started(open_quorum, files)
    quorum.append(["a"], at(1))
    description = quorum.describe(at(50))
    assert description is not None
    assert (description.leader_id, description.leader_epoch) == (1, 1)
    assert (description.high_watermark, description.observers) == (3, ())
    (progress,) = description.voters
    assert (progress.replica_id, progress.log_end_offset) == (1, 4)
    assert progress.last_fetch_ms == progress.last_caught_up_ms == 1050


def test_only_a_leader_appends(open_quorum: OpenQuorum, files: MemoryFileSystem) -> None:
    with pytest.raises(InvariantBroken):
        open_quorum(files).append(["a"], at(0))


def test_a_damaged_batch_of_the_metadata_log_stops_the_node(
    files: MemoryFileSystem, open_quorum: OpenQuorum
) -> None:
    quorum = open_quorum(files)
    quorum.start(at(0))
    quorum.append(["one", "two"], at(1))
    sync(quorum)
    files.damage(LOG, files.size(LOG) - 1, b"\xff")

    with pytest.raises(DiskError, match="checksum"):
        records(quorum)


def test_a_node_refuses_to_start_without_records_that_were_durable(
    open_quorum: OpenQuorum, files: MemoryFileSystem
) -> None:
    quorum = open_quorum(files)
    quorum.start(at(0))
    quorum.append(["a"], at(0))
    sync(quorum)
    OffsetCheckpoint(files, f"/data/{RECOVERY_POINTS}").write(
        {TopicPartition(METADATA_TOPIC, 0): quorum.log.end_offset}
    )
    log = files.open(LOG)
    log.truncate(log.size() - 1)

    with pytest.raises(DiskError, match="lost the records from offset"):
        open_quorum(files)


def test_a_vote_found_at_the_start_is_durable_before_anybody_can_ask_for_it(
    open_quorum: OpenQuorum, files_without_voters: MemoryFileSystem
) -> None:
    files, voters = files_without_voters, (voter(1), voter(2))
    open_quorum(files, static_voters=voters)
    state = ElectionState(5, voted_id=2)
    write_election_state(files, DIRECTORY, state, kraft_version=0, voter_ids=(1, 2))
    files.rename(f"{DIRECTORY}/quorum-state", f"{DIRECTORY}/moved")
    files.sync_directory(DIRECTORY)
    files.rename(f"{DIRECTORY}/moved", f"{DIRECTORY}/quorum-state")  # and killed before the sync

    open_quorum(files, static_voters=voters).start(at(0))

    after = after_crash(files, data_lost, names_undone)
    assert read_election_state(after, DIRECTORY) == state
