"""A browser, and a cluster with its view, for each file that asks for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.local.ports import free_port_of_a_cluster
from tests.view.browser import LAPTOP, chromium

from tidelog.client.admin import Admin
from tidelog.client.blocking import Client
from tidelog.local.local_cluster import LocalCluster
from tidelog.local.view_process import ViewProcess

expect.set_options(timeout=15_000)  # other programs may take most of the machine


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """As `tidelog up --dev` creates it."""
    first = free_port_of_a_cluster(brokers=3)
    started = LocalCluster.create(
        tmp_path_factory.mktemp("live") / "cluster",
        ports=range(first, first + 3),
        http_ports=None,
        development=True,
        settings={"auto.leader.rebalance.enable": "false", "replica.lag.time.max.ms": "2000"},
    )
    try:
        started.start()
        with Client(started.bootstrap) as client:
            admin = Admin(client)
            admin.create_topic("orders", partitions=1, replication_factor=3)
            admin.create_topic("moving", partitions=2, replication_factor=1)
            admin.create_topic("tailed", partitions=2, replication_factor=3)
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="module")
def address(cluster: LocalCluster) -> Iterator[str]:
    """Of a view that may act, as `tidelog up --dev` prints it."""
    view = ViewProcess(cluster.directory)
    view.allow_acting(True)
    yield view.start(0)
    view.stop()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """The page as the printed address opens it; it must not complain."""
    width, height = LAPTOP
    opened = browser.new_page(viewport={"width": width, "height": height})
    complaints: list[str] = []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("console", lambda said: complaints.extend([said.text] * (said.type == "error")))
    opened.goto(address)
    expect(opened.locator(".status.live")).to_be_visible()
    yield opened
    opened.close()
    assert complaints == []
