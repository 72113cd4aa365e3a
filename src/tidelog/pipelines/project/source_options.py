"""The options with which a table's topics are read, and what only the cluster knows about them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tidelog.model.ids import TopicPartition
from tidelog.model.nearest import nearest
from tidelog.pipelines.description.mistakes import Mistake, SpecError
from tidelog.pipelines.description.spec import OnDataLoss, Pipeline, TopicOutput
from tidelog.pipelines.description.starts import starting_options
from tidelog.pipelines.run.state import State
from tidelog.spark.options import ReadOptions, read_options
from tidelog.spark.source.offsets import Positions, from_json, to_json
from tidelog.spark.source.planning import find_positions
from tidelog.spark.source.range_limits import EARLIEST, End
from tidelog.spark.source.topic_offsets import TopicOffsets
from tidelog.spark.source.topics import Topics


def client_options(pipeline: Pipeline) -> dict[str, str]:
    """How to reach the cluster."""
    client = {f"kafka.{key}": text for key, text in pipeline.client.items()}
    return {**client, "kafka.bootstrap.servers": pipeline.bootstrap}


def source_options(pipeline: Pipeline, table: str) -> dict[str, str]:
    """The options of a read of the topics behind a table, except where it starts."""
    return {
        **client_options(pipeline),
        **_partitions(pipeline, table),
        **loss_options(pipeline, table),
        "includeLeaderEpoch": "true",
    }


def _partitions(pipeline: Pipeline, table: str) -> dict[str, str]:
    if pipeline.backfill:
        return assigned(pinned_end(pipeline.state, table))
    source = pipeline.source(table)
    if source.pattern is not None:
        return {"subscribePattern": source.pattern}
    return {"subscribe": ",".join(source.topics)}


def assigned(partitions: Iterable[TopicPartition]) -> dict[str, str]:
    """The option with which exactly these partitions are read."""
    found: dict[str, list[int]] = {}
    for each in partitions:
        found.setdefault(each.topic, []).append(each.partition)
    return {"assign": json.dumps(found)}


def loss_options(pipeline: Pipeline, table: str) -> dict[str, str]:
    """Whether records that are gone fail a read."""
    fails = pipeline.source(table).on_data_loss is OnDataLoss.FAIL
    return {"failOnDataLoss": str(fails).lower()}


def stream_options(pipeline: Pipeline, table: str) -> dict[str, str]:
    """The options of the flow that fills a table."""
    found = source_options(pipeline, table)
    if pipeline.max_offsets_per_batch is not None:
        found["maxOffsetsPerTrigger"] = str(pipeline.max_offsets_per_batch)
    if ends := pinned_end(pipeline.state, table):
        found["endingOffsets"] = start_json(ends)
    pinned = pipeline.state.start_file(table)
    if pinned.exists():
        return {**found, "startingOffsets": pinned.read_text(encoding="utf-8").strip()}
    return {**found, **starting_options(pipeline.source(table).start)}


def start_of(pipeline: Pipeline, table: str) -> Positions:
    """Where the first run would start if it were now."""
    options = read_options(
        {**source_options(pipeline, table), **starting_options(pipeline.source(table).start)}
    )
    topics = _topics(pipeline, options)
    chosen = options.subscription.choose(topics.partition_counts())
    return find_positions(
        topics,
        options.start or End(EARLIEST),
        chosen,
        name="start",
        latest_if_too_young=options.latest_if_no_record_is_that_young,
    )


def start_json(positions: Positions) -> str:
    """Positions as `startingOffsets` wants them."""
    plain = {each: position._replace(epoch=-1) for each, position in positions.items()}
    return json.dumps(to_json(plain))


def positions_in(text: str) -> Positions:
    """What `start_json` or a checkpoint of Spark says."""
    return from_json(json.loads(text))


def pinned_start(state: State, table: str) -> Positions:
    """Where the first run started; empty where that is the first record of each partition."""
    return _positions(state.start_file(table))


def pinned_end(state: State, table: str) -> Positions:
    """Where the flow of a backfill ends; empty where there is none."""
    return _positions(state.end_file(table))


def _positions(path: Path) -> Positions:
    return positions_in(path.read_text(encoding="utf-8")) if path.exists() else {}


def ends_now(pipeline: Pipeline, table: str) -> tuple[Positions, Positions]:
    """Where every partition behind a table begins and ends for a reader now."""
    options = read_options(source_options(pipeline, table))
    topics = _topics(pipeline, options)
    chosen = options.subscription.choose(topics.partition_counts())
    return topics.earliest(chosen), topics.latest(chosen)


def check_topics(pipeline: Pipeline) -> None:
    """Refuse a pipeline that names a topic which is not there."""
    existing = set(_topics(pipeline, _any_read(pipeline)).partition_counts())
    visible = {each for each in existing if not each.startswith("__")}
    mistakes = []
    for table in pipeline.tables.values():
        wanted = (
            []
            if table.source is None
            else [(each, table.source.line) for each in table.source.topics]
        )
        if isinstance(table.output, TopicOutput):
            wanted.append((table.output.topic, table.output.line))
        for topic, line in wanted:
            if topic not in existing:
                text = f"there is no topic {topic}; {nearest(topic, visible)}"
                mistakes.append(Mistake(line, f"{text} (`tidelog topics create {topic}`)"))
    if mistakes:
        raise SpecError(str(pipeline.path), mistakes)


def _topics(pipeline: Pipeline, options: ReadOptions) -> TopicOffsets:
    return Topics(options) if pipeline.topics is None else pipeline.topics(options)


def _any_read(pipeline: Pipeline) -> ReadOptions:
    return read_options({**client_options(pipeline), "subscribePattern": ".*"})
