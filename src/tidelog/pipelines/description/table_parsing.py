"""One table of a pipeline's description: source, decoding, steps, rules, output."""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from tidelog.pipelines.description.reading import Reading
from tidelog.pipelines.description.spec import (
    Column,
    Decode,
    DecodeFormat,
    Delivery,
    OnDataLoss,
    Output,
    PythonStep,
    Rule,
    Select,
    Source,
    SparkOutput,
    Step,
    Table,
    TableFormat,
    TableOutput,
    TopicOutput,
    Where,
    With,
    is_ours,
)
from tidelog.pipelines.description.sql_text import alias_of, column_of
from tidelog.pipelines.description.starts import StartMistake, starting_options
from tidelog.pipelines.description.yaml_nodes import Given

_TABLE_KEYS: Final = (
    "topics", "pattern", "start", "on_data_loss", "from", "decode", "steps", "rules", "format",
    "partition_by", "compact_files", "to_topic",
)  # fmt: skip
_DECODE_KEYS: Final = {
    DecodeFormat.JSON: ("format", "schema"),
    DecodeFormat.CSV: ("format", "schema", "delimiter"),
    DecodeFormat.AVRO: ("format", "schema_file", "registry_framing"),
    DecodeFormat.TEXT: ("format",),
    DecodeFormat.RAW: ("format",),
}
_STEPS: Final = ("with", "where", "select", "python")
_INFERRED: Final = "inferred"
NAME: Final = re.compile(r"[a-z][a-z0-9_]*")


def read_table(reading: Reading, name: str, given: Given) -> Table:
    """The table, as far as it can be read; mistakes go to `reading`."""
    found = reading.keyed(given, f"table {name}", _TABLE_KEYS)
    if not NAME.fullmatch(name):
        reading.wrong(
            given.line, f"{name} is no name for a table: lower-case letters, digits and _"
        )
    upstream = reading.text(found.get("from"), "from") or None
    sources = [key for key in ("topics", "pattern", "from") if key in found]
    if len(sources) != 1:
        reading.wrong(
            given.line, f"table {name} needs one of topics, pattern and from, not {len(sources)}"
        )
    for key in ("decode", "start", "on_data_loss"):
        if upstream is not None and key in found:
            reading.wrong(found[key].line, f"{key} belongs to {upstream}, which reads the topic")
    return Table(
        name=name,
        source=None if upstream is not None else _source(reading, found, given.line),
        upstream=upstream,
        decode=None if upstream is not None else _decode(reading, found.get("decode"), given.line),
        steps=_steps(reading, found.get("steps")),
        rules=tuple(
            Rule(rule, reading.text(each, f"rule {rule}"), each.line)
            for rule, each in reading.mapping(found.get("rules"), "rules").items()
        ),
        output=_output(reading, found, given.line),
        line=given.line,
    )


def columns(reading: Reading, given: Given | None, what: str) -> tuple[Column, ...]:
    """`name: type` for every column."""
    found: list[Column] = []
    for name, each in reading.mapping(given, what).items():
        check_column_name(reading, name, each.line)
        if name.lower() in {other.name.lower() for other in found}:
            reading.wrong(each.line, f"{name} is there already; Spark does not tell case")
        text = reading.text(each, f"the type of {name}")
        column = reading.sql(each.line, partial(column_of, name, text))
        found.append(column or Column(name, "string"))
    return tuple(found)


def check_column_name(reading: Reading, name: str, line: int) -> None:
    if is_ours(name):
        reading.wrong(line, f"{name} is a column of ours; choose another name")


def _source(reading: Reading, found: dict[str, Given], line: int) -> Source:
    pattern = reading.text(found.get("pattern"), "pattern") or None
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            reading.wrong(found["pattern"].line, f"pattern is not a regular expression: {error}")
    start = found.get("start")
    source = Source(
        topics=reading.texts(found.get("topics"), "topics"),
        pattern=pattern,
        start="earliest" if start is None else _start_text(reading, start),
        on_data_loss=reading.choice(
            found.get("on_data_loss"), "on_data_loss", OnDataLoss, OnDataLoss.FAIL
        ),
        line=found["topics"].line if "topics" in found else line,
    )
    try:
        starting_options(source.start)
    except StartMistake as error:
        reading.wrong(line if start is None else start.line, str(error))
    return source


def _start_text(reading: Reading, given: Given) -> str:
    if isinstance(given.value, dict):
        import json

        return json.dumps(given.plain)
    return reading.text(given, "start", "earliest")


def _decode(reading: Reading, given: Given | None, line: int) -> Decode:
    if given is None:
        return Decode(format=DecodeFormat.RAW, columns=raw_columns(DecodeFormat.RAW), line=line)
    if isinstance(given.value, str):  # `decode: text` needs no more words
        given = Given({"format": given}, given.line)
    every = {key for keys in _DECODE_KEYS.values() for key in keys}
    found = reading.keyed(given, "decode", every)
    if "format" not in found:
        reading.wrong(given.line, f"decode needs a format: {', '.join(DecodeFormat)}")
    form = reading.choice(
        found.get("format"), "the format of decode", DecodeFormat, DecodeFormat.RAW
    )
    for key, each in found.items():
        if key not in _DECODE_KEYS[form]:
            reading.wrong(each.line, f"{key} has no meaning when {form} is decoded")
    return Decode(
        format=form,
        columns=_schema(reading, form, found, given.line),
        delimiter=reading.text(found.get("delimiter"), "delimiter", ","),
        schema_file=reading.text(found.get("schema_file"), "schema_file") or None,
        registry_framing=reading.flag(found.get("registry_framing"), "registry_framing"),
        line=given.line,
    )


