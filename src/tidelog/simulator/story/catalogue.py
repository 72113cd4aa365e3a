"""The stories that come with the package: which scenario is played, and what to look at.

Invariant  Nothing of a story is drawn by hand: every step is one of the simulator, every sentence
           is made from what happened, and captions are the comments of the scenario.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.model.errors import ConfigError
from tidelog.model.ids import TopicPartition
from tidelog.model.nearest import nearest
from tidelog.node.node import Node
from tidelog.simulator.scenarios import scenario_text
from tidelog.simulator.story.telling import Recording, record_transcript
from tidelog.simulator.story.without_epochs import NodeWithoutEpochs
from tidelog.simulator.world.world import NodeFactory

_ORDERS: Final = TopicPartition("orders", 0)


class Act(NamedTuple):
    """One scenario, seen from one partition, played by one kind of node."""

    scenario: str
    title: str = ""
    """Only where a story has several acts."""
    partition: TopicPartition = _ORDERS
    begins: int = 0
    """The caption with which it begins; what comes before is preparation."""
    build_node: NodeFactory = Node

    def record(self) -> Recording:
        return record_transcript(scenario_text(self.scenario), self.partition, self.build_node)


class Story(NamedTuple):
    """Something worth understanding, in one act or several."""

    name: str
    title: str
    about: str
    acts: tuple[Act, ...]


STORIES: Final = (
    Story(
        "worked-example",
        "A leader fails, and comes back",
        "Divergence, truncation and reconciliation: the whole protocol in one failover.",
        (Act("worked_example", begins=1),),
    ),
    Story(
        "slow-follower",
        "A follower falls behind",
        "It leaves the in-sync replicas so that the high watermark can go on, and comes back.",
        (Act("slow_follower_leaves_and_rejoins"),),
    ),
    Story(
        "min-isr-and-acks",
        "What an acknowledgement means",
        "acks=0, 1 and all, and what min.insync.replicas adds when replicas are gone.",
        (Act("min_isr_and_acks"),),
    ),
    Story(
        "unclean-election",
        "An unclean election, and what it loses",
        "The last in-sync replica is gone: one topic goes on without it, the other one waits.",
        (
            Act("unclean_election", "unclean elections allowed", TopicPartition("spool", 0)),
            Act("unclean_election", "not allowed", TopicPartition("safe", 0)),
        ),
    ),
    Story(
        "before-leader-epochs",
        "Why there are leader epochs",
        "The same two failures without and with leader epochs: once records are lost, once not.",
        (
            Act("before_leader_epochs", "without leader epochs", build_node=NodeWithoutEpochs),
            Act("before_leader_epochs", "with leader epochs"),
        ),
    ),
    Story(
        "controller-takeover",
        "The active controller dies",
        "Writes go on, another controller takes over, and elects when a leader dies.",
        (Act("controller_takeover"),),
    ),
    Story(
        "leader-balance",
        "Leadership goes home",
        "The preferred leader returns, catches up, and gets its partition back.",
        (Act("leader_balance"),),
    ),
    Story(
        "zombie-leader",
        "A leader that does not know it was replaced",
        "Cut off from the controller it goes on, but cannot commit anything any more.",
        (Act("zombie_leader"),),
    ),
)


def story(name: str) -> Story:
    """The story of that name; ConfigError with the nearest one when there is none."""
    known = {each.name: each for each in STORIES}
    if name not in known:
        raise ConfigError(f"there is no story {name!r}; {nearest(name, known)}")
    return known[name]
