"""Events that come as JSON get back the sentence that the node wrote into its log."""

from __future__ import annotations

from tidelog.model.ids import TopicPartition
from tidelog.observe.cluster_events import LeaderElected
from tidelog.observe.events import NodeStarted
from tidelog.observe.journal import as_dict, as_line
from tidelog.view.cluster_watch import event_sentence

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
