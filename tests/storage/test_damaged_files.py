"""Files beside the log that somebody changed: the log is believed, and nothing in it is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.storage.test_recovery import rewrite

from tidelog.records.batch import whole_batches
from tidelog.simulator.disk.crash import after_crash

if TYPE_CHECKING:
    from tests.storage.conftest import LogBench

EPOCHS = "leader-epoch-checkpoint"


def damaged_epochs(content: bytes) -> list[bytes]:
    """The file with each digit of an entry replaced by each other one."""
    first = content.index(b"\n", content.index(b"\n") + 1) + 1
    return [
        content[:at] + b"%d" % digit + content[at + 1 :]
        for at in range(first, len(content))
        if content[at : at + 1].isdigit()
        for digit in range(10)
        if content[at : at + 1] != b"%d" % digit
    ]


@pytest.mark.parametrize("recovery_point", [None, 8, 16, 23])
def test_no_digit_of_the_epoch_file_can_make_a_start_after_a_kill_drop_a_batch(
    filled: LogBench, recovery_point: int | None
) -> None:
    kept, entries = filled.contents(), list(filled.log.epochs.entries)
    path = f"{filled.log.directory}/{EPOCHS}"
    content = filled.files.open(path).read(0, 1000)
    clean = after_crash(filled.files)
    variants = damaged_epochs(content)
    assert len(variants) > 50
    for variant in variants:
        files = after_crash(clean)
        rewrite(files, path, variant)

        filled.load(files=files, recovery_point=recovery_point)

        assert filled.contents() == kept, variant
        assert not filled.log.damage
        if recovery_point is None:
            assert list(filled.log.epochs.entries) == entries, variant


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("base", [0, 8, 14])
def test_no_byte_of_an_index_can_stop_a_log_from_going_on_after_a_clean_stop(
    filled: LogBench, base: int, suffix: str
) -> None:
    filled.log.close()
    kept = filled.contents()
    path = filled.path(base, suffix)
    clean = after_crash(filled.files)
    for at in range(clean.size(path)):
        for mask in (0x01, 0x80):
            files = after_crash(clean)
            files.damage(path, at, bytes([files.open(path).read(at, 1)[0] ^ mask]))

            filled.load(clean=True, recovery_point=23, files=files)
            for _ in range(3):
                filled.append(2, epoch=4)

            for offset in range(23):
                found = filled.log.read(offset, 1000, 23)
                assert found is not None
                header, _ = next(whole_batches(found.read()))
                assert header.base_offset <= offset <= header.last_offset
            assert filled.contents()[: len(kept)] == kept
            assert not filled.log.damage


@pytest.mark.parametrize("content", [b"", b"\0" * 61])
def test_a_segment_that_turns_up_after_a_clean_stop_does_not_move_the_end(
    filled: LogBench, content: bytes
) -> None:
    filled.log.close()
    kept = filled.contents()
    stray = filled.files.open(filled.path(1_000_000))
    stray.append(content)
    stray.close()

    filled.load(clean=True, recovery_point=23)

    assert filled.log.end_offset == 23
    assert filled.contents() == kept
    filled.check()


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_without_any_segment_tells_what_it_has_lost(filled: LogBench, clean: bool) -> None:
    filled.log.close()
    for base in filled.bases():
        filled.files.remove(filled.path(base))

    filled.load(clean=clean, recovery_point=23)

    assert [(lost.first_offset, lost.next_offset) for lost in filled.log.damage] == [(0, 23)]
    assert filled.log.end_offset == 0
    filled.append(epoch=4)
    filled.check()
