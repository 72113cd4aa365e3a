"""One step of a partition in one or a few sentences, in the words of the protocol.

Invariant  A sentence says what arrived or happened, then what came of it; causes are those that
           events carry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, assert_never

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER
from tidelog.observe.cluster_events import (
    BrokerFenced,
    BrokerRegistered,
    BrokerShuttingDown,
    BrokerUnfenced,
    ControllerActivated,
    ControllerDeactivated,
    InSyncReplicasDecided,
    LeaderElected,
)
from tidelog.observe.events import (
    Event,
    LogRecovered,
    LogTruncated,
    NodeStopped,
    PartitionBecameLeader,
)
from tidelog.observe.replication_events import (
    FetcherStuck,
    FollowerCaughtUp,
    InSyncReplicasChanged,
    InSyncReplicasProposed,
    PartitionBecameFollower,
)
from tidelog.records.batch import whole_batches
from tidelog.simulator.faults.fault_text import fault_text
from tidelog.simulator.faults.faults import (
    Cut,
    Depose,
    Fault,
    Mend,
    MendAll,
    Pause,
    Reset,
    Resume,
    Slow,
)
from tidelog.simulator.story.picture import LEADER, PartitionPicture, ReplicaPicture
from tidelog.simulator.story.traffic import (
    CarriedMessage,
    FetchAnswered,
    FetchAsked,
    IsrAnswered,
    IsrAsked,
    OtherMessage,
    ProduceAnswered,
    ProduceAsked,
)

ACKS: Final = {-1: "all", 0: "0", 1: "1"}


def error_name(code: int) -> str:
    """As Kafka's documents write it."""
    return ErrorCode(code).name.upper()


def ids(broker_ids: Iterable[int]) -> str:
    return ", ".join(map(str, broker_ids)) or "nobody"


def _them(start: int, end: int) -> str:
    return "it" if end == start + 1 else "them"


def offsets(start: int, end: int) -> str:
    """A stretch of offsets; `end` is exclusive."""
    return f"offset {start}" if end == start + 1 else f"offsets {start} to {end - 1}"


def _stored(start: int, end: int) -> str:
    return offsets(start, end) if end > start else "an empty log"


# -- messages ----------------------------------------------------------------------------------


def message_sentence(
    message: CarriedMessage,
    before: PartitionPicture,
    after: PartitionPicture,
    labels: Callable[[bytes], str],
) -> str:
    """What arrived, and what the receiver did with it."""
    content = message.content
    match content:
        case FetchAsked():
            return _fetch_asked(message, content, after)
        case FetchAnswered():
            return _fetch_answered(message, content, before, after, labels)
        case ProduceAsked():
            return _produce_asked(message, content, before, after, labels)
        case ProduceAnswered():
            return _produce_answered(message, content)
        case IsrAsked(_, in_sync):
            asker, controller = message.sender, message.receiver
            return f"{asker} asks controller {controller} for in-sync replicas {ids(in_sync)}. "
        case IsrAnswered(error, in_sync):
            said = f"refuses: {error_name(error)}" if error else f"agrees to {ids(in_sync)}"
            return f"The controller's answer reaches {message.receiver}: it {said}. "
        case OtherMessage():
            return ""
        case _:
            assert_never(content)


def _fetch_asked(message: CarriedMessage, asked: FetchAsked, after: PartitionPicture) -> str:
    asker, leader, wanted = message.sender, message.receiver, asked.wanted
    if asked.replica_id < 0:
        return f"A consumer asks {leader} for offset {wanted.fetch_offset}."
    replica = after.replicas[int(leader)]
    if asked.replica_id not in dict(replica.known) and replica.role == LEADER:
        return _unsound_fetch(asker, leader, asked, replica)
    said = f"{asker} asks {leader} for offset {wanted.fetch_offset}"
    if wanted.fetch_offset == 0:
        return f"{said}: it holds nothing yet. "
    return f"{said}: so it holds everything below {wanted.fetch_offset}. "


