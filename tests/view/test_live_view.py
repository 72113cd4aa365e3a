"""The live view in a real browser, on a real cluster: what happens is seen, said and done there."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.view.browser import PHONE
from tests.view.live_cluster import produce, show
from tests.view.simulated_nodes import SimulatedCluster, running
from tests.view.test_server import serving

from tidelog.client.admin import Admin
from tidelog.client.blocking import Client
from tidelog.client.groups import Groups
from tidelog.client.transactions import Transactions
from tidelog.local.local_cluster import LocalCluster
from tidelog.model.ids import TopicPartition
from tidelog.view.server import ViewedCluster

pytestmark = pytest.mark.long

SEEN_WITHIN_MS = 500
WAIT_FOR_SENTENCE = """(before) => new Promise((resolve, reject) => {
  setTimeout(() => reject(new Error("no such sentence")), 15000);
  const look = () => {
    const line = [...document.querySelectorAll(".event-list li")].find(({ textContent: text }) =>
      text.includes("orders-0 is led by") && !text.includes(`is led by ${before} `));
    if (!line) return requestAnimationFrame(look);
    const today = new Date().toISOString().slice(0, 11);
    const at = Date.parse(`${today}${line.querySelector("time").textContent}Z`);
    resolve({ sentence: line.querySelector(".sentence-line").textContent, late: Date.now() - at });
  };
  look();
})"""
ACT = """async () => {
  const asked = { method: "POST", body: '{"action": "kill", "node": 100}' };
  return (await fetch("/api/act", asked)).status;
}"""
FRAMES_PER_SECOND = """() => new Promise((resolve) => {
  let frames = 0;
  const began = performance.now();
  const frame = () => {
    frames += 1;
    const passed = performance.now() - began;
    if (passed < 1000) requestAnimationFrame(frame);
    else resolve((frames * 1000) / passed);
  };
  requestAnimationFrame(frame);
})"""


def test_a_new_leader_is_seen_with_its_sentence_half_a_second_after_kill_9(
    page: Page, cluster: LocalCluster
) -> None:
    with Client(cluster.bootstrap) as client:
        leader = Admin(client).topics(["orders"]).leader_of("orders", 0)
    show(page, "/timeline")
    expect(page.locator(".event-list")).to_contain_text("topic orders created")
    cluster.node(leader).kill()

    seen = page.evaluate(WAIT_FOR_SENTENCE, leader)

    assert f"after {leader}: broker {leader} closed its connection" in seen["sentence"]
    assert seen["late"] < SEEN_WITHIN_MS
    show(page, "/")
    expect(page.locator(f"[data-node='{leader}'][data-state=stopped]")).to_be_visible()
    expect(page.locator(".problems")).to_contain_text(
        f"broker {leader} is fenced: its process does not run (killed"
    )

    page.locator(f"[data-node='{leader}'] summary").click()
    page.locator("[data-action=start] button").click()
    expect(page.locator(f"[data-node='{leader}'][data-state=running]")).to_be_visible(
        timeout=20_000
    )
    expect(page.locator(".problems")).not_to_contain_text("not in sync", timeout=20_000)


def test_the_microscope_follows_a_record_to_all_replicas(page: Page, cluster: LocalCluster) -> None:
    show(page, "/partition/orders-0")
    expect(page.locator(".microscope .column")).to_have_count(3)
    produce(cluster, "orders", "seen")

    for broker in (100, 101, 102):
        column = page.locator(f".microscope .column[data-broker='{broker}'][data-end='1']")
        expect(column).to_have_attribute("data-high-watermark", "1")
    produce(cluster, "orders", "seen fetch by fetch")
    expect(page.locator(".happenings")).to_contain_text("appends 1 to 1")
    expect(page.locator(".chain")).to_contain_text("leads in epoch")


def test_a_link_that_is_cut_costs_a_follower_its_place_until_it_is_healed(
    page: Page, cluster: LocalCluster
) -> None:
    with Client(cluster.bootstrap) as client:
        leader = Admin(client).topics(["orders"]).leader_of("orders", 0)
    follower = next(each for each in (100, 101, 102) if each != leader)
    page.get_by_role("button", name="cut or slow one").click()
    link = page.locator(f"[data-link='{min(leader, follower)}-{max(leader, follower)}']")
    expect(link).to_contain_text(f"tidelog link cut {min(leader, follower)}")
    link.locator("[data-action=cut] button").click()
    expect(link).to_contain_text("✂ cut")
    produce(cluster, "orders", "which the follower does not get", acks=1)
    expect(page.locator(".problems")).to_contain_text("not in sync", timeout=30_000)

    link.locator("[data-action=heal] button").click()
    expect(link).to_contain_text("whole")
    expect(page.locator(".problems")).not_to_contain_text("not in sync", timeout=30_000)


def test_a_topic_moves_after_its_preview(page: Page, cluster: LocalCluster) -> None:
    with Client(cluster.bootstrap) as client:
        before = Admin(client).topics(["moving"]).topic("moving").partitions[0].replicas
        target = next(each for each in (100, 101, 102) if each not in before)
        show(page, "/reassignment")
        page.locator("[data-topic]").select_option("moving")
        for broker in {100, 101, 102} - {target}:
            page.locator(f"fieldset input[value='{broker}']").uncheck()
        expect(page.get_by_label("preview")).to_contain_text("moving-0")
        action = page.locator("[data-action=reassign]")
        expect(action).to_contain_text(f"reassign --topic moving --brokers {target} --execute")
        action.locator("button").click()
        action.locator("button").click()
        expect(page.locator("[data-preview='0']")).to_be_visible(timeout=20_000)

        moved = Admin(client).topics(["moving"]).topic("moving").partitions
    assert {each.replicas for each in moved} == {(target,)}


def test_records_are_tailed_filtered_and_decoded(page: Page, cluster: LocalCluster) -> None:
    show(page, "/topics/tailed")
    page.get_by_placeholder("contains").fill("keep")
    page.locator("[data-tail]").click()
    expect(page.locator(".messages .legend")).to_contain_text("waiting for records")
    for value in ('{"keep": 1}', "other", '{"keep": 2}'):
        produce(cluster, "tailed", value)
    rows = page.locator("tr.record")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text('{"keep":2}')

    page.locator("details.produce summary").click()
    page.locator("[data-produce-value]").fill("keep me too")
    page.locator("[data-action=produce] button").click()
    expect(rows).to_have_count(3)


def test_groups_and_transactions_show_what_the_brokers_know(
    page: Page, cluster: LocalCluster
) -> None:
    with Client(cluster.bootstrap) as client:
        produce(cluster, "orders", "not read yet")
        Groups(client).move("warehouse", {TopicPartition("orders", 0): 0})
        Transactions(client).initialise("billing")
    show(page, "/groups/warehouse")
    expect(page.locator("[data-lag]")).not_to_have_text("0")
    expect(page.get_by_label("partitions")).to_contain_text("orders-0")
    show(page, "/transactions")
    expect(page.get_by_label("transactions")).to_contain_text("billing")


def test_a_page_without_the_token_only_looks(browser: Browser, address: str) -> None:
    opened = browser.new_page()
    opened.goto(address.partition("#")[0])
    expect(opened.locator(".mode")).to_have_text("open the printed address to act")
    opened.locator(".node summary").first.click()
    expect(opened.locator("[data-action=kill] code")).to_contain_text("tidelog node kill")
    assert opened.locator(".action button").count() == 0
    status = opened.evaluate(ACT)
    opened.close()
    assert status == 403


def test_ten_thousand_partitions_are_drawn_at_more_than_fifty_frames_a_second(
    browser: Browser,
) -> None:
    cluster = SimulatedCluster({"orders": 6000, "payments": 3000, "clicks": 1000})
    with running(cluster) as addresses, serving(ViewedCluster(tuple(addresses), "x:1")) as port:
        opened = browser.new_page(viewport={"width": 1280, "height": 860})
        opened.goto(f"http://127.0.0.1:{port}/")
        expect(opened.locator("canvas[data-cells='10000']")).to_be_visible(timeout=20_000)
        cluster.change(5000, leader=-1, isr=[])
        expect(opened.locator(".problems")).to_contain_text("orders-5000 has no leader")

        seconds = (float(opened.evaluate(FRAMES_PER_SECOND)) for _ in range(10))
        assert any(frames > 50 for frames in seconds)  # other programs may take some of them

        opened.keyboard.press("/")
        opened.keyboard.type("clicks-99")
        expect(opened.locator("canvas[data-cells='11']")).to_be_visible()
        opened.locator(".grid-scroll").focus()
        opened.keyboard.press("ArrowRight")
        opened.keyboard.press("ArrowRight")
        expect(opened.locator(".tip")).to_contain_text("clicks-990")
        opened.keyboard.press("Enter")
        expect(opened.locator("h2").first).to_have_text("clicks-990")
        opened.close()


def test_every_screen_opens_by_its_key_and_fits_a_phone(browser: Browser) -> None:
    cluster = SimulatedCluster({"orders": 60, "a-topic-with-a-rather-long-name": 3})
    cluster.change(0, leader=-1, isr=[])
    cluster.announce(100, "BrokerFenced", broker_id=102, broker_epoch=5, cause="it went away")
    with (
        running(cluster) as addresses,
        serving(ViewedCluster(tuple(addresses), "127.0.0.1:1")) as port,
    ):
        width, height = PHONE
        opened = browser.new_page(viewport={"width": width, "height": height}, color_scheme="dark")
        opened.goto(f"http://127.0.0.1:{port}/")
        expect(opened.locator(".problems")).to_contain_text("orders-0 has no leader")
        for key in "1234567890":
            opened.keyboard.press(key)
            expect(opened.locator(f".top nav a[title='key {key}'][aria-current]")).to_be_visible()
            wider = "document.documentElement.scrollWidth - window.innerWidth"
            assert (key, opened.evaluate(wider)) == (key, 0)
        opened.keyboard.press("?")
        expect(opened.get_by_role("dialog")).to_be_visible()
        opened.close()
