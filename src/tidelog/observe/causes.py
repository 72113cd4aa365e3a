"""Why a partition is led by whom it is, with these in-sync replicas, and why an event happened: the
story behind it.

The story begins where the partition last left a state that needs no reason: all replicas in sync,
and a leader that nobody moved. From there on everything is told that led to the present: what the
controller decided, what happened to the brokers that came and went, what was truncated.

Invariant  The story follows from the events alone, and tells causes before what came of them.
Invariant  Nothing is told that concerns neither the partition nor a broker that came or went.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from tidelog.model.ids import NO_LEADER, TopicPartition
from tidelog.observe.journal import timestamp
from tidelog.observe.told_event import ToldEvent, in_order

_DECISIONS: Final = ("InSyncReplicasDecided", "LeaderElected")
_BROKER_LEFT: Final = ("BrokerShuttingDown", "BrokerFenced", "BrokerUnregistered")
_BROKER_CAME: Final = ("BrokerRegistered", "BrokerUnfenced")
_NODE_LEFT: Final = ("NodeStopped", "LogDirectoryOffline")
_OF_NODES: Final = (*_NODE_LEFT, "NodeStarted")
_OF_CONTROLLERS: Final = ("ControllerMissing", "ControllerActivated")
_LEFT: Final = (*_BROKER_LEFT, *_NODE_LEFT)
_CONTROLLER_CHANGES: Final = (*_OF_CONTROLLERS, "ControllerDeactivated", "ControllerFound")
_OF_LOGS: Final = ("LogTruncated", "LogRecovered")
_CAUSES_FIRST: Final = (
    *("LogDirectoryOffline", "NodeStopped", "ControllerDeactivated", "ControllerMissing"),
    *("ControllerActivated", "ControllerFound"),
    *("BrokerShuttingDown", "BrokerFenced", "BrokerUnregistered", "BrokerRegistered"),
    *("LogRecovered", "BrokerUnfenced", "NodeStarted", "InSyncReplicasDecided", "LeaderElected"),
    *("PartitionBecameLeader", "LogTruncated"),
)
_PROPOSED_BEFORE_MS: Final = 60_000


class Step(NamedTuple):
    """One sentence of the story."""

    at_ms: int | None
    """None when nobody knows the moment."""
    node: int
    """Who tells of it."""
    what: str
    cause: str
    event: ToldEvent | None = None

    def entry(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "at": None if self.at_ms is None else timestamp(self.at_ms),
            "node": self.node,
            "what": self.what,
            "cause": self.cause,
            "event": None if self.event is None else self.event.entry(),
        }


class Explanation(NamedTuple):
    """The present state of a partition, and how it came, the newest last."""

    partition: TopicPartition
    leader: int | None
    leader_epoch: int | None
    in_sync: tuple[int, ...] | None
    """None as long as it is what it was when the topic was created."""
    steps: list[Step]

    @property
    def summary(self) -> str:
        if self.leader is None:
            return f"{self.partition}: no event tells who leads it"
        leads = "has no leader" if self.leader == NO_LEADER else f"is led by {self.leader}"
        if self.in_sync is None:
            members = "all replicas are in sync, as when it was created"
        else:
            members = f"in sync: {', '.join(map(str, self.in_sync)) or 'nobody'}"
        return f"{self.partition} {leads} in epoch {self.leader_epoch}; {members}"


class _Decision(NamedTuple):
    """What was decided about the partition at one moment."""

    at_ms: int
    in_sync_before: tuple[int, ...] | None
    in_sync: tuple[int, ...] | None
    leader_before: int | None
    leader: int | None

    @property
    def left(self) -> set[int]:
        """Brokers without which the partition had to go on."""
        gone = set(self.in_sync_before or ()) - set(self.in_sync or ())
        return gone | _brokers(self.leader_before)

    @property
    def involved(self) -> set[int]:
        moved = set(self.in_sync_before or ()) ^ set(self.in_sync or ())
        return moved | _brokers(self.leader) | _brokers(self.leader_before)


def _brokers(leader: int | None) -> set[int]:
    return set() if leader is None or leader == NO_LEADER else {leader}


def explain(
    partition: TopicPartition,
    events: Iterable[ToldEvent],
    endings: Mapping[int, str] | None = None,
) -> Explanation:
    """How the partition came to its present leader and in-sync replicas.

    `endings` says of nodes that do not run how they ended, where somebody knows it.
    """
    known = _of_this_topic(partition, in_order(events))
    own = [event for event in known if event.partition == partition]
    created = [event for event in known if _creates(event, partition)]
    decisions = _decisions(own)
    leader, epoch = _present_leader(own)
    in_sync = next((each.in_sync for each in reversed(decisions) if each.in_sync is not None), None)
    if decisions:
        story = _story(known, own, decisions, _replication_factor(created, decisions))
    else:
        story = [*created[:1], *_first_leadership(own)]
    steps = [_step(event, own) for event in story]
    missing = set[int]() if in_sync is None else _everyone(decisions) - set(in_sync)
    return Explanation(
        partition, leader, epoch, in_sync, _with_endings(steps, endings or {}, missing)
    )


# -- how it came to one event --------------------------------------------------------------------


def causes_of(
    event: ToldEvent, events: Iterable[ToldEvent], endings: Mapping[int, str] | None = None
) -> list[Step]:
    """What led to an event, with the event itself at the end.

    An event about a partition ends the story of that partition; one about a broker or a node ends
    the story of its going and coming, one about controllers that of the change of controllers.
    """
    known = in_order(events)
    before = [each for each in known if each.at_ms <= event.at_ms]
    ends = _still_true(endings or {}, known, event.at_ms)
    if event.partition is not None:
        steps = explain(event.partition, before, ends).steps
    else:
        steps = _with_endings([_step(each, []) for each in _others(event, before)], ends, set(ends))
    places = [index for index, step in enumerate(steps) if step.event == event]
    return steps[: places[0] + 1] if places else [*steps, _step(event, before)]


def _others(event: ToldEvent, before: Sequence[ToldEvent]) -> list[ToldEvent]:
    """Events of the same story, if it is not that of a partition."""
    if event.kind in _CONTROLLER_CHANGES:
        chosen = _change_of_controllers(event, before)
    elif (broker := _broker_of(event)) is not None:
        chosen = _coming_and_going(broker, before)
    else:
        chosen = []
    return sorted(chosen, key=_telling_order)


def _change_of_controllers(event: ToldEvent, before: Sequence[ToldEvent]) -> list[ToldEvent]:
    """Since another one was active: what became of that one, and who noticed."""
    active = [each for each in before if each.kind == "ControllerActivated" and each != event]
    since_ms = active[-1].at_ms if active else 0
    gone = active[-1].node if active else None
    return [
        each
        for each in before
        if each.at_ms > since_ms
        and (each.kind in _CONTROLLER_CHANGES or (each.kind in _LEFT and _broker_of(each) == gone))
    ]


def _coming_and_going(broker: int, before: Sequence[ToldEvent]) -> list[ToldEvent]:
    """All that is told of a broker since it took part for the last time before it went."""
    own = [each for each in before if _broker_of(each) == broker]
    went = max((index for index, each in enumerate(own) if each.kind in _LEFT), default=0)
    joined = [index for index in range(went) if own[index].kind == "BrokerUnfenced"]
    return own[joined[-1] + 1 :] if joined else own


def _broker_of(event: ToldEvent) -> int | None:
    """The broker whose coming or going an event is."""
    if event.kind in (*_BROKER_LEFT, *_BROKER_CAME):
        broker: int | None = event.fields.get("broker_id")
        return broker
    return event.node if event.kind in _OF_NODES else None


def _still_true(
    endings: Mapping[int, str], known: Sequence[ToldEvent], at_ms: int
) -> dict[int, str]:
    """Endings of processes that were away at a moment and were not heard of since."""
    last = {_broker_of(each): each for each in known}
    return {
        node: ending
        for node, ending in endings.items()
        if node in last and last[node].kind in _LEFT and last[node].at_ms <= at_ms
    }


# -- what was decided ----------------------------------------------------------------------------


def _of_this_topic(partition: TopicPartition, events: list[ToldEvent]) -> list[ToldEvent]:
    """What happened since a topic of that name was last deleted."""
    gone = [
        index
        for index, event in enumerate(events)
        if event.kind == "TopicDeleted" and event.fields.get("topic") == partition.topic
    ]
    if gone and any(_creates(event, partition) for event in events[gone[-1] :]):
        return events[gone[-1] + 1 :]
    return events


def _creates(event: ToldEvent, partition: TopicPartition) -> bool:
    return event.kind == "TopicCreated" and event.fields.get("topic") == partition.topic


def _decisions(own: Iterable[ToldEvent]) -> list[_Decision]:
    """Of the controllers, moment by moment."""
    decided = [event for event in own if event.kind in _DECISIONS]
    found: list[_Decision] = []
    members: tuple[int, ...] | None = None
    for at_ms, group in groupby(decided, key=lambda event: event.at_ms):
        by_kind = {event.kind: event.fields for event in group}
        elected = by_kind.get("LeaderElected", {})
        changed = by_kind.get("InSyncReplicasDecided")
        before, after = members, members
        if changed is not None:
            before, after = tuple(changed["in_sync_before"]), tuple(changed["in_sync"])
        members = after
        leaders = (elected.get("leader_before"), elected.get("leader"))
        found.append(_Decision(at_ms, before, after, *leaders))
    return found


def _present_leader(own: Sequence[ToldEvent]) -> tuple[int | None, int | None]:
    """Who leads in the highest epoch that anybody told of."""
    found: tuple[int | None, int] = (None, -1)
    for event in own:
        epoch = event.fields.get("leader_epoch", -1)
        if event.kind == "LeaderElected" and epoch >= found[1]:
            found = (event.fields["leader"], epoch)
        elif event.kind == "PartitionBecameLeader" and epoch > found[1]:
            found = (event.node, epoch)
    return found if found[0] is not None else (None, None)


def _replication_factor(created: Sequence[ToldEvent], decisions: Sequence[_Decision]) -> int:
    if created:
        return int(created[-1].fields.get("replication_factor", 1))
    return max(
        len(members)
        for each in decisions
        for members in (each.in_sync or (), each.in_sync_before or ())
    )


def _everyone(decisions: Sequence[_Decision]) -> set[int]:
    return {each for decision in decisions for each in decision.involved}


# -- the story -----------------------------------------------------------------------------------


def _story(
    known: Sequence[ToldEvent],
    own: Sequence[ToldEvent],
    decisions: Sequence[_Decision],
    replicas: int,
) -> list[ToldEvent]:
    first = _beginning(known, decisions, replicas)
    episode = decisions[first:]
    involved = {broker for each in episode for broker in each.involved}
    roots = [event for broker in episode[0].left for event in _departure(known, broker, episode[0])]
    begin_ms = min([episode[0].at_ms, *(event.at_ms for event in roots)])
    end_ms = episode[-1].at_ms
    absent = involved - set(episode[-1].in_sync or ())
    chosen = [
        event
        for event in known
        if event.at_ms >= begin_ms
        and (
            _concerns(event, own, involved if event.at_ms <= end_ms else absent)
            or (event.kind in _OF_CONTROLLERS and event.at_ms <= end_ms)
        )
    ]
    chosen += _new_leaderships(own, begin_ms)
    return sorted(chosen, key=_telling_order)


def _beginning(known: Sequence[ToldEvent], decisions: Sequence[_Decision], replicas: int) -> int:
    """The decision with which the partition left the last state that needs no reason."""
    for index in range(len(decisions) - 1, 0, -1):
        each = decisions[index]
        was_whole = each.in_sync_before is None or len(each.in_sync_before) >= replicas
        if was_whole and any(_departure(known, broker, each) for broker in each.left):
            return index
        if was_whole and each.leader is None:
            return index
    return 0


def _departure(known: Sequence[ToldEvent], broker: int, decision: _Decision) -> list[ToldEvent]:
    """What is told of a broker's going since it last took part, up to a decision."""
    found: list[ToldEvent] = []
    for event in known:
        if event.at_ms > decision.at_ms:
            break
        if event.kind == "BrokerUnfenced" and event.fields.get("broker_id") == broker:
            found = []
        elif event.kind in _BROKER_LEFT:
            found += [event] if event.fields.get("broker_id") == broker else []
        elif event.kind in _NODE_LEFT and event.node == broker:
            found.append(event)
    return found


