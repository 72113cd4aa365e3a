"""`tidelog pipelines`: which cluster a command asks, and how it ends when nobody answers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tidelog.cli.main import app
from tidelog.local.ports import free_ports

NAMED = "name: x\nbootstrap: 127.0.0.1:{port}\ntables: {{a: {{topics: o}}}}\n"
UNNAMED = "name: x\ntables: {a: {topics: o}}\n"


@pytest.fixture
def port() -> int:
    """Nobody listens there."""
    (found,) = free_ports(1)
    return found


def call(tmp_path: Path, *arguments: str, variable: str | None = None) -> Result:
    command, *rest = arguments
    return CliRunner().invoke(
        app,
        ["pipelines", command, *rest, str(tmp_path)],
        env={"TIDELOG_BOOTSTRAP": variable},
    )


def cluster_of(result: Result) -> str:
    found = re.search(r"pipeline x on (\S+)", result.stdout)
    assert found is not None, result.output
    return found[1]


@pytest.mark.parametrize(
    "arguments", [("check",), ("run",), ("audit",), ("eject", "DIR")], ids=lambda each: each[0]
)
def test_a_command_that_finds_no_broker_ends_with_three(
    arguments: tuple[str, ...], tmp_path: Path, port: int
) -> None:
    (tmp_path / "pipeline.yaml").write_text(
        f"name: x\nbootstrap: 127.0.0.1:{port}\nclient: {{default.api.timeout.ms: 100}}\n"
        "tables: {a: {topics: o, decode: {format: json}}}\n"
    )
    here = (str(tmp_path / "new") if each == "DIR" else each for each in arguments)
    result = call(tmp_path, *here)
    assert result.exit_code == 3, result.output
    assert f"no broker answers at 127.0.0.1:{port}" in result.stderr


def test_the_environment_names_the_cluster_of_a_description_that_does_not(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(UNNAMED)
    there = "127.0.0.1:7001"
    assert cluster_of(call(tmp_path, "check", "--offline", variable=there)) == there
    assert cluster_of(call(tmp_path, "check", "--offline")) == "127.0.0.1:9092"


def test_the_environment_does_not_override_what_is_written_down(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(NAMED.format(port=7002))
    result = call(tmp_path, "check", "--offline", variable="127.0.0.1:7001")
    assert cluster_of(result) == "127.0.0.1:7002"
    said = "127.0.0.1:7002 of pipeline.yaml is used, not 127.0.0.1:7001 of TIDELOG_BOOTSTRAP"
    assert said in result.stderr
    assert "TIDELOG" not in call(tmp_path, "check", "--offline", variable="127.0.0.1:7002").output


def test_the_option_goes_before_both(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(NAMED.format(port=7002))
    option = ("check", "--offline", "--bootstrap", "127.0.0.1:7003")
    result = call(tmp_path, *option, variable="127.0.0.1:7001")
    assert cluster_of(result) == "127.0.0.1:7003"
    assert "TIDELOG" not in result.output


@pytest.mark.parametrize("option", [(), ("--bootstrap", "nowhere")])
def test_an_address_that_is_none_is_wrong_usage(option: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(UNNAMED)
    result = call(tmp_path, "check", "--offline", *option, variable=None if option else "nowhere")
    assert result.exit_code == 2
    assert "nowhere" in result.output
