"""A transactional client of a node in a test, as far as the node can tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.known_versions import known_versions
from tests.node.node_bench import NodeBench
from tests.protocol.kio_messages.entity_messages import decode_response

from tidelog.coordinator.result import ProducerIdAndEpoch
from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import SUPPORTED, ApiKey
from tidelog.protocol.produce import ProducedPartition
from tidelog.records.builder import NewRecord, build_batch

SETTINGS = {
    "transaction_state_log_num_partitions": "2",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
    "offsets_topic_num_partitions": "2",
    "offsets_topic_replication_factor": "1",
    "transaction_two_phase_commit_enable": "true",
}
"""Of a broker that is alone."""


class Client:
    """Finds its coordinators when it is made; then does what it is told, one request at a time."""

    def __init__(self, bench: NodeBench, transactional_id: str = "tx") -> None:
        self.bench = bench
        self.transactional_id = transactional_id
        self.peer = bench.connect()
        self.producer = ProducerIdAndEpoch(-1, -1)
        self.sequences: dict[int, int] = {}
        for key_type in (0, 1):
            self.ask(ApiKey.FIND_COORDINATOR, 1, key=transactional_id, key_type=key_type)
        found = self.ask(ApiKey.FIND_COORDINATOR, 1, key=transactional_id, key_type=1)
        assert found.error_code == 0

    def ask(self, api: ApiKey, version: int, **fields: Any) -> Any:
        self.peer.send(api, version, **fields)
        self.settle()
        return decode_response(api, version, self.peer.answer())[1]

    def settle(self) -> None:
        """Let everything happen that needs no time."""
        for _ in range(4):
            self.bench.wait(0)
            self.bench.end_tick()

    def init(self, version: int = 5, **fields: Any) -> Any:
        given = {
            "transactional_id": self.transactional_id,
            "transaction_timeout": 60_000,
            "producer_id": -1,
            "producer_epoch": -1,
            **fields,
        }
        answer = self.ask(ApiKey.INIT_PRODUCER_ID, version, **given)
        if answer.error_code == 0:
            self.producer = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
            self.sequences = {}
        return answer

    def add(self, *partitions: int, version: int = 3, topic: str = "orders") -> ErrorCode:
        topics = [{"name": topic, "partitions": list(partitions)}]
        answer = self.ask(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            version,
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer.producer_id,
            v3_and_below_producer_epoch=self.producer.producer_epoch,
            v3_and_below_topics=topics,
        )
        (told,) = answer.results_by_topic_v3_and_below
        return ErrorCode(told.results_by_partition[0].partition_error_code)

    def batch(self, partition: int = 0, value: bytes = b"v") -> bytes:
        sequence = self.sequences.get(partition, 0)
        self.sequences[partition] = sequence + 1
        record = NewRecord(b"k", value, self.bench.now.wall_ms)
        return bytes(
            build_batch(
                [record],
                producer_id=self.producer.producer_id,
                producer_epoch=self.producer.producer_epoch,
                base_sequence=sequence,
                transactional=True,
            )
        )

    def produce(
        self, partition: int = 0, value: bytes = b"v", *, version: int = 11
    ) -> ProducedPartition:
        self.peer.send_produce(
            {("orders", partition): self.batch(partition, value)},
            version=version,
            transactional_id=self.transactional_id,
        )
        self.settle()
        ((_, _, (result,)),) = self.peer.produced(version).topics
        return result

    def end(self, commit: bool, version: int = 4) -> Any:
        answer = self.ask(
            ApiKey.END_TXN,
            version,
            transactional_id=self.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            committed=commit,
        )
        if version >= 5 and answer.error_code == 0:
            self.producer = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
            self.sequences = {}
        return answer

    def commit_offset(self, offset: int, version: int = 3, **fields: Any) -> ErrorCode:
        place = {
            "partition_index": 0,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        answer = self.ask(
            ApiKey.TXN_OFFSET_COMMIT,
            version,
            transactional_id=self.transactional_id,
            group_id="group",
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            topics=[{"name": "orders", "partitions": [place]}],
            **fields,
        )
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def committed_offset(self) -> int:
        answer = self.ask(
            ApiKey.OFFSET_FETCH,
            5,
            group_id="group",
            topics=[{"name": "orders", "partition_indexes": [0]}],
        )
        return int(answer.topics[0].partitions[0].committed_offset)

    def add_offsets(self, version: int = 3) -> ErrorCode:
        answer = self.ask(
            ApiKey.ADD_OFFSETS_TO_TXN,
            version,
            transactional_id=self.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            group_id="group",
        )
        return ErrorCode(answer.error_code)


READ_COMMITTED = 1


def versions(api: ApiKey) -> list[int]:
    return list(range(SUPPORTED[api].min, known_versions(api)[-1] + 1))


@pytest.fixture
def bench(new_bench: Callable[..., NodeBench]) -> NodeBench:
    """Alone, with a topic of two partitions."""
    started = new_bench(**SETTINGS)
    started.create_topic("orders", partitions=2)
    return started


@pytest.fixture
def client(bench: NodeBench) -> Client:
    return Client(bench)


def values(bench: NodeBench, records_in: Callable[..., Any], *, committed: bool) -> list[bytes]:
    """What one fetch from the beginning sees, without what it says is aborted."""
    level = READ_COMMITTED if committed else 0
    fetched = bench.connect().fetch_one("orders", 0, isolation_level=level)
    if not fetched.records:
        return []
    aborted = {producer for producer, _ in fetched.aborted or ()}
    assert committed or fetched.aborted is None
    found = [record.value for record in records_in(fetched) if record.key == b"k"]
    return [value for value in found if not (aborted and value == b"aborted")]