def _concerns(event: ToldEvent, own: Sequence[ToldEvent], brokers: set[int]) -> bool:
    if event.kind in (*_DECISIONS, *_OF_LOGS):
        return event.partition is not None and event.partition == own[0].partition
    if event.kind in (*_BROKER_LEFT, *_BROKER_CAME):
        return event.fields.get("broker_id") in brokers
    return event.kind in _OF_NODES and event.node in brokers


def _first_leadership(own: Sequence[ToldEvent]) -> list[ToldEvent]:
    return [event for event in own if event.kind == "PartitionBecameLeader"][:1]


def _new_leaderships(own: Sequence[ToldEvent], begin_ms: int) -> list[ToldEvent]:
    """Where each epoch begins; after a restart a leader tells the same again."""
    found: dict[int, ToldEvent] = {}
    for event in own:
        if event.kind == "PartitionBecameLeader":
            found.setdefault(event.fields["leader_epoch"], event)
    return [event for event in found.values() if event.at_ms >= begin_ms]


def _telling_order(event: ToldEvent) -> tuple[int, int, int, int]:
    known = event.kind in _CAUSES_FIRST
    rank = _CAUSES_FIRST.index(event.kind) if known else len(_CAUSES_FIRST)
    return event.at_ms, rank, event.node, event.sequence


