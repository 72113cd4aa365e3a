"""An order to end a transaction that comes twice counts once."""

from __future__ import annotations

import pytest

from tidelog.replication.written_ends import UNTOLD, TransactionEnd, WrittenEnds
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.log_values import Appended
from tidelog.storage.producer_state import ProducerState

AT_7 = Appended(7, 7, -1, False)


@pytest.fixture
def written() -> WrittenEnds:
    files = MemoryFileSystem()
    files.make_directory("/log")
    return WrittenEnds(ProducerState(files, "/log"))


def end(decided_ms: int, *, coordinator_epoch: int = 3, producer_id: int = 9) -> TransactionEnd:
    return TransactionEnd(producer_id, 0, True, coordinator_epoch, 0, decided_ms)


@pytest.mark.parametrize("decided_ms", [999, 1000])
def test_a_copy_and_what_was_decided_before_stand_already(
    written: WrittenEnds, decided_ms: int
) -> None:
    assert written.repeated(end(1000)) is None
    written.note(end(1000), AT_7)
    assert written.repeated(end(decided_ms)) == AT_7._replace(duplicate=True)


@pytest.mark.parametrize(
    "other",
    [
        end(1001),
        end(1000, producer_id=10),
        end(1000, coordinator_epoch=4),
        end(999, coordinator_epoch=2),
        end(UNTOLD),
    ],
)
def test_every_other_end_is_for_the_log_to_judge(
    written: WrittenEnds, other: TransactionEnd
) -> None:
    written.note(end(1000), AT_7)
    assert written.repeated(other) is None


def test_producers_that_the_log_forgot_are_forgotten(written: WrittenEnds) -> None:
    for number in range(1000):
        written.note(end(1000, producer_id=number), AT_7)
    remembered = [number for number in range(1000) if written.repeated(end(1, producer_id=number))]
    assert len(remembered) < 100
