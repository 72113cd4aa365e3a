"""Up to four partitions under the microscope, side by side."""

from __future__ import annotations

import threading

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.view.browser import PHONE
from tests.view.live_cluster import produce, show

from tidelog.client.admin import Admin
from tidelog.client.blocking import Client
from tidelog.client.producer import Producer
from tidelog.local.local_cluster import LocalCluster

pytestmark = pytest.mark.long
NAMES = ("orders-0", "tailed-0", "tailed-1", "moving-0")


def test_partitions_are_pinned_from_their_pages_and_the_grid_and_seen_side_by_side(
    page: Page, cluster: LocalCluster
) -> None:
    show(page, "/partition/orders-0")
    page.get_by_role("button", name="pin", exact=True).click()
    show(page, "/")
    page.get_by_placeholder("filter by name").fill("tailed-1")
    expect(page.locator("canvas[data-cells='1']")).to_be_visible()
    page.locator(".grid-scroll").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("p")
    page.get_by_role("button", name="side by side (2)").click()

    for name, topic, index in (("orders-0", "orders", 0), ("tailed-1", "tailed", 1)):
        panel = page.locator(f"[data-panel='{name}']")
        expect(panel.locator(".microscope .column")).to_have_count(3)
        with Client(cluster.bootstrap) as client:
            leader = Admin(client).topics([topic]).leader_of(topic, index)
        for value in range(4):
            produce(cluster, topic, f"{name} {value}", partition=index)
        happened = panel.locator(".happenings")
        expect(happened).to_contain_text(f"{leader} appends")
        expect(happened).to_contain_text(f"asks {leader} for")
        expect(happened).to_contain_text(f"{leader} answers")
        expect(happened).to_contain_text(f"{leader} acknowledges")


def test_four_are_watched_at_once_and_a_fifth_has_to_wait(page: Page) -> None:
    show(page, f"/microscope/{','.join(NAMES)}")
    for name in NAMES:
        replicas = 1 if name == "moving-0" else 3
        columns = page.locator(f"[data-panel='{name}'] .microscope .column")
        expect(columns).to_have_count(replicas)
    expect(page.get_by_placeholder("a partition")).to_have_count(0)

    page.get_by_role("button", name="take tailed-0 away").click()
    expect(page.locator("[data-panel]")).to_have_count(3)
    page.get_by_placeholder("a partition").fill("nowhere-0")
    page.get_by_role("button", name="add").click()
    expect(page.get_by_role("alert")).to_have_text("there is no partition nowhere-0")
    page.get_by_placeholder("a partition").fill("moving-1")
    page.get_by_role("button", name="add").click()
    expect(page.locator("[data-panel]")).to_have_count(4)
    page.wait_for_url("**/#/microscope/orders-0,tailed-1,moving-0,moving-1")


def test_an_acknowledgement_that_waits_is_seen_until_the_followers_have_it(
    page: Page, cluster: LocalCluster
) -> None:
    with Client(cluster.bootstrap) as client:
        leader = Admin(client).topics(["orders"]).leader_of("orders", 0)
    followers = [each for each in (100, 101, 102) if each != leader]
    show(page, "/microscope/orders-0,tailed-0")
    panel = page.locator("[data-panel='orders-0']")
    expect(panel.locator(".microscope .column")).to_have_count(3)
    with Client(cluster.bootstrap) as client:
        producer = Producer(client, "orders")
        producer.send(b"is acknowledged")
        producer.flush()
        for each in followers:
            cluster.node(each).pause()
        producer.send(b"waits")
        producing = threading.Thread(target=producer.flush)
        producing.start()
        try:
            expect(panel.locator(".microscope .parked")).to_have_count(1)
            expect(panel.locator("[data-parked='1']")).to_have_text("1 acknowledgement waits")
            expect(panel.locator(".happenings")).to_contain_text("holds an acknowledgement until")
            expect(page.locator("[data-panel='tailed-0'] .microscope .parked")).to_have_count(0)
        finally:
            for each in followers:
                cluster.node(each).resume()
            producing.join()
    expect(panel.locator(".microscope .parked")).to_have_count(0)


def test_on_a_phone_they_stand_below_each_other(browser: Browser, address: str) -> None:
    width, height = PHONE
    opened = browser.new_page(viewport={"width": width, "height": height})
    opened.goto(address)
    show(opened, "/microscope/orders-0,tailed-0")
    expect(opened.locator("[data-panel] .microscope .column")).to_have_count(6)
    first, second = (
        opened.locator(f"[data-panel='{name}']").bounding_box() for name in ("orders-0", "tailed-0")
    )
    assert first is not None and second is not None
    assert second["y"] > first["y"] + first["height"] - 1
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    opened.close()
