"""A broker with several directories tells the controller where its replicas are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.node.conftest import NewBench
    from tests.node.node_bench import NodeBench


def known_directories(bench: NodeBench, topic: str) -> list[str]:
    """The paths of the directories in which the metadata has each partition of a topic."""
    broker = bench.node.broker
    paths = {each.identity.directory_id: each.path for each in broker.directories}
    partitions = broker.image.topics_by_name[topic].partitions
    return [paths[partitions[index].directory_of(100)] for index in sorted(partitions)]


def test_the_metadata_learns_where_each_replica_lies(new_bench: NewBench) -> None:
    bench = new_bench(log_dirs="/data,/more")
    bench.create_topic("orders", partitions=4)
    bench.wait(10)
    named = known_directories(bench, "orders")
    assert sorted(set(named)) == ["/data", "/more"]
    for index, path in enumerate(named):
        assert bench.files.exists(f"{path}/orders-{index}")


def test_with_one_directory_there_is_nothing_to_tell(new_bench: NewBench) -> None:
    bench = new_bench()
    bench.create_topic("orders")
    bench.wait(10)
    [topic] = bench.node.broker.image.topics_by_name.values()
    assert topic.partitions[0].partition_epoch == 0
