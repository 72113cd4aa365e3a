"""DescribeTopicPartitions: page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey

if TYPE_CHECKING:
    from tests.node.conftest import NewBench
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer


def ask(
    peer: Peer, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> tuple[dict[str, list[int]], tuple[str, int] | None]:
    """The partitions of each topic that was told, and where to go on."""
    answer = describe(peer, *names, limit=limit, cursor=cursor)
    told = {
        topic.name: [partition.partition_index for partition in topic.partitions]
        for topic in answer.topics
    }
    following = answer.next_cursor
    return told, None if following is None else (following.topic_name, following.partition_index)


def describe(
    peer: Peer, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> Any:
    return peer.ask(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        topics=[{"name": name} for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]},
    )


@pytest.fixture
def topics(bench: NodeBench) -> NodeBench:
    for name, partitions in (("b", 2), ("a", 3), ("c", 1)):
        bench.create_topic(name, partitions)
    return bench


@pytest.mark.usefixtures("topics")
def test_all_topics_are_told_in_the_order_of_their_names(peer: Peer) -> None:
    told, cursor = ask(peer)
    assert list(told.items()) == [("a", [0, 1, 2]), ("b", [0, 1]), ("c", [0])]
    assert cursor is None


@pytest.mark.usefixtures("topics")
def test_named_topics_are_told_in_the_order_of_their_names_too(peer: Peer) -> None:
    told, _ = ask(peer, "c", "a")
    assert list(told) == ["a", "c"]


@pytest.mark.usefixtures("topics")
def test_the_answer_stops_at_the_limit_and_names_where_to_go_on(peer: Peer) -> None:
    pages, cursor = [], None
    while True:
        told, cursor = ask(peer, limit=2, cursor=cursor)
        pages.append((told, cursor))
        if cursor is None:
            break
    assert pages == [
        ({"a": [0, 1]}, ("a", 2)),
        ({"a": [2], "b": [0]}, ("b", 1)),
        ({"b": [1], "c": [0]}, None),
    ]


@pytest.mark.usefixtures("topics")
def test_a_page_that_ends_with_a_topic_goes_on_with_the_next(peer: Peer) -> None:
    assert ask(peer, limit=3) == ({"a": [0, 1, 2]}, ("b", 0))


@pytest.mark.usefixtures("topics")
def test_a_limit_below_1_still_makes_progress(peer: Peer) -> None:
    assert ask(peer, limit=0) == ({"a": [0]}, ("a", 1))


def test_the_broker_has_a_limit_of_its_own(new_bench: NewBench) -> None:
    bench = new_bench(max_request_partition_size_limit="2")
    bench.create_topic("a", 3)
    assert ask(bench.connect()) == ({"a": [0, 1]}, ("a", 2))


@pytest.mark.usefixtures("topics")
def test_a_cursor_of_a_topic_that_is_gone_goes_on_with_the_next(peer: Peer) -> None:
    assert ask(peer, cursor=("bb", 7)) == ({"c": [0]}, None)


@pytest.mark.parametrize("cursor", [("a", -1), ("zzz", 0)])
@pytest.mark.usefixtures("topics")
def test_a_cursor_that_fits_no_named_topic_is_an_invalid_request(
    peer: Peer, cursor: tuple[str, int]
) -> None:
    answer = describe(peer, "a", "b", cursor=cursor)
    assert {topic.name: topic.error_code for topic in answer.topics} == {
        "a": ErrorCode.invalid_request,
        "b": ErrorCode.invalid_request,
    }


@pytest.mark.usefixtures("topics")
def test_topics_that_are_not_there_are_told_with_the_reason(peer: Peer) -> None:
    answer = describe(peer, "nowhere", "no spaces")
    assert {topic.name: topic.error_code for topic in answer.topics} == {
        "no spaces": ErrorCode.invalid_topic_exception,
        "nowhere": ErrorCode.unknown_topic_or_partition,
    }


def test_a_partition_is_told_with_its_leader_and_who_else_could_lead(
    topics: NodeBench, peer: Peer
) -> None:
    [topic] = describe(peer, "c").topics
    [partition] = topic.partitions
    assert topic.topic_id == topics.node.cluster.image.topics_by_name["c"].topic_id
    assert topic.topic_authorized_operations > 0
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 100, 0)
    assert list(partition.eligible_leader_replicas) == []
    assert list(partition.last_known_elr) == []
