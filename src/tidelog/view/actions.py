"""What the live view can do to a cluster that was started for development.

Invariant  What the cluster was last started for counts, not what it was when the view began.
Invariant  Each action has a command that does exactly the same, which pages show: it asks the same
           brokers, or changes the same directory, and nobody has to confirm or to wait.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tidelog.client.admin import Admin
from tidelog.client.elections import Electorate, elect_leaders, not_led_as_preferred
from tidelog.client.producer import Producer
from tidelog.client.reassignment_plan import Plan
from tidelog.client.reassignments import Reassignments
from tidelog.local.local_cluster import LocalCluster, TooFewControllers
from tidelog.local.view_process import ViewProcess
from tidelog.model.errors import ConfigError
from tidelog.model.ids import TopicPartition
from tidelog.view.questions import KafkaQuestions, plan_for

_NODE_VERBS: Final = {
    "kill": "killed",
    "stop": "stopped",
    "pause": "paused",
    "resume": "goes on",
    "start": "started",
}


class Actions:
    """Carries out one action at a time; they block."""

    def __init__(self, directory: Path, questions: KafkaQuestions, commands: Commands) -> None:
        self._directory = directory
        self._questions = questions
        self._commands = commands
        self._known: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
            **dict.fromkeys(_NODE_VERBS, self._change_node),
            **dict.fromkeys(("cut", "slow", "heal"), self._change_link),
            "elect": self._elect,
            "reassign": self._reassign,
            "cancel-reassignments": self._cancel,
            "produce": self._produce,
        }

    def carry_out(self, asked: Mapping[str, Any]) -> dict[str, str]:
        """Do it; what was done, in words. Raises a `TidelogError` when it cannot be."""
        if not ViewProcess(self._directory).may_act:
            raise ConfigError(
                "the cluster was started again without --dev: it can only be looked at"
            )
        action = str(asked.get("action", ""))
        perform = self._known.get(action)
        if perform is None:
            raise ConfigError(f"there is no action {action!r}")
        command = self._commands.of(asked)
        return {"done": perform(asked), "command": command}

    def _change_node(self, asked: Mapping[str, Any]) -> str:
        cluster = LocalCluster.open(self._directory)
        action, node_id = str(asked["action"]), int(asked["node"])
        node = cluster.node(node_id)
        match action:
            case "kill":
                node.kill()
            case "stop":
                node.stop()
            case "pause":
                node.pause()
            case "resume":
                node.resume()
            case "start":
                try:
                    cluster.start_node(node_id)
                except TooFewControllers as waiting:
                    return f"node {node_id} runs and waits: {waiting}"
        return f"node {node_id} {_NODE_VERBS[action]}"

    def _change_link(self, asked: Mapping[str, Any]) -> str:
        cluster = LocalCluster.open(self._directory)
        one, other = (int(each) for each in asked["between"])
        links = cluster.link(one, other)
        match asked["action"]:
            case "cut":
                links.cut(one, other)
                return f"nothing passes between {one} and {other}"
            case "slow":
                delay_ms = int(asked["delay_ms"])
                if delay_ms < 1:
                    raise ConfigError("a link is slowed by a millisecond at least")
                links.slow(one, other, delay_ms)
                return f"everything between {one} and {other} takes {delay_ms} ms longer"
        links.heal(one, other)
        return f"the link between {one} and {other} is whole"

    def _elect(self, asked: Mapping[str, Any]) -> str:
        topic = asked.get("topic")
        with self._questions.client() as client:
            view = Admin(client).topics(None if topic is None else [str(topic)])
            names = not_led_as_preferred(
                {
                    TopicPartition(each.name, partition.partition): partition
                    for each in view.topics.values()
                    for partition in each.partitions
                }
            )
            if not names:
                return "every partition is led by its preferred leader already"
            refused = elect_leaders(client, Electorate.PREFERRED, names)
        done = f"{len(names) - len(refused)} of {len(names)} partitions are led as preferred"
        why = next(iter(refused.values()), None)
        return done if why is None else f"{done}; {why}"

    def _reassign(self, asked: Mapping[str, Any]) -> str:
        with self._questions.client() as client:
            plan: Plan = plan_for(
                client, str(asked["topic"]), [int(each) for each in asked["brokers"]]
            )
            moves = [each for each in Reassignments(client).preview(plan) if each.changes]
            if not moves:
                return "all of it is in place already"
            refused = Reassignments(client).start({each.name: each.after for each in moves})
        return _outcome(len(moves), "begin to move", list(refused.values()))

    def _cancel(self, asked: Mapping[str, Any]) -> str:
        with self._questions.client() as client:
            reassignments = Reassignments(client)
            moving = [each.name for each in reassignments.under_way()]
            if not moving:
                return "nothing moves"
            refused = reassignments.start(dict.fromkeys(moving))
        return _outcome(len(moving), "stay where they were", list(refused.values()))

    def _produce(self, asked: Mapping[str, Any]) -> str:
        topic = str(asked["topic"])
        partition, key = asked.get("partition"), asked.get("key")
        with self._questions.client() as client:
            Admin(client).topics([topic]).topic(topic)  # a page creates no topic by a typing error
            producer = Producer(client, topic)
            producer.send(
                str(asked["value"]).encode(),
                key=None if key in (None, "") else str(key).encode(),
                partition=None if partition in (None, "") else int(partition),
            )
            (written,) = producer.flush()
        return f"written to {topic}-{written.partition} at offset {written.first_offset}"


class Commands:
    """The commands that do what the actions do."""

    def __init__(self, directory: Path | None, bootstrap: str | None) -> None:
        """With a bootstrap, brokers are found by it; else by the directory."""
        self._at_directory = [] if directory is None else ["--data", str(directory)]
        self._at_brokers = self._at_directory if bootstrap is None else ["--bootstrap", bootstrap]

    def of(self, asked: Mapping[str, Any]) -> str:
        """The command for an action; `ConfigError` when there is none."""
        action = str(asked.get("action", ""))
        if action in (*_NODE_VERBS, "cut", "slow", "heal"):
            return self._here(_node_words(action, asked))
        topic = str(asked.get("topic") or "")
        match action:
            case "elect":
                return self._anywhere(["partitions", "elect"], topic)
            case "reassign":
                brokers = ",".join(str(int(each)) for each in asked["brokers"])
                words = ["partitions", "reassign", "--topic", topic, "--brokers", brokers]
                return self._anywhere([*words, "--execute", "--yes", "--no-wait"])
            case "cancel-reassignments":
                return self._anywhere(["partitions", "reassign", "--cancel", "--yes"])
            case "produce":
                return self._anywhere(["produce"], topic, _record_words(asked))
        raise ConfigError(f"there is no action {action!r}")

    def _here(self, words: Sequence[str]) -> str:
        if not self._at_directory:
            raise ConfigError("nodes elsewhere are broken and mended where they are")
        return shlex.join(["tidelog", *words, *self._at_directory])

    def _anywhere(self, words: Sequence[str], topic: str = "", options: Sequence[str] = ()) -> str:
        is_like_an_option = topic.startswith("-")
        before = [topic] if topic and not is_like_an_option else []
        behind = ["--", topic] if is_like_an_option else []
        return shlex.join(["tidelog", *words, *before, *options, *self._at_brokers, *behind])


def _node_words(action: str, asked: Mapping[str, Any]) -> list[str]:
    if action in _NODE_VERBS:
        return ["node", action, str(int(asked["node"]))]
    words = ["link", action, *(str(int(each)) for each in asked["between"])]
    return [*words, "--ms", str(int(asked["delay_ms"]))] if action == "slow" else words


def _record_words(asked: Mapping[str, Any]) -> list[str]:
    """The one record that is produced."""
    words = ["--value", str(asked["value"])]
    for name in ("key", "partition"):
        if asked.get(name) not in (None, ""):
            words += [f"--{name}", str(asked[name])]
    if any("\0" in each for each in words):
        raise ConfigError("no command holds a zero byte: produce it with a client")
    return words


def _outcome(count: int, what: str, refused: list[Exception]) -> str:
    done = f"{count - len(refused)} of {count} partitions {what}"
    return f"{done}; {refused[0]}" if refused else done
