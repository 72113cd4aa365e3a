"""DescribeLogDirs: what lies where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey

if TYPE_CHECKING:
    from tests.node.conftest import NewBatch, NewBench
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer


def ask(peer: Peer, version: int = 4, topics: dict[str, list[int]] | None = None) -> Any:
    asked = topics and [{"topic": name, "partitions": indexes} for name, indexes in topics.items()]
    return peer.ask(ApiKey.DESCRIBE_LOG_DIRS, version, topics=asked)


@pytest.mark.parametrize("version", range(1, 6))
def test_every_log_is_listed_with_its_size(
    bench: NodeBench, peer: Peer, batch: NewBatch, version: int
) -> None:
    bench.create_topic("orders", 2)
    bench.create_topic("clicks")
    sent = batch(b"a")
    peer.produce("orders", sent, 1)
    answer = ask(peer, version)
    assert getattr(answer, "error_code", 0) == 0
    [directory] = answer.results
    assert (directory.error_code, directory.log_dir) == (0, "/data")
    listed = {
        (topic.name, partition.partition_index): partition.partition_size
        for topic in directory.topics
        for partition in topic.partitions
    }
    assert listed == {("clicks", 0): 0, ("orders", 0): 0, ("orders", 1): len(sent)}
    for topic in directory.topics:
        for partition in topic.partitions:
            assert (partition.offset_lag, partition.is_future_key) == (0, False)
    if version >= 4:
        assert directory.total_bytes >= directory.usable_bytes > 0


def test_only_named_partitions_are_listed_when_some_are_named(bench: NodeBench, peer: Peer) -> None:
    bench.create_topic("orders", 3)
    bench.create_topic("clicks")
    [directory] = ask(peer, topics={"orders": [1, 9], "nowhere": [0]}).results
    [topic] = directory.topics
    assert (topic.name, [each.partition_index for each in topic.partitions]) == ("orders", [1])


def test_a_failed_directory_is_told_as_such(new_bench: NewBench) -> None:
    bench = new_bench(log_dirs="/data,/more")
    bench.create_topic("orders", 4)
    peer = bench.connect()
    bench.node.rooms.base.directories[1].health.fail("I/O error")
    answers = {each.log_dir: each for each in ask(peer).results}
    assert answers["/data"].error_code == 0
    assert answers["/more"].error_code == ErrorCode.kafka_storage_error
    assert answers["/more"].topics == ()
    assert answers["/more"].total_bytes == -1
