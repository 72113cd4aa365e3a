from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tidelog.observe.counters import BUCKETS_MS, RequestTimes
from tidelog.observe.metrics import Histogram, Metric, counter, exposition, gauge, histogram, one


def test_what_is_written_is_what_prometheus_reads() -> None:
    names = gauge("sizes_bytes", "With labels.", "topic", "why")
    text = exposition(
        [
            one(counter("things_total", "Counted."), 7),
            one(gauge("delay_seconds", "A fraction."), 0.25),
            Metric(names, [(("a", 'quoted "x"\nand \\ more'), 1), (("b", ""), 2)]),
            Metric(gauge("nothing", "None at the moment.", "name"), ()),
        ]
    )
    read = {family.name: family for family in text_string_to_metric_families(text)}
    assert read["things"].type == "counter" and read["things"].samples[0].value == 7
    assert read["delay_seconds"].samples[0].value == 0.25
    [odd, plain] = read["sizes_bytes"].samples
    assert odd.labels == {"topic": "a", "why": 'quoted "x"\nand \\ more'}
    assert (plain.value, read["sizes_bytes"].documentation) == (2, "With labels.")
    assert read["nothing"].samples == []


def test_a_histogram_counts_everything_up_to_each_bound() -> None:
    family = histogram("times_ms", "Waited.", "request")
    text = exposition([Metric(family, [(("Fetch",), Histogram((1, 10), [2, 3, 4], 99))])])
    [read] = text_string_to_metric_families(text)
    values = {(each.name, each.labels.get("le")): each.value for each in read.samples}
    assert values == {
        ("times_ms_bucket", "1"): 2,
        ("times_ms_bucket", "10"): 5,
        ("times_ms_bucket", "+Inf"): 9,
        ("times_ms_sum", None): 99,
        ("times_ms_count", None): 9,
    }


def test_a_time_falls_into_the_first_bucket_that_holds_it() -> None:
    times = RequestTimes()
    for waited_ms in (0, 1, 2, 3, 30_000, 30_001):
        times.waited(waited_ms)
    times.at_once += 4
    assert (times.buckets[0], times.buckets[1], times.buckets[2]) == (2, 1, 1)
    assert times.buckets[BUCKETS_MS.index(30_000)] == 1
    assert times.buckets[-1] == 1
    assert (times.count, times.waited_ms) == (10, 60_007)
