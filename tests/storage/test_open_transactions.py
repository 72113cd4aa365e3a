from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.storage.producer_state import OpenTransactions


def test_without_transactions_everything_is_stable() -> None:
    assert OpenTransactions().first_unstable_offset(100) is None


def test_the_oldest_open_transaction_bounds_what_is_stable() -> None:
    transactions = OpenTransactions()
    transactions.begin(1, 10)
    transactions.begin(2, 20)

    assert transactions.first_unstable_offset(100) == 10
    assert transactions.first_open_besides(1) == 20
    assert transactions.first_open_besides(2) == 10
    transactions.end(1, 30)
    assert transactions.first_unstable_offset(100) == 20
    assert transactions.first_open_besides(2) is None


def test_an_ended_transaction_is_unstable_until_its_marker_is_replicated() -> None:
    transactions = OpenTransactions()
    transactions.begin(1, 10)
    transactions.end(1, 30)

    assert transactions.first_unstable_offset(30) == 10
    assert transactions.first_unstable_offset(31) is None


def test_loaded_transactions_are_in_the_order_of_their_offsets() -> None:
    transactions = OpenTransactions()
    transactions.load([(1, 30), (2, 10), (3, 20)])

    assert len(transactions) == 3
    assert transactions.first_unstable_offset(0) == 10


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["write", "end", "replicate"]), st.integers(0, 4))))
def test_the_first_unstable_offset_is_that_of_looking_at_every_transaction(
    steps: list[tuple[str, int]],
) -> None:
    transactions = OpenTransactions()
    open_since: dict[int, int] = {}
    ended: list[tuple[int, int]] = []
    high_watermark = 0
    for offset, (act, producer) in enumerate(steps):
        if act == "write" and producer not in open_since:
            open_since[producer] = offset
            transactions.begin(producer, offset)
        elif act == "end" and producer in open_since:
            ended.append((open_since.pop(producer), offset))
            transactions.end(producer, offset)
        elif act == "replicate":
            high_watermark = max(high_watermark, offset - producer)
        unstable = [
            *open_since.values(),
            *(first for first, marker in ended if marker >= high_watermark),
        ]
        assert transactions.first_unstable_offset(high_watermark) == min(unstable, default=None)
