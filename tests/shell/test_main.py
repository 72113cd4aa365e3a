from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.model.errors import ConfigError
from tidelog.shell.ending import Cause, read, reserve
from tidelog.shell.main import read_config


def broker(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tidelog.shell", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_configuration_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.properties"):
        read_config(tmp_path / "none.properties")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(ConfigError, match="binary"):
        read_config(tmp_path / "binary")


def test_a_wrong_setting_is_told_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text("node.idd=1\n")
    with pytest.raises(ConfigError, match=r"node\.properties: .*node\.id"):
        read_config(path)


def test_the_command_refuses_what_it_cannot_start(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text("node.idd=1\n")
    ending = tmp_path / "ending"
    reserve(ending)
    refused = broker("--config", str(path), "--ending", str(ending))
    assert refused.returncode == 1
    told = read(ending)
    assert told is not None and (told.cause, told.exit_code) == (Cause.FAILED, 1)
    assert "node.id" in told.reason
    assert "node.id" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_command_says_how_it_is_used() -> None:
    for arguments in (["--help"], ["--ending", "x"], ["--config", "x", "--port", "1"]):
        wrong = broker(*arguments)
        assert wrong.returncode == 2
        assert "--config FILE" in wrong.stderr