def _schema(
    reading: Reading, form: DecodeFormat, found: dict[str, Given], line: int
) -> tuple[Column, ...] | None:
    if form in (DecodeFormat.TEXT, DecodeFormat.RAW):
        return raw_columns(form)
    if form is DecodeFormat.AVRO:
        if "schema_file" not in found:
            reading.wrong(line, "avro needs schema_file, an .avsc file beside this one")
        return ()
    given = found.get("schema")
    if form is DecodeFormat.JSON and (given is None or given.value == _INFERRED):
        return None
    if given is None or not isinstance(given.value, dict) or not given.value:
        kinds = "name: type for every column"
        more = f", or {_INFERRED}" if form is DecodeFormat.JSON else ""
        reading.wrong(line if given is None else given.line, f"schema is {kinds}{more}")
        return ()
    return columns(reading, given, "schema")


def raw_columns(form: DecodeFormat) -> tuple[Column, ...]:
    """What text and raw give without being told."""
    if form is DecodeFormat.TEXT:
        return (Column("value", "string"),)
    return (Column("key", "binary"), Column("value", "binary"))


def _steps(reading: Reading, given: Given | None) -> tuple[Step, ...]:
    if given is None:
        return ()
    if not isinstance(given.value, list):
        reading.wrong(given.line, "steps is a list: each begins with a dash")
        return ()
    steps = (_step(reading, each) for each in given.value)
    return tuple(each for each in steps if each is not None)


def _step(reading: Reading, given: Given) -> Step | None:
    found = reading.keyed(given, "a step", (*_STEPS, "returns"))
    kinds = [key for key in found if key in _STEPS]
    if len(kinds) != 1:
        reading.wrong(given.line, f"a step is one of {', '.join(_STEPS)}")
        return None
    (kind,) = kinds
    if "returns" in found and kind != "python":
        reading.wrong(found["returns"].line, "returns belongs to a python step")
    value = found[kind]
    match kind:
        case "with":
            named = reading.mapping(value, "with")
            for name, each in named.items():
                check_column_name(reading, name, each.line)
            return With(
                {name: reading.text(each, name) for name, each in named.items()}, value.line
            )
        case "where":
            return Where(reading.text(value, "where"), value.line)
        case "select":
            return _select(reading, value)
        case _:
            return _python(reading, value, found.get("returns"))


def _select(reading: Reading, value: Given) -> Select:
    selected: dict[str, str] = {}
    for text in reading.texts(value, "select"):
        named = reading.sql(value.line, partial(alias_of, text))
        if named is not None:
            check_column_name(reading, named[0], value.line)
            if named[0].lower() in map(str.lower, selected):
                reading.wrong(value.line, f"{named[0]} is selected twice; Spark does not tell case")
            selected[named[0]] = named[1]
    return Select(selected, value.line)


def _python(reading: Reading, value: Given, returns: Given | None) -> PythonStep:
    file, _, function = reading.text(value, "python").partition(":")
    if not file.endswith(".py") or not function.isidentifier():
        reading.wrong(value.line, "python names a file and a function in it: steps.py:enrich")
    if returns is None:
        reading.wrong(value.line, "a python step says which columns it sets: returns: {name: type}")
    return PythonStep(file, function, columns(reading, returns, "returns"), value.line)


def _output(reading: Reading, found: dict[str, Given], line: int) -> Output:
    if (to_topic := found.get("to_topic")) is not None:
        for key in ("format", "partition_by", "compact_files"):
            if key in found:
                reading.wrong(found[key].line, f"{key} has no meaning for a topic")
        if isinstance(to_topic.value, str):
            to_topic = Given({"topic": to_topic}, to_topic.line)
        keys = reading.keyed(to_topic, "to_topic", ("topic", "key", "value", "delivery"))
        if "topic" not in keys:
            reading.wrong(to_topic.line, "to_topic needs the name of a topic")
        return TopicOutput(
            topic=reading.text(keys.get("topic"), "topic"),
            key=reading.text(keys.get("key"), "key", "_key"),
            value=reading.text(keys.get("value"), "value") or None,
            delivery=reading.choice(
                keys.get("delivery"), "delivery", Delivery, Delivery.EXACTLY_ONCE
            ),
            line=to_topic.line,
        )
    if (given := found.get("format")) is not None and isinstance(given.value, dict):
        return _spark_output(reading, found, given)
    form = reading.choice(found.get("format"), "format", TableFormat, TableFormat.DELTA)
    compact = reading.count(found.get("compact_files"), "compact_files")
    if compact is not None and form is TableFormat.PARQUET:
        reading.wrong(
            found["compact_files"].line,
            "files of a Parquet table cannot be replaced under its readers: use format: delta",
        )
    partition_by = found.get("partition_by")
    return TableOutput(
        format=form,
        partition_by=reading.texts(partition_by, "partition_by"),
        compact_files=compact,
        line=line if partition_by is None else partition_by.line,
    )


def _spark_output(reading: Reading, found: dict[str, Given], given: Given) -> SparkOutput:
    for key in ("partition_by", "compact_files"):
        if key in found:
            reading.wrong(found[key].line, f"{key} belongs to the table itself: create it so")
    options = reading.settings(given, "format")
    if not (form := options.pop("spark", "")):
        reading.wrong(given.line, "format names one of Spark's: {spark: iceberg, path: db.orders}")
    return SparkOutput(format=form, options=options, line=given.line)
