"""What can happen to one voter; each is a value, so that what came of it can be remembered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from tidelog.quorum.fetching import MetadataFetch, MetadataFetchResponse
from tidelog.quorum.messages import OutboundRequest, QuorumResponse
from tidelog.quorum.voters import VoterChange


@dataclass(frozen=True, slots=True)
class Restarted:
    """The process died and came back; with the power, bytes that were not synced are gone too."""

    power_lost: bool


@dataclass(frozen=True, slots=True)
class TimePassed:
    """By this voter's own clock, and nothing else happened meanwhile."""

    ms: int


@dataclass(frozen=True, slots=True)
class Asked:
    """A request of another voter arrived."""

    sender: int
    sent: OutboundRequest


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to an own request arrived."""

    sent: OutboundRequest
    answer: QuorumResponse


@dataclass(frozen=True, slots=True)
class FetchAsked:
    """Another voter's fetch arrived."""

    sender: int
    asked: MetadataFetch


@dataclass(frozen=True, slots=True)
class FetchAnswered:
    """The answer to the own fetch arrived."""

    sender: int
    asked: MetadataFetch
    answer: MetadataFetchResponse[bytes]


@dataclass(frozen=True, slots=True)
class AllLost:
    """Whatever this voter waits for was given up for lost, requests and fetch."""


@dataclass(frozen=True, slots=True)
class Synced:
    """The sync of the log that was under way is done."""


@dataclass(frozen=True, slots=True)
class HungUp:
    """The connection to the leader was closed."""


@dataclass(frozen=True, slots=True)
class Written:
    """The controller on this voter, if it is the active one, decided something."""

    record: str


@dataclass(frozen=True, slots=True)
class VotersChanged:
    """This voter, if it leads, was asked to change who votes."""

    change: VoterChange


Happening: TypeAlias = (
    Restarted
    | TimePassed
    | Asked
    | Answered
    | FetchAsked
    | FetchAnswered
    | AllLost
    | Synced
    | HungUp
    | Written
    | VotersChanged
)


class Message(NamedTuple):
    """Something that will happen to another voter, once it is delivered."""

    to: int
    happening: Happening
