"""What a pipeline's YAML says, as values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias

from tidelog.pipelines.description.mistakes import PipelineTrouble
from tidelog.pipelines.description.starts import StartMistake, starting_options
from tidelog.pipelines.run.state import State
from tidelog.spark.options import ReadOptions
from tidelog.spark.source.topic_offsets import TopicOffsets

POSITION: Final = ("_topic", "_partition", "_offset", "_leader_epoch", "_timestamp")
"""Columns of every row: where the record stood in the log."""

RECORD: Final = (*POSITION, "_key", "_value")
"""Columns that steps and rules may use; quarantine keeps all of them."""

OUTCOME: Final = "_outcome"
"""What became of a row: null, it goes to the table; else the reason why it does not."""

CORRUPT: Final = "_corrupt"
DECODED: Final = "_decoded"
COMPUTED: Final = "_computed"
"""Columns that are there during one step alone."""

_OURS: Final = {*RECORD, OUTCOME, CORRUPT, DECODED, COMPUTED}

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"


class DecodeFormat(StrEnum):
    JSON = "json"
    CSV = "csv"
    AVRO = "avro"
    TEXT = "text"
    RAW = "raw"


class OnDataLoss(StrEnum):
    """What a run does when records are gone before it could read them."""

    FAIL = "fail"
    GO_ON = "go_on"


class Delivery(StrEnum):
    """How often a row is written to a topic when runs are killed."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


class TableFormat(StrEnum):
    DELTA = "delta"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class Column:
    """A column with its SQL type; a required one may not be null."""

    name: str
    type: str
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Topics by name or by pattern, and where the first run starts."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    start: str = "earliest"
    on_data_loss: OnDataLoss = OnDataLoss.FAIL
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decode:
    """How bytes become columns."""

    format: DecodeFormat
    columns: tuple[Column, ...] | None = ()
    """None: inferred from the topic and pinned."""
    delimiter: str = ","
    schema_file: str | None = None
    registry_framing: bool = False
    line: int = 0


@dataclass(frozen=True, slots=True)
class With:
    """Columns added or replaced, each by an expression."""

    columns: Mapping[str, str]
    line: int


@dataclass(frozen=True, slots=True)
class Where:
    """Rows for which the condition is not true are dropped, on purpose."""

    condition: str
    line: int


@dataclass(frozen=True, slots=True)
class Select:
    """These columns and no others."""

    columns: Mapping[str, str]
    line: int


@dataclass(frozen=True, slots=True)
class PythonStep:
    """A Python function of one row."""

    file: str
    function: str
    returns: tuple[Column, ...]
    line: int


Step: TypeAlias = With | Where | Select | PythonStep


@dataclass(frozen=True, slots=True)
class Rule:
    """What must be true of every row."""

    name: str
    condition: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOutput:
    """A table of our own."""

    format: TableFormat = TableFormat.DELTA
    partition_by: tuple[str, ...] = ()
    compact_files: int | None = None
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOutput:
    """A table of a format that the user's Spark brings."""

    format: str
    options: Mapping[str, str]
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOutput:
    """Back to a topic."""

    topic: str
    key: str = "_key"
    value: str | None = None
    """None: the columns as a JSON object."""
    delivery: Delivery = Delivery.EXACTLY_ONCE
    line: int = 0


Output: TypeAlias = TableOutput | SparkOutput | TopicOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """From a source, or from the rows of another table, to a table or a topic."""

    name: str
    source: Source | None
    upstream: str | None
    decode: Decode | None
    steps: tuple[Step, ...]
    rules: tuple[Rule, ...]
    output: Output
    line: int

    @property
    def flows(self) -> tuple[str, ...]:
        """Its streaming queries, each of which has a position of its own."""
        if isinstance(self.output, TableOutput):
            return (self.name,)
        return (self.name, f"{self.name}_quarantine")


@dataclass(frozen=True, slots=True)
class View:
    """A query over tables, computed anew after each run."""

    name: str
    sql: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Everything one file says."""

    name: str
    path: Path
    bootstrap: str = DEFAULT_BOOTSTRAP
    client: Mapping[str, str] = field(default_factory=dict)
    storage: Path
    max_offsets_per_batch: int | None = None
    spark: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, Table]
    views: Mapping[str, View]
    backfill: tuple[str, ...] = ()
    """The tables whose flows bring older records; none: the flows of all tables go on."""
    topics: Callable[[ReadOptions], TopicOffsets] | None = field(default=None, compare=False)
    """Who knows the topics of its cluster; nobody named: its brokers."""

    @property
    def state(self) -> State:
        """Where it keeps what."""
        return State(self.storage, bool(self.backfill))

    @property
    def filled(self) -> list[Table]:
        """The tables that its flows fill."""
        return [self.tables[name] for name in self.backfill or self.tables]

    def lineage(self, name: str) -> list[Table]:
        """The table and those it goes on from, the first of which reads topics."""
        table = self.tables[name]
        before = [] if table.upstream is None else self.lineage(table.upstream)
        return [*before, table]

    def source(self, name: str) -> Source:
        """The topics a table's rows come from in the end."""
        found = self.lineage(name)[0].source
        assert found is not None
        return found

    def stored_tables(self) -> Iterator[Table]:
        """Tables that are tables and not topics."""
        return (each for each in self.tables.values() if not isinstance(each.output, TopicOutput))


def is_ours(name: str) -> bool:
    """Whether a column may not have this name, however it is spelled: Spark does not tell case."""
    return name.lower() in _OURS


def starting_from(pipeline: Pipeline, tables: Collection[str], start: str) -> Pipeline:
    """The same pipeline, but these tables start elsewhere."""
    try:
        starting_options(start)
    except StartMistake as error:
        raise PipelineTrouble(str(error)) from None
    changed = dict(pipeline.tables)
    for name in {pipeline.lineage(each)[0].name for each in tables if each in pipeline.tables}:
        source = changed[name].source
        assert source is not None
        changed[name] = replace(changed[name], source=replace(source, start=start))
    return replace(pipeline, tables=changed)
