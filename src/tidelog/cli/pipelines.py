"""`tidelog pipelines`: from topics to tables, exactly once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.exits import answering, refuse
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap
from tidelog.cli.output import print_line, say

if TYPE_CHECKING:
    from tidelog.pipelines.spec import Pipeline

app = typer.Typer(help="From topics to tables, exactly once, on Spark.", no_args_is_help=True)

PipelineFile = Annotated[
    Path,
    typer.Argument(
        metavar="[PIPELINE]", help="The description, or its directory.", show_default="here"
    ),
]
OtherBootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT",
        envvar="TIDELOG_BOOTSTRAP",
        help="Another cluster than the description names.",
    ),
]


@app.command()
def init(
    name: Annotated[Path, typer.Argument(metavar="NAME", help="The directory to create.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Write a commented example that runs as it is."""
    with answering():
        require_pipelines()
        from tidelog.pipelines.example import write_example

        for path in write_example(name, bootstrap):
            say(f"wrote {path}")
        say(
            "try:   tidelog topics create orders --if-not-exists"
            f" --bootstrap {bootstrap}\n"
            f"       tidelog produce orders --bootstrap {bootstrap} < {name}/orders.jsonl\n"
            f"       tidelog pipelines run {name}"
        )


@app.command()
def check(
    pipeline: PipelineFile = Path(),
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="The plan as a Mermaid graph.")
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no cluster whether the topics are there.")
    ] = False,
    bootstrap: OtherBootstrap = None,
) -> None:
    """Find mistakes before Spark starts, and show the plan."""
    with answering():
        found = load(pipeline, bootstrap)
        from tidelog.pipelines.picture import as_mermaid, as_text

        if not offline:
            from tidelog.pipelines.source_options import check_topics

            check_topics(found)
        print_line(as_mermaid(found) if mermaid else as_text(found))


def load(path: Path, bootstrap: str | None) -> Pipeline:
    """The pipeline that the command is about."""
    require_pipelines()
    from tidelog.pipelines.parsing import load_pipeline

    found = load_pipeline(path)
    return found if bootstrap is None else replace(found, bootstrap=bootstrap)


def require_pipelines() -> None:
    try:
        import deltalake  # noqa: F401
        import sqlglot  # noqa: F401
        import yaml  # noqa: F401
    except ModuleNotFoundError as error:
        refuse(f"pipelines need {error.name}, which is missing: pip install 'tidelog[pipelines]'")
