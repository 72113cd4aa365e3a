"""The metrics of a node, read back from the text that it tells them in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

_LINE: Final = re.compile(r"(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\(.)")


class Sample(NamedTuple):
    """One value."""

    labels: dict[str, str]
    value: float


class Samples:
    """All values of one node at one moment, by the name of their family."""

    def __init__(self, samples: Iterable[tuple[str, Sample]]) -> None:
        self._by_name: dict[str, list[Sample]] = {}
        for name, sample in samples:
            self._by_name.setdefault(name, []).append(sample)

    def all(self, name: str) -> list[Sample]:
        return self._by_name.get(name, [])

    def get(self, name: str) -> float | None:
        """The value of a family without labels, or the sum over them; None where it is not told."""
        found = self.all(name)
        return sum(sample.value for sample in found) if found else None


def read_metrics(text: str) -> Samples:
    """The samples in an exposition for Prometheus; lines that are none are passed over."""
    return Samples(_samples(text))


def _samples(text: str) -> Iterator[tuple[str, Sample]]:
    for line in text.splitlines():
        found = None if line.startswith("#") else _LINE.match(line)
        if found is None:
            continue
        try:
            value = float(found["value"])
        except ValueError:
            continue
        labels = {
            name: _ESCAPED.sub(_unescaped, text)
            for name, text in _LABEL.findall(found["labels"] or "")
        }
        yield found["name"], Sample(labels, value)


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]
