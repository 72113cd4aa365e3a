"""What happened, in a line."""

from __future__ import annotations

from tests.quorum.exploration.happenings import (
    Answered,
    Asked,
    FetchAnswered,
    FetchAsked,
    Happening,
)


def told(happening: Happening) -> str:
    match happening:
        case Asked(sender, sent):
            return f"hears from {sender}: {_in_short(sent.request)}"
        case Answered(sent, answer):
            asked = type(sent.request).__name__
            return f"is answered by {sent.to.voter_id} to {asked}: {_in_short(answer)}"
        case FetchAsked(sender, asked):
            return (
                f"is asked by {sender} from offset {asked.offset} on in epoch {asked.leader_epoch}"
            )
        case FetchAnswered(_, asked, answer):
            size = len(answer.records or b"")
            told = answer.error, answer.leader_id, answer.leader_epoch, answer.diverging
            return f"fetched {size} bytes at {asked.offset}: {told}, mark {answer.high_watermark}"
        case _:
            return str(happening)


def _in_short(message: tuple[object, ...]) -> str:
    numbers = [each for each in message if isinstance(each, int)]
    return f"{type(message).__name__} {numbers}"
