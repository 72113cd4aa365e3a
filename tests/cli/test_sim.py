"""`tidelog sim` from the outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidelog.cli.main import app

PLAN = """\
seed 1
brokers 1
faults_ms 6000
at 4000 kill node=100
at 4500 start node=100
"""
TOO_SLOW = """\
seed 1
brokers 1
faults_ms 1
calm_ms 1
conditions sync_us=100000000
"""


def test_seeds_are_run_one_after_the_other() -> None:
    arguments = ["sim", "--seeds", "2", "--seed", "5", "--brokers", "1", "--json"]
    result = CliRunner().invoke(app, arguments)

    assert result.exit_code == 0, result.stderr
    runs = [json.loads(line) for line in result.stdout.splitlines()]
    assert [run["seed"] for run in runs] == [5, 6]
    assert all(len(run["hash"]) == 32 for run in runs)
    assert "2 seeds, all well" in result.stderr
    assert "simulated hours" in result.stderr


def test_one_seed_can_be_watched() -> None:
    result = CliRunner().invoke(
        app, ["sim", "--seeds", "1", "--seed", "7", "--brokers", "1", "--trace"]
    )

    assert result.exit_code == 0, result.stderr
    first, *_, last = result.stdout.splitlines()
    assert first.endswith("100 starts")
    assert last.startswith("seed 7: ")


def test_a_plan_is_run_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "plan.txt").write_text(PLAN)

    result = CliRunner().invoke(app, ["sim", "--scenario", str(tmp_path / "plan.txt"), "--json"])

    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["faults"] == [
        "at 4000 kill node=100 after=-1",
        "at 4500 start node=100",
    ]


def test_a_failure_ends_with_the_command_that_replays_it(tmp_path: Path) -> None:
    (tmp_path / "plan.txt").write_text(TOO_SLOW)
    saved = tmp_path / "reduced.txt"

    result = CliRunner().invoke(
        app, ["sim", "--scenario", str(tmp_path / "plan.txt"), "--save", str(saved)]
    )

    assert result.exit_code == 1
    assert f"replay: tidelog sim --scenario {saved}" in result.stderr
    assert saved.read_text().startswith("seed 1\n")


def test_a_plan_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plan.txt").write_text("seed 1\nweather bad\n")

    result = CliRunner().invoke(app, ["sim", "--scenario", str(tmp_path / "plan.txt")])

    assert result.exit_code == 1
    assert f"{tmp_path / 'plan.txt'}:2: nobody knows 'weather'; there is at, " in result.stderr


STORY = "# One broker, one record.\n> cluster brokers=1\n> topic orders replicas=100\n"


def test_a_transcript_that_tells_something_else_is_refused_until_it_is_accepted(
    tmp_path: Path,
) -> None:
    story = tmp_path / "story.txt"
    story.write_text(STORY)
    arguments = ["sim", "--scenario", str(story)]

    assert CliRunner().invoke(app, arguments).exit_code == 1
    assert story.read_text() == STORY
    accepted = CliRunner().invoke(app, [*arguments, "--accept"])
    assert accepted.exit_code == 0, accepted.stderr
    assert story.read_text() == accepted.stdout
    assert "broker" in story.read_text().splitlines()[2]
    assert CliRunner().invoke(app, arguments).exit_code == 0


def test_every_mistake_is_told_with_file_line_and_fix(tmp_path: Path) -> None:
    story = tmp_path / "story.txt"
    story.write_text("> cluster brokers=1\n> prodce t to=100\n# A word.\n> pass long\n")

    result = CliRunner().invoke(app, ["sim", "--scenario", str(story)])

    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        f"{story}:2: > prodce t to=100: there is no command 'prodce'; did you mean produce?",
        f"{story}:4: > pass long: MILLISECONDS: 'long' is not a whole number from 0 to 3600000",
    ]


def test_a_file_that_is_no_text_is_refused_with_its_line(tmp_path: Path) -> None:
    story = tmp_path / "story.txt"
    story.write_bytes(b"# fine\n> cluster\xff\n")

    result = CliRunner().invoke(app, ["sim", "--scenario", str(story)])

    assert result.exit_code == 1
    assert f"{story}:2: not UTF-8" in result.stderr


@pytest.mark.long
def test_permissions_come_and_go_in_a_run_with_one_controller() -> None:
    ran = CliRunner().invoke(app, ["sim", "--access-control", "--seeds", "1", "--json"])
    assert ran.exit_code == 0, ran.stderr
    refused = CliRunner().invoke(app, ["sim", "--access-control", "--controllers", "3"])
    assert refused.exit_code == 1
    assert "--access-control goes with one controller" in refused.stderr
