"""What a real node says and writes down, bounded, and not lost when the files are full."""

from __future__ import annotations

import json
import re

from confluent_kafka.admin import AdminClient, NewTopic

from tidelog.testing.cluster import Cluster


def test_files_that_are_full_are_replaced_while_the_node_goes_on() -> None:
    with Cluster(settings={"journal.max.bytes": "4096"}) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        names = [f"topic-{n:02}" for n in range(40)]
        for created in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
            created.result(30)
        log, events = cluster.local.node(100).log, cluster.data() / "events.jsonl"
        cluster.stop()
        cluster.start()
        for path in (log, events):
            before = path.with_name(path.name + ".1")
            assert 0 < path.stat().st_size <= 4096
            assert 2048 < before.stat().st_size <= 4096
        kept = events.with_name(events.name + ".1").read_text() + events.read_text()
        numbers = [json.loads(line)["seq"] for line in kept.splitlines()]
        assert numbers == list(range(numbers[0], numbers[-1] + 1)) and numbers[0] > 40
        said = log.with_name("node.log.1").read_text() + log.read_text()
        assert all(re.match(r"2\d{3}-\S+Z node 100:? \w", line) for line in said.splitlines())
        assert "node 100 started" in said
