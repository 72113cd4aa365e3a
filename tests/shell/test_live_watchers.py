"""Those who look at a node, on a loop of the test's own, and the node without IO behind it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.node.node_bench import NodeBench

from tidelog.http.messages import Chunks
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.node.inspection.inspection import Inspection
from tidelog.node.inspection.state import JsonObject
from tidelog.node.inspection.watching import TOLD_MAX
from tidelog.protocol.apis import ApiKey
from tidelog.records.builder import NewRecord, build_batch
from tidelog.shell.live_watchers import WATCHERS_MAX, LiveWatchers

NOTHING: frozenset[TopicPartition] = frozenset()


def told(chunk: bytes) -> tuple[str, Any]:
    lines = dict(line.split(": ", 1) for line in chunk.decode().strip().splitlines())
    return lines["event"], json.loads(lines["data"])


async def next_of(stream: Chunks, name: str) -> Any:
    while True:
        kind, data = told(await asyncio.wait_for(anext(stream), 10))
        if kind == name:
            return data


def produce(bench: NodeBench, topic: str) -> None:
    batch = bytes(build_batch([NewRecord(b"key", b"value", bench.now.wall_ms)]))
    topics = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    fields = {"transactional_id": None, "acks": 1, "timeout": 1000, "topic_data": topics}
    bench.connect().ask(ApiKey.PRODUCE, 9, **fields)


def test_everything_is_told_in_pieces_then_what_changes() -> None:
    bench = NodeBench({}).start()
    bench.create_topic("wide", TOLD_MAX + 44)

    async def watch() -> None:
        watchers = LiveWatchers(asyncio.get_running_loop(), bench.node.inspection, print)
        stream = watchers.stream(frozenset([TopicPartition("wide", 0)]), True)
        kind, hello = told(await anext(stream))
        assert (kind, hello["node"], hello["partitions"]) == ("hello", 100, TOLD_MAX + 44)
        assert told(await anext(stream))[0] == "cluster"
        first = await next_of(stream, "partitions")
        assert (first["snapshot"], first["left"], len(first["partitions"])) == (True, 44, TOLD_MAX)
        produce(bench, "wide")
        last = await next_of(stream, "partitions")
        assert (last["left"], len(last["partitions"])) == (0, 44)
        metadata = await next_of(stream, "metadata")
        assert metadata["snapshot"] and metadata["partitions"][0]["isr"] == [100]
        changed = await next_of(stream, "partitions")
        assert not changed["snapshot"]
        [replica] = changed["partitions"]
        assert (replica["partition"], replica["log_end_offset"]) == (0, 1)
        assert len(watchers) == 1
        await stream.aclose()
        assert len(watchers) == 0
        assert not bench.node.inspection.context.runtime.watch.is_on

    asyncio.run(watch())


def test_no_more_than_a_few_may_watch() -> None:
    bench = NodeBench({}).start()

    async def watch() -> None:
        watchers = LiveWatchers(asyncio.get_running_loop(), bench.node.inspection, print)
        streams = [watchers.stream(NOTHING, False) for _ in range(WATCHERS_MAX)]
        for stream in streams:
            assert not watchers.are_enough
            await anext(stream)
        assert watchers.are_enough
        for stream in streams:
            await stream.aclose()

    asyncio.run(watch())


class FailingInspection(Inspection):
    """One with a mistake that shows at the second look."""

    looks = 0

    def surroundings(self, now: Now) -> JsonObject:
        self.looks += 1
        if self.looks > 1:
            raise ZeroDivisionError("a mistake")
        return super().surroundings(now)


def test_a_look_that_fails_ends_the_streams_and_reaches_nobody_else() -> None:
    bench = NodeBench({}).start()
    reports: list[str] = []

    async def watch() -> list[str]:
        loop = asyncio.get_running_loop()
        unhandled: list[Any] = []
        loop.set_exception_handler(lambda _, context: unhandled.append(context))
        inspection = FailingInspection(bench.node.inspection.context)
        watchers = LiveWatchers(loop, inspection, reports.append)
        kinds = [told(each)[0] async for each in watchers.stream(NOTHING, False)]
        assert unhandled == []
        return kinds

    assert asyncio.run(watch()) == ["hello", "cluster", "partitions"]
    assert reports == ["/watch: ZeroDivisionError: a mistake"]
