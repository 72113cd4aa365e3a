"""Stories in a real browser: the page works from a file, steps, and draws what the text says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.view.browser import LAPTOP, PHONE

from tidelog.model.ids import TopicPartition
from tidelog.simulator.scenarios import scenario_text
from tidelog.simulator.story.catalogue import story
from tidelog.simulator.story.document import act_document, story_document
from tidelog.simulator.story.telling import record_transcript
from tidelog.view.page import single_page

pytestmark = pytest.mark.long

STORIES = ("worked-example", "before-leader-epochs")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("stories")
    found = {}
    for name in STORIES:
        document = story_document(story(name))
        found[name] = folder / f"{name}.html"
        found[name].write_text(single_page(document["title"], document), encoding="utf-8")
    return found


@pytest.fixture
def page(browser: Browser, files: dict[str, Path]) -> Iterator[Page]:
    """The worked example; nothing in it may complain or ask for anything else."""
    with opened(browser, files["worked-example"]) as page:
        yield page


@contextmanager
def opened(
    browser: Browser, file: Path, *, place: str = "", size: tuple[int, int] = LAPTOP
) -> Iterator[Page]:
    """A page that must neither complain nor ask for anything but itself."""
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height}, reduced_motion="reduce"
    )
    wrong: list[str] = []
    asked: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text))
    page.on("request", lambda request: asked.append(request.url))
    try:
        page.goto(f"{file.as_uri()}{place}")
        yield page
    finally:
        context.close()
    assert wrong == []
    assert [url for url in asked if not url.startswith((file.as_uri(), "data:"))] == []


def sentence(page: Page) -> str:
    return page.locator(".stage .sentence").inner_text()


def is_at(page: Page, step: int) -> None:
    expect(page.locator(".count b")).to_have_text(str(step))


def high_watermark(page: Page, broker: int) -> str | None:
    return page.locator(f"[data-broker='{broker}']").get_attribute("data-high-watermark")


def line_y(page: Page, broker: int) -> float:
    """How far below the beginning of the log the high watermark is drawn."""
    line = page.locator(f"[data-broker='{broker}'] .mark line").bounding_box()
    log = page.locator(f"[data-broker='{broker}'] .trough").bounding_box()
    assert line is not None and log is not None
    return line["y"] - log["y"]


def step_to(page: Page, words: str) -> None:
    """Forward until the sentence has these words."""
    for step in range(2, 60):
        page.keyboard.press("ArrowRight")
        is_at(page, step)
        if words in sentence(page):
            return
    raise AssertionError(f"no step says {words!r}")


def test_a_step_changes_the_sentence_and_back_again(page: Page) -> None:
    first = sentence(page)
    page.keyboard.press("ArrowRight")
    is_at(page, 2)
    second = sentence(page)
    page.get_by_role("button", name="forward (→)").click()
    is_at(page, 3)

    assert len({first, second, sentence(page)}) == 3
    page.keyboard.press("ArrowLeft")
    is_at(page, 2)
    assert sentence(page) == second
    page.get_by_role("button", name="back (←)").click()
    is_at(page, 1)
    assert sentence(page) == first


def test_the_high_watermark_moves_in_the_picture(page: Page) -> None:
    assert high_watermark(page, 101) == "0"
    before = line_y(page, 101)

    step_to(page, "the high watermark rises from 0 to 3")

    assert high_watermark(page, 101) == "3"
    assert line_y(page, 101) > before + 50
    assert high_watermark(page, 100) == "0"  # it hears of it one round trip later
    page.keyboard.press("Home")
    is_at(page, 1)
    assert line_y(page, 101) == before


def test_a_message_is_drawn_on_its_way(page: Page) -> None:
    step_to(page, "102 asks 101 for offset 3")
    message = page.locator(".message")
    assert message.get_attribute("data-from") == "102"
    assert message.get_attribute("data-to") == "101"
    expect(message).to_contain_text("fetch 3")


def test_truncation_is_seen_while_it_happens(page: Page) -> None:
    step_to(page, "102 truncates its log from 5 to 3")
    expect(page.locator("[data-broker='102'] g.cut")).to_have_count(4)
    page.keyboard.press("ArrowRight")
    expect(page.locator("[data-broker='102'] g.cut")).to_have_count(0)
    expect(page.locator("[data-broker='101']")).to_contain_text("down")


def test_keys_go_to_the_ends_to_what_matters_and_to_help(page: Page) -> None:
    page.keyboard.press("End")
    is_at(page, 48)
    page.keyboard.press("Home")
    is_at(page, 1)
    page.keyboard.press("Shift+ArrowRight")
    is_at(page, 2)
    page.keyboard.press("Shift+ArrowRight")
    is_at(page, 6)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_it_plays_by_itself_and_stops_when_told(page: Page) -> None:
    page.get_by_label("speed").select_option("4")
    page.locator(".stage .sentence").click()  # a list of choices has its own use of the keys
    first = sentence(page)
    page.keyboard.press(" ")
    expect(page.locator(".stage .sentence")).not_to_have_text(first)
    page.keyboard.press(" ")
    expect(page.get_by_role("button", name="play or pause")).to_have_text("▶ play")


def test_a_link_opens_at_its_step(browser: Browser, files: dict[str, Path]) -> None:
    with opened(browser, files["worked-example"], place="#step=12") as page:
        is_at(page, 12)
        page.keyboard.press("ArrowRight")
        page.wait_for_url("**/*#step=13")


def test_light_and_dark_can_be_chosen(page: Page) -> None:
    back = "getComputedStyle(document.body).backgroundColor"
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    light = page.evaluate(back)
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate(back) != light


def test_acts_are_chosen_and_their_ends_stand_side_by_side(
    browser: Browser, files: dict[str, Path]
) -> None:
    with opened(browser, files["before-leader-epochs"]) as page:
        page.get_by_role("button", name="with leader epochs").last.click()
        page.wait_for_url("**/*#act=2&step=1")
        page.get_by_role("button", name="side by side").click()
        expect(page.locator(".comparison .sentence")).to_have_count(2)
        lost, kept = page.locator(".comparison .sentence").all_inner_texts()
        assert "gets nothing" in lost and "reads a, b, c" in kept


def test_the_high_watermark_of_an_empty_log_stands_at_its_beginning(
    browser: Browser, files: dict[str, Path]
) -> None:
    with opened(browser, files["before-leader-epochs"]) as page:
        page.get_by_role("button", name="side by side").click()
        for lost in page.locator(".comparison .stage").first.locator("[data-broker]").all():
            expect(lost).to_have_attribute("data-end", "0")
            line, log = (lost.locator(part).bounding_box() for part in (".mark line", ".trough"))
            assert line is not None and log is not None
            assert abs(line["y"] - log["y"]) < 5


def test_of_a_long_run_the_page_tells_what_it_leaves_out(browser: Browser, tmp_path: Path) -> None:
    recorder = record_transcript(scenario_text("healed_cut"), TopicPartition("orders", 0)).recorder
    steps = recorder.steps
    act = act_document(recorder, steps=steps[-6:], left_out=steps[:-6])
    document = {"title": "x", "about": "", "command": "x", "version": "0", "acts": [act]}
    file = tmp_path / "long.html"
    file.write_text(single_page("x", document), encoding="utf-8")

    with opened(browser, file) as page:
        left_out = page.locator(".steps .left-out")
        expect(left_out.first).to_contain_text(f"{len(steps) - 6} steps of this run are left out")
        expect(left_out.nth(1)).to_contain_text("100 starts.")


@pytest.mark.parametrize("size", [LAPTOP, PHONE])
def test_nothing_is_wider_than_the_window(
    browser: Browser, files: dict[str, Path], size: tuple[int, int]
) -> None:
    with opened(browser, files["worked-example"], place="#step=22", size=size) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        expect(page.locator("[data-broker]")).to_have_count(3)
