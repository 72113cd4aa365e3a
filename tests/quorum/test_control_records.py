from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.model.ids import parse_uuid_text
from tidelog.protocol.stored.quorum import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
)
from tidelog.quorum.control_records import (
    ControlRecord,
    UnreadableControlRecord,
    Voter,
    VoterEndpoint,
    Voters,
    new_control_record,
    read_control_record,
)
from tidelog.records.batch import whole_batches
from tidelog.records.record import Record, records_of

DATA = Path(__file__).parents[1] / "controller" / "data"
KAFKA_VOTER = Voter(
    voter_id=1,
    voter_directory_id=parse_uuid_text("2P8K57AHRhKUkC22ixx1ig"),
    endpoints=(VoterEndpoint(name="CONTROLLER", host="127.0.0.1", port=39193),),
)


def control_records(name: str) -> list[Record]:
    batches = whole_batches((DATA / name).read_bytes())
    return [
        record for header, batch in batches if header.is_control for record in records_of(batch)
    ]


def test_control_records_of_apache_kafka_read_and_write_the_same_bytes() -> None:
    me = (LeaderChangeMessageVoter(voter_id=1),)
    change = LeaderChangeMessage(leader_id=1, voters=me, granting_voters=me)
    voters = Voters(voters=(KAFKA_VOTER,))
    expected: dict[str, list[ControlRecord]] = {
        "00000000000000000000.log": [change, KRaftVersionRecord(kraft_version=1), voters, change],
        "00000000000000000142-0000000002.checkpoint": [
            SnapshotHeaderRecord(last_contained_log_timestamp=1794737143536),
            KRaftVersionRecord(kraft_version=1),
            voters,
            SnapshotFooterRecord(),
        ],
    }
    for name, messages in expected.items():
        found = control_records(name)
        assert [read_control_record(record) for record in found] == messages
        for record, message in zip(found, messages, strict=True):
            written = new_control_record(message, record.timestamp)
            assert (written.key, written.value) == (record.key, record.value)


ENDPOINTS = st.builds(
    VoterEndpoint, name=st.text(max_size=5), host=st.text(max_size=5), port=st.integers(0, 65535)
)
VOTERS = st.builds(
    Voter,
    voter_id=st.integers(0, 9),
    voter_directory_id=st.uuids(),
    endpoints=st.lists(ENDPOINTS, max_size=2).map(tuple),
)


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(VOTERS, max_size=3).map(tuple))
def test_voters_survive_writing_and_reading(voters: tuple[Voter, ...]) -> None:
    written = new_control_record(Voters(voters=voters), 5)
    assert read_control_record(Record(0, 5, written.key, written.value)) == Voters(voters=voters)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\0\0\0\x63", b"\0\0\0"),
        (b"\0\0\0\0", b"\0\0\0\0\0\0"),
        (b"\0\0\0\x04", None),
        (b"\0\0\0\x04", b"\0\0"),
        (b"\0\0\0\x04", b"\0\0\0\0"),
    ],
)
def test_a_control_record_nobody_can_read_stops_the_node(
    key: bytes | None, value: bytes | None
) -> None:
    with pytest.raises(UnreadableControlRecord):
        read_control_record(Record(7, 0, key, value))


def test_a_voter_is_its_id_and_its_directory() -> None:
    other = Voter(voter_id=1, voter_directory_id=UUID(int=9), endpoints=KAFKA_VOTER.endpoints)
    assert other != KAFKA_VOTER
