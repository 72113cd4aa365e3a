"""The pictures of `docs/images`: `make screenshots`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

from tests.view.browser import LAPTOP, PHONE, chromium

from tidelog.simulator.story.catalogue import story
from tidelog.simulator.story.document import story_document
from tidelog.view.page import single_page

IMAGES = Path(__file__).parents[2] / "docs" / "images"


class Shot(NamedTuple):
    """One picture: which story, at the first step that says this, and how."""

    name: str
    story: str
    says: str
    theme: Literal["light", "dark"] = "light"
    size: tuple[int, int] = LAPTOP
    compare: bool = False


SHOTS = (
    Shot("story", "worked-example", "102 truncates its log from 5 to 3"),
    Shot("story-dark", "controller-takeover", "Node 201 is the active controller", "dark"),
    Shot("story-phone", "worked-example", "100 sends offset 3 of epoch 2", "dark", PHONE),
    Shot("story-compared", "before-leader-epochs", "", size=(1280, 680), compare=True),
)


def main() -> None:
    """Write every picture anew."""
    IMAGES.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder, chromium() as browser:
        for shot in SHOTS:
            document = story_document(story(shot.story))
            steps = document["acts"][0]["steps"]
            at = next(number for number, step in enumerate(steps, 1) if shot.says in step["text"])
            file = Path(folder) / "story.html"
            file.write_text(single_page(document["title"], document), encoding="utf-8")
            width, height = shot.size
            page = browser.new_page(
                viewport={"width": width, "height": height},
                color_scheme=shot.theme,
                reduced_motion="reduce",
            )
            page.goto(f"{file.as_uri()}#act=1&step={at}")
            if shot.compare:
                page.get_by_role("button", name="side by side").click()
            page.locator(".microscope svg").first.wait_for()
            page.screenshot(path=IMAGES / f"{shot.name}.png")
            page.close()


if __name__ == "__main__":
    main()
