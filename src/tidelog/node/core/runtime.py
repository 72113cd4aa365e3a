"""What every room of a node works with: timers, jobs, links to other nodes, and the way out.

Invariant  Effects leave in the order in which rooms decided them: there is one list for all.
Invariant  `now` is the time of the input that is worked on; what is decided goes by the time that
           is passed along, this one is for those who measure.
"""

from __future__ import annotations

from tidelog.model.config import NodeConfig
from tidelog.model.entropy import Entropy
from tidelog.model.time import Now
from tidelog.node.core.deadlines import Deadlines
from tidelog.node.core.effects import Announce, Effect
from tidelog.node.core.jobs import Jobs
from tidelog.node.core.links import LinkListeners, Links
from tidelog.node.core.logins import Logins
from tidelog.observe.counters import ElectionCounters, ReplicationCounters
from tidelog.observe.events import Event
from tidelog.observe.live_watch import LiveWatch
from tidelog.storage.filesystem import FileSystem


class Runtime:
    """One for each node."""

    __slots__ = (
        "counters",
        "deadlines",
        "effects",
        "elections",
        "entropy",
        "files",
        "jobs",
        "links",
        "now",
        "watch",
    )

    def __init__(self, config: NodeConfig, files: FileSystem, entropy: Entropy) -> None:
        self.files = files
        self.entropy = entropy
        self.now = Now(0, 0)
        self.counters = ReplicationCounters()
        self.elections = ElectionCounters()
        self.watch = LiveWatch()
        self.effects: list[Effect] = []
        self.deadlines = Deadlines()
        self.jobs = Jobs(self.effects)
        self.links = Links(
            self.effects,
            self.deadlines,
            f"broker-{config.node_id}",
            LinkListeners(config.inter_broker_name, config.controller_names[0]),
            Logins(config, entropy).begin,
        )

    def announce(self, event: Event) -> None:
        """Let people see that something happened."""
        self.effects.append(Announce(event))

    def take_effects(self) -> list[Effect]:
        """What was decided since the last time."""
        # Connections hold on to the list, so it is emptied in place, never replaced.
        effects = self.effects[:]
        self.effects.clear()
        return effects
