"""The simulator's stories inside the live view, by the same player as in a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.view.browser import LAPTOP, PHONE
from tests.view.simulated_nodes import SimulatedCluster, running
from tests.view.test_server import asked, serving

from tidelog.simulator.story.catalogue import STORIES
from tidelog.view.server import ViewedCluster

pytestmark = pytest.mark.long
SLOWEST_MS = 30_000
"""A story takes a second of a machine that has nothing else to do."""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    cluster = SimulatedCluster({"orders": 3})
    with running(cluster) as addresses, serving(ViewedCluster(tuple(addresses), "x:1")) as found:
        yield found


@pytest.fixture
def page(browser: Browser, port: int) -> Iterator[Page]:
    """The stories; nothing may be asked of anybody but the view."""
    width, height = LAPTOP
    context = browser.new_context(
        viewport={"width": width, "height": height}, reduced_motion="reduce"
    )
    opened = context.new_page()
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("console", lambda said: wrong.extend([said.text] * (said.type == "error")))
    asked_for: list[str] = []
    opened.on("request", lambda request: asked_for.append(request.url))
    opened.goto(f"http://127.0.0.1:{port}/#/stories")
    yield opened
    context.close()
    assert wrong == []
    own = (f"http://127.0.0.1:{port}/", "data:")
    assert [url for url in asked_for if not url.startswith(own)] == []


def step(page: Page, number: int) -> None:
    expect(page.locator(".count b")).to_have_text(str(number))


def test_all_stories_can_be_chosen_and_played(page: Page) -> None:
    expect(page.locator(".story-list a")).to_have_count(len(STORIES), timeout=SLOWEST_MS)
    page.get_by_role("link", name="A leader fails, and comes back").click()
    expect(page.get_by_role("status").filter(has_text="The simulator runs")).to_be_visible()
    expect(page.locator(".stage [data-broker]")).to_have_count(3, timeout=SLOWEST_MS)
    step(page, 1)
    page.keyboard.press("ArrowRight")
    step(page, 2)
    page.wait_for_url("**/#/stories/worked-example?step=2")

    for story in STORIES:
        page.locator(".crumbs select").select_option(story.name)
        expect(page.locator(".story h1")).to_have_text(story.title, timeout=SLOWEST_MS)
        expect(page.locator(".stage [data-broker]").first).to_be_visible()
        page.locator(".story h1").click()
        page.keyboard.press("End")
        expect(page.locator(".stage .sentence")).not_to_be_empty()
    page.keyboard.press("Escape")
    expect(page.locator(".grid-scroll")).to_be_visible()
    page.wait_for_url("**/#/")


def test_a_link_opens_a_story_at_its_step_and_acts_stand_side_by_side(
    page: Page, port: int
) -> None:
    page.goto(f"http://127.0.0.1:{port}/#/stories/before-leader-epochs?act=2&step=5")
    page.reload()
    expect(page.locator(".acts [aria-pressed=true]")).to_have_text(
        "2. with leader epochs", timeout=SLOWEST_MS
    )
    step(page, 5)
    page.get_by_role("button", name="side by side").click()
    expect(page.locator(".comparison .microscope")).to_have_count(2)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("play, pause")


def test_a_story_fits_a_phone(browser: Browser, port: int) -> None:
    width, height = PHONE
    opened = browser.new_page(viewport={"width": width, "height": height})
    opened.goto(f"http://127.0.0.1:{port}/#/stories/worked-example?step=22")
    expect(opened.locator(".stage [data-broker]")).to_have_count(3, timeout=SLOWEST_MS)
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    opened.close()


def test_a_story_that_does_not_exist_is_answered_with_the_nearest(port: int) -> None:
    status, _, body = asked(port, "GET", "/api/stories?name=zombie-leadre")

    assert (status, b"zombie-leader" in body) == (409, True)


def test_pages_of_other_sites_are_told_no_stories(port: int) -> None:
    assert asked(port, "GET", "/api/stories", Sec_Fetch_Site="cross-site")[0] == 403
