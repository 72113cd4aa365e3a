"""The failover as a picture: one HTML file with drawings in it, which needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from examples.demo.story import Moment
from examples.demo.watching import Sample

WIDTH: Final = 960
HEIGHT: Final = 150
"""Of one diagram."""
LEFT: Final = 80
RIGHT: Final = 20
TOP: Final = 40
GAP: Final = 50
BIN_S: Final = 0.1
COLOURS: Final = ("#2a78b5", "#c9541f", "#3f8f4f")

_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1000px; margin: 2rem auto; }
svg { width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg text { fill: currentColor; }
.axis { stroke: currentColor; stroke-opacity: .35; }
.moment { stroke: #b3261e; stroke-dasharray: 4 3; }
.number { fill: #b3261e; font-weight: 600; }
td { padding: .1rem 1rem .1rem 0; vertical-align: top; } td:first-child { text-align: right; }
"""


class Line(NamedTuple):
    """One curve: its name and its points over time."""

    name: str
    points: list[tuple[float, float]]


class Panel(NamedTuple):
    """A diagram of its own, over the time axis that all share."""

    title: str
    lines: list[Line]


def draw(
    path: Path, acknowledged: Sequence[float], samples: Sequence[Sample], moments: Sequence[Moment]
) -> None:
    """Throughput, lag and high watermark over time, with what happened marked in all three."""
    began = min([*acknowledged[:1], samples[0].at])
    ended = max(acknowledged[-1], samples[-1].at, moments[-1].at)
    panels = [
        Panel(
            "acknowledged orders a second",
            [Line("acks=all", _rate(acknowledged, began, ended))],
        ),
        Panel(
            "records that a live consumer has yet to read",
            [Line("lag", [(each.at, float(each.lag)) for each in samples])],
        ),
        Panel(
            "high watermark",
            [
                Line(f"orders-{index}", [(each.at, float(each.marks[index])) for each in samples])
                for index in range(len(samples[0].marks))
            ],
        ),
    ]
    svg = _svg(panels, moments, began, ended)
    rows = "".join(
        f"<tr><td>{number}</td><td>{at - moments[0].at:+.3f} s</td><td>{escape(what)}</td></tr>"
        for number, (at, what) in enumerate(moments, 1)
    )
    path.write_text(
        f"<!doctype html><html lang=en><meta charset=utf-8><title>A leader dies</title>"
        f"<style>{_STYLE}</style><h1>A leader dies, and nothing is lost</h1>{svg}"
        f"<table>{rows}</table></html>\n",
        encoding="utf-8",
    )


def _rate(moments: Sequence[float], began: float, ended: float) -> list[tuple[float, float]]:
    counts = [0] * (int((ended - began) / BIN_S) + 1)
    for at in moments:
        counts[int((at - began) / BIN_S)] += 1
    return [(began + index * BIN_S, count / BIN_S) for index, count in enumerate(counts)]


def _svg(panels: list[Panel], moments: Sequence[Moment], began: float, ended: float) -> str:
    height = TOP + len(panels) * (HEIGHT + GAP)
    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img">']
    for index, panel in enumerate(panels):
        parts.extend(_panel(panel, TOP + index * (HEIGHT + GAP), began, ended))
    last = float("-inf")
    for number, (at, what) in enumerate(moments, 1):
        x = _x(at, began, ended)
        bottom = height - GAP
        parts.append(
            f'<line class="moment" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{bottom}">'
            f"<title>{escape(what)}</title></line>"
        )
        if x - last > 14:
            parts.append(f'<text class="number" x="{x - 4:.1f}" y="{TOP - 14}">{number}</text>')
            last = x
    parts.append("</svg>")
    return "".join(parts)


def _panel(panel: Panel, top: int, began: float, ended: float) -> list[str]:
    highest = max(1.0, *(value for line in panel.lines for _, value in line.points))
    bottom = top + HEIGHT
    parts = [
        f'<text x="{LEFT}" y="{top - 4}">{escape(panel.title)}</text>',
        f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>',
    ]
    for share in (0.0, 0.5, 1.0):
        y = bottom - share * (HEIGHT - 20)
        parts.append(
            f'<text x="{LEFT - 8}" y="{y + 4:.0f}" text-anchor="end">{highest * share:,.0f}</text>'
        )
    for second in range(int(ended - began) + 1):
        x = _x(began + second, began, ended)
        parts.append(f'<text x="{x:.0f}" y="{bottom + 15}" text-anchor="middle">{second} s</text>')
    for index, line in enumerate(panel.lines):
        colour = COLOURS[index % len(COLOURS)]
        points = " ".join(
            f"{_x(at, began, ended):.1f},{bottom - value / highest * (HEIGHT - 20):.1f}"
            for at, value in _thinned(line.points)
        )
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{points}"/>'
        )
        x = WIDTH - RIGHT - 90 * (len(panel.lines) - index)
        name = escape(line.name)
        parts.append(f'<text x="{x}" y="{top - 4}" style="fill:{colour}">{name}</text>')
    return parts


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Without points on a level line, which the eye does not miss."""
    inner = [
        here
        for (before, here), (_, after) in pairwise(pairwise(points))
        if not before[1] == here[1] == after[1]
    ]
    return [*points[:1], *inner, *points[-1:]]


def _x(at: float, began: float, ended: float) -> float:
    return LEFT + (at - began) / (ended - began) * (WIDTH - LEFT - RIGHT)
