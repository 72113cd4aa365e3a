"""Records that are gone before they were read stop a table, or are named; never silence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.pipelines.conftest import Describe
from tests.pipelines.memory_topics import MemoryTopics

from tidelog.model.ids import TopicPartition
from tidelog.pipelines.description.mistakes import PipelineTrouble
from tidelog.pipelines.description.picture import as_text
from tidelog.pipelines.description.spec import Pipeline
from tidelog.pipelines.project.source_options import stream_options
from tidelog.pipelines.run.data_loss import check_losses, gone
from tidelog.pipelines.run.state import State
from tidelog.pipelines.tables.durable import replace_file
from tidelog.spark.source.offsets import Position, Positions

FIRST, SECOND = TopicPartition("o", 0), TopicPartition("o", 1)
FAILS = "name: x\ntables: {a: {topics: o, decode: text}, b: {from: a, to_topic: p}}"
GOES_ON = FAILS.replace("topics: o,", "topics: o, on_data_loss: go_on,")


def at(first: int, second: int | None = None) -> Positions:
    more = {} if second is None else {SECOND: Position(second)}
    return {FIRST: Position(first), **more}


def test_what_a_reader_has_lost_is_said_in_offsets() -> None:
    assert list(gone(at(5, 5), at(5, 0), at(9, 5))) == []
    assert list(gone(at(5), at(7), at(9))) == [
        "offsets 5 to 6 of o-0 were gone before they were read"
    ]
    assert list(gone(at(5), at(0), at(3))) == ["o-0 ends at offset 3 now, it was read up to 5"]
    assert list(gone(at(5, 5), at(0), at(9))) == [
        "o-1 is no longer there, it was read up to offset 5"
    ]
    assert list(gone(at(5), at(0, 4), at(9, 9))) == [
        "offsets 0 to 3 of o-1 were gone before it was seen"
    ]
    assert list(gone(at(5), at(0, 0), at(9, 9))) == []


def test_a_loss_is_refused_with_the_ways_out_or_told(describe: Describe) -> None:
    told: list[str] = []

    def described(text: str) -> Pipeline:
        return replace(describe(text), topics=lambda _: MemoryTopics({"o": 1}, at(7), at(9)))

    pipeline = described(FAILS)
    check_losses(pipeline, told.append)  # nothing was read, so nothing is lost
    replace_file(State(pipeline.storage).start_file("b"), '{"o": {"0": 5}}')
    with pytest.raises(PipelineTrouble) as refused:
        check_losses(pipeline, told.append)
    assert str(refused.value).startswith(
        "b: offsets 5 to 6 of o-0 were gone before they were read. `on_data_loss: go_on` takes"
    )
    assert told == []
    check_losses(described(GOES_ON), told.append)
    assert told == [
        "b: offsets 5 to 6 of o-0 were gone before they were read; going on with what is left"
    ]


def test_the_source_is_told_what_to_do_about_a_loss(describe: Describe) -> None:
    assert stream_options(describe(FAILS), "b")["failOnDataLoss"] == "true"
    pipeline = describe(GOES_ON)
    assert stream_options(pipeline, "b")["failOnDataLoss"] == "false"
    assert "topic o from earliest, going on after data loss" in as_text(pipeline)
