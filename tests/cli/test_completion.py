"""What a shell offers when somebody presses Tab."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from tidelog.cli.main import app
from tidelog.protocol.apis import ApiKey

Scripted = Callable[[Callable[[Any, Any, Any], Any]], Any]


def offered(words: str, **environment: str) -> list[str]:
    """What follows the words, as the script for bash asks for it."""
    asked = {
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
        "_TIDELOG_COMPLETE": "complete_bash",
    }
    ended = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'tidelog'; "
         "from tidelog.cli.main import main; main()"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **asked, **environment},
    )  # fmt: skip
    assert ended.stderr == ""
    return ended.stdout.split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed_for_each_shell(shell: str) -> None:
    printed = CliRunner().invoke(app, ["completion", shell])

    assert printed.exit_code == 0
    assert f"_TIDELOG_COMPLETE=complete_{shell}" in printed.stdout


def test_bash_understands_its_script() -> None:
    script = CliRunner().invoke(app, ["completion", "bash"]).stdout

    ended = subprocess.run(["bash", "-c", f"{script}\ncomplete -p tidelog"], capture_output=True)

    assert ended.returncode == 0, ended.stderr


def test_another_shell_is_wrong_usage() -> None:
    assert CliRunner().invoke(app, ["completion", "csh"]).exit_code == 2


def test_topics_are_offered_without_those_of_the_brokers(scripted: Scripted) -> None:
    def answer(self: Any, header: Any, body: Any) -> Any:
        assert header.api_key is ApiKey.METADATA
        return self.metadata(orders=1, offers=1, payments=1)

    peer = scripted(answer)

    found = offered("tidelog topics describe o", TIDELOG_BOOTSTRAP=peer.bootstrap)

    assert found == ["offers", "orders"]


def test_a_cluster_that_does_not_answer_offers_nothing_and_says_nothing() -> None:
    assert offered("tidelog consume o", TIDELOG_BOOTSTRAP="127.0.0.1:1") == []
