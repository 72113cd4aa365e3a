"""Every story tells the same each time, and the step that gives it its name happens."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from tests.simulator.story.told_stories import TOLD, told

from tidelog.model.errors import ConfigError
from tidelog.simulator.story.catalogue import STORIES, Story, story
from tidelog.simulator.story.document import story_document


@cache
def document(name: str) -> dict[str, Any]:
    return story_document(story(name))


def texts(name: str, act: int = 0) -> list[str]:
    return [step["text"] for step in document(name)["acts"][act]["steps"]]


def last_state(name: str, act: int = 0) -> tuple[dict[int, dict[str, Any]], dict[str, Any]]:
    """Every broker's replica after the last step, and what else is known."""
    found = document(name)["acts"][act]
    step = found["steps"][-1]
    numbers = zip(found["brokers"], step["replicas"], strict=True)
    replicas = {broker: found["replicas"][number] for broker, number in numbers}
    return replicas, found["clusters"][step["cluster"]]


def position(sentences: list[str], part: str) -> int:
    return next(at for at, text in enumerate(sentences) if part in text)


@pytest.mark.parametrize("each", STORIES, ids=lambda each: each.name)
def test_a_story_is_told_in_the_same_sentences_again(each: Story) -> None:
    committed = (TOLD / f"{each.name}.txt").read_text(encoding="utf-8")

    assert told(document(each.name)).splitlines() == committed.splitlines()


def test_every_committed_text_belongs_to_a_story() -> None:
    assert sorted(path.stem for path in TOLD.iterdir()) == sorted(each.name for each in STORIES)


def test_the_worked_example_diverges_truncates_and_is_reconciled() -> None:
    sentences = texts("worked-example")
    moments = [
        "OFFSET_NOT_AVAILABLE",
        "In the log of 100 epoch 1 ends at 3: the two logs diverge",
        "102 truncates its log from 5 to 3",
        "the high watermark rises from 3 to 4",
        "101 truncates its log from 5 to 3",
        "The controller makes 101 the leader of orders-0 in epoch 3",
    ]
    assert [position(sentences, each) for each in moments] == sorted(
        position(sentences, each) for each in moments
    )
    replicas, cluster = last_state("worked-example")
    assert {replica["highWatermark"] for replica in replicas.values()} == {4}
    assert cluster["leader"] == 101 and cluster["inSync"] == [100, 101, 102]


def test_the_slow_follower_leaves_the_in_sync_replicas_and_comes_back() -> None:
    sentences = texts("slow-follower")
    left = position(sentences, "leader 100 drops 102 from the ISR")
    assert position(sentences, "leader 100 takes 102 into the ISR") > left
    assert last_state("slow-follower")[1]["inSync"] == [100, 101, 102]


def test_min_isr_refuses_a_write_for_all_and_takes_one_for_the_leader_alone() -> None:
    sentences = texts("min-isr-and-acks")
    refused = position(sentences, "refuses the write: NOT_ENOUGH_REPLICAS")
    assert position(sentences, "append g with acks=1") > refused
    fates = {write["label"]: write["fate"] for write in last_state("min-isr-and-acks")[1]["writes"]}
    assert fates["c"] == "unanswered" and fates["f"] == "refused" and fates["h"] == "acknowledged"


def test_the_unclean_election_loses_a_record_and_the_clean_topic_waits_for_it() -> None:
    unclean, clean = texts("unclean-election", 0), texts("unclean-election", 1)
    assert position(unclean, "The election is unclean") < position(unclean, "Lost: b (acknowledged")
    assert not any("Lost:" in text for text in clean)
    assert "reads a, b:" in clean[-1] and "reads a, c:" in unclean[-1]


def test_without_leader_epochs_committed_records_are_lost_and_with_them_they_are_not() -> None:
    without, cured = texts("before-leader-epochs", 0), texts("before-leader-epochs", 1)
    cut = position(without, "102 truncates its log from 3 to 0")
    assert position(without, "Lost: a, b, c (acknowledged at offset 0 with acks=all)") > cut
    assert not any("Lost:" in text or "truncates" in text for text in cured)
    assert "gets nothing" in without[-1] and "reads a, b, c:" in cured[-1]


def test_another_controller_takes_over_and_elects() -> None:
    sentences = texts("controller-takeover")
    gone = position(sentences, "200 is gone")
    assert position(sentences, "append b with acks=all") > gone
    takes_over = position(sentences, "Node 201 is the active controller")
    assert position(sentences, "makes 100 the leader of orders-0") > takes_over > gone


def test_leadership_goes_back_to_the_preferred_leader() -> None:
    sentences = texts("leader-balance")
    assert position(sentences, "1 of 1 partitions that prefer 101 were led by others") > position(
        sentences, "leader 100 takes 101 into the ISR"
    )
    assert last_state("leader-balance")[1]["leader"] == 101


def test_the_zombie_commits_nothing_and_loses_what_only_it_had() -> None:
    sentences = texts("zombie-leader")
    assert any("Lost: hasty" in text for text in sentences)
    assert not any("Lost: zombie" in text for text in sentences)


def test_the_nearest_story_is_named() -> None:
    with pytest.raises(ConfigError, match="did you mean slow-follower"):
        story("slow-folower")
