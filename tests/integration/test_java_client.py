"""The Java client, the newest and two older ones, at everyday work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "java" / "EverydayWork.java"


@pytest.mark.parametrize("jars", ["tools", "older-client", "newer-client"])
def test_the_java_client_does_its_everyday_work(
    java: Callable[..., str], bootstrap: str, jars: str
) -> None:
    said = java(str(PROGRAM), bootstrap, jars, jars=jars)
    assert said.splitlines()[-1] == "all done"
