"""What tests of the live view do with a cluster and a page of it."""

from __future__ import annotations

from playwright.sync_api import Page

from tidelog.client.blocking import Client
from tidelog.client.producer import ACKS_ALL, Producer
from tidelog.local.local_cluster import LocalCluster


def show(page: Page, place: str) -> None:
    page.evaluate("(place) => { location.hash = place; }", place)


def produce(
    cluster: LocalCluster,
    topic: str,
    value: str,
    acks: int = ACKS_ALL,
    partition: int | None = None,
) -> None:
    with Client(cluster.bootstrap) as client:
        producer = Producer(client, topic, acks=acks)
        producer.send(value.encode(), partition=partition)
        producer.flush()
