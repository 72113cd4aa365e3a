"""The ledger in its topic: how that is created, and what is said to a run that must not write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

import pytest
from tests.spark.conftest import create_topic

from tidelog.client.admin import USE_CLUSTER_DEFAULT, Admin
from tidelog.client.blocking import Client
from tidelog.client.errors import RequestRefused
from tidelog.model.errors import ErrorCode
from tidelog.spark.errors import Fenced, OptionError, SinkError
from tidelog.spark.sink.ledger import Ledger
from tidelog.spark.sink.ledger_topic import create_ledger_topic
from tidelog.testing.cluster import Cluster


class Brokers:
    """Creates topics where enough brokers are registered, as a controller does."""

    def __init__(self, registered: int, usual: int) -> None:
        self.registered, self.usual = registered, usual
        self.created: list[tuple[int, str | None]] = []

    def create_topic(
        self, name: str, *, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> None:
        asked = self.usual if replication_factor == USE_CLUSTER_DEFAULT else replication_factor
        if asked > self.registered:
            raise RequestRefused(ErrorCode.invalid_replication_factor, name)
        assert configs["cleanup.policy"] == "compact"
        self.created.append((asked, configs.get("min.insync.replicas")))


@pytest.mark.parametrize(
    ("registered", "usual", "created"), [(3, 1, (3, "2")), (2, 2, (2, None)), (1, 1, (1, None))]
)
def test_a_ledger_has_three_replicas_or_as_many_as_other_topics(
    registered: int, usual: int, created: tuple[int, str | None]
) -> None:
    brokers = Brokers(registered, usual)
    create_ledger_topic(cast(Admin, brokers), "ledger")
    assert brokers.created == [created]


def test_a_ledger_is_not_created_with_fewer_replicas_for_good() -> None:
    """Two of three brokers have never been up."""
    brokers = Brokers(registered=1, usual=3)
    with pytest.raises(SinkError, match=r"ledger cannot be created .* start the brokers that are"):
        create_ledger_topic(cast(Admin, brokers), "ledger")
    assert brokers.created == []


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.fixture
def client(bootstrap: str) -> Iterator[Client]:
    with Client(bootstrap) as connected:
        yield connected


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_that_forgets_decisions_is_refused_as_a_ledger(
    bootstrap: str, client: Client, topic: str, policy: str
) -> None:
    name = create_topic(bootstrap, topic.replace(",", "-"), 1, 1, cleanup_policy=policy)
    ledger = Ledger(client, name, "query")
    with pytest.raises(OptionError, match=f"cleanup.policy={policy}, and would forget .* configs"):
        ledger.claim("run", 0)


def test_a_run_that_was_superseded_is_told_what_to_do(client: Client, topic: str) -> None:
    old, new = Ledger(client, topic, "query"), Ledger(client, topic, "query")
    old.claim("old", 0)
    new.refresh()
    new.claim("new", 0)
    with pytest.raises(Fenced, match=r"run new has taken over, .* stop one of the two"):
        old.decide("old", 0, ())
    with pytest.raises(Fenced, match=r"\(new\) writes now; run old must not.* start it again"):
        old.claim("old", 1)
