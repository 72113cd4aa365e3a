"""Events that come as JSON get back the sentence that the node wrote into its log; the view looks
around as long as somebody looks at it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.view.simulated_nodes import SimulatedCluster, running

from tidelog.model.ids import TopicPartition
from tidelog.observe.cluster_events import LeaderElected
from tidelog.observe.events import NodeStarted
from tidelog.observe.journal import as_dict, as_line
from tidelog.view.cluster_snapshot import ClusterLook
from tidelog.view.cluster_watch import ClusterWatch, event_sentence
from tidelog.view.node_streams import NodeAddress

ELECTED = LeaderElected(
    partition=TopicPartition("orders", 0),
    leader=102,
    leader_before=100,
    leader_epoch=5,
    unclean=False,
    unclean_elections=0,
    may_lose="",
    cause="broker 100 closed its connection",
)


def test_the_sentence_is_the_one_of_the_log() -> None:
    entry = as_dict(ELECTED, 101, 0, 1)

    assert as_line(ELECTED, 101, 0).endswith(f"node 101: {event_sentence(entry)}")


def test_what_happened_to_the_node_itself_names_it() -> None:
    started = NodeStarted(cluster_id="c", roles=("broker",), cause="unfenced")

    assert event_sentence(as_dict(started, 7, 0, 1)) == "node 7 started as broker of c: unfenced"


def test_an_event_of_another_version_keeps_its_name_and_cause() -> None:
    entry = {"seq": 1, "at": "", "node": 1, "event": "MoonRose", "cause": "it was night"}

    assert event_sentence(entry) == "MoonRose: it was night"


LOOK_S = 0.3
"""After a look that takes so long, the view rests for 15 s."""


async def second_look_after_an_unclean_election(
    cluster: SimulatedCluster, addresses: list[NodeAddress]
) -> None:
    looked = asyncio.Semaphore(0)

    async def look_around() -> ClusterLook:
        await asyncio.sleep(LOOK_S)
        looked.release()
        return ClusterLook()

    watch = ClusterWatch(addresses, {}, look_around=look_around)

    async def browse() -> None:
        async for _ in watch.look():
            pass

    browser = asyncio.ensure_future(browse())
    async with asyncio.timeout(10):
        await looked.acquire()
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * LOOK_S):
                await looked.acquire()
                raise AssertionError("it should rest")
        cluster.announce(100, "LeaderElected", unclean=True, topic="orders", partition=0)
        await looked.acquire()
    browser.cancel()
    await watch.end()


def test_an_unclean_election_is_looked_at_at_once_and_what_costs_is_not_repeated_soon() -> None:
    cluster = SimulatedCluster({"orders": 1})
    with running(cluster) as addresses:
        asyncio.run(second_look_after_an_unclean_election(cluster, addresses))
