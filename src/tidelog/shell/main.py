"""The node as a user runs it: configuration file in, exit code out."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tidelog.model.config import NodeConfig
from tidelog.model.errors import ConfigError
from tidelog.model.settings.properties import parse_properties
from tidelog.node.node import Node
from tidelog.shell.process import TellEnding, run_node

EVENTS_FILE: Final = "events.jsonl"
"""What the node announces, for programs: one JSON object a line, in its metadata directory."""


def run(
    config_path: Path, tell_ending: TellEnding | None = None, log_path: str | None = None
) -> int:
    """Run the node a configuration file describes until it is told to stop."""
    config = read_config(config_path)
    journal = f"{config.metadata_directory}/{EVENTS_FILE}"
    return run_node(config, Node, journal, tell_ending, log_path)


def read_config(path: Path) -> NodeConfig:
    """The checked content of a configuration file; ConfigError names the file and the fix."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the configuration {path}: {error}") from error
    try:
        return NodeConfig.from_properties(parse_properties(text))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
