"""The demo's picture: whole, and with everything that happened in it."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from examples.demo.picture import draw
from examples.demo.story import Moment
from examples.demo.watching import Sample


def test_the_picture_shows_every_curve_and_every_moment(tmp_path: Path) -> None:
    acknowledged = [100.0 + number / 50 for number in range(200)]
    samples = [
        Sample(100.0 + step / 10, (step, 2 * step, 3 * step), step % 4) for step in range(40)
    ]
    moments = [Moment(101.0, "kill -9 of broker <101>"), Moment(101.2, "102 leads")]
    draw(tmp_path / "demo.html", acknowledged, samples, moments)
    page = (tmp_path / "demo.html").read_text()
    svg = ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + len("</svg>")])
    assert len(svg.findall("polyline")) == 1 + 1 + 3
    titles = [title.text for title in svg.iter("title")]
    assert titles == ["kill -9 of broker <101>", "102 leads"]
    assert "+0.200 s" in page and "&lt;101&gt;" in page
