"""Transactional ids as they are stored in `__transaction_state`."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.coordinator.result import ProducerIdAndEpoch
from tidelog.coordinator.transactions.records import TransactionRecord, decode_record, encode_record
from tidelog.coordinator.transactions.transaction import Transaction, TransactionState
from tidelog.model.ids import TopicPartition
from tidelog.protocol.primitives import MalformedRequest

_PRODUCERS = st.builds(ProducerIdAndEpoch, st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1))
_PARTITIONS = st.frozensets(
    st.builds(TopicPartition, st.sampled_from(["orders", "payments"]), st.integers(0, 9))
)


@st.composite
def transactions(draw: st.DrawFn) -> Transaction:
    state = draw(st.sampled_from(TransactionState))
    has_none = state in (TransactionState.EMPTY, TransactionState.DEAD)
    return Transaction(
        transactional_id=draw(st.text(min_size=1, max_size=20)),
        producer=draw(_PRODUCERS),
        previous_producer_id=draw(st.integers(-1, 2**63 - 1)),
        next_producer=draw(st.none() | _PRODUCERS),
        timeout_ms=draw(st.integers(0, 2**31 - 1)),
        state=state,
        partitions=frozenset() if has_none else draw(_PARTITIONS),
        started_ms=draw(st.integers(-1, 2**50)),
        updated_ms=draw(st.integers(-1, 2**50)),
        client_version=draw(st.integers(0, 2)),
    )


@settings(max_examples=examples(80), deadline=None)
@given(transaction=transactions())
def test_what_is_stored_comes_back(transaction: Transaction) -> None:
    record = TransactionRecord(transaction.transactional_id, transaction)
    assert decode_record(*encode_record(record, 2)) == record


def test_the_bytes_are_those_of_kafka() -> None:
    transaction = Transaction(
        transactional_id="tx",
        producer=ProducerIdAndEpoch(9, 3),
        next_producer=ProducerIdAndEpoch(10, 0),
        timeout_ms=60_000,
        state=TransactionState.PREPARE_COMMIT,
        partitions=frozenset({TopicPartition("t", 1), TopicPartition("t", 0)}),
        started_ms=5,
        updated_ms=6,
        client_version=2,
    )
    key, value = encode_record(TransactionRecord("tx", transaction), 2)
    assert key == bytes.fromhex("000000027478")
    assert value == bytes.fromhex(
        "0001"
        "0000000000000009"
        "0003"
        "0000ea60"
        "02"
        "02"
        "0274"
        "03"
        "00000000"
        "00000001"
        "00"
        "0000000000000006"
        "0000000000000005"
        "03"
        "0108"
        "000000000000000a"
        "0202"
        "0002"
        "0302"
        "0000"
    )


def test_a_cluster_of_transaction_version_0_is_written_the_old_way() -> None:
    transaction = Transaction(
        transactional_id="tx", producer=ProducerIdAndEpoch(9, 3), timeout_ms=60_000, updated_ms=6
    )
    _, value = encode_record(TransactionRecord("tx", transaction), 0)
    assert value == bytes.fromhex(
        "0000000000000000000900030000ea6000ffffffff0000000000000006ffffffffffffffff"
    )


def test_a_tombstone_ends_what_is_known() -> None:
    record = TransactionRecord("tx", None)
    assert decode_record(*encode_record(record, 2)) == record


def test_a_key_of_another_kind_is_left_alone() -> None:
    assert decode_record(bytes.fromhex("000100027478"), b"") is None


@pytest.mark.parametrize("value", [b"", b"\x00", bytes.fromhex("0001ff")])
def test_a_damaged_value_is_not_taken_for_another(value: bytes) -> None:
    with pytest.raises(MalformedRequest):
        decode_record(bytes.fromhex("000000027478"), value)
