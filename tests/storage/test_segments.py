"""Where the newest batches start."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.storage.segments import TailBatches


@given(
    start=st.integers(0, 10**12),
    batches=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), max_size=700),
    asked=st.integers(0, 3000),
)
@settings(max_examples=examples(60), deadline=None)
def test_the_answer_is_the_first_batch_that_ends_at_or_above_the_offset(
    start: int, batches: list[tuple[int, int]], asked: int
) -> None:
    tail, end, written = TailBatches(start), start, []
    for number, (gap, count) in enumerate(batches):
        last = end + gap + count - 1
        written.append((last, 100 * number))
        tail.note(last, 100 * number)
        end = last + 1

    for offset in {start + asked, end - 1, end, max(start, end - asked)}:
        if offset >= tail.start_offset:
            expected = next((at for last, at in written if last >= offset), -1)
            assert tail.position_of(offset, -1) == expected
    assert tail.start_offset in {start, *(last + 1 for last, _ in written)}
    assert len(batches) < 128 or tail.start_offset <= written[-128][0] + 1


def test_a_restart_forgets_everything() -> None:
    tail = TailBatches(0)
    tail.note(9, 0)
    tail.restart(50)

    assert tail.start_offset == 50
    assert tail.position_of(50, 777) == 777
