"""What is wrong stands first on the page, in the words of `tidelog cluster health`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from tests.view.live_cluster import produce
from tests.view.simulated_nodes import SimulatedCluster, running
from tests.view.test_actions import until
from tests.view.test_server import serving

from tidelog.client.admin import Admin
from tidelog.client.blocking import Client
from tidelog.local.local_cluster import LocalCluster
from tidelog.node.inspection.metrics import UNCLEAN_ELECTION
from tidelog.observe.metrics import Metric, exposition
from tidelog.view.server import ViewedCluster

pytestmark = pytest.mark.long
BROKERS = (100, 101, 102)
SOON_MS = 20_000


@contextmanager
def looked_at(browser: Browser, cluster: SimulatedCluster) -> Iterator[Page]:
    with running(cluster) as addresses, serving(ViewedCluster(tuple(addresses), "x:1")) as port:
        opened = browser.new_page()
        opened.goto(f"http://127.0.0.1:{port}/")
        yield opened
        opened.close()


def problem(page: Page, kind: str) -> Locator:
    return page.locator(f".problems [data-kind='{kind}']")


def test_everything_that_health_tells_stands_on_the_page_worst_first(browser: Browser) -> None:
    cluster = SimulatedCluster({"orders": 4})
    cluster.change(0, leader=-1, isr=[])
    cluster.change(1, leader=101, isr=[101])
    cluster.change(2, leader=102, isr=[102, 100])
    cluster.change(3, leader=101)
    cluster.fenced = {100}
    cluster.directories = [{"path": "/data", "id": "x", "offline": "EIO"}]
    cluster.clocks_ahead_ms = {102: 90_000}
    lost = (("orders", "3", "7", "records from 41 on"), time.time() - 60)
    cluster.metrics = exposition([Metric(UNCLEAN_ELECTION, [lost])])
    with looked_at(browser, cluster) as page:
        expect(problem(page, "offline-partitions")).to_contain_text("orders-0 has no leader")
        expect(problem(page, "under-min-isr")).to_contain_text("acks=all is refused")
        expect(problem(page, "under-replicated")).to_contain_text("orders-2 has replicas")
        expect(problem(page, "directory-offline")).to_have_count(3)
        expect(problem(page, "fenced-broker")).to_contain_text("start node 100")
        expect(problem(page, "unclean-election")).to_contain_text(
            "in epoch 7; it may have lost records from 41 on"
        )
        expect(problem(page, "clock-off")).to_contain_text("90.0 s ahead of the others")
        expect(page.locator(".not-told")).to_contain_text("cannot reach x:1")

        order = page.locator(".problems .severity").all_inner_texts()
        ranks = ["CRITICAL", "SERIOUS", "DEGRADED", "NOTICE"]
        assert [ranks.index(each.upper()) for each in order] == sorted(
            ranks.index(each.upper()) for each in order
        )
        problem(page, "under-min-isr").get_by_role("button", name="show").click()
        expect(page.locator("canvas[data-cells='1']")).to_be_visible()
        problem(page, "unclean-election").get_by_role("button", name="open").click()
        expect(page.locator("h2").first).to_have_text("orders-3")


def test_an_unclean_election_is_told_with_what_it_may_have_lost(
    page: Page, cluster: LocalCluster
) -> None:
    with Client(cluster.bootstrap) as client:
        admin = Admin(client)
        settings = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        admin.create_topic("spool", partitions=1, replication_factor=2, configs=settings)
        until(lambda: "spool" in admin.topics(None).topics)
        first, second = admin.topics(["spool"]).topic("spool").partitions[0].replicas
    produce(cluster, "spool", "held by both")
    cluster.node(second).kill()
    expect(problem(page, "under-replicated")).to_contain_text("spool-0", timeout=SOON_MS)
    produce(cluster, "spool", "held by one", acks=1)
    cluster.node(first).kill()
    cluster.start_node(second)

    told = problem(page, "unclean-election").filter(has_text="spool-0")
    expect(told).to_contain_text("spool-0 got a leader from outside", timeout=SOON_MS)
    expect(told).to_contain_text("it may have lost")
    cluster.start_node(first)
    expect(problem(page, "fenced-broker")).to_have_count(0, timeout=SOON_MS)
    expect(told).to_be_visible()


def test_too_few_controllers_are_told_with_the_command_that_helps(
    page: Page, cluster: LocalCluster
) -> None:
    for gone in (100, 101):
        cluster.node(gone).kill()

    told = problem(page, "no-controller")
    expect(told).to_contain_text("1 of 3 controllers answer, and 2 are needed", timeout=SOON_MS)
    expect(problem(page, "offline-partitions")).to_contain_text("no leader that answers")
    expect(problem(page, "offline-partitions").locator("code").first).to_contain_text(
        "tidelog node start 10"
    )
    for gone in (100, 101):
        cluster.node(gone).start()
    expect(told).to_have_count(0, timeout=SOON_MS)
    expect(problem(page, "offline-partitions")).to_have_count(0, timeout=SOON_MS)
