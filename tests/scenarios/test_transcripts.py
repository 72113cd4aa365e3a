"""Every transcript is replayed and must tell the same again.

After a change on purpose: `tidelog sim --scenario FILE --accept`, and look at the difference.
"""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from tidelog.model.errors import ConfigError
from tidelog.simulator.run.command_text import parse_commands
from tidelog.simulator.run.scenario_mistakes import ScenarioError
from tidelog.simulator.run.transcript import is_transcript, replay
from tidelog.simulator.scenarios import scenario_names, scenario_text

NAMES = scenario_names()


@pytest.mark.parametrize("name", NAMES)
def test_a_transcript_tells_the_same_again(name: str) -> None:
    text = scenario_text(name)

    assert is_transcript(text)
    assert replay(text).splitlines() == text.splitlines()


def test_the_worked_example_is_told() -> None:
    told = scenario_text("worked_example")

    for moment in (
        "101 leads epoch=1",
        "100 leads epoch=2 in-sync=100,102 start=0 high-watermark=0 end=3",
        "refused: OFFSET_NOT_AVAILABLE",
        "102: orders-0 truncated from 5 to 3: epoch 1 ends at 3 in the log of leader 100",
        "101: orders-0 truncated from 5 to 3: epoch 1 ends at 3 in the log of leader 100",
        "101 leads epoch=3 in-sync=100,101,102",
    ):
        assert moment in told


def test_a_story_begins_with_its_cluster() -> None:
    for first in ("pass 5", "topic orders replicas=100", "kill node=100", "show orders"):
        with pytest.raises(ConfigError, match=f"line 1: > {first}: the first command is cluster"):
            replay(f"> {first}\n")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("topc orders replicas=100", "there is no command 'topc'; did you mean topic?"),
        ("kil node=100", "there is no command 'kil'; did you mean kill?"),
        ("", "there is no command ''"),
        ("topic orders", "topic needs replicas, as in > topic orders replicas=101,100,102"),
        ("topic replicas=100", "topic takes TOPIC, as in > topic orders"),
        ("topic orders replicas=100,10x", "replicas: there is no broker '10x'; there is 100, 101"),
        ("topic orders replicas=100,100", "names a broker twice"),
        ("topic orders replicas=", "there is no broker ''"),
        ("produce orders to=100 values=a", "produce needs acks, as in > produce orders to=101"),
        ("produce orders to=100 acks=2 values=a", "acks: '2' is not one of all, -1, 0, 1"),
        ("produce orders to=103 acks=1 values=a", "to: there is no broker '103'"),
        ("produce orders to=100 acks=1 valus=a", "produce has no 'valus'; did you mean values?"),
        ("produce orders to=100 acks=1 values=", "values: nothing is no value"),
        ("fetch orders from=100 offset=many", "offset: 'many' is not a whole number"),
        ("fetch orders from=100 from=101 offset=0", "from is given twice"),
        ("pass", "pass takes MILLISECONDS, as in > pass 500"),
        ("pass 1 2", "pass takes MILLISECONDS, as in > pass 500"),
        ("pass -5", "MILLISECONDS: '-5' is not a whole number from 0"),
        ("pass 99999999999", "MILLISECONDS: '99999999999' is not a whole number from 0 to"),
        ("kill node=103", "there is no node '103'; there is 100, 101, 102"),
        ("cut pairs=100>104", "there is no node '104'"),
        ("cut pairs=100", "'100' is not of the form HOST>HOST"),
        ("cluster brokers=3", "a story has one cluster"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_the_fix(command: str, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        replay(f"# A word.\n> cluster brokers=3\nbrokers\n> {command}\n")
    assert str(refused.value).startswith(f"line 4: > {command}: ")
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ("brokers=none", "brokers: 'none' is not a whole number from 1 to 9"),
        ("brokers=1 controllers=3", "of 1 brokers no 3 can be controllers; separate=yes lets"),
        ("min.insync.replica=2", "did you mean min.insync.replicas?"),
        ("node.id=7", "node.id is the simulator's own"),
        ("separate=maybe", "separate: 'maybe' is not one of yes, no"),
        ("three", "cluster takes nothing without a =, as in > cluster brokers=3"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(settings: str, why: str) -> None:
    with pytest.raises(ConfigError, match="line 1: ") as refused:
        replay(f"> cluster {settings}\n")
    assert why in str(refused.value)


def test_a_command_needs_the_space_before_it() -> None:
    with pytest.raises(ConfigError, match="line 2: >pass 5: a command begins with '> '"):
        replay("> cluster brokers=1\n>pass 5\n")


def test_a_topic_that_is_not_there_cannot_be_shown() -> None:
    with pytest.raises(ConfigError, match=r"line 3: > show ordrs: .* did you mean orders"):
        replay("> cluster brokers=1\n> topic orders replicas=100\n> show ordrs\n")


def mutated(text: str, dice: Random) -> str:
    """The text as a slip of the hand leaves it."""
    lines = [line for line in text.splitlines() if line.startswith(">")]
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(lines))
        line = lines[at]
        words = line.split()
        which = dice.randrange(len(words))
        spot = dice.randrange(len(line) + 1)
        match dice.randrange(8):
            case 0:
                del lines[at]
            case 1:
                lines.insert(dice.randrange(len(lines) + 1), line)
            case 2:
                lines[at] = " ".join(words[:which] + words[which + 1 :])
            case 3:
                lines[at] = line[:spot] + line[spot + 1 :]
            case 4:
                lines[at] = line[:spot] + dice.choice("=,>-x9 é\t\x00\u2028") + line[spot:]
            case 5:
                lines[at] = f"{line} {dice.choice(dice.choice(lines).split())}"
            case 6:
                words[which] = dice.choice(dice.choice(lines).split())
                lines[at] = " ".join(words)
            case _:
                name = words[which].partition("=")[0]
                words[which] = f"{name}={dice.choice(('', '-1', '99', 'x', '100,', '10**9'))}"
                lines[at] = " ".join(words)
        if not lines:
            break
    return "\n".join(lines) + "\n"


def test_no_slip_of_the_hand_is_answered_with_a_traceback() -> None:
    texts = [scenario_text(name) for name in NAMES]
    dice = Random(1)
    refused = 0
    for _ in range(2000):
        try:
            parse_commands(mutated(dice.choice(texts), dice))
        except ScenarioError as error:
            assert all(each.line > 0 for each in error.mistakes)
            refused += 1
    assert 500 < refused < 2000


@pytest.mark.parametrize("seed", range(3))
def test_a_story_with_a_slip_of_the_hand_is_told_or_refused(seed: int) -> None:
    dice = Random(seed)
    while True:
        story = scenario_text(dice.choice(NAMES))
        text = "\n".join(mutated(story, dice).splitlines()[:12])
        with suppress(ScenarioError):
            if parse_commands(text):
                break
    with suppress(ScenarioError):
        assert replay(text).startswith("> cluster")


def test_what_came_of_commands_is_not_read() -> None:
    story = "# A word.\n> cluster brokers=1\n"

    assert replay(story + "nonsense\n") == replay(story)
