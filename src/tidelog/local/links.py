"""Links between the nodes of a cluster for development, which can be cut and slowed down.

Such nodes do not talk to each other directly: each is advertised to the others at a proxy, and all
proxies of a cluster are one process. It knows who is at the other end from the first request.

    DIR/links/pid           the process of the proxies, while it runs
    DIR/links/links.log     what it has said
    DIR/links/ready         there when it listens
    DIR/links/faults.json   what is wrong with which links

Invariant  A fault holds for both directions, and until it is taken away, also if proxies or nodes
           are started again.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tidelog.local.side_process import SideProcess

_LONGEST_DELAY_MS: Final = 600_000


class LinkFault(NamedTuple):
    """What is wrong with a link: nothing passes, or everything takes so much longer."""

    cut: bool = False
    delay_ms: int = 0

    def __str__(self) -> str:
        return "cut" if self.cut else f"{self.delay_ms} ms slower"


Link = tuple[int, int]
"""Two nodes, the smaller id first."""


def link_between(one: int, other: int) -> Link:
    return (one, other) if one < other else (other, one)


def read_faults(home: Path) -> dict[Link, LinkFault]:
    """What is wrong at this moment."""
    try:
        stored = json.loads((home / "faults.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return {
        link_between(*each["between"]): LinkFault(each["cut"], each["delay_ms"]) for each in stored
    }


class LinkProxies:
    """The links of the cluster in `directory`."""

    def __init__(self, directory: Path) -> None:
        self._cluster = directory
        self._process = SideProcess("links", directory / "links")
        self._ready = self._process.home / "ready"

    @property
    def faults(self) -> Mapping[Link, LinkFault]:
        return read_faults(self._process.home)

    @property
    def is_running(self) -> bool:
        return self._process.pid is not None

    def start(self) -> None:
        """See to it that the proxies run."""
        if self.is_running:
            return
        self._ready.unlink(missing_ok=True)
        arguments = ["-m", "tidelog.local.link_proxies", str(self._cluster)]
        self._process.start(arguments, lambda: self._ready.exists() or None)

    def stop(self) -> None:
        self._process.stop()

    def delete(self) -> None:
        self._process.delete()

    def cut(self, one: int, other: int) -> None:
        """Let nothing pass between two nodes."""
        self._set(one, other, LinkFault(cut=True))

    def slow(self, one: int, other: int, delay_ms: int) -> None:
        """Let everything between two nodes take so much longer."""
        self._set(one, other, LinkFault(delay_ms=min(delay_ms, _LONGEST_DELAY_MS)))

    def heal(self, one: int, other: int) -> None:
        """Take the fault away."""
        self._set(one, other, None)

    def _set(self, one: int, other: int, fault: LinkFault | None) -> None:
        faults = dict(self.faults)
        link = link_between(one, other)
        if fault is None:
            faults.pop(link, None)
        else:
            faults[link] = fault
        stored = [
            {"between": list(each), "cut": what.cut, "delay_ms": what.delay_ms}
            for each, what in sorted(faults.items())
        ]
        self._process.home.mkdir(exist_ok=True)
        path = self._process.home / "faults.json"
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_text(json.dumps(stored) + "\n", encoding="utf-8")
        os.replace(temporary, path)
        self._process.signal(signal.SIGHUP)
