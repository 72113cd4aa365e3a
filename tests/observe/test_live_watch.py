from __future__ import annotations

from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.observe.live_watch import HAPPENED_MAX, LiveWatch

ORDERS = TopicPartition("orders", 0)


def test_only_magnified_partitions_are_seen() -> None:
    watch = LiveWatch()
    watch.see(ORDERS, Now(1, 2), "appended", bytes=3)
    assert not watch.happened
    watch.magnified = frozenset([ORDERS])
    watch.see(ORDERS, Now(1, 2), "appended", bytes=3)
    watch.see(TopicPartition("orders", 1), Now(1, 2), "appended", bytes=4)
    assert list(watch.happened) == [
        {"n": 1, "at_ms": 2, "what": "appended", "topic": "orders", "partition": 0, "bytes": 3}
    ]


def test_what_nobody_fetches_makes_room_for_what_is_newer() -> None:
    watch = LiveWatch()
    watch.magnified = frozenset([ORDERS])
    for n in range(HAPPENED_MAX + 5):
        watch.see(ORDERS, Now(n, n), "appended")
    assert (len(watch.happened), watch.dropped) == (HAPPENED_MAX, 5)
    assert watch.happened[0]["n"] == 6
    watch.forget()
    assert (len(watch.happened), watch.dropped, watch.magnified) == (0, 0, frozenset())
