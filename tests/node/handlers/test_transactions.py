"""Transactions as clients, leaders and tools of every version meet them, on one broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.node.node_bench import NodeBench

from tidelog.coordinator.decision import Producer
from tidelog.model.errors import ErrorCode
from tidelog.records.batch import read_header
from tidelog.records.builder import NewRecord, build_batch
from tidelog.wire.apis import SUPPORTED, ApiKey
from tidelog.wire.messages import decode_response
from tidelog.wire.produce import ProducedPartition

NewBench = Callable[..., NodeBench]
READ_COMMITTED = 1
OFFSETS_TOPIC = "__consumer_offsets"
SETTINGS = {
    "transaction_state_log_num_partitions": "2",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
    "offsets_topic_num_partitions": "2",
    "offsets_topic_replication_factor": "1",
    "transaction_two_phase_commit_enable": "true",
}


def versions(api: ApiKey) -> list[int]:
    return list(range(SUPPORTED[api].min, SUPPORTED[api].max + 1))


@pytest.fixture
def bench(new_bench: NewBench) -> NodeBench:
    started = new_bench(**SETTINGS)
    started.create_topic("orders", partitions=2)
    return started


class Client:
    """A transactional client, as far as the broker can tell."""

    def __init__(self, bench: NodeBench, transactional_id: str = "tx") -> None:
        self.bench = bench
        self.transactional_id = transactional_id
        self.peer = bench.connect()
        self.producer = Producer(-1, -1)
        self.sequences: dict[int, int] = {}
        for key_type in (0, 1):
            self._ask(ApiKey.FIND_COORDINATOR, 1, key=transactional_id, key_type=key_type)
        found = self._ask(ApiKey.FIND_COORDINATOR, 1, key=transactional_id, key_type=1)
        assert found.error_code == 0

    def _ask(self, api: ApiKey, version: int, **fields: Any) -> Any:
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
        answer = self._ask(ApiKey.INIT_PRODUCER_ID, version, **given)
        if answer.error_code == 0:
            self.producer = Producer(answer.producer_id, answer.producer_epoch)
            self.sequences = {}
        return answer

    def add(self, *partitions: int, version: int = 3, topic: str = "orders") -> ErrorCode:
        topics = [{"name": topic, "partitions": list(partitions)}]
        answer = self._ask(
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
        answer = self._ask(
            ApiKey.END_TXN,
            version,
            transactional_id=self.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            committed=commit,
        )
        if version >= 5 and answer.error_code == 0:
            self.producer = Producer(answer.producer_id, answer.producer_epoch)
            self.sequences = {}
        return answer

    def commit_offset(self, offset: int, version: int = 3, **fields: Any) -> ErrorCode:
        place = {
            "partition_index": 0,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        answer = self._ask(
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
        answer = self._ask(
            ApiKey.OFFSET_FETCH,
            5,
            group_id="group",
            topics=[{"name": "orders", "partition_indexes": [0]}],
        )
        return int(answer.topics[0].partitions[0].committed_offset)

    def add_offsets(self, version: int = 3) -> ErrorCode:
        answer = self._ask(
            ApiKey.ADD_OFFSETS_TO_TXN,
            version,
            transactional_id=self.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            group_id="group",
        )
        return ErrorCode(answer.error_code)


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


# The life of a transaction


@pytest.mark.parametrize("version", versions(ApiKey.INIT_PRODUCER_ID))
def test_a_transactional_producer_gets_the_next_epoch_each_time(
    client: Client, version: int
) -> None:
    assert client.init(version).producer_epoch == 0
    assert client.init(version).producer_epoch == 1


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("commit", [True, False])
def test_records_are_stable_only_when_their_transaction_has_ended(
    bench: NodeBench, client: Client, records_in: Any, version: int, commit: bool
) -> None:
    client.init()
    assert client.add(0, version=version) == 0
    assert client.produce(value=b"v" if commit else b"aborted").error == 0
    assert values(bench, records_in, committed=True) == []
    assert len(values(bench, records_in, committed=False)) == 1
    assert bench.partition("orders").last_stable_offset == 0

    assert client.end(commit, version=version).error_code == 0

    assert bench.partition("orders").last_stable_offset == 2
    assert values(bench, records_in, committed=True) == ([b"v"] if commit else [])


def test_from_produce_12_on_the_leader_adds_the_partition_and_the_end_raises_the_epoch(
    bench: NodeBench, client: Client
) -> None:
    client.init()
    assert client.produce(version=12).error == 0
    assert client.produce(version=12).error == 0
    before = client.producer

    assert client.end(True, version=5).error_code == 0

    assert client.producer == Producer(before.producer_id, before.producer_epoch + 1)
    marker = bench.partition("orders").log.read(2, 1000, 3)
    assert marker is not None
    assert read_header(marker.read()).producer_epoch == client.producer.producer_epoch
    assert client.produce(version=12).error == 0
    assert client.end(False, version=5).error_code == 0


def test_an_end_of_version_5_sent_again_is_answered_alike(client: Client) -> None:
    client.init()
    client.produce(version=12)
    before = client.producer
    client.end(True, version=5)
    following = client.producer

    client.producer = before
    assert client.end(True, version=5).error_code == 0
    assert client.producer == following
    client.producer = before
    assert client.end(False, version=5).error_code == ErrorCode.invalid_txn_state


# Verification


@pytest.mark.parametrize(
    ("version", "error"),
    [(9, ErrorCode.invalid_txn_state), (11, ErrorCode.transaction_abortable)],
)
def test_a_write_to_a_partition_that_takes_no_part_is_refused(
    bench: NodeBench, client: Client, version: int, error: ErrorCode
) -> None:
    client.init()
    client.add(1)
    assert client.produce(0, version=version).error == error
    assert bench.partition("orders").log.end_offset == 0


def test_a_late_write_of_a_transaction_that_ended_is_refused(
    bench: NodeBench, client: Client
) -> None:
    client.init()
    client.produce(version=12)
    late = client.batch()
    client.end(True, version=5)

    client.peer.send_produce(
        {("orders", 0): late}, version=11, transactional_id=client.transactional_id
    )
    client.settle()
    ((_, _, (result,)),) = client.peer.produced(11).topics

    assert result.error == ErrorCode.invalid_producer_epoch
    assert bench.partition("orders").last_stable_offset == 2


def test_an_answer_that_an_end_has_overtaken_opens_nothing(
    bench: NodeBench, client: Client
) -> None:
    client.init()
    client.add(0)
    client.peer.send_produce(
        {("orders", 0): client.batch()}, version=11, transactional_id=client.transactional_id
    )
    marker = {
        "producer_id": client.producer.producer_id,
        "producer_epoch": client.producer.producer_epoch,
        "transaction_result": False,
        "coordinator_epoch": 0,
        "topics": [{"name": "orders", "partition_indexes": [0]}],
    }
    bench.connect().ask(ApiKey.WRITE_TXN_MARKERS, 1, markers=[marker])
    client.settle()
    ((_, _, (result,)),) = client.peer.produced(11).topics

    assert result.error == ErrorCode.invalid_txn_state
    assert bench.partition("orders").last_stable_offset == bench.partition("orders").log.end_offset


def test_verification_can_be_switched_off(new_bench: NewBench) -> None:
    bench = new_bench(**SETTINGS, transaction_partition_verification_enable="false")
    bench.create_topic("orders")
    client = Client(bench)
    client.init()
    assert client.produce(version=11).error == 0


@pytest.mark.parametrize("version", [4, 5])
def test_leaders_ask_for_several_transactions_at_once(client: Client, version: int) -> None:
    client.init()
    client.add(0)
    asked = {
        "transactional_id": "tx",
        "producer_id": client.producer.producer_id,
        "producer_epoch": client.producer.producer_epoch,
        "verify_only": True,
        "topics": [{"name": "orders", "partitions": [0, 1]}],
    }
    unknown = {**asked, "transactional_id": "nobody"}
    answer = client.peer.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, transactions=[asked, unknown])
    told = {
        result.transactional_id: [
            partition.partition_error_code
            for topic in result.topic_results
            for partition in topic.results_by_partition
        ]
        for result in answer.results_by_transaction
    }
    assert told == {
        "tx": [ErrorCode.none, ErrorCode.transaction_abortable],
        "nobody": [ErrorCode.invalid_producer_id_mapping] * 2,
    }


def test_partitions_are_added_all_or_none(client: Client) -> None:
    client.init()
    answer = client.peer.ask(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=client.producer.producer_id,
        v3_and_below_producer_epoch=client.producer.producer_epoch,
        v3_and_below_topics=[{"name": "orders", "partitions": [0, 7]}],
    )
    (topic,) = answer.results_by_topic_v3_and_below
    assert [each.partition_error_code for each in topic.results_by_partition] == [
        ErrorCode.operation_not_attempted,
        ErrorCode.unknown_topic_or_partition,
    ]


# Fencing


def test_a_zombie_is_fenced_everywhere(bench: NodeBench, client: Client) -> None:
    client.init()
    client.add(0)
    client.produce()
    heir = Client(bench)
    assert heir.init().error_code == ErrorCode.concurrent_transactions
    assert heir.init().error_code == 0

    assert client.produce().error == ErrorCode.invalid_producer_epoch
    assert client.add(1) == ErrorCode.producer_fenced
    assert client.add(1, version=1) == ErrorCode.invalid_producer_epoch
    assert client.end(True).error_code == ErrorCode.producer_fenced
    assert client.end(True, version=1).error_code == ErrorCode.invalid_producer_epoch
    assert client.add_offsets() == ErrorCode.producer_fenced
    expected = {
        "producer_id": client.producer.producer_id,
        "producer_epoch": client.producer.producer_epoch,
    }
    assert client.init(4, **expected).error_code == ErrorCode.producer_fenced
    assert client.init(3, **expected).error_code == ErrorCode.invalid_producer_epoch


def test_a_transaction_past_its_timeout_is_aborted(bench: NodeBench, client: Client) -> None:
    client.init(transaction_timeout=5000)
    client.add(0)
    client.produce()

    bench.wait(20_000)
    client.settle()

    assert bench.partition("orders").last_stable_offset == 2
    assert client.end(True).error_code == ErrorCode.producer_fenced


# Offsets


@pytest.mark.parametrize("version", versions(ApiKey.TXN_OFFSET_COMMIT))
@pytest.mark.parametrize("commit", [True, False])
def test_offsets_count_when_their_transaction_commits(
    client: Client, version: int, commit: bool
) -> None:
    client.init()
    if version < 5:
        assert client.add_offsets(min(version, 4)) == 0
    assert client.commit_offset(7, version) == 0
    assert client.committed_offset() == -1

    assert client.end(commit, version=5 if version == 5 else 4).error_code == 0

    assert client.committed_offset() == (7 if commit else -1)


def test_offsets_of_a_transaction_that_knows_nothing_of_them_are_refused(client: Client) -> None:
    client.init()
    assert client.commit_offset(7, 3) == ErrorCode.invalid_txn_state
    assert client.commit_offset(7, 4) == ErrorCode.transaction_abortable


def test_offsets_of_a_member_that_left_its_group_are_refused(client: Client) -> None:
    client.init()
    client.add_offsets()
    refused = client.commit_offset(7, 3, generation_id=4, member_id="gone", group_instance_id=None)
    assert refused == ErrorCode.illegal_generation


# Markers


@pytest.mark.parametrize("version", versions(ApiKey.WRITE_TXN_MARKERS))
def test_markers_are_answered_partition_by_partition(
    bench: NodeBench, client: Client, version: int
) -> None:
    client.init()
    client.add(0)
    client.produce()
    marker = {
        "producer_id": client.producer.producer_id,
        "producer_epoch": client.producer.producer_epoch + 1,
        "transaction_result": True,
        "coordinator_epoch": 5,
        "transaction_version": 2,
        "topics": [
            {"name": "orders", "partition_indexes": [0]},
            {"name": "nowhere", "partition_indexes": [3]},
        ],
    }
    answer = bench.connect().ask(ApiKey.WRITE_TXN_MARKERS, version, markers=[marker])
    (told,) = answer.markers
    assert [each.error_code for topic in told.topics for each in topic.partitions] == [
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
    ]
    assert bench.partition("orders").last_stable_offset == 2

    stale = {**marker, "producer_epoch": 7, "coordinator_epoch": 4}
    (told,) = bench.connect().ask(ApiKey.WRITE_TXN_MARKERS, version, markers=[stale]).markers
    fenced = told.topics[0].partitions[0].error_code
    assert fenced == ErrorCode.transaction_coordinator_fenced


def test_a_topic_that_is_deleted_does_not_keep_a_transaction_from_ending(
    bench: NodeBench, client: Client
) -> None:
    client.init()
    client.add(0)
    client.produce()
    bench.delete_topic("orders")

    assert client.end(True).error_code == 0

    described = client.peer.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["tx"])
    assert described.transaction_states[0].transaction_state == "CompleteCommit"


# Looking


def test_transactions_are_described_and_listed(bench: NodeBench, client: Client) -> None:
    client.init()
    client.add(0)
    bench.wait(100)
    answer = client.peer.ask(
        ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["tx", "nobody", ""]
    )
    codes = [state.error_code for state in answer.transaction_states]
    assert codes == [0, ErrorCode.transactional_id_not_found, ErrorCode.invalid_request]
    (ours, _, _) = answer.transaction_states
    assert (ours.transaction_state, ours.producer_id) == ("Ongoing", client.producer.producer_id)
    assert [(topic.topic, tuple(topic.partitions)) for topic in ours.topics] == [("orders", (0,))]

    def listed(version: int = 1, **filters: Any) -> list[str]:
        given = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1, **filters}
        found = client.peer.ask(ApiKey.LIST_TRANSACTIONS, version, **given)
        return [state.transactional_id for state in found.transaction_states]

    assert listed(0) == listed(1) == ["tx"]
    assert listed(state_filters=["Ongoing"]) == ["tx"]
    assert listed(state_filters=["Empty"]) == []
    assert listed(producer_id_filters=[client.producer.producer_id]) == ["tx"]
    assert listed(producer_id_filters=[4711]) == []
    assert listed(duration_filter=99) == ["tx"]
    assert listed(duration_filter=100) == []
    assert listed(2, transactional_id_pattern="t.*") == ["tx"]
    assert listed(2, transactional_id_pattern="t") == [], "the whole id must match"
    malformed = client.peer.ask(
        ApiKey.LIST_TRANSACTIONS,
        2,
        state_filters=[],
        producer_id_filters=[],
        transactional_id_pattern="(",
    )
    assert malformed.error_code == ErrorCode.invalid_regular_expression
    unknown = client.peer.ask(
        ApiKey.LIST_TRANSACTIONS, 0, state_filters=["Nonsense"], producer_id_filters=[]
    )
    assert list(unknown.unknown_state_filters) == ["Nonsense"]


# Two phases


@pytest.mark.parametrize("commit", [True, False])
def test_a_prepared_transaction_is_taken_over_and_ended(
    bench: NodeBench, client: Client, records_in: Any, commit: bool
) -> None:
    client.init(6, enable2_pc=True)
    assert client.produce(version=12, value=b"v" if commit else b"aborted").error == 0
    bench.wait(3_600_000)
    heir = Client(bench)

    taken = heir.init(6, enable2_pc=True, keep_prepared_txn=True)

    assert Producer(taken.ongoing_txn_producer_id, taken.ongoing_txn_producer_epoch) == (
        client.producer
    )
    assert client.end(True, version=5).error_code == ErrorCode.producer_fenced
    assert heir.end(commit, version=5).error_code == 0
    assert values(bench, records_in, committed=True) == ([b"v"] if commit else [])
    assert heir.produce(version=12).error == 0


def test_two_phases_must_be_allowed(new_bench: NewBench) -> None:
    bench = new_bench(**{**SETTINGS, "transaction_two_phase_commit_enable": "false"})
    client = Client(bench)
    refused = client.init(6, enable2_pc=True).error_code
    assert refused == ErrorCode.transactional_id_authorization_failed


# Odd requests


def test_a_transactional_id_is_not_empty(bench: NodeBench) -> None:
    client = Client(bench)
    client.transactional_id = ""
    assert client.init().error_code == ErrorCode.invalid_request
    assert client.add(0) == ErrorCode.invalid_request
    assert client.add_offsets() == ErrorCode.invalid_request
    assert client.end(True).error_code == ErrorCode.invalid_request


def test_a_producer_says_who_it_is_in_full_or_not_at_all(client: Client) -> None:
    assert client.init(producer_id=7).error_code == ErrorCode.invalid_request
    assert client.init(producer_epoch=7).error_code == ErrorCode.invalid_request


def test_a_partition_named_twice_gets_one_marker(bench: NodeBench) -> None:
    marker = {
        "producer_id": 7,
        "producer_epoch": 0,
        "transaction_result": True,
        "coordinator_epoch": 0,
        "topics": [{"name": "orders", "partition_indexes": [0, 0]}],
    }
    answer = bench.connect().ask(ApiKey.WRITE_TXN_MARKERS, 1, markers=[marker])
    assert len(answer.markers[0].topics[0].partitions) == 2
    assert bench.partition("orders").log.end_offset == 1


# Restarts


def test_a_restarted_coordinator_finishes_what_was_decided(
    bench: NodeBench, client: Client
) -> None:
    client.init()
    client.add(0)
    client.produce()
    client.peer.send(
        ApiKey.END_TXN,
        4,
        transactional_id="tx",
        producer_id=client.producer.producer_id,
        producer_epoch=client.producer.producer_epoch,
        committed=True,
    )  # the tick does not end: no marker is written
    assert bench.partition("orders").last_stable_offset == 0

    restarted = bench.again()
    for _ in range(4):
        restarted.wait(100)
        restarted.end_tick()

    assert restarted.partition("orders").last_stable_offset == 2