def _unsound_fetch(asker: str, leader: str, asked: FetchAsked, replica: ReplicaPicture) -> str:
    wanted = asked.wanted
    if wanted.last_fetched_epoch < 0:
        said = f"{asker} asks {leader} for offset {wanted.fetch_offset}"
        return f"{said}, and the log of {leader} ends at {replica.end}. "
    said = (
        f"{asker} asks {leader} for offset {wanted.fetch_offset} in leader epoch "
        f"{wanted.current_leader_epoch}, and its last record is of epoch "
        f"{wanted.last_fetched_epoch}. "
    )
    if wanted.current_leader_epoch != replica.epoch:
        return f"{said}{leader} is in epoch {replica.epoch}. "
    ends = [run.end for run in replica.runs if run.epoch <= wanted.last_fetched_epoch]
    end = ends[-1] if ends else replica.start
    if wanted.fetch_offset > end:
        return (
            f"{said}In the log of {leader} epoch {wanted.last_fetched_epoch} ends at {end}: "
            "the two logs diverge. "
        )
    return said


def _fetch_answered(
    message: CarriedMessage,
    answer: FetchAnswered,
    before: PartitionPicture,
    after: PartitionPicture,
    labels: Callable[[bytes], str],
) -> str:
    leader, receiver, given = message.sender, message.receiver, answer.given
    if answer.error:
        what = "the consumer's fetch"
        if receiver.isdigit():
            what = f"the fetch of {receiver}"
        elif answer.asked is not None:
            what += f" at offset {answer.asked.wanted.fetch_offset}"
        return f"{leader} refuses {what}: {error_name(answer.error)}. {_why_refused(answer.error)}"
    if not receiver.isdigit():
        return _consumer_read(leader, answer, labels)
    if given.diverging_epoch is not None:
        return f"{leader} answers {receiver} with the point where their logs part. "
    was, is_now = before.replicas[int(receiver)], after.replicas[int(receiver)]
    carries = f"high watermark {given.high_watermark}"
    learns = ""
    if is_now.high_watermark is not None and is_now.high_watermark != was.high_watermark:
        learns = f": now {receiver} knows that it is {is_now.high_watermark}"
    if is_now.end > was.end:
        epoch = is_now.runs[-1].epoch
        new, them = offsets(was.end, is_now.end), _them(was.end, is_now.end)
        return (
            f"{leader} sends {new} of epoch {epoch} to {receiver}, which appends {them}. "
            f"The answer carries {carries}{learns}. "
        )
    if learns:
        return f"The next answer of {leader} carries {carries}{learns}. "
    return f"{leader} answers {receiver}, with {carries}. "


def _why_refused(error: int) -> str:
    return {
        ErrorCode.offset_not_available: (
            "The new leader does not know yet how far its predecessor had committed, and asks for "
            "patience instead of showing too little. "
        ),
        ErrorCode.fenced_leader_epoch: "The leader epoch of the question is over. ",
        ErrorCode.not_leader_or_follower: "It does not lead. ",
        ErrorCode.unknown_leader_epoch: "It has not heard of that leader epoch yet. ",
    }.get(ErrorCode(error), "")


def _consumer_read(leader: str, answer: FetchAnswered, labels: Callable[[bytes], str]) -> str:
    given = answer.given
    at = "" if answer.asked is None else f" from offset {answer.asked.wanted.fetch_offset} on"
    high_watermark = f"the high watermark is {given.high_watermark}"
    if not isinstance(given.records, memoryview | bytes) or not given.records:
        return f"A consumer asks {leader}{at} and gets nothing: {high_watermark}. "
    read = ", ".join(labels(bytes(batch)) for _, batch in whole_batches(memoryview(given.records)))
    return f"A consumer asks {leader}{at} and reads {read}: {high_watermark}. "


def _produce_asked(
    message: CarriedMessage,
    asked: ProduceAsked,
    before: PartitionPicture,
    after: PartitionPicture,
    labels: Callable[[bytes], str],
) -> str:
    broker = message.receiver
    was, is_now = before.replicas[int(broker)], after.replicas[int(broker)]
    said = (
        f"A producer asks {broker} to append {labels(asked.batch)} with acks={ACKS[asked.acks]}. "
    )
    if is_now.end <= was.end:
        return f"{said}Nothing is appended. "
    appended = f"{broker} appends {offsets(was.end, is_now.end)} in epoch {is_now.epoch}"
    if asked.acks == -1 and is_now.parked:
        until = f"until the high watermark is {is_now.end}"
        return f"{said}{appended}; the acknowledgement waits {until}. "
    if asked.acks == 1:
        return f"{said}{appended} and acknowledges at once, before any follower has it. "
    return f"{said}{appended}. "


