"""The plan of a pipeline as a picture: a tree for the terminal, a graph for a page."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.pipelines.description.spec import (
    Decode,
    OnDataLoss,
    Pipeline,
    PythonStep,
    Select,
    Source,
    SparkOutput,
    Step,
    Table,
    TopicOutput,
    Where,
    With,
)
from tidelog.pipelines.description.sql_text import tables_in


def as_text(pipeline: Pipeline) -> str:
    """The pipeline as a tree, sources first."""
    return "\n".join(_text_lines(pipeline))


def _text_lines(pipeline: Pipeline) -> Iterator[str]:
    yield f"pipeline {pipeline.name} on {pipeline.bootstrap}"
    roots = [each for each in pipeline.tables.values() if each.upstream is None]
    for table in roots:
        assert table.source is not None and table.decode is not None
        yield f"{_source(table.source)}, decoded as {_decode(table.decode)}"
        yield from _branch(pipeline, table, "", last=True)
    for view in pipeline.views.values():
        yield f"{' + '.join(sorted(tables_in(view.sql)))}"
        yield f"+-- view {view.name}: {' '.join(view.sql.split())}"


def _branch(pipeline: Pipeline, table: Table, indent: str, *, last: bool) -> Iterator[str]:
    yield f"{indent}+-- {_output(table)}"
    below = indent + ("    " if last else "|   ")
    for step in table.steps:
        yield f"{below}{_step(step)}"
    for rule in table.rules:
        yield f"{below}rule {rule.name}: {rule.condition}"
    if not isinstance(table.output, TopicOutput):
        yield f"{below}otherwise -> {table.name}_quarantine"
    children = [each for each in pipeline.tables.values() if each.upstream == table.name]
    for child in children:
        yield from _branch(pipeline, child, below, last=child is children[-1])


def as_mermaid(pipeline: Pipeline) -> str:
    """The same as a Mermaid graph."""
    return "\n".join(["graph LR", *(f"  {line}" for line in _mermaid_lines(pipeline))])


def _mermaid_lines(pipeline: Pipeline) -> Iterator[str]:
    for table in pipeline.tables.values():
        if table.upstream is None:
            assert table.source is not None and table.decode is not None
            before, label = f"source_{table.name}", _decode(table.decode)
            yield f'{before}(["{_quoted(_source(table.source))}"])'
        else:
            before, label = table.upstream, ", ".join(_kind(each) for each in table.steps) or "rows"
        left, right = ("[(", ")]") if not isinstance(table.output, TopicOutput) else ("([", "])")
        yield f'{table.name}{left}"{_quoted(_output(table))}"{right}'
        yield f'{before} -->|"{_quoted(label)}"| {table.name}'
        reasons = ", ".join(each.name for each in table.rules) or "cannot be decoded"
        yield f'{before} -.->|"{_quoted(reasons)}"| {table.name}_quarantine[("quarantine")]'
    for view in pipeline.views.values():
        yield f'{view.name}[["view {view.name}"]]'
        for name in sorted(tables_in(view.sql)):
            yield f"{name} --> {view.name}"


def _quoted(text: str) -> str:
    return text.replace('"', "#quot;")


def _source(source: Source) -> str:
    what = (
        f"topics like {source.pattern}"
        if source.pattern is not None
        else f"topic {', '.join(source.topics)}"
    )
    loss = ", going on after data loss" if source.on_data_loss is OnDataLoss.GO_ON else ""
    return f"{what} from {source.start}{loss}"


def _decode(decode: Decode) -> str:
    if decode.columns is None:
        return f"{decode.format} (schema inferred and pinned)"
    columns = ", ".join(
        f"{each.name} {each.type}{' not null' if each.required else ''}" for each in decode.columns
    )
    return f"{decode.format} ({columns or decode.schema_file})"


def _output(table: Table) -> str:
    if isinstance(table.output, TopicOutput):
        return f"topic {table.output.topic} ({table.name})"
    if isinstance(table.output, SparkOutput):
        return f"table {table.name} ({table.output.format} of Spark)"
    by = ", ".join(table.output.partition_by)
    return f"table {table.name} ({table.output.format}{f', by {by}' if by else ''})"


def _step(step: Step) -> str:
    match step:
        case With():
            return "with " + ", ".join(f"{name} = {text}" for name, text in step.columns.items())
        case Where():
            return f"where {step.condition}"
        case Select():
            return "select " + ", ".join(step.columns)
        case PythonStep():
            return f"python {step.file}:{step.function} -> " + ", ".join(
                each.name for each in step.returns
            )


def _kind(step: Step) -> str:
    match step:
        case With():
            return "with"
        case Where():
            return "where"
        case Select():
            return "select"
        case PythonStep():
            return step.function
