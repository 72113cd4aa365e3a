"""Streams of nodes that say what nobody expects: it is told, and everything else goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress

import pytest
from tests.view.simulated_nodes import SimulatedCluster, running
from tests.view.test_server import Stream, serving

from tidelog.http.questions import NodeListener
from tidelog.monitor.snapshot import ProcessSeen
from tidelog.view.cluster_snapshot import ClusterLook
from tidelog.view.cluster_watch import ClusterWatch
from tidelog.view.server import ViewedCluster

PIECE = '{"at_ms":1,"snapshot":false,"left":0,"partitions":%s}'


@pytest.mark.parametrize(
    ("path", "name", "data", "words"),
    [
        ("/watch", "partitions", "{", "partitions of /watch: JSONDecodeError"),
        ("/watch", "partitions", "[" * 5000, "partitions of /watch: RecursionError"),
        ("/watch", "partitions", "7", "partitions is no object"),
        ("/watch", "partitions", '{"partitions":NaN}', "NaN is no JSON"),
        ("/watch", "partitions", "{}", "partitions is missing"),
        ("/watch", "partitions", PIECE % "[7]", "an entry of partitions is 7"),
        ("/watch", "partitions", PIECE % '[{"topic":"orders","partition":0}]', "leader is missing"),
        ("/watch", "metadata", PIECE % '[{"topic":"orders","partition":"0"}]', "partition is '0'"),
        ("/watch", "cluster", '{"brokers":[{"id":1}],"directories":[]}', "fenced is missing"),
        ("/watch", "cluster", '{"brokers":[],"directories":[],"quorum":[]}', "quorum is []"),
        ("/watch", "microscope", '{"epochs":[]}', "microscope of /watch: AttributeError"),
        ("/watch", "microscope", "{}", "microscope of /watch: KeyError"),
        ("/events", "message", "{}", "/events: {}"),
        ("/events", "message", '{"seq":1,"at":"soon","node":1,"event":"X"}', "soon"),
    ],
)
def test_what_a_node_tells_unexpectedly_is_a_problem_and_its_stream_goes_on(
    path: str, name: str, data: str, words: str
) -> None:
    cluster = SimulatedCluster({"orders": 2})
    said: list[str] = []
    viewed = running(cluster)
    with viewed as listeners, serving(ViewedCluster(tuple(listeners), "x:1"), said.append) as port:
        browser = Stream(port, "/stream?microscope=orders-0")
        browser.wait_for("partitions", lambda told: len(told["rows"]) == 2)
        cluster.blurt(100, path, name, data)
        told = browser.wait_for("cluster", lambda told: told["problems"])
        (problem,) = (each["what"] for each in told["problems"])
        assert problem.startswith("node 100 tells what this view does not understand: ")
        assert words in problem

        cluster.change(1, leader=102, leader_epoch=1)
        browser.wait_for("partitions", lambda told: told["rows"] and told["rows"][0][3] == 102)
        cluster.announce(100, "BrokerFenced", broker_id=101, broker_epoch=7, cause="it is gone")
        browser.wait_for("events")
        browser.leave()

    assert len(said) == 1
    assert words in said[0]


def test_a_node_of_another_cluster_is_named_and_nothing_that_it_tells_counts() -> None:
    cluster = SimulatedCluster({"orders": 1})
    cluster.cluster_ids[102] = "other"
    with running(cluster) as listeners:
        viewed = ViewedCluster(tuple(listeners), "x:1", cluster_id="c")
        with serving(viewed) as port:
            browser = Stream(port, "/stream?microscope=orders-0")
            browser.wait_for("partitions", lambda told: told["rows"])
            told = browser.wait_for(
                "cluster", lambda told: any(each["why"] for each in told["nodes"])
            )
            cluster.announce(102, "BrokerFenced", broker_id=100, broker_epoch=7, cause="elsewhere")
            cluster.announce(100, "BrokerFenced", broker_id=101, broker_epoch=7, cause="here")
            heard = browser.wait_for("events")
            browser.leave()

    assert [each["what"] for each in told["problems"]] == [
        "node 102 does not answer over HTTP: it is of cluster other, and this is c"
    ]
    assert [each["cause"] for each in heard] == ["here"]


def test_a_stranger_that_does_not_say_who_it_is_is_asked_again() -> None:
    cluster = SimulatedCluster({"orders": 1}, node_ids=(100,))
    cluster.cluster_ids[100] = 7  # type: ignore[assignment]
    with running(cluster) as listeners, serving(ViewedCluster(tuple(listeners), "x:1")) as port:
        browser = Stream(port)
        told = browser.wait_for("cluster", lambda told: "who it is" in told["nodes"][0]["why"])
        assert not told["nodes"][0]["connected"]

        cluster.cluster_ids[100] = "c"
        told = browser.wait_for("cluster", lambda told: told["nodes"][0]["connected"])
        browser.leave()

    assert told["problems"] == []


def test_a_task_that_fails_is_told_and_begins_anew() -> None:
    said: list[str] = []
    failures = [OSError("the disk hiccups"), ZeroDivisionError("a mistake of ours")]

    def processes() -> Mapping[str, ProcessSeen]:
        if failures:
            raise failures.pop(0)
        return {"127.0.0.1:1": ProcessSeen("stopped", "killed")}

    async def look() -> None:
        nodes = [NodeListener("127.0.0.1", 1, node_id=100)]
        watch = ClusterWatch(nodes, {}, said.append, processes=processes)
        async for chunk in watch.look():
            text = chunk.decode()
            if text.startswith("event: cluster"):
                told = json.loads(text.split("data: ")[1])
                if told["nodes"][0]["process"] is not None:
                    break
        await watch.end()

    asyncio.run(asyncio.wait_for(look(), 10))

    assert said == [
        "the view goes on after OSError: the disk hiccups",
        "the view goes on after ZeroDivisionError: a mistake of ours",
    ]


LOOK_S = 0.3
"""After a look that takes so long, the view rests for 15 s."""


async def second_look_after_an_unclean_election(
    cluster: SimulatedCluster, listeners: list[NodeListener]
) -> None:
    looked = asyncio.Semaphore(0)

    async def look_around() -> ClusterLook:
        await asyncio.sleep(LOOK_S)
        looked.release()
        return ClusterLook()

    watch = ClusterWatch(listeners, {}, print, look_around=look_around)

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
    with running(cluster) as listeners:
        asyncio.run(second_look_after_an_unclean_election(cluster, listeners))
