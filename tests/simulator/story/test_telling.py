"""Recording runs: it changes nothing, keeps what matters, and ends with the broken rule."""

from __future__ import annotations

from dataclasses import replace

from tidelog.model.ids import TopicPartition
from tidelog.simulator.faults.swarm import draw_plan
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.run.plan import Plan
from tidelog.simulator.run.runner import run_plan
from tidelog.simulator.run.setup import standard_setup
from tidelog.simulator.story import document
from tidelog.simulator.story.document import run_document, told_steps
from tidelog.simulator.story.picture import LEADER, WritePicture
from tidelog.simulator.story.telling import (
    Recording,
    first_partition,
    partition_to_watch,
    record_plan,
    record_transcript,
)
from tidelog.simulator.world.world import World

ORDERS = TopicPartition("orders", 0)
SMALL = """\
# Two brokers.
> cluster brokers=2 min.insync.replicas=2
> topic orders replicas=100,101
> produce orders to=100 acks=all values=a,b
# A gap.
> pause node=101
> produce orders to=100 acks=1 values=c
"""


def small() -> Recording:
    return record_transcript(SMALL, ORDERS)


def test_a_recorded_run_goes_the_same_way() -> None:
    plan = draw_plan(7)

    recording, result = record_plan(plan, ORDERS, standard_setup)

    assert result.hash == run_plan(plan).hash
    assert len(recording.recorder.steps) > 100


def test_a_broken_rule_is_the_last_step_and_its_partition_the_one_to_watch() -> None:
    plan = replace(draw_plan(7), faults=(), faults_ms=6_000)

    def strict(world: World) -> None:
        standard_setup(world)

        def refuse() -> None:
            raise Violation("D0", "nobody may hold orders-1, says this test")

        world.at(5_000, refuse, "judged")

    result = run_plan(plan, setup=strict)
    watched = partition_to_watch(result)
    recording, _ = record_plan(plan, watched, strict)

    assert watched == TopicPartition("orders", 1)
    assert recording.recorder.steps[-1].text == (
        "A rule is broken. D0: nobody may hold orders-1, says this test."
    )
    page = run_document(plan, "tidelog sim", recording)
    assert page["about"].startswith("D0 is broken")
    assert page["acts"][0]["steps"][-1]["text"].startswith("A rule is broken")


def test_a_run_that_ends_well_is_watched_at_its_first_partition() -> None:
    plan = Plan(seed=1, faults_ms=2_000)
    assert partition_to_watch(run_plan(plan)) == ORDERS


def test_of_a_long_run_the_end_is_kept_and_the_rest_told_in_short() -> None:
    recording = small()
    steps = recording.recorder.steps
    kept = document.act_document(recording.recorder, steps=steps[-5:], left_out=steps[:-5])

    assert len(kept["steps"]) == 5
    assert kept["left_out_steps"] == len(steps) - 5
    assert "100 starts." in [each["text"] for each in kept["left_out"]]


def test_a_story_begins_where_its_preparation_ends() -> None:
    opening, first, *_ = told_steps(small(), 0)
    assert opening.message is None and opening.text == "This is how it begins."
    assert first.message is not None and first.message.kind == "produce"

    assert [step.chapter for step in told_steps(small(), 1)[:2]] == [1, 1]


def test_a_picture_shows_log_ends_the_high_watermark_and_what_the_leader_knows() -> None:
    steps = small().recorder.steps
    rises = next(step for step in steps if "the high watermark rises" in step.text)

    leader = rises.picture.replicas[100]
    assert leader.role == LEADER and leader.in_sync == (100, 101)
    assert leader.high_watermark == leader.end == 2
    assert leader.known == ((101, 2),)
    assert rises.picture.replicas[101].high_watermark == 0


def test_an_acknowledgement_for_all_is_parked_until_the_followers_have_it() -> None:
    steps = small().recorder.steps
    parked = [step.picture.replicas[100].parked for step in steps]
    assert (2,) in parked and parked[-1] == ()


def test_clients_know_what_they_were_told() -> None:
    last = small().recorder.steps[-1].picture
    assert last.writes == (
        WritePicture("a, b", -1, "acknowledged", 0),
        WritePicture("c", 1, "acknowledged", 2),
    )
    assert last.replicas[101].life == "paused"


def test_the_first_topic_of_a_transcript_is_the_one_to_look_at() -> None:
    assert first_partition(SMALL) == ORDERS
    assert first_partition("> cluster brokers=1\n") is None


def test_equal_pictures_are_kept_once() -> None:
    recorder = small().recorder
    act = document.act_document(recorder, steps=recorder.steps)
    assert len(act["replicas"]) < len(act["steps"]) * len(act["brokers"]) / 2
