"""Events open with how they came, and the cluster can be seen as it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.view.live_cluster import show
from tests.view.simulated_nodes import SimulatedCluster, running
from tests.view.test_server import serving
from tests.view.trace_format import complaints_about

from tidelog.client.admin import Admin
from tidelog.client.blocking import Client
from tidelog.local.local_cluster import LocalCluster
from tidelog.view.server import ViewedCluster

pytestmark = pytest.mark.long
ROW = """(name) => {
  const row = window.tidelogGrid.rows.get(name);
  return row && { health: row[2], leader: row[3], epoch: row[4], isr: row[6], end: row[9] };
}"""
BECAUSE = "it closed its connection"


def row(page: Page, name: str) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate(ROW, name)
    return found


@pytest.fixture
def failover() -> SimulatedCluster:
    """100 led orders-0 and went; 101 leads it since, and a topic came after that."""
    cluster = SimulatedCluster({"orders": 3, "later": 1})
    of_orders: dict[str, Any] = {"topic": "orders", "partition": 0, "cause": BECAUSE}
    cluster.announce(102, "ControllerActivated", epoch=4, cause="it leads the quorum")
    cluster.announce(102, "BrokerFenced", broker_id=100, broker_epoch=9, cause=BECAUSE)
    cluster.announce(102, "InSyncReplicasDecided", in_sync=[101, 102],
                     in_sync_before=[100, 101, 102], eligible=[], **of_orders)  # fmt: skip
    cluster.announce(102, "LeaderElected", leader=101, leader_before=100, leader_epoch=1,
                     unclean=False, unclean_elections=0, may_lose="", **of_orders)  # fmt: skip
    for node in (102, 101):  # each node tells when it hears of it
        cluster.announce(node, "TopicCreated", topic="later", topic_id="H5sTgLNAQFW5Wx_O1qRkBw",
                         partitions=1, replication_factor=3, cause="metadata")  # fmt: skip
    for number, each in enumerate(cluster.events):
        each["at"] = f"2026-11-16T10:00:{10 + number}.000Z"
    cluster.change(0, leader=101, leader_epoch=1, isr=[101, 102])
    cluster.fenced = {100}
    return cluster


@pytest.fixture
def told(browser: Browser, failover: SimulatedCluster) -> Iterator[Page]:
    with running(failover) as addresses, serving(ViewedCluster(tuple(addresses), "x:1")) as port:
        opened = browser.new_page()
        opened.goto(f"http://127.0.0.1:{port}/#/timeline")
        expect(opened.locator(".event-list")).to_contain_text("topic later created")
        yield opened
        opened.close()


def test_an_event_opens_with_the_chain_of_its_causes(told: Page) -> None:
    told.get_by_role("button", name="orders-0 is led by 101 in epoch 1").click()

    steps = told.locator(".opened-event .chain li")
    expect(steps).to_have_count(3)
    expect(steps.nth(0)).to_contain_text(f"broker 100 of epoch 9 fenced: {BECAUSE}")
    expect(steps.nth(1)).to_contain_text("orders-0 in sync: 101, 102 after 100, 101, 102")
    expect(steps.nth(2)).to_contain_text("orders-0 is led by 101 in epoch 1 after 100")
    told.get_by_role("button", name="orders-0 is led by 101 in epoch 1").click()
    expect(steps).to_have_count(0)


def test_scrubbing_back_takes_leaders_in_sync_replicas_and_brokers_back(told: Page) -> None:
    back = told.get_by_label("one event back")
    back.click()
    expect(told.locator(".as-it-was")).to_contain_text("partitions 4")
    for _ in range(2):
        back.click()
    expect(told.locator(".as-it-was")).to_contain_text("partitions 3")
    expect(told.locator(".as-it-was")).to_contain_text("fenced 100")
    for _ in range(2):
        back.click()
    expect(told.locator(".past-bar")).to_contain_text("The past")
    expect(told.locator(".past-bar time").first).to_have_text("10:00:10.000 UTC")
    told.get_by_role("button", name="show the cluster then").click()

    expect(told.locator("canvas[data-cells='3']")).to_be_visible()
    assert row(told, "orders-0") == {
        "health": 0, "leader": 100, "epoch": 0, "isr": [100, 101, 102], "end": -1,
    }  # fmt: skip
    assert row(told, "later-0") is None
    expect(told.locator("[data-node='100']")).to_have_attribute("data-state", "unfenced")
    expect(told.locator("[data-node='102'] .star")).to_be_visible()
    expect(told.locator(".problems")).to_contain_text("no broker was fenced")

    told.get_by_label("one event forward").click()
    expect(told.locator("[data-node='100']")).to_have_attribute("data-state", "fenced")
    told.get_by_label("one event forward").click()
    expect(told.locator(".problems")).to_contain_text("1 partition with replicas out of sync")
    assert row(told, "orders-0")["leader"] == 100


def test_the_way_back_to_now_is_on_every_screen(told: Page) -> None:
    told.get_by_role("button", name="broker 100 of epoch 9 fenced").click()
    told.get_by_role("button", name="the cluster at this moment").click()
    expect(told.locator(".past-bar time").first).to_have_text("10:00:11.000 UTC")
    assert row(told, "orders-0")["leader"] == 100
    told.keyboard.press("4")
    expect(told.locator(".past-bar")).to_contain_text("this screen shows the present")

    told.get_by_role("button", name="back to now").click()

    expect(told.locator(".past-bar")).to_have_count(0)
    told.keyboard.press("1")
    expect(told.locator("canvas[data-cells='4']")).to_be_visible()
    assert row(told, "orders-0")["leader"] == 101


def test_the_past_stays_what_it_was_while_the_cluster_goes_on(
    told: Page, failover: SimulatedCluster
) -> None:
    told.get_by_role("button", name="broker 100 of epoch 9 fenced").click()
    told.get_by_role("button", name="the cluster at this moment").click()
    expect(told.locator("canvas[data-cells='3']")).to_be_visible()
    failover.announce(102, "LeaderElected", topic="orders", partition=1, leader=-1,
                      leader_before=101, leader_epoch=1, unclean=False, unclean_elections=0,
                      may_lose="", cause="nobody is left")  # fmt: skip
    failover.change(1, leader=-1, leader_epoch=1, isr=[])
    expect(told.locator(".badge.critical")).to_be_visible()

    assert (row(told, "orders-1")["leader"], row(told, "orders-1")["health"]) == (101, 0)


def test_the_trace_that_is_saved_is_one_that_perfetto_reads(told: Page, tmp_path: Path) -> None:
    with told.expect_download() as saved:
        told.get_by_role("link", name="export trace").click()
    file = tmp_path / "trace.json"
    saved.value.save_as(file)

    trace = json.loads(file.read_text(encoding="utf-8"))
    assert complaints_about(trace) == []
    assert "led by 101, epoch 1" in {each["name"] for each in trace["traceEvents"]}


def test_a_kill_is_told_from_the_end_of_the_process_to_the_new_leader(
    page: Page, cluster: LocalCluster
) -> None:
    with Client(cluster.bootstrap) as client:
        leader = Admin(client).topics(["orders"]).leader_of("orders", 0)
    cluster.node(leader).kill()
    show(page, "/timeline")
    election = page.locator(".event-list > li > button", has_text="orders-0 is led by")
    election.filter(has_text=f"after {leader}").click()

    chain = page.locator(".opened-event .chain li")
    expect(chain.first).to_contain_text(f"the process of node {leader} ended: killed: SIGKILL")
    expect(chain.nth(1)).to_contain_text(f"broker {leader} of epoch")
    expect(chain.last).to_contain_text("is the first live in-sync replica")
    page.get_by_label("one event back").click()
    show(page, "/")
    while row(page, "orders-0")["leader"] != leader:
        page.get_by_label("one event back").click()
    assert sorted(row(page, "orders-0")["isr"]) == [100, 101, 102]
    expect(page.locator(f"[data-node='{leader}']")).to_have_attribute("data-state", "unfenced")
