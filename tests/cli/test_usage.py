"""The contract of the command line: help, exit codes, what goes where."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tidelog import __version__
from tidelog.cli.main import app
from tidelog.local.ports import free_ports
from tidelog.model.ids import parse_uuid_text

ROOT_COMMAND: Any = typer.main.get_command(app)


def walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command and group of commands, as one types it."""
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from walk(below, (*path, name))


def command_at(path: tuple[str, ...]) -> Any:
    found = ROOT_COMMAND
    for name in path:
        found = found.commands[name]
    return found


PATHS = list(walk(ROOT_COMMAND))
GROUPS = [path for path in PATHS if hasattr(command_at(path), "commands")]
COMMANDS = [path for path in PATHS if path not in GROUPS]


def test_every_command_is_reached() -> None:
    assert {("up",), ("topics", "create"), ("log", "dump"), ("pipelines", "run")} <= set(COMMANDS)
    assert {(), ("topics",), ("node",), ("pipelines",)} <= set(GROUPS)


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_every_command_explains_itself(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "200"})

    assert result.exit_code == 0
    assert f"Usage: {' '.join(('tidelog', *path))}" in result.stdout
    assert first_words(command_at(path)) in " ".join(result.stdout.split())
    assert result.stderr == ""


def first_words(command: Any) -> str:
    """What it does, as its help begins; a command has to say it in a sentence."""
    text = " ".join((command.help or "").split())
    assert len(text.split()) > 2, "it says nothing of what it does"
    return " ".join(text.split()[:3])


@pytest.mark.parametrize("path", GROUPS, ids=" ".join)
def test_a_group_shows_each_of_its_commands(path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "200"}).stdout

    for name, below in command_at(path).commands.items():
        assert below.hidden or f" {name} " in shown


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_an_option_that_no_command_has_is_wrong_usage_with_a_hint(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*path, "--no-such-option"])

    assert result.exit_code == 2
    assert result.stdout == ""
    assert "No such option" in result.stderr
    assert f"Try '{' '.join(('tidelog', *path))} -h' for help" in result.stderr


@pytest.mark.parametrize("path", GROUPS, ids=" ".join)
def test_a_command_that_does_not_exist_is_wrong_usage_with_a_hint(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*path, "no-such-command"])

    assert result.exit_code == 2
    assert "No such command 'no-such-command'" in result.stderr


def needs_an_argument(path: tuple[str, ...]) -> bool:
    return any(each.required for each in command_at(path).params)


@pytest.mark.parametrize(
    "path", [each for each in COMMANDS if needs_an_argument(each)], ids=" ".join
)
def test_what_a_command_needs_is_named_when_it_is_missing(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, list(path))

    missing = next(each for each in command_at(path).params if each.required)
    named = {missing.metavar or missing.name, *missing.opts}
    assert result.exit_code == 2
    assert any(name.lower() in result.stderr.lower() for name in named)


def test_help_documents_the_exit_codes() -> None:
    text = " ".join(CliRunner().invoke(app, ["--help"]).stdout.split())

    assert "0 fine, 1 refused, 2 wrong usage, 3 cluster unreachable" in text


def test_version_is_one_line_on_stdout() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout == f"tidelog {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "create", "t", "--partitions", "0"],
        ["topics", "create", "t", "--config", "retention.ms"],
        ["topics", "list", "--bootstrap", "nowhere"],
        ["topics", "list", "--bootstrap", "host:port"],
        ["topics", "list", "--bootstrap", "host:99999"],
        ["produce", "t", "--acks", "2"],
        ["produce", "t", "--compression", "rar"],
        ["produce", "t", "--key-separator", ""],
        ["produce", "t", "--file", "/no/such/file"],
        ["consume", "t", "--from", "yesterday"],
        ["consume", "t", "--from", "1969-12-31"],
        ["consume", "t", "--from", "@9223372036854775808"],
        ["consume", "t", "--count", "0"],
        ["configs", "describe"],
        ["configs", "describe", "--topic", "t", "--broker", "1"],
        ["configs", "set", "--topic", "t", "retention.ms"],
        ["up", "--port", "70000"],
        ["up", "--set", "log.dirs"],
        ["node", "kill", "first"],
        ["broker", "--config", "/no/such/file"],
        ["log", "dump", "/no/such/file"],
        ["topics", "list", "--bootstrap", "h:1", "--data", "/tmp"],
        ["partitions", "reassign"],
        ["partitions", "reassign", "--topic", "t"],
        ["partitions", "reassign", "--topic", "t", "--brokers", "1,x"],
        ["partitions", "reassign", "--topic", "t", "--brokers", "1,1"],
        ["partitions", "reassign", "--topic", "t:x", "--brokers", "1"],
        ["partitions", "reassign", "--plan", "/no/such/file"],
        ["partitions", "reassign", "--status", "--cancel"],
        ["partitions", "reassign", "--status", "--execute"],
        ["partitions", "reassign", "--cancel", "--brokers", "1"],
        ["partitions", "elect", "--unclean"],
        ["cluster", "add-controller"],
        ["cluster", "add-controller", "200"],
        ["cluster", "unregister", "first"],
        ["cluster", "health", "--bootstrap", "h:1", "--data", "/tmp"],
        ["cluster", "health", "--bootstrap", "h:1", "--http", "not-an-address"],
        ["events", "--since", "yesterday"],
        ["events", "--http", "h:1/metrics"],
        ["why", "orders"],
        ["top", "--every", "0"],
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_two(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)

    assert result.exit_code == 2
    assert result.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "list"],
        ["topics", "create", "t"],
        ["produce", "t"],
        ["consume", "t"],
        ["configs", "describe", "--topic", "t"],
        ["cluster", "describe"],
        ["cluster", "health"],
        ["top", "--once"],
        ["cluster", "unregister", "100"],
        ["cluster", "remove-controller", "100"],
        ["groups", "list"],
        ["partitions", "reassign", "--status"],
        ["partitions", "elect"],
        ["transactions", "list"],
    ],
    ids=" ".join,
)
def test_an_unreachable_cluster_ends_with_three_and_says_who_is_missing(
    arguments: list[str],
) -> None:
    (port,) = free_ports(1)

    result = CliRunner().invoke(app, [*arguments, "--bootstrap", f"127.0.0.1:{port}"])

    assert result.exit_code == 3
    assert result.stdout == ""
    assert f"cannot reach 127.0.0.1:{port}" in result.stderr
    assert "`tidelog status`" in result.stderr