# -- its sentences -------------------------------------------------------------------------------


def _step(event: ToldEvent, own: Sequence[ToldEvent]) -> Step:
    cause = event.cause
    if event.kind == "InSyncReplicasDecided" and (reason := _proposal(event, own)) is not None:
        cause = f"{cause}: {reason}"
    if event.kind == "PartitionBecameLeader":
        epoch, start = event.fields["leader_epoch"], event.fields["start_offset"]
        what = f"node {event.node} leads in epoch {epoch} from offset {start}"
        return Step(event.at_ms, event.node, what, cause, event)
    on = f"node {event.node}: " if event.kind in (*_OF_LOGS, "LogDirectoryOffline") else ""
    return Step(event.at_ms, event.node, f"{on}{event.words}", cause, event)


def _proposal(decided: ToldEvent, own: Sequence[ToldEvent]) -> str | None:
    """Why the leader asked for what was decided."""
    wanted = set(decided.fields["in_sync"])
    for event in reversed(own):
        if (
            event.kind == "InSyncReplicasProposed"
            and decided.at_ms - _PROPOSED_BEFORE_MS <= event.at_ms <= decided.at_ms
            and set(event.fields["proposed"]) == wanted
        ):
            reason: str = event.cause
            return reason
    return None


def _with_endings(steps: list[Step], endings: Mapping[int, str], missing: set[int]) -> list[Step]:
    """Before the last fence of a broker that is still away: how its process ended."""
    told = list(steps)
    for node, ending in endings.items():
        places = [
            index
            for index, step in enumerate(told)
            if step.event is not None
            and step.event.kind == "BrokerFenced"
            and step.event.fields.get("broker_id") == node
        ]
        if node in missing and places:
            told.insert(places[-1], Step(None, node, f"the process of node {node} ended", ending))
    return told
