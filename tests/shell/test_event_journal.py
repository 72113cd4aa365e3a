from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tidelog.model.errors import DiskError
from tidelog.model.time import Now
from tidelog.observe.events import LogDirectoryOffline
from tidelog.shell.event_journal import EventJournal

OFFLINE = LogDirectoryOffline(directory="/data", cause="the disk failed")
NOW = Now(5, 1_700_000_000_000)


def test_an_event_is_one_readable_and_one_json_line(tmp_path: Path) -> None:
    readable = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    journal = EventJournal(7, readable, str(tmp_path / "events.jsonl"))
    journal.write(OFFLINE, NOW)
    journal.say("node 1 listens", NOW)
    journal.close()
    os.close(readable)

    assert (tmp_path / "log").read_text().splitlines() == [
        "2023-11-14T22:13:20.000Z node 7: log directory /data went offline: the disk failed",
        "2023-11-14T22:13:20.000Z node 1 listens",
    ]
    [line] = (tmp_path / "events.jsonl").read_text().splitlines()
    assert json.loads(line)["event"] == "LogDirectoryOffline"


def test_the_json_file_is_replaced_before_it_grows_too_large(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with open(os.devnull, "w") as nowhere:
        journal = EventJournal(7, nowhere.fileno(), str(path), size_limit=300)
        for _ in range(10):
            journal.write(OFFLINE, NOW)
        journal.close()

    assert path.stat().st_size <= 300
    assert (tmp_path / "events.jsonl.1").stat().st_size <= 300
    assert len(path.read_text().splitlines()) >= 1


def test_a_journal_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    directory = tmp_path / "gone"
    directory.mkdir()
    journal = EventJournal(7, writing, str(directory / "events.jsonl"), size_limit=1)
    journal.write(OFFLINE, NOW)
    (directory / "events.jsonl").unlink(missing_ok=True)
    (directory / "events.jsonl.1").unlink(missing_ok=True)
    directory.rmdir()
    journal.write(OFFLINE, NOW)
    journal.write(OFFLINE, NOW)
    journal.close()
    os.close(writing)


def test_a_journal_that_cannot_be_opened_is(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="cannot open"):
        EventJournal(7, 2, str(tmp_path / "none" / "events.jsonl"))


def numbers(path: Path) -> list[int]:
    return [json.loads(line)["seq"] for line in path.read_text().splitlines()]


def test_events_are_numbered_through_restarts_rotation_and_torn_lines(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with open(os.devnull, "w") as nowhere:
        for _ in range(3):
            journal = EventJournal(7, nowhere.fileno(), str(path), size_limit=700)
            for _ in range(3):
                journal.write(OFFLINE, NOW)
            journal.close()
            with path.open("ab") as torn:
                torn.write(b'{"seq":99,"at"')
        journal = EventJournal(7, nowhere.fileno(), str(path), size_limit=700)
        assert journal.last_sequence == 9
        journal.close()

    kept = [*numbers(tmp_path / "events.jsonl.1"), *numbers(path)]
    assert kept == list(range(kept[0], 10))


def test_numbers_go_on_when_the_process_ends_between_two_files(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with open(os.devnull, "w") as nowhere:
        journal = EventJournal(7, nowhere.fileno(), str(path))
        journal.write(OFFLINE, NOW)
        journal.close()
        path.rename(tmp_path / "events.jsonl.1")
        journal = EventJournal(7, nowhere.fileno(), str(path))
        journal.write(OFFLINE, NOW)
        journal.close()

    assert numbers(path) == [2]


def test_the_readable_file_is_replaced_and_no_line_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "node.log"
    readable = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    journal = EventJournal(7, readable, readable_path=str(path), size_limit=400)
    seen: list[str] = []
    for n in range(20):
        journal.say(f"line {n}", NOW)
        if n % 3 == 0:
            os.write(readable, f"said by others {n}\n".encode())
        lines = path.read_text().splitlines()
        seen += [line for line in lines if line not in seen]
    os.close(readable)

    assert [line.partition("line ")[2] for line in seen if "line" in line] == [
        str(n) for n in range(20)
    ]
    assert sum("said by others" in line for line in seen) == 7
    assert path.stat().st_size <= 400
    assert (tmp_path / "node.log.1").stat().st_size <= 400


def test_a_log_that_somebody_moved_away_is_still_written(tmp_path: Path) -> None:
    path, moved = tmp_path / "node.log", tmp_path / "elsewhere.log"
    readable = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    journal = EventJournal(7, readable, readable_path=str(path))
    path.rename(moved)
    journal.say("node 7 listens", NOW)
    journal.close()
    os.close(readable)

    assert moved.read_text().endswith("node 7 listens\n")


def test_events_go_on_in_the_old_file_while_it_cannot_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    (tmp_path / "events.jsonl.1").mkdir()
    with open(os.devnull, "w") as nowhere:
        journal = EventJournal(7, nowhere.fileno(), str(path), size_limit=300)
        for _ in range(10):
            journal.write(OFFLINE, NOW)
        journal.close()

    assert [json.loads(line)["seq"] for line in path.read_text().splitlines()] == [*range(1, 11)]
