"""What a Spark job is told when a topic cannot be read or written; always with the fix."""

from __future__ import annotations

from typing import Final

from tidelog.client.errors import Unreachable
from tidelog.model.errors import ConfigError, TidelogError


class OptionError(ConfigError):
    """An option is unknown, contradicts another one, or has a value that cannot work."""


class OtherPartitions(OptionError):
    """Offsets are given for other partitions than the query reads; some came or went since."""


class SourceError(TidelogError):
    """The cluster does not give what the query asks for."""


class NoBroker(SourceError, Unreachable):
    """Nobody answers, or nobody does any more."""


class DataLoss(SourceError):
    """Records the query had to read are gone: aged out, truncated, or their topic was deleted."""

    FIX: Final = (
        ". To go on with what is left, set failOnDataLoss to false; "
        "to stop losing records, raise retention or read more often"
    )

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}{self.FIX}")


class SinkError(TidelogError):
    """A record or a transaction could not be written."""


class NoBrokerToWrite(SinkError, Unreachable):
    """Nobody answers whoever wants to write."""


class Fenced(SinkError):
    """Another run of the same query has taken over; this one must not write any more."""


class LostTransaction(SinkError):
    """Transactions of a decided batch were aborted before they could be committed."""
