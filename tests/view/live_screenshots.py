"""The pictures of the live view in `docs/images`: a real cluster, records, and a leader killed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Literal, NamedTuple

from playwright.sync_api import Browser, Page
from tests.view.browser import LAPTOP, PHONE, chromium
from tests.view.screenshots import IMAGES

from tidelog.client.admin import Admin
from tidelog.client.blocking import Client
from tidelog.client.errors import ClientError
from tidelog.client.producer import Producer
from tidelog.local.view_process import ViewProcess
from tidelog.testing.cluster import Cluster

TOPICS = {"clicks": 24, "orders": 6, "payments": 12, "shipments": 9}
KILLED = 101


def as_it_opens(_: Page) -> None:
    """Nothing has to be done for the picture."""


def open_an_election(page: Page) -> None:
    page.locator(".event-list > li > button", has_text="is led by").first.click()
    page.locator(".opened-event .chain li").first.wait_for()


def go_back_before_the_kill(page: Page) -> None:
    page.locator(".event-list > li > button", has_text="fenced").first.click()
    page.get_by_role("button", name="the cluster at this moment").click()
    page.get_by_label("one event back").click()
    page.wait_for_timeout(500)


class LiveShot(NamedTuple):
    """One picture: which screen, and how."""

    name: str
    place: str
    theme: Literal["light", "dark"] = "light"
    size: tuple[int, int] = LAPTOP
    prepare: Callable[[Page], None] = as_it_opens


BEFORE = (LiveShot("live-microscope", "/microscope/orders-1,payments-2", "dark"),)
AFTER = (
    LiveShot("live", "/"),
    LiveShot("live-timeline", "/timeline", "dark", prepare=open_an_election),
    LiveShot("live-past", "/timeline", prepare=go_back_before_the_kill),
    LiveShot("live-phone", "/", "dark", PHONE),
)


def main() -> None:
    """Write every picture anew."""
    IMAGES.mkdir(exist_ok=True)
    over = threading.Event()
    with Cluster(brokers=3, http=True) as cluster, chromium() as browser:
        with Client(cluster.bootstrap) as client:
            for topic, partitions in TOPICS.items():
                Admin(client).create_topic(topic, partitions=partitions, replication_factor=3)
        producing = threading.Thread(target=produce, args=(cluster.bootstrap, over))
        view = ViewProcess(cluster.directory)
        view.allow_acting(True)
        address = view.start(0)
        try:
            producing.start()
            for shot in BEFORE:
                take(browser, address, shot)
            cluster.kill(KILLED)
            for shot in AFTER:
                take(browser, address, shot)
        finally:
            over.set()
            producing.join()
            view.stop()


def produce(bootstrap: str, over: threading.Event) -> None:
    """Some orders a second, until it is over."""
    number = 0
    with Client(bootstrap) as client:
        producers = {topic: Producer(client, topic) for topic in TOPICS}
        while not over.wait(0.02):
            number += 1
            order = {"order": number, "customer": f"c{number % 17}", "amount": number * 13 % 97}
            for topic, producer in producers.items():
                producer.send(json.dumps(order).encode(), partition=number % TOPICS[topic])
            try:
                for producer in producers.values():
                    producer.flush()
            except ClientError:
                time.sleep(0.1)


def take(browser: Browser, address: str, shot: LiveShot) -> None:
    width, height = shot.size
    page: Page = browser.new_page(
        viewport={"width": width, "height": height}, color_scheme=shot.theme
    )
    page.goto(address)
    page.locator(".status.live").wait_for()
    page.evaluate("(place) => { location.hash = place; }", shot.place)
    page.wait_for_timeout(4000)  # the picture shall show a cluster that has been looked at
    shot.prepare(page)
    page.screenshot(path=IMAGES / f"{shot.name}.png")
    page.close()


if __name__ == "__main__":
    main()
