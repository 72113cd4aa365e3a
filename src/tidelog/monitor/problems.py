"""What is wrong with a cluster, the worst first, and what to do about each.

Invariant  Each problem is told once, under its cause where that is known: a broker whose process
           was killed is not also one that does not answer over HTTP.
Invariant  A problem names the remedy, or the command that tells more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple

from tidelog.client.admin import QuorumDescription
from tidelog.model.ids import NO_LEADER, TopicPartition
from tidelog.monitor.snapshot import ClusterSnapshot, NodeTold
from tidelog.observe.journal import timestamp

UNCLEAN_ELECTION: Final = "tidelog_unclean_election_timestamp_seconds"
UNCLEAN_TOLD_FOR_MS: Final = 86_400_000
CLOCK_FAR_OFF_MS: Final = 1000
VOTER_SILENT_MS: Final = 10_000
LITTLE_ROOM_BYTES: Final = 500_000_000
_NAMED: Final = 3


class Severity(IntEnum):
    """From what stops everything to what may become a problem."""

    CRITICAL = 0
    """Something cannot be read or written, or nothing can be decided."""
    SERIOUS = 1
    """Writes are refused, records may be lost, or a disk is."""
    DEGRADED = 2
    """Everything works, with less safety than was asked for."""
    NOTICE = 3
    """Somebody should look at it."""


class Problem(NamedTuple):
    """One thing that is wrong."""

    severity: Severity
    kind: str
    what: str
    remedy: str
    node: int | None = None
    partitions: tuple[TopicPartition, ...] = ()


def problems(seen: ClusterSnapshot) -> list[Problem]:
    """All of them, the worst first."""
    troubled = _troubled(seen)
    checks: Sequence[Callable[[ClusterSnapshot], Iterable[Problem]]] = (
        _quorum,
        partial(_offline, troubled.offline),
        partial(_under_min_isr, troubled.under_min_isr),
        _unclean_elections,
        _directories,
        _brokers,
        partial(_under_replicated, troubled.under_replicated),
        _processes,
        _nodes,
        _room,
        _clocks,
    )
    found = [problem for check in checks for problem in check(seen)]
    return sorted(found, key=lambda problem: problem.severity)


# -- the quorum ----------------------------------------------------------------------------------


def _quorum(seen: ClusterSnapshot) -> Iterator[Problem]:
    if seen.no_controller is not None:
        yield Problem(
            Severity.CRITICAL,
            "no-controller",
            f"nothing can be decided: {seen.no_controller}",
            "start the controllers that do not answer"
            + ("; `tidelog up` starts what is missing" if seen.processes else ""),
        )
    if seen.quorum is None:
        return
    voters = seen.quorum.voters
    latest_ms = max((each.last_fetch_ms for each in voters), default=-1)
    silent = [
        each.node_id
        for each in voters
        if each.node_id != seen.quorum.leader and latest_ms - each.last_fetch_ms > VOTER_SILENT_MS
    ]
    stopped = [each.node_id for each in voters if _is_down(seen, each.node_id)]
    missing = sorted({*silent, *stopped})
    yield from _lagging_voters(seen.quorum, latest_ms, missing)
    if not missing:
        return
    there, needed = len(voters) - len(missing), len(voters) // 2 + 1
    spare = there - needed
    left = f"{spare} more may fail" if spare > 0 else "with one less nothing can be decided"
    names = ", ".join(map(str, missing))
    yield Problem(
        Severity.DEGRADED,
        "controllers-missing",
        f"{there} of {len(voters)} controllers take part, {names} not: {left}",
        _start(seen, missing),
    )


def _lagging_voters(
    quorum: QuorumDescription, latest_ms: int, missing: Collection[int]
) -> Iterator[Problem]:
    """Those who take part and would have to catch up before they could lead."""
    for each in quorum.voters:
        behind = quorum.high_watermark - each.end_offset
        caught_up = each.last_caught_up_ms
        is_late = caught_up < 0 or latest_ms - caught_up > VOTER_SILENT_MS
        if each.node_id not in (quorum.leader, *missing) and behind > 0 and is_late:
            since = "" if caught_up < 0 else f", for {(latest_ms - caught_up) // 1000} s"
            yield Problem(
                Severity.DEGRADED,
                "controller-lags",
                f"controller {each.node_id} is {behind} records behind in the metadata log{since}",
                "see whether its disk and its link to the active controller can keep up",
                each.node_id,
            )


# -- partitions ----------------------------------------------------------------------------------


class _Troubled(NamedTuple):
    """Partitions, each under the worst that is wrong with it."""

    offline: list[TopicPartition]
    under_min_isr: list[TopicPartition]
    under_replicated: list[TopicPartition]


def _troubled(seen: ClusterSnapshot) -> _Troubled:
    leaders = {each.leader for each in seen.partitions.values()}
    silent = {each for each in leaders if each == NO_LEADER or not lives(seen, each)}
    found = _Troubled([], [], [])
    for name, each in seen.partitions.items():
        members, replicas = len(each.in_sync), len(each.replicas)
        if each.leader in silent:
            found.offline.append(name)
        elif members < min(seen.min_in_sync.get(name.topic, 0), replicas):
            found.under_min_isr.append(name)
        elif members < replicas and _missing(seen, [name]):
            found.under_replicated.append(name)
    return found


def _offline(gone: Sequence[TopicPartition], seen: ClusterSnapshot) -> Iterator[Problem]:
    if gone:
        first = seen.partitions[gone[0]]
        candidates = sorted({*first.in_sync} or {*first.replicas})
        yield Problem(
            Severity.CRITICAL,
            "offline-partitions",
            f"{_partitions(gone)} no leader that answers: nobody can read or write there",
            f"{_start(seen, candidates, 'one of ')}; {_more(seen, gone[0])} tells how it came",
            partitions=tuple(gone),
        )


def _under_min_isr(short: Sequence[TopicPartition], seen: ClusterSnapshot) -> Iterator[Problem]:
    if short:
        yield Problem(
            Severity.SERIOUS,
            "under-min-isr",
            f"{_partitions(short)} fewer in-sync replicas than min.insync.replicas: acks=all is "
            "refused",
            f"{_start(seen, _missing(seen, short))}; {_more(seen, short[0])} tells more",
            partitions=tuple(short),
        )


def _under_replicated(
    lacking: Sequence[TopicPartition], seen: ClusterSnapshot
) -> Iterator[Problem]:
    if lacking:
        without = _missing(seen, lacking)
        yield Problem(
            Severity.DEGRADED,
            "under-replicated",
            f"{_partitions(lacking)} replicas that are not in sync, on {_brokers_named(without)}",
            f"{_start(seen, without)}; {_more(seen, lacking[0])} tells more",
            partitions=tuple(lacking),
        )


def _missing(seen: ClusterSnapshot, names: Iterable[TopicPartition]) -> list[int]:
    """Brokers that these partitions lack in their in-sync sets."""
    lacked = set[int]()
    for name in names:
        each, adding = seen.partitions[name], seen.adding.get(name, ())
        lacked.update(
            broker
            for broker in each.replicas
            if broker not in each.in_sync and broker not in adding
        )
    return sorted(lacked)


def _unclean_elections(seen: ClusterSnapshot) -> Iterator[Problem]:
    latest: dict[TopicPartition, tuple[int, str, str]] = {}
    for node in seen.nodes:
        for sample in [] if node.metrics is None else node.metrics.all(UNCLEAN_ELECTION):
            labels, at_ms = sample.labels, int(sample.value * 1000)
            name = TopicPartition(labels["topic"], int(labels["partition"]))
            told = (at_ms, labels["leader_epoch"], labels["may_lose"])
            latest[name] = max(latest.get(name, told), told)
    for name, (at_ms, epoch, may_lose) in sorted(latest.items()):
        if seen.at_ms - at_ms < UNCLEAN_TOLD_FOR_MS:
            yield Problem(
                Severity.SERIOUS,
                "unclean-election",
                f"{name} got a leader from outside its in-sync set at {timestamp(at_ms)} in epoch "
                f"{epoch}; it may have lost {may_lose}",
                f"`tidelog why {name}` tells how it came; producers may have to send again",
                partitions=(name,),
            )


# -- brokers, nodes and disks --------------------------------------------------------------------


def _brokers(seen: ClusterSnapshot) -> Iterator[Problem]:
    for each in seen.brokers:
        told = seen.told.get(each.node_id)
        if each.fenced:
            yield Problem(
                Severity.DEGRADED,
                "fenced-broker",
                f"broker {each.node_id} is fenced: {_state_of(seen, each.node_id)}",
                _start(seen, [each.node_id]),
                each.node_id,
            )
        elif told is not None and told.silent is not None and not _is_down(seen, each.node_id):
            yield Problem(
                Severity.SERIOUS,
                "silent-broker",
                f"broker {each.node_id} counts as alive and does not answer: {told.silent}",
                "see whether clients can reach it; it is fenced when the controller cannot either",
                each.node_id,
            )


def _processes(seen: ClusterSnapshot) -> Iterator[Problem]:
    fenced = {each.node_id for each in seen.brokers if each.fenced}
    for node_id, process in sorted(seen.processes.items()):
        if process.state != "running" and node_id not in fenced:
            yield Problem(
                Severity.DEGRADED,
                "node-down",
                f"node {node_id}: {_state_of(seen, node_id)}",
                _start(seen, [node_id]),
                node_id,
            )


def _nodes(seen: ClusterSnapshot) -> Iterator[Problem]:
    fenced = {each.node_id for each in seen.brokers if each.fenced}
    for node in seen.nodes:
        if node.silent is not None:
            if node.node_id is None or not (node.node_id in fenced or _is_down(seen, node.node_id)):
                yield Problem(
                    Severity.NOTICE,
                    "silent-listener",
                    f"{_node_named(node)} does not answer over HTTP: {node.silent}",
                    "see its node.log, and http.listener in its configuration",
                    node.node_id,
                )
            continue
        for problem in node.problems:
            yield Problem(
                Severity.DEGRADED,
                "unhealthy-node",
                f"{_node_named(node)} is not well: {problem}",
                f"`tidelog events --node {node.node_id}` tells what it did",
                node.node_id,
            )
        if node.state is not None and node.state.get("cluster_id") != seen.cluster_id:
            yield Problem(
                Severity.NOTICE,
                "other-cluster",
                f"{_node_named(node)} is of cluster {node.state.get('cluster_id')}, and the "
                f"brokers are of {seen.cluster_id}",
                "name the nodes of this cluster with --http",
                node.node_id,
            )


def _directories(seen: ClusterSnapshot) -> Iterator[Problem]:
    reasons: dict[tuple[int, str], str] = {
        (broker, path): "the broker does not serve what lies there"
        for broker, told in seen.told.items()
        for path in told.failed_directories
    }
    for node in seen.nodes:
        for each in [] if node.state is None else node.state.get("directories", ()):
            if each["offline"] is not None and node.node_id is not None:
                reasons[node.node_id, each["path"]] = each["offline"]
    for (broker, path), reason in sorted(reasons.items()):
        yield Problem(
            Severity.SERIOUS,
            "directory-offline",
            f"log directory {path} of broker {broker} is offline: {reason}",
            f"mend the disk, then start node {broker} again",
            broker,
        )


def _room(seen: ClusterSnapshot) -> Iterator[Problem]:
    for broker, told in sorted(seen.told.items()):
        if told.usable_bytes is not None and told.usable_bytes < LITTLE_ROOM_BYTES:
            yield Problem(
                Severity.NOTICE,
                "disk-nearly-full",
                f"broker {broker} has {told.usable_bytes / 1e6:.0f} MB left on its disks",
                "make room, or let topics keep less (`tidelog configs set --topic …`)",
                broker,
            )


def _clocks(seen: ClusterSnapshot) -> Iterator[Problem]:
    answered = [each for each in seen.nodes if each.silent is None]
    if len(answered) < 2:
        return
    middle = sorted(each.clock_ahead_ms for each in answered)[(len(answered) - 1) // 2]
    for each in answered:
        off_ms = each.clock_ahead_ms - middle
        if abs(off_ms) - each.clock_unsure_ms > CLOCK_FAR_OFF_MS:
            yield Problem(
                Severity.NOTICE,
                "clock-off",
                f"the clock of {_node_named(each)} is {abs(off_ms) / 1000:.1f} s "
                f"{'ahead of' if off_ms > 0 else 'behind'} the others",
                "have its machine keep time (NTP): retention and timestamps go by it",
                each.node_id,
            )


# -- words ---------------------------------------------------------------------------------------


def _is_down(seen: ClusterSnapshot, node_id: int) -> bool:
    process = seen.processes.get(node_id)
    return process is not None and process.state != "running"


def lives(seen: ClusterSnapshot, broker: int) -> bool:
    """Whether clients can be served by a broker, as far as anybody tells."""
    told = seen.told.get(broker)
    if _is_down(seen, broker) or (told is not None and told.silent is not None):
        return False
    return not seen.brokers or any(
        each.node_id == broker and not each.fenced for each in seen.brokers
    )


def _state_of(seen: ClusterSnapshot, node_id: int) -> str:
    process = seen.processes.get(node_id)
    if process is None:
        return "the controller does not hear from it, or it has yet to catch up"
    if process.state == "paused":
        return "its process is paused"
    if process.state == "stopped":
        return f"its process does not run ({process.ending or 'it was never started'})"
    return "its process runs; it has yet to be heard and to catch up"


def _start(seen: ClusterSnapshot, node_ids: Sequence[int], which: str = "") -> str:
    """What brings these nodes back, by the means of the cluster at hand."""
    down = [each for each in node_ids if _is_down(seen, each)]
    if down:
        verbs = {each: seen.processes[each].state == "paused" for each in down}
        commands = [
            f"`tidelog node {'resume' if paused else 'start'} {each}`"
            for each, paused in verbs.items()
        ]
        return (" or " if which else ", ").join(commands)
    fenced = [each for each in node_ids if not lives(seen, each)]
    if fenced:
        names = ", ".join(map(str, fenced))
        nodes = f"node {names}" if len(fenced) == 1 else f"{which}nodes {names}"
        return f"start {nodes}, or read the log there"
    if not node_ids:
        return "wait for its replicas"
    return f"see whether {_brokers_named(node_ids)} can keep up with the leaders"


def _more(seen: ClusterSnapshot, name: TopicPartition) -> str:
    """The command that tells more of a partition: of events only where somebody keeps them."""
    has_events = bool(seen.nodes or seen.processes)
    return f"`tidelog why {name}`" if has_events else f"`tidelog topics describe {name.topic}`"


def _brokers_named(node_ids: Sequence[int]) -> str:
    return f"broker{'' if len(node_ids) == 1 else 's'} {', '.join(map(str, node_ids))}"


def _node_named(node: NodeTold) -> str:
    return f"the node at {node.listener}" if node.node_id is None else f"node {node.node_id}"


def _partitions(names: Sequence[TopicPartition]) -> str:
    """`orders-0 has`, `5 partitions (orders-0, orders-1, orders-2, …) have`."""
    if len(names) == 1:
        return f"{names[0]} has"
    shown = ", ".join(map(str, names[:_NAMED])) + (", …" if len(names) > _NAMED else "")
    return f"{len(names)} partitions ({shown}) have"


def all_is_well(seen: ClusterSnapshot) -> str:
    """What there is, when nothing is wrong with it."""
    parts = [_counted(len(seen.brokers), "broker"), _counted(len(seen.partitions), "partition")]
    if seen.quorum is not None:
        parts.append(f"quorum of {len(seen.quorum.voters)}")
    return f"all is well: {', '.join(parts)}"


def as_object(problem: Problem) -> Mapping[str, object]:
    """A problem for programs."""
    return {
        "severity": problem.severity.name.lower(),
        "kind": problem.kind,
        "what": problem.what,
        "remedy": problem.remedy,
        "node": problem.node,
        "partitions": [str(name) for name in problem.partitions],
    }


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