def _produce_answered(message: CarriedMessage, answer: ProduceAnswered) -> str:
    given = answer.given
    if given.error:
        why = {
            ErrorCode.not_enough_replicas: (
                "Fewer replicas are in sync than min.insync.replicas: nothing was written. "
            ),
            ErrorCode.not_leader_or_follower: f"{message.sender} does not lead. ",
        }.get(ErrorCode(given.error), "")
        return f"{message.sender} refuses the write: {error_name(given.error)}. {why}"
    return (
        f"The producer hears from {message.sender}: acknowledged from offset {given.base_offset} "
        f"on (acks={ACKS[answer.asked.acks]}). "
    )


def message_label(message: CarriedMessage) -> tuple[str, str]:
    """What kind of message it is, and a few words to write on it."""
    content = message.content
    match content:
        case FetchAsked(_, wanted):
            return "fetch", f"fetch {wanted.fetch_offset}"
        case FetchAnswered(_, given, error):
            if error:
                return "refusal", error_name(error)
            if given.diverging_epoch is not None:
                epoch, end = given.diverging_epoch
                return "diverging", f"epoch {epoch} ends at {end}"
            size = len(given.records) if isinstance(given.records, memoryview | bytes) else 0
            return ("records" if size else "answer"), (
                f"{'records, ' if size else ''}HW {given.high_watermark}"
            )
        case ProduceAsked(acks):
            return "produce", f"produce, acks={ACKS[acks]}"
        case ProduceAnswered(_, given):
            if given.error:
                return "refusal", error_name(given.error)
            return "acknowledgement", f"acknowledged: {given.base_offset}"
        case IsrAsked(_, in_sync):
            return "isr", f"ISR {ids(in_sync)}?"
        case IsrAnswered(error, in_sync):
            return "isr", error_name(error) if error else f"ISR {ids(in_sync)}"
        case OtherMessage(about):
            return ("fetch" if about == "fetch" else "metadata"), about
        case _:
            assert_never(content)


# -- what changed ------------------------------------------------------------------------------


def high_watermark_sentence(before: PartitionPicture, after: PartitionPicture) -> str:
    """Of a leader that committed something."""
    for broker_id, replica in after.replicas.items():
        was = before.replicas.get(broker_id)
        if (
            replica.role != LEADER
            or was is None
            or was.role != LEADER
            or was.epoch != replica.epoch
        ):
            continue
        offset, earlier = replica.high_watermark, was.high_watermark
        if offset is not None and earlier is not None and offset > earlier:
            return (
                f"Every in-sync replica ({ids(replica.in_sync)}) holds everything below {offset}: "
                f"the high watermark rises from {earlier} to {offset}. "
            )
    return ""


def loss_sentence(before: PartitionPicture, after: PartitionPicture) -> str:
    """Of acknowledged records that the present leader does not have."""
    known = {(write.label, write.offset) for write in before.writes if write.lost}
    lost = [
        f"{write.label} (acknowledged at offset {write.offset} with acks={ACKS[write.acks]})"
        for write in after.writes
        if write.lost and (write.label, write.offset) not in known
    ]
    if not lost:
        return ""
    return f"Lost: {'; '.join(lost)} is not in the log of leader {after.leader}. "


# -- events ------------------------------------------------------------------------------------


def events_sentence(speaker: str, events: Sequence[Event]) -> str:
    """What a node announced in one step; a cause that several share is told once."""
    told = ""
    for event in events:
        words = _EVENTS.get(type(event))
        if words is not None:
            said = words(speaker, event)
            if event.cause.removeprefix("it ") in told:
                said = said.removesuffix(f": {event.cause}")
            told += f"{said}. "
    return told


def _elected(_speaker: str, event: LeaderElected) -> str:
    if event.leader == NO_LEADER:
        return f"The controller finds no leader for {event.partition}: {event.cause}"
    unclean = f". The election is unclean and may lose {event.may_lose}" if event.unclean else ""
    return (
        f"The controller makes {event.leader} the leader of {event.partition} in epoch "
        f"{event.leader_epoch}: {event.cause}{unclean}"
    )


