"""Odd requests about groups and transactions: Apache Kafka and Tidelog give the same answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.raw import HungUp, Peer, Topic, until
from tests.integration.samples_of_coordinators import FIELDS
from tests.integration.told_answers import told
from tests.integration.variations import BESIDE, variations
from tests.known_versions import known_versions
from tests.spark.apache_kafka import apache_kafka

from tidelog.client.blocking import Client
from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import SUPPORTED, ApiKey
from tidelog.testing.cluster import Cluster

DRAWN = {"member_id"}
NOT_COMPARED = {
    (ApiKey.ADD_PARTITIONS_TO_TXN, "transactions of none"): "Apache Kafka does not answer",
    (ApiKey.WRITE_TXN_MARKERS, "markers topics of none"): "there the producer is left out",
    (ApiKey.WRITE_TXN_MARKERS, "markers topics partition_indexes of none"): "as above",
}
TOO_LONG = "'xxx"
"""Of an expression; here it may not be as long as there."""
REPEATED = {
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        ("transactions twice", "transactions often", f"{BESIDE} transactions"),
        "There the last naming of a transaction is judged and the first one answered for.",
    ),
    ApiKey.WRITE_TXN_MARKERS: (
        ("twice", "often", f"{BESIDE} markers", f"{BESIDE} topics"),
        "There a producer is answered for once, whatever it is named with, and at times never.",
    ),
}
"""What is named more than once is left out of these, as only brokers ask for them: how, and why."""
ALONE = {"group.initial.rebalance.delay.ms": "0"}
LOADING = {ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_not_available}


class Judged:
    """A broker with a topic and coordinators that are loaded."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("orders", 3, 1)])["orders"].result(20)
        with Client(bootstrap) as client:
            topic_id = client.retrying(lambda: client.refresh(["orders"]).topic("orders").topic_id)
        self.topic = Topic("orders", topic_id)
        until(self._finds_coordinators, within_s=60)

    def _finds_coordinators(self) -> bool:
        with Peer(self.bootstrap) as peer:
            wishes = [{"key": "anybody", "key_type": kind} for kind in (0, 1)]
            found = [peer.call(ApiKey.FIND_COORDINATOR, 1, wish).error_code for wish in wishes]
            return found == [0, 0]

    def answer(self, key: ApiKey, version: int, request: Any) -> object:
        """What it says once its coordinators know."""
        said: list[object] = []

        def is_settled() -> bool:
            try:
                with Peer(self.bootstrap, timeout_s=30) as peer:
                    said[:] = [told(peer.call(key, version, request), DRAWN)]
            except HungUp:
                said[:] = ["hung up"]
            return not any(repr(code) in repr(said) for code in LOADING)

        until(is_settled, within_s=60)
        return said[0]


def is_left_out(key: ApiKey, what: str) -> bool:
    ends, _ = REPEATED.get(key, ((), ""))
    return (key, what) in NOT_COMPARED or what.endswith(ends) or TOO_LONG in what


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Judged, Judged]]:
    with (
        apache_kafka(tmp_path_factory.mktemp("apache")) as apache,
        Cluster(tmp_path_factory.mktemp("tidelog"), settings=ALONE) as cluster,
    ):
        yield Judged(apache.bootstrap), Judged(cluster.bootstrap)


@pytest.mark.parametrize("key", FIELDS, ids=lambda key: key.name)
def test_an_odd_request_is_answered_as_apache_kafka_does(
    brokers: tuple[Judged, Judged], key: ApiKey
) -> None:
    apache, tidelog = brokers
    for version in sorted({SUPPORTED[key].min, known_versions(key)[-1]}):
        pairs = zip(
            variations(key, version, FIELDS[key](apache.topic)),
            variations(key, version, FIELDS[key](tidelog.topic)),
            strict=True,
        )
        for (what, there), (_, here) in pairs:
            if is_left_out(key, what):
                continue
            expected = apache.answer(key, version, there)
            assert tidelog.answer(key, version, here) == expected, f"version {version}: {what}"
