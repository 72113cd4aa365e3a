from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.model.time import Now
from tidelog.observe.events import LogDirectoryOffline
from tidelog.shell.event_history import EventHistory, JournalReader
from tidelog.shell.event_journal import EventJournal

NOW = Now(5, 1_700_000_000_000)


def note(journal: EventJournal, count: int = 1) -> None:
    for _ in range(count):
        said = "x" * (journal.last_sequence % 97)
        journal.write(LogDirectoryOffline(directory="/data", cause=said), NOW)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "events.jsonl")


@pytest.fixture
def journal(path: str) -> Iterator[EventJournal]:
    with open(os.devnull, "w") as nowhere:
        journal = EventJournal(7, nowhere.fileno(), path, size_limit=20_000)
        yield journal
        journal.close()


def read_all(reader: JournalReader) -> list[int]:
    found: list[int] = []
    while lines := reader.read():
        found += [number for number, _ in lines]
    return found


@pytest.mark.parametrize("after", [0, 1, 2, 37, 98, 99, 100])
def test_reading_begins_behind_any_event(journal: EventJournal, path: str, after: int) -> None:
    note(journal, 100)
    reader = JournalReader(path, after)
    assert read_all(reader) == list(range(after + 1, 101))
    note(journal)
    assert read_all(reader) == [101]
    reader.close()


def test_reading_goes_from_file_to_file_and_misses_nothing(
    journal: EventJournal, path: str
) -> None:
    reader = JournalReader(path, 0)
    found: list[int] = []
    for _ in range(40):
        note(journal, 17)
        found += read_all(reader)
    assert found == list(range(1, 681))
    reader.close()
    kept = JournalReader(path, 0)
    oldest, *_, newest = read_all(kept)
    assert 1 < oldest < newest == 680
    kept.close()


def test_lines_without_a_number_and_no_file_at_all_are_nothing(tmp_path: Path) -> None:
    reader = JournalReader(str(tmp_path / "none"), 0)
    assert reader.read() == []
    (tmp_path / "old").write_text('{"at":"then","event":"NodeStarted"}\n' * 3)
    older = JournalReader(str(tmp_path / "old"), 0)
    assert older.read() == []
    older.close()


def told(chunk: bytes) -> tuple[int | None, dict[str, int]]:
    lines = dict(line.split(": ", 1) for line in chunk.decode().strip().splitlines())
    return int(lines["id"]) if "id" in lines else None, json.loads(lines["data"])


def test_a_stream_tells_the_past_then_what_happens_and_where_something_is_missing(
    journal: EventJournal, path: str
) -> None:
    note(journal, 3)

    async def follow() -> None:
        history = EventHistory(journal, path)
        stream = history.events(1)
        assert [told(await anext(stream))[0] for _ in range(2)] == [2, 3]
        later = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        note(journal)
        assert told(await asyncio.wait_for(later, 10))[0] == 4
        await stream.aclose()
        note(journal, 600)
        stream = history.events(2)
        number, gap = told(await anext(stream))
        assert number is None and gap["after"] == 2
        assert told(await anext(stream))[0] == gap["oldest"]
        await stream.aclose()
        past = [told(chunk)[0] async for chunk in history.events(600, follow=False)]
        assert past == [601, 602, 603, 604]
        stream = history.events(10_000)
        assert told(await anext(stream))[0] == gap["oldest"]
        await stream.aclose()

    asyncio.run(follow())
