"""How far pipelines are, from what they keep beside their tables; nothing of Spark is started."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tidelog.client.blocking import parse_bootstrap
from tidelog.model.errors import ConfigError, TidelogError

_CONNECT_S: Final = 2.0


def pipeline_states(paths: list[Path], bootstrap: str) -> list[dict[str, Any]]:
    """Each pipeline with its tables; what is wrong with one that cannot be read stands in it."""
    return [_state_or_trouble(path, bootstrap) for path in paths]


def _state_or_trouble(path: Path, bootstrap: str) -> dict[str, Any]:
    try:
        return _state(path, bootstrap)
    except (TidelogError, OSError) as error:
        return {"name": path.stem, "file": str(path), "tables": [], "trouble": str(error)}


def _state(path: Path, bootstrap: str) -> dict[str, Any]:
    try:
        from tidelog.pipelines.description.parsing import load_pipeline
        from tidelog.pipelines.run.progress import totals
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"pipelines need {error.name}: pip install 'tidelog[pipelines]'"
        ) from error
    pipeline = load_pipeline(path, bootstrap)
    counts = totals(pipeline)
    silence = _silence(pipeline.bootstrap)
    return {
        "name": pipeline.name,
        "file": str(path),
        "storage": str(pipeline.storage),
        "trouble": "",
        "tables": [
            {
                "table": table.name,
                "source": _source(pipeline, table.name),
                "rows": counts[table.name].rows,
                "quarantined": counts[table.name].quarantined,
                "dropped": counts[table.name].dropped,
                **({"lag": None, "trouble": silence} if silence else _lag(pipeline, table.name)),
            }
            for table in pipeline.filled
        ],
        "views": sorted(pipeline.views),
    }


def _source(pipeline: Any, name: str) -> str:
    upstream = pipeline.tables[name].upstream
    if upstream is not None:
        return f"table {upstream}"
    source = pipeline.source(name)
    return source.pattern or ", ".join(source.topics)


def _silence(bootstrap: str) -> str:
    """Why nobody can be asked for the ends of topics: said at once, before each table waits."""
    try:
        for host, port in parse_bootstrap(bootstrap):
            with suppress(OSError), socket.create_connection((host, port), _CONNECT_S):
                return ""
    except TidelogError as error:
        return str(error)
    return f"cannot reach {bootstrap}"


def _lag(pipeline: Any, name: str) -> dict[str, Any]:
    from tidelog.pipelines.run.summary import lag_of

    try:
        return {"lag": lag_of(pipeline, name), "trouble": ""}
    except TidelogError as error:
        return {"lag": None, "trouble": str(error)}
