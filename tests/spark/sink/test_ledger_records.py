"""The ledger: whoever holds it decides, in the order of the log."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.spark.sink.ledger_records import (
    Claim,
    Decision,
    LedgerRecord,
    LedgerState,
    Prepared,
    Take,
    decode,
    encode,
    key_of,
    sink_of,
)

ONE = Prepared(0, "spark-q-1-0-0-7", 11, 3)


def after(*records: LedgerRecord) -> LedgerState:
    state = LedgerState()
    for record in records:
        state.replay(record)
    return state


def test_a_decision_of_the_run_that_holds_the_ledger_counts() -> None:
    state = after(Claim("a", 1, 0), Decision("a", 1, 0, (ONE,)))
    assert (state.batch, state.left_behind(0)) == (0, "spark-q-1-0-0-7")


def test_a_run_that_was_superseded_decides_nothing() -> None:
    state = after(Claim("a", 1, 0), Claim("b", 2, 0), Decision("a", 1, 0, (ONE,)))
    assert state.batch == -1
    assert state.former_runs == {"a"}


def test_what_was_decided_stays_decided_when_another_run_takes_over() -> None:
    state = after(Claim("a", 1, 0), Decision("a", 1, 4, (ONE,)), Claim("b", 2, 0))
    assert state.batch == 4
    assert state.left_behind(0) is None, "its producer may still stir in the other run"


def test_of_two_runs_that_claim_at_once_the_first_in_the_log_holds() -> None:
    state = after(Claim("a", 1, 0), Claim("b", 1, 0))
    assert (state.run, state.generation) == ("a", 1)
    assert after(Claim("a", 1, 0), Claim("b", 1, 0), Claim("b", 2, 1)).run == "a"


def test_a_batch_is_decided_once() -> None:
    later = Decision("a", 1, 0, ())
    state = after(Claim("a", 1, 0), Decision("a", 1, 0, (ONE,)), later)
    assert state.decided is not None
    assert state.decided.transactions == (ONE,)


def test_the_first_to_take_an_id_for_a_batch_has_it() -> None:
    state = after(Take("id", 5, 1), Take("id", 5, 2))
    assert state.taken["id"].attempt == 1
    state.replay(Take("id", 6, 3))
    assert state.taken["id"].attempt == 3


RUNS = st.sampled_from("abc")
RECORDS = st.one_of(
    st.builds(Claim, RUNS, st.integers(1, 4), st.integers(0, 9)),
    st.builds(Take, st.sampled_from(["x", "y"]), st.integers(0, 3), st.integers(0, 9)),
    st.builds(Decision, RUNS, st.integers(1, 4), st.integers(0, 5), st.just((ONE,))),
)


@given(RECORDS)
@settings(max_examples=examples(100), deadline=None)
def test_records_are_read_as_they_were_written(record: LedgerRecord) -> None:
    assert decode(encode(record)) == record
    assert sink_of(key_of("query", record)) == "query"


@given(st.lists(RECORDS, max_size=30))
@settings(max_examples=examples(200), deadline=None)
def test_decided_batches_never_go_back(records: list[LedgerRecord]) -> None:
    state, before = LedgerState(), -1
    for record in records:
        state.replay(record)
        assert state.batch >= before
        before = state.batch