@pytest.mark.parametrize("arguments", [["events"], ["why", "orders-0"]], ids=" ".join)
def test_nodes_that_do_not_answer_over_http_end_with_three(arguments: list[str]) -> None:
    (port,) = free_ports(1)

    result = CliRunner().invoke(app, [*arguments, "--http", f"127.0.0.1:{port}"])

    assert result.exit_code == 3
    assert result.stdout == ""
    assert f"http://127.0.0.1:{port}: Connection refused" in result.stderr


def test_the_bootstrap_address_may_come_from_the_environment() -> None:
    (port,) = free_ports(1)

    result = CliRunner().invoke(
        app, ["topics", "list"], env={"TIDELOG_BOOTSTRAP": f"127.0.0.1:{port}"}
    )

    assert f"127.0.0.1:{port}" in result.stderr


@pytest.mark.parametrize("option", [True, False])
def test_the_directory_of_a_cluster_says_where_it_listens(option: bool, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    listener = f"127.0.0.1:{port}"
    node = {"id": 100, "roles": ["broker"], "listener": listener, "controller_listener": None}
    described = {"cluster_id": "a", "nodes": [node]}
    (tmp_path / "cluster.json").write_text(json.dumps(described))
    arguments = ["--data", str(tmp_path)] if option else []
    environment = {} if option else {"TIDELOG_DATA": str(tmp_path)}

    result = CliRunner().invoke(app, ["topics", "list", *arguments], env=environment)

    assert result.exit_code == 3
    assert f"cannot reach {listener}" in result.stderr


def test_an_option_goes_before_the_environment(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app,
        ["topics", "list", "--data", str(tmp_path)],
        env={"TIDELOG_BOOTSTRAP": "127.0.0.1:1"},
    )

    assert result.exit_code == 1
    assert f"there is no cluster in {tmp_path}" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["down"],
        ["cluster", "health"],
        ["events"],
        ["why", "orders-0"],
        ["top", "--once"],
        ["topics", "list"],
        ["groups", "list"],
        ["partitions", "elect"],
        ["status"],
        ["status", "--json"],
        ["node", "kill", "100"],
        ["node", "start", "100"],
    ],
    ids=" ".join,
)
def test_a_directory_without_a_cluster_is_refused(arguments: list[str], tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [*arguments, "--data", str(tmp_path)])

    assert result.exit_code == 1
    assert f"there is no cluster in {tmp_path}" in result.stderr


def test_a_directory_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")

    result = CliRunner().invoke(app, ["up", "--detach", "--data", str(tmp_path)])

    assert result.exit_code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_unknown_setting_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app,
        ["up", "--detach", "--data", str(tmp_path / "c"), "--set", "num.partition=3"],
    )

    assert result.exit_code == 1
    assert "num.partitions" in result.stderr
    assert not (tmp_path / "c").exists()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path, port: int) -> None:
    (tmp_path / "file").touch()

    result = CliRunner().invoke(
        app, ["up", "--detach", "--port", str(port), "--data", str(tmp_path / "file" / "c")]
    )

    assert result.exit_code == 1
    assert result.stderr == f"{tmp_path}/file/c/node-100: Not a directory\n"


def test_random_uuid_prints_an_identity() -> None:
    result = CliRunner().invoke(app, ["random-uuid"])

    assert parse_uuid_text(result.stdout.strip()).int != 0


def test_format_without_a_cluster_id_offers_one(tmp_path: Path) -> None:
    config = tmp_path / "node.properties"
    config.write_text("node.id=1\n")

    result = CliRunner().invoke(app, ["format", "--config", str(config)])

    assert result.exit_code == 2
    assert parse_uuid_text(result.stdout.strip()).int != 0


def test_help_is_quick_and_loads_nothing_heavy() -> None:
    program = (
        "import sys; import tidelog.cli.main; "
        "heavy = [m for m in sys.modules if m.split('.')[0] in ('kio', 'uvloop', 'asyncio')]; "
        "print(heavy)"
    )

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert loaded.stdout.strip() == b"[]"


def test_a_status_file_that_is_damaged_is_named(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{}")

    result = CliRunner().invoke(app, ["status", "--data", str(tmp_path)])

    assert result.exit_code == 1
    assert "cluster.json is damaged" in result.stderr


def test_an_audit_of_a_topic_that_nobody_has_is_not_called_clean(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    arguments = ["audit", "replicas", "--dirs", str(tmp_path), "--topic", "ordres"]

    refused = CliRunner().invoke(app, arguments)

    assert refused.exit_code == 1
    assert "no topic 'ordres'; did you mean 'orders'?" in refused.stderr
