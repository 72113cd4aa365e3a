"""The live view of a cluster on this machine, as a process of its own.

    DIR/view/pid           its process, while it runs
    DIR/view/url           where a browser finds it, with the token; only its owner may read it
    DIR/view/view.log      what it has said
    DIR/view/development   there while the cluster is one for development, on which the view may act

Invariant  The view is never part of a node: it may end, or be killed, and no node notices.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tidelog.local.side_process import SideProcess

DEFAULT_VIEW_PORT: Final = 8080
URL_FILE_VARIABLE: Final = "TIDELOG_VIEW_URL_FILE"
"""Where the process leaves its address for whoever started it, instead of saying it aloud."""


class ViewProcess:
    """Starts, finds and ends the view of the cluster in `directory`."""

    def __init__(self, directory: Path) -> None:
        self._cluster = directory
        self._process = SideProcess("view", directory / "view")
        self._url_file = self._process.home / "url"
        self._development = self._process.home / "development"

    @property
    def may_act(self) -> bool:
        """Whether the cluster was started for development."""
        return self._development.exists()

    def allow_acting(self, allowed: bool) -> None:
        """Say what the cluster is for, from its next start on."""
        if allowed:
            self._process.home.mkdir(exist_ok=True)
            self._development.touch()
        else:
            self._development.unlink(missing_ok=True)

    @property
    def url(self) -> str | None:
        """Where a browser finds it, with the token that lets it act; None when it does not run."""
        if self._process.pid is None:
            return None
        try:
            return self._url_file.read_text(encoding="utf-8").strip() or None
        except FileNotFoundError:
            return None

    def start(self, port: int | None = None) -> str:
        """Start it on a port, or on the first that is free; where it is found."""
        self._url_file.unlink(missing_ok=True)
        arguments = ["-m", "tidelog", "view", "--data", str(self._cluster)]
        arguments += [] if port is None else ["--port", str(port)]
        environment = {URL_FILE_VARIABLE: str(self._url_file)}
        return self._process.start(arguments, lambda: self.url, environment)

    def stop(self) -> bool:
        """End it; whether it ran."""
        ran = self._process.stop()
        self._url_file.unlink(missing_ok=True)
        return ran

    def delete(self) -> None:
        """End it, and remove what it has left."""
        self._process.delete()
