"""Nodes of either kind, formatted and started from properties, gone after the test."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

JARS: Final = Path(__file__).parents[2] / ".cache" / "java" / "tools"
NOT_YET: Final = ("share.version", "streams.version")
"""Features of Apache Kafka that our brokers do not support, so a common cluster goes without."""


class Nodes:
    """Those of one cluster."""

    def __init__(self, directory: Path, cluster_id: str) -> None:
        self._directory = directory
        self._cluster_id = cluster_id
        self._cleanup = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._cleanup.close()

    def start(
        self, kind: str, settings: dict[str, str], *format_options: str
    ) -> subprocess.Popen[bytes]:
        """Format and run one node, of `apache` or of `tidelog`."""
        home = self._directory / f"{kind}-{settings['node.id']}"
        home.mkdir()
        config = home / "node.properties"
        settings = {**settings, "log.dirs": str(home / "data")}
        config.write_text("".join(f"{key}={text}\n" for key, text in settings.items()))
        formatting, running = self._commands(kind, config, settings)
        subprocess.run([*formatting, *format_options], check=True, timeout=60)
        log = self._cleanup.enter_context((home / "node.log").open("wb"))
        process = subprocess.Popen(running, stdout=log, stderr=log)
        self._cleanup.callback(process.wait)
        self._cleanup.callback(process.kill)
        return process

    def log_of(self, kind: str, node_id: int) -> str:
        """What a node has said."""
        return (self._directory / f"{kind}-{node_id}" / "node.log").read_text()

    def _commands(
        self, kind: str, config: Path, settings: dict[str, str]
    ) -> tuple[list[str], list[str]]:
        if kind == "tidelog":
            tidelog = [sys.executable, "-m", "tidelog"]
            formatting = [*tidelog, "format", "--config", str(config)]
            formatting += ["--cluster-id", self._cluster_id]
            return formatting, [*tidelog, "broker", "--config", str(config)]
        java = ["java", "-Xmx400m", "-cp", f"{JARS}/*"]
        formatting = [*java, "kafka.tools.StorageTool", "format", "-t", self._cluster_id]
        formatting += ["-c", str(config)]
        if "controller" in settings["process.roles"]:
            for feature in NOT_YET:
                formatting += ["--feature", f"{feature}=0"]
        return formatting, [*java, "kafka.Kafka", str(config)]
