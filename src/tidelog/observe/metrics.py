"""Metrics as values, and as the text that Prometheus reads.

Invariant  A family says what it is once; whoever gives its values names that family, so that there
           is no metric without kind and meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPED: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class MetricKind(StrEnum):
    """How its values behave."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class MetricFamily(NamedTuple):
    """One metric, whatever its labels say."""

    name: str
    kind: MetricKind
    meaning: str
    labels: tuple[str, ...] = ()


class Histogram(NamedTuple):
    """How many values lie at or below each bound, in its own bucket and not in all larger ones."""

    bounds: Sequence[float]
    buckets: Sequence[int]
    """One more than bounds: the last one is for all above."""
    total: float


Value: TypeAlias = float | Histogram
LabelledValue: TypeAlias = tuple[tuple[str, ...], Value]


class Metric(NamedTuple):
    """A family with its values of this moment."""

    family: MetricFamily
    values: Sequence[LabelledValue]


def counter(name: str, meaning: str, *labels: str) -> MetricFamily:
    return MetricFamily(name, MetricKind.COUNTER, meaning, labels)


def gauge(name: str, meaning: str, *labels: str) -> MetricFamily:
    return MetricFamily(name, MetricKind.GAUGE, meaning, labels)


def histogram(name: str, meaning: str, *labels: str) -> MetricFamily:
    return MetricFamily(name, MetricKind.HISTOGRAM, meaning, labels)


def one(family: MetricFamily, value: float) -> Metric:
    """A metric without labels."""
    return Metric(family, (((), value),))


def exposition(metrics: Iterable[Metric]) -> str:
    """The text format of Prometheus."""
    lines: list[str] = []
    for (name, kind, meaning, labels), values in metrics:
        lines += (f"# HELP {name} {meaning}", f"# TYPE {name} {kind}")
        for given, value in values:
            pairs = [
                f'{label}="{text.translate(_ESCAPED)}"'
                for label, text in zip(labels, given, strict=True)
            ]
            if isinstance(value, Histogram):
                lines += _histogram_lines(name, pairs, value)
            else:
                lines.append(f"{name}{_braced(pairs)} {_number(value)}")
    return "\n".join([*lines, ""])


def _histogram_lines(name: str, pairs: list[str], value: Histogram) -> Iterable[str]:
    seen = 0
    for bound, count in zip((*value.bounds, None), value.buckets, strict=True):
        seen += count
        le = "+Inf" if bound is None else _number(bound)
        labels = _braced([*pairs, f'le="{le}"'])
        yield f"{name}_bucket{labels} {seen}"
    yield f"{name}_sum{_braced(pairs)} {_number(value.total)}"
    yield f"{name}_count{_braced(pairs)} {seen}"


def _braced(pairs: list[str]) -> str:
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))