def _decided(_speaker: str, event: InSyncReplicasDecided) -> str:
    eligible = f"; eligible without being in sync: {ids(event.eligible)}" if event.eligible else ""
    return (
        f"The controller notes the in-sync replicas {ids(event.in_sync)}, before "
        f"{ids(event.in_sync_before)}{eligible}: {event.cause}"
    )


def _became_follower(speaker: str, event: PartitionBecameFollower) -> str:
    if event.leader == NO_LEADER:
        return f"{speaker} learns that nobody leads in epoch {event.leader_epoch}"
    return (
        f"{speaker} learns that {event.leader} leads in epoch {event.leader_epoch}, and follows; "
        f"its own log ends at {event.end_offset}"
    )


_EVENTS: Final[dict[type[Any], Callable[[str, Any], str]]] = {
    LeaderElected: _elected,
    InSyncReplicasDecided: _decided,
    PartitionBecameFollower: _became_follower,
    PartitionBecameLeader: lambda who, event: (
        f"{who} learns that it leads: its epoch {event.leader_epoch} begins at offset "
        f"{event.start_offset}"
    ),
    InSyncReplicasProposed: lambda who, event: (
        f"{who} wants {ids(event.proposed)} as in-sync replicas instead of "
        f"{ids(event.in_sync)}: {event.cause}"
    ),
    InSyncReplicasChanged: lambda who, event: (
        f"{who} goes by the in-sync replicas {ids(event.in_sync)} from now on"
    ),
    LogTruncated: lambda who, event: (
        f"{who} truncates its log from {event.end_offset_before} to {event.end_offset}: "
        f"{event.cause}"
    ),
    LogRecovered: lambda who, event: (
        f"{who} finds {_stored(event.start_offset, event.end_offset)} on its disk: {event.cause}"
    ),
    FollowerCaughtUp: lambda who, event: f"{who} has caught up with {event.leader}",
    FetcherStuck: lambda who, event: f"{who} cannot follow {event.leader} for now: {event.cause}",
    ControllerActivated: lambda _, event: (
        f"Node {event.node_id} is the active controller in epoch {event.epoch}: {event.cause}"
    ),
    ControllerDeactivated: lambda _, event: (
        f"Node {event.node_id} is no longer the active controller: {event.cause}"
    ),
    BrokerFenced: lambda _, event: f"The controller fences broker {event.broker_id}: {event.cause}",
    BrokerUnfenced: lambda _, event: (
        f"The controller unfences broker {event.broker_id}: {event.cause}"
    ),
    BrokerRegistered: lambda _, event: (
        f"Broker {event.broker_id} registers with broker epoch {event.broker_epoch}: {event.cause}"
    ),
    BrokerShuttingDown: lambda _, event: (
        f"Broker {event.broker_id} asks to shut down, and its leaderships move first"
    ),
    NodeStopped: lambda who, event: (
        f"{who} stops {'cleanly' if event.clean else 'without cleaning up'}: {event.cause}"
    ),
}

TURNING_POINTS: Final = (
    LeaderElected,
    InSyncReplicasDecided,
    LogTruncated,
    PartitionBecameLeader,
    ControllerActivated,
)
"""What a reader does not want to miss."""


# -- faults ------------------------------------------------------------------------------------


def fault_sentence(fault: Fault) -> str:
    """What somebody did to the world."""
    match fault:
        case Cut(pairs=pairs):
            return f"The network is cut: nothing gets through from {_paths(pairs)}. "
        case Mend(pairs=pairs):
            return f"The network is mended from {_paths(pairs)}. "
        case MendAll():
            return "The network is mended everywhere. "
        case Slow(pairs=pairs, latency_ms=latency_ms):
            return f"The network is slow from {_paths(pairs)}: {latency_ms} ms. "
        case Reset(pairs=pairs):
            both = " and ".join(f"between {one} and {other}" for one, other in pairs)
            return f"Every connection {both} breaks. "
        case Depose(how=how):
            what = {"cut": "cut off from the others", "reset": "hung up on by everybody"}
            return f"The active controller is {what.get(how, 'paused')}. "
        case Pause(node=node):
            return f"{node} is paused (SIGSTOP): it neither hears nor says anything. "
        case Resume(node=node):
            return f"{node} goes on (SIGCONT). "
        case _:
            return f"Fault: {fault_text(fault)}. "


def _paths(pairs: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{one} to {other}" for one, other in pairs)
