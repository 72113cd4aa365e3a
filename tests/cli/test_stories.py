"""`tidelog stories`, `tidelog story` and `tidelog sim --view` from the outside."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tidelog.cli.main import app

TOO_SLOW = """\
seed 1
brokers 1
faults_ms 1
calm_ms 1
conditions sync_us=100000000
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def data_of(file: str) -> Any:
    page = Path(file).read_text(encoding="utf-8")
    (data,) = re.findall(r'<script type="application/json" id="story">(.*?)</script>', page, re.S)
    return json.loads(data)


def test_stories_are_listed_for_people_and_for_programs() -> None:
    listed = CliRunner().invoke(app, ["stories"])
    assert listed.exit_code == 0
    assert "before-leader-epochs" in listed.stdout

    names = [
        json.loads(line)["name"]
        for line in CliRunner().invoke(app, ["stories", "--json"]).stdout.splitlines()
    ]
    assert len(names) >= 7 and "worked-example" in names


def test_a_story_is_one_file_of_moderate_size() -> None:
    result = CliRunner().invoke(app, ["story", "slow-follower"])

    assert result.exit_code == 0, result.stderr
    assert result.stdout == "slow-follower.html\n"
    assert "kB" in result.stderr
    assert Path("slow-follower.html").stat().st_size < 300_000
    assert data_of("slow-follower.html")["command"] == "tidelog story slow-follower"


def test_a_story_goes_where_it_is_told_and_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROWSER", "sh -c 'echo \"$0\" > opened' %s")

    result = CliRunner().invoke(app, ["story", "zombie-leader", "--output", "z.html", "--open"])

    assert result.exit_code == 0, result.stderr
    assert Path("opened").read_text().strip() == Path("z.html").resolve().as_uri()


def test_an_unknown_story_is_answered_with_the_nearest_one() -> None:
    result = CliRunner().invoke(app, ["story", "worked-exampel"])

    assert result.exit_code == 1
    assert "did you mean worked-example?" in result.stderr


def test_a_seed_is_viewed_at_a_partition_of_ones_choice() -> None:
    result = CliRunner().invoke(
        app, ["sim", "--seed", "7", "--brokers", "1", "--view", "--partition", "orders-1"]
    )

    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "seed-7.html"
    document = data_of("seed-7.html")
    assert document["acts"][0]["partition"] == "orders-1"
    assert document["command"] == "tidelog sim --brokers 1 --seeds 1 --seed 7 --view"


def test_a_failing_run_is_viewed_and_still_fails() -> None:
    Path("plan.txt").write_text(TOO_SLOW)

    result = CliRunner().invoke(app, ["sim", "--scenario", "plan.txt", "--view"])

    assert result.exit_code == 1
    document = data_of("seed-1.html")
    assert document["acts"][0]["steps"][-1]["text"].startswith("A rule is broken. ")


def test_any_transcript_is_viewed_by_file_or_by_name() -> None:
    Path("own.txt").write_text(
        "# Hello.\n> cluster brokers=1\n> topic t replicas=100\n"
        "> produce t to=100 acks=1 values=x\n"
    )

    own = CliRunner().invoke(app, ["sim", "--scenario", "own.txt", "--view"])
    known = CliRunner().invoke(app, ["sim", "--scenario", "healed_cut", "--view"])

    assert (own.stdout, known.stdout) == ("own.html\n", "healed_cut.html\n")
    assert data_of("own.html")["acts"][0]["partition"] == "t-0"


def test_a_scenario_of_the_package_is_replayed_by_its_name() -> None:
    result = CliRunner().invoke(app, ["sim", "--scenario", "worked_example"])

    assert result.exit_code == 0, result.stderr
    assert "101 leads epoch=3" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--scenario", "worked_exampel"], "did you mean worked_example?"),
        (["--scenario", "."], "is a directory"),
        (["--scenario", "worked_example", "--accept"], "comes with the package"),
        (["--scenario", "bad.txt", "--view"], "bad.txt:2: > topc t: there is no command 'topc'"),
        (["--scenario", "bare.txt", "--view"], "creates no topic"),
        (["--scenario", "healed_cut", "--view", "--partition", "x-0"], "ever has a replica of x-0"),
        (["--view", "--partition", "orders"], "a partition is written TOPIC-N"),
        (["--output", "x.html"], "need --view"),
    ],
)
def test_what_cannot_be_done_is_said_in_words(arguments: list[str], why: str) -> None:
    Path("bad.txt").write_text("> cluster brokers=1\n> topc t\n")
    Path("bare.txt").write_text("> cluster brokers=1\n")

    result = CliRunner().invoke(app, ["sim", *arguments])

    assert result.exit_code == 1
    assert why in result.stderr
    assert "Traceback" not in result.stderr
