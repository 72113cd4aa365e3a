"""While the markers of a transaction are due, Apache Kafka and Tidelog give the same answers.

A door in front of the leader holds the markers back, so that the state, which mostly lasts for
milliseconds, lasts for as long as the questions take; or so that one of them comes late.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest
from tests.integration.marker_gate import MarkerGate
from tests.integration.raw import Peer, Topic, batch_of, header, until
from tests.integration.told_answers import told
from tests.spark.apache_kafka import apache_kafka

from tidelog.coordinator.result import ProducerIdAndEpoch
from tidelog.local.ports import free_ports
from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.produce import decode_produce_response, encode_produce
from tidelog.testing.cluster import Cluster

TOPIC = "orders"
GROUP = "readers"
FOLLOWER = 101
BY_THE_CLOCK = ("transaction_start_time", "last_timestamp")
COORDINATORS = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "add.partitions.to.txn.retry.backoff.max.ms": "20",
    "request.timeout.ms": "2000",
}
LOADING = (ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_not_available)


class Judged(NamedTuple):
    """A cluster whose coordinator sends its markers through a gate."""

    coordinator: str
    leader: str
    topic: Topic
    gate: MarkerGate


Question: TypeAlias = tuple[str, Callable[[], object]]


class Scene(NamedTuple):
    """How a transaction came to be ending."""

    name: str
    client_version: int
    """The transaction version in which its client speaks."""
    commit: bool
    by_another: bool = False
    """It was aborted because somebody else takes the transactional id over."""


SCENES = (
    Scene("an older client commits", 0, commit=True),
    Scene("an older client aborts", 0, commit=False),
    Scene("a client commits", 2, commit=True),
    Scene("a client aborts", 2, commit=False),
    Scene("an older client is fenced", 0, commit=False, by_another=True),
    Scene("a client is fenced", 2, commit=False, by_another=True),
)


@contextmanager
def tidelog_judged(home: Path) -> Iterator[Judged]:
    """Two nodes, for a coordinator needs no network to the partitions that it leads itself."""
    home.mkdir()
    with (
        MarkerGate() as gate,
        Cluster(home / "first", settings=COORDINATORS) as cluster,
        ExitStack() as cleanup,
    ):
        find_coordinators(cluster.bootstrap)
        [gate.target] = free_ports(1)
        controller = cluster.local.descriptions[100].controller_listener
        settings = {
            "process.roles": "broker",
            "node.id": str(FOLLOWER),
            "listeners": f"PLAINTEXT://127.0.0.1:{gate.target}",
            "advertised.listeners": f"PLAINTEXT://{gate.address}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": controller,
            "log.dirs": str(home / "data"),
        }
        config = home / "node.properties"
        config.write_text("".join(f"{key}={text}\n" for key, text in settings.items()))
        command = [sys.executable, "-m", "tidelog"]
        subprocess.run(
            [*command, "format", "--config", str(config), "--cluster-id", cluster.cluster_id],
            check=True,
            capture_output=True,
        )
        log = cleanup.enter_context((home / "node.log").open("wb"))
        process = subprocess.Popen(
            [*command, "broker", "--config", str(config)], stdout=log, stderr=log
        )
        cleanup.callback(process.wait)
        cleanup.callback(process.kill)
        until(lambda: FOLLOWER in brokers(cluster.bootstrap), within_s=30)
        topic = create(cluster.bootstrap, FOLLOWER)
        yield Judged(cluster.bootstrap, f"127.0.0.1:{gate.target}", topic, gate)


@contextmanager
def apache_judged(home: Path) -> Iterator[Judged]:
    home.mkdir()
    with MarkerGate() as gate, apache_kafka(home, gate.address) as apache:
        gate.target = int(apache.bootstrap.rpartition(":")[2])
        find_coordinators(apache.bootstrap)
        topic = create(apache.bootstrap, 1)
        yield Judged(apache.bootstrap, apache.bootstrap, topic, gate)


def find_coordinators(bootstrap: str) -> None:
    def found() -> bool:
        with Peer(bootstrap) as peer:
            wishes = [{"key": "anybody", "key_type": kind} for kind in (0, 1)]
            codes = [peer.call(ApiKey.FIND_COORDINATOR, 1, wish).error_code for wish in wishes]
            return codes == [0, 0]

    until(found, within_s=60)


def brokers(bootstrap: str) -> set[int]:
    with Peer(bootstrap) as peer:
        answer = peer.call(ApiKey.METADATA, 9, {"topics": [], "allow_auto_topic_creation": False})
        return {int(broker.node_id) for broker in answer.brokers}


def create(bootstrap: str, leader: int) -> Topic:
    placed = [{"partition_index": number, "broker_ids": [leader]} for number in range(3)]
    wish = {
        "name": TOPIC,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": placed,
        "configs": [],
    }
    with Peer(bootstrap) as peer:
        answer = peer.call(ApiKey.CREATE_TOPICS, 7, {"topics": [wish], "timeout": 30_000})
    (created,) = answer.topics
    assert created.error_code == ErrorCode.none, created
    return Topic(TOPIC, created.topic_id)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Judged, Judged]]:
    home = tmp_path_factory.mktemp("both")
    with apache_judged(home / "apache") as apache, tidelog_judged(home / "tidelog") as tidelog:
        yield apache, tidelog


def settled(ask: Callable[[], Any]) -> Any:
    """An answer of coordinators that are loaded."""
    said: list[Any] = []

    def is_settled() -> bool:
        said[:] = [ask()]
        return not any(repr(code) in repr(said) for code in LOADING)

    until(is_settled, within_s=60)
    return said[0]


class Play:
    """One scene in one cluster: a transaction that is ending, and questions about it."""

    def __init__(self, judged: Judged, scene: Scene) -> None:
        self.judged = judged
        self.scene = scene
        self._initialise()
        self.producer = self._initialise()
        self.first_offset = [self._end_offset(partition) for partition in (0, 1)]

    def answers(self) -> dict[str, object]:
        self.judged.gate.close()
        self.begin()
        self.end()
        self.judged.gate.wait_for_a_marker()
        said = {what: self._without_id(ask()) for what, ask in self._questions()}
        self.judged.gate.open()
        until(lambda: "Prepare" not in repr(self.describe()), within_s=20)
        said["when it has ended"] = self._without_id(self.describe())
        return said

    def _without_id(self, answer: object) -> object:
        """Producer ids are drawn by each cluster; whose it is counts."""
        if isinstance(answer, list):
            return [self._without_id(part) for part in answer]
        if not isinstance(answer, dict):
            return answer
        said = {name: self._without_id(part) for name, part in answer.items()}
        if said.get("producer_id") == repr(self.producer.producer_id):
            said["producer_id"] = "its id"
        return said

    # -- how it comes to be ending -------------------------------------------------------------

    def _initialise(self) -> ProducerIdAndEpoch:
        fields = {"transactional_id": self.scene.name, "transaction_timeout": 60_000}
        with Peer(self.judged.coordinator) as peer:
            answer = settled(lambda: peer.call(ApiKey.INIT_PRODUCER_ID, 4, fields))
        assert answer.error_code == ErrorCode.none, answer
        return ProducerIdAndEpoch(int(answer.producer_id), answer.producer_epoch)

    def begin(self, sequence: int = 0) -> None:
        if self.scene.client_version == 0:
            added = self._ask_here(*self._adding(self.producer, 0, 3))
            assert repr(ErrorCode.none) in repr(added), added
        version = 11 if self.scene.client_version == 0 else 12
        ask = partial(self._produce, self.producer, 0, sequence, version)
        until(lambda: ask().startswith("none"), within_s=20)

    def end(self) -> None:
        if self.scene.by_another:
            fields = {"transactional_id": self.scene.name, "transaction_timeout": 60_000}
            ended = self._ask_here(ApiKey.INIT_PRODUCER_ID, 4, fields)
            assert repr(ErrorCode.concurrent_transactions) in repr(ended), ended
            return
        whose = {"transactional_id": self.scene.name, **self.producer._asdict()}
        version = 4 if self.scene.client_version == 0 else 5
        fields = {**whose, "committed": self.scene.commit}
        ended = self._ask_here(ApiKey.END_TXN, version, fields)
        assert repr(ErrorCode.none) in repr(ended), ended

    def _end_offset(self, partition: int) -> int:
        wanted = {"partition_index": partition, "timestamp": -1}
        fields = {"replica_id": -1, "topics": [{"name": TOPIC, "partitions": [wanted]}]}
        with Peer(self.judged.leader) as peer:
            answer = peer.call(ApiKey.LIST_OFFSETS, 5, fields)
        return int(answer.topics[0].partitions[0].offset)

    # -- what is asked meanwhile ---------------------------------------------------------------

    def _questions(self) -> Iterator[Question]:
        for who, producer in self._producers().items():
            for what, ask in (*self._of_coordinators(producer), *self._of_leaders(producer)):
                yield f"{what} of {who}", ask
        yield "DescribeTransactions", self.describe
        for states in ([], ["PrepareCommit"], ["PrepareAbort"], ["Ongoing"], ["CompleteCommit"]):
            fields = {
                "state_filters": states,
                "producer_id_filters": [self.producer.producer_id],
                "transactional_id_pattern": None,
            }
            ask = partial(self._ask_here, ApiKey.LIST_TRANSACTIONS, 2, fields)
            yield f"ListTransactions {states}", ask
        yield "DescribeProducers", self.describe_producers
        yield from self._of_other_coordinators()
        yield "DescribeProducers in the end", self.describe_producers

    def _producers(self) -> Mapping[str, ProducerIdAndEpoch]:
        number, epoch = self.producer
        return {
            "the one before": ProducerIdAndEpoch(number, epoch - 1),
            "the same one": ProducerIdAndEpoch(number, epoch),
            "the next one": ProducerIdAndEpoch(number, epoch + 1),
            "one far ahead": ProducerIdAndEpoch(number, epoch + 7),
            "somebody else": ProducerIdAndEpoch(424_242, epoch),
        }

    def _of_coordinators(self, producer: ProducerIdAndEpoch) -> Iterator[Question]:
        whose = {"transactional_id": self.scene.name, **producer._asdict()}
        for version in (2, 3, 5):
            fields = {**whose, "transaction_timeout": 60_000}
            ask = partial(self._ask_here, ApiKey.INIT_PRODUCER_ID, version, fields)
            yield f"InitProducerId {version}", ask
        for partition, version in product((0, 1), (3, 4, 5)):
            ask = partial(self._ask_here, *self._adding(producer, partition, version))
            yield f"AddPartitionsToTxn {version} for {partition}", ask
        for partition in (0, 1):
            asked = self._adding(producer, partition, 5, verify_only=True)
            yield f"AddPartitionsToTxn to verify {partition}", partial(self._ask_here, *asked)
        for version in (0, 4):
            fields = {**whose, "group_id": GROUP}
            ask = partial(self._ask_here, ApiKey.ADD_OFFSETS_TO_TXN, version, fields)
            yield f"AddOffsetsToTxn {version}", ask
        for version in (0, 3, 4, 5):
            offset = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "word"}
            member = {"group_id": GROUP, "generation_id": -1, "member_id": ""}
            topics = [{"name": TOPIC, "partitions": [offset]}]
            fields = {**whose, **member, "group_instance_id": None, "topics": topics}
            ask = partial(self._ask_here, ApiKey.TXN_OFFSET_COMMIT, version, fields)
            yield f"TxnOffsetCommit {version}", ask
        for version, commit in product((3, 4, 5), (True, False)):
            fields = {**whose, "committed": commit}
            ask = partial(self._ask_here, ApiKey.END_TXN, version, fields)
            yield f"EndTxn {version}, {'commit' if commit else 'abort'},", ask

    def _of_leaders(self, producer: ProducerIdAndEpoch) -> Iterator[Question]:
        for partition, version, sequence in product((1, 0), (3, 11, 12), (0, 1)):
            ask = partial(self._produce, producer, partition, sequence, version)
            yield f"Produce {version} of sequence {sequence} to {partition}", ask

    def _of_other_coordinators(self) -> Iterator[Question]:
        """The end of an epoch that is over is refused."""
        number, epoch = self.producer
        for version in (1, 2):
            marker = {
                **ProducerIdAndEpoch(number, epoch - 1)._asdict(),
                "transaction_result": True,
                "topics": [{"name": TOPIC, "partition_indexes": [0]}],
                "coordinator_epoch": 0,
                "transaction_version": 2,
            }
            fields = {"markers": [marker]}
            ask = partial(self._ask_there, ApiKey.WRITE_TXN_MARKERS, version, fields)
            yield f"WriteTxnMarkers {version} of an older epoch", ask

    # -- how it is asked -----------------------------------------------------------------------

    def _adding(
        self,
        producer: ProducerIdAndEpoch,
        partition: int,
        version: int,
        *,
        verify_only: bool = False,
    ) -> tuple[ApiKey, int, Mapping[str, Any]]:
        topics = [{"name": TOPIC, "partitions": [partition]}]
        transaction = {
            "transactional_id": self.scene.name,
            **producer._asdict(),
            "verify_only": verify_only,
            "topics": topics,
        }
        fields = {
            "transactions": [transaction],
            "v3_and_below_transactional_id": self.scene.name,
            "v3_and_below_producer_id": producer.producer_id,
            "v3_and_below_producer_epoch": producer.producer_epoch,
            "v3_and_below_topics": topics,
        }
        return ApiKey.ADD_PARTITIONS_TO_TXN, version, fields

    def describe(self) -> object:
        fields = {"transactional_ids": [self.scene.name]}
        return self._ask_here(ApiKey.DESCRIBE_TRANSACTIONS, 0, fields)

    def describe_producers(self) -> object:
        topics = [{"name": TOPIC, "partition_indexes": [0, 1]}]
        return self._ask_there(ApiKey.DESCRIBE_PRODUCERS, 0, {"topics": topics})

    def _ask_here(self, key: ApiKey, version: int, fields: Mapping[str, Any]) -> object:
        return self._ask(self.judged.coordinator, key, version, fields)

    def _ask_there(self, key: ApiKey, version: int, fields: Mapping[str, Any]) -> object:
        return self._ask(self.judged.leader, key, version, fields)

    def _ask(self, where: str, key: ApiKey, version: int, fields: Mapping[str, Any]) -> object:
        with Peer(where, timeout_s=30) as peer:
            return told(settled(lambda: peer.call(key, version, fields)), BY_THE_CLOCK)

    def _produce(
        self, producer: ProducerIdAndEpoch, partition: int, sequence: int, version: int
    ) -> str:
        batch = batch_of(b"value", **producer._asdict(), base_sequence=sequence, transactional=True)
        topic = self.judged.topic
        where = [(topic.name, topic.topic_id, [(partition, batch)])]
        body = encode_produce(version, self.scene.name, -1, 30_000, where)
        with Peer(self.judged.leader, timeout_s=30) as peer:
            answer = peer.ask(header(ApiKey.PRODUCE, version) + body)
        (produced,) = decode_produce_response(answer, version).topics[0].partitions
        offset = produced.base_offset - self.first_offset[partition] if not produced.error else -1
        return f"{ErrorCode(produced.error).name} at {offset}"


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_the_answers_are_those_of_apache_kafka(both: tuple[Judged, Judged], scene: Scene) -> None:
    plays = [Play(judged, scene) for judged in both]
    with ThreadPoolExecutor(len(plays)) as threads:
        expected, found = threads.map(Play.answers, plays)
    assert found == expected


def test_a_marker_that_comes_late_does_not_end_the_next_transaction(
    both: tuple[Judged, Judged],
) -> None:
    """The coordinator gives the first order up and sends another, which is carried out."""
    _, judged = both
    play = Play(judged, Scene("an older client goes on", 0, commit=True))
    judged.gate.close(only=1)
    play.begin()
    play.end()
    judged.gate.wait_for_a_marker()
    until(lambda: "CompleteCommit" in repr(play.describe()), within_s=30)

    play.begin(sequence=1)
    open_since = play.describe_producers()
    judged.gate.open()
    judged.gate.wait_for_an_answer()
    assert play.describe_producers() == open_since
    assert "Ongoing" in repr(play.describe())
