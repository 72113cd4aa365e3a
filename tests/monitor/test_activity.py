from __future__ import annotations

from typing import Any

from tidelog.model.ids import TopicPartition
from tidelog.monitor import activity, problems
from tidelog.monitor.activity import busiest, group_lags, led_partitions, node_activity
from tidelog.monitor.metrics_text import read_metrics
from tidelog.monitor.snapshot import NodeTold
from tidelog.node.inspection.metrics import NODE_METRICS
from tidelog.shell.process_metrics import CPU, RESIDENT

ORDERS = TopicPartition("orders", 0)


def looked(records: float, *, node: int = 100, **more: Any) -> NodeTold:
    text = f'# HELP x y\n{activity.RECORDS_IN} {records}\n{activity.REQUESTS}{{request="Fetch"}} 4'
    return NodeTold("http://h:1", node, metrics=read_metrics(text))._replace(**more)


def hosting(end: int, *, role: str = "leader", epoch: int = 1, topic: str = "orders") -> NodeTold:
    replica = {
        "topic": topic,
        "partition": 0,
        "role": role,
        "leader": 100,
        "leader_epoch": epoch,
        "replicas": [100, 101],
        "isr": [100],
        "log_end_offset": end,
        "high_watermark": end - 1,
        "followers": {"101": end - 3},
    }
    return NodeTold("http://h:1", 100, state={"partitions": [replica]})


def test_every_metric_that_is_read_is_one_that_nodes_tell() -> None:
    told = {family.name for family in (*NODE_METRICS, CPU, RESIDENT)}
    read = {value for name, value in vars(activity).items() if name.isupper() and value != ORDERS}
    read |= {problems.UNCLEAN_ELECTION}

    assert {name.removesuffix("_count") for name in read if isinstance(name, str)} <= told | {
        name.removesuffix("_count") for name in told
    }


def test_labels_and_values_are_read_back_from_the_text() -> None:
    samples = read_metrics(
        '# TYPE a gauge\na{topic="x\\"y\\\\z",p="1"} 2.5\na{topic="t",p="2"} 1\n'
        "b 7\nnonsense\nc x\n"
    )

    assert samples.all("a")[0].labels == {"topic": 'x"y\\z', "p": "1"}
    assert (samples.get("a"), samples.get("b"), samples.get("c")) == (3.5, 7, None)


def test_rates_are_what_changed_in_the_time_that_passed() -> None:
    found = node_activity(looked(100), looked(300), 2.0)

    assert (found.node, found.records_in_per_s, found.requests_per_s) == ("100", 100.0, 0.0)


def test_the_first_look_and_a_process_started_anew_have_no_rate() -> None:
    assert node_activity(None, looked(300), 2.0).records_in_per_s is None
    assert node_activity(looked(300), looked(5), 2.0).records_in_per_s is None


def test_a_silent_node_is_shown_as_one() -> None:
    assert not node_activity(looked(1), looked(1, silent="refused", metrics=None), 1.0).answers


def test_the_leader_of_the_latest_epoch_counts_and_followers_do_not() -> None:
    found = led_partitions([hosting(9, epoch=2), hosting(5), hosting(99, role="follower")])

    assert found[ORDERS].log_end_offset == 9


def test_the_busiest_partition_comes_first() -> None:
    quiet, busy = hosting(50, topic="quiet"), hosting(500)
    before = led_partitions([quiet, hosting(100)])

    first, second = busiest(before, led_partitions([quiet, busy]), 4.0)

    assert (first.name, first.records_per_s, first.follower_lag) == (ORDERS, 100.0, 3)
    assert second.records_per_s == 0


def test_the_lag_of_a_group_is_what_it_may_read_and_has_not() -> None:
    ends = led_partitions([hosting(100)])
    gone = TopicPartition("gone", 0)

    assert group_lags({"a": {ORDERS: 98, gone: 3}, "b": {ORDERS: 9}}, ends) == {"b": 90, "a": 1}
