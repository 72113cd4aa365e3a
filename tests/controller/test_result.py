"""Decisions whose records take effect together, whatever their number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.controller.records import (
    MetadataRecord,
    encode_record,
)
from tidelog.controller.result import ONE_BATCH_BYTES, ONE_BATCH_RECORDS, together
from tidelog.controller.topics import NewTopic
from tidelog.protocol.stored.metadata import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    NoOpRecord,
)
from tidelog.quorum.batches import in_one_batch

if TYPE_CHECKING:
    from tests.controller.conftest import Cluster

LARGEST = ConfigRecord(resource_type=2, resource_name="t" * 249, name="n" * 60, value="v" * 32_767)


@pytest.mark.parametrize(
    "records",
    [
        [NoOpRecord()] * ONE_BATCH_RECORDS,
        [LARGEST] * 100,
        [LARGEST] * (ONE_BATCH_BYTES // len(encode_record(LARGEST))),
    ],
    ids=["many", "few large ones", "all the bytes"],
)
def test_what_is_to_go_into_one_batch_fits_one(records: list[MetadataRecord]) -> None:
    decision = together(records, "done")

    assert (decision.reply, decision.atomic) == ("done", True)
    assert decision.records == tuple(records)
    assert in_one_batch([encode_record(record) for record in decision.records])


@pytest.mark.parametrize(
    "records", [[NoOpRecord()] * (ONE_BATCH_RECORDS + 1), [LARGEST] * 200], ids=["many", "large"]
)
def test_what_does_not_fit_one_batch_becomes_a_transaction(records: list[MetadataRecord]) -> None:
    decision = together(records, "done")

    assert not decision.atomic
    assert decision.records == (BeginTransactionRecord(), *records, EndTransactionRecord())


def test_a_broker_with_any_number_of_partitions_can_start_again(cluster: Cluster) -> None:
    for name in ("first", "second"):
        created = cluster.do(cluster.controller.create_topics([NewTopic(name, 10_000, 1)]))
        assert len(created) == 1
    hosts = cluster.partition("first").leader
    cluster.wait(60_000)

    epoch = cluster.restart(hosts)

    assert isinstance(epoch, int)
    assert not cluster.image.in_transaction
    assert cluster.image.brokers[hosts].broker_epoch == epoch
    assert not cluster.beat(hosts).is_fenced
