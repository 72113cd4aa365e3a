"""Pieces of what a coordinator writes on its own account, each of which one batch holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.coordinator.batch_limit import AT_ONCE, first_batch
from tidelog.records.builder import NewRecord, build_batch

RECORDS = st.lists(
    st.tuples(st.binary(max_size=300), st.none() | st.binary(max_size=300)), max_size=40
)


def as_it_is(record: tuple[bytes, bytes | None]) -> tuple[bytes, bytes | None]:
    return record


@given(records=RECORDS, batch_bytes=st.integers(min_value=0, max_value=4000))
def test_pieces_are_all_records_in_their_order_and_each_fits_or_is_one_record(
    records: list[tuple[bytes, bytes | None]], batch_bytes: int
) -> None:
    left = records
    while left:
        piece = first_batch(left, as_it_is, batch_bytes)
        assert piece.records == tuple(left[: len(piece.records)]) != ()
        batch = build_batch([NewRecord(key, value, 1) for key, value in piece.records])
        assert len(batch) <= batch_bytes or len(piece.records) == 1
        left = left[len(piece.records) :]
        assert piece.is_all == (not left)


def test_nothing_is_all_there_is() -> None:
    assert first_batch([], as_it_is, 1000) == ((), True)


def test_others_get_their_turn_after_so_many_records() -> None:
    many = [(b"key", None)] * (AT_ONCE + 1)
    piece = first_batch(many, as_it_is, 1_000_000)
    assert (len(piece.records), piece.is_all) == (AT_ONCE, False)
    assert first_batch(many, as_it_is, 1_000_000, at_once=len(many)).is_all
