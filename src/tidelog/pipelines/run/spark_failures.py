"""What Spark's exceptions say: why in plain words, and whether trying again can help.

Invariant  Only what is known to stay wrong is called permanent: our own refusals, and errors in the
           text of a query or in the data it meets, which Spark marks by their SQLSTATE. A start
           that partitions have outrun is none: the next run settles it again.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tidelog.client.errors import Unreachable
from tidelog.pipelines.description.mistakes import ClusterAway, PipelineTrouble
from tidelog.pipelines.run.data_loss import REMEDY
from tidelog.spark.errors import (
    DataLoss,
    Fenced,
    LostTransaction,
    NoBroker,
    NoBrokerToWrite,
    OptionError,
)

_OURS: Final = re.compile(r"tidelog\.[\w.]+\.(\w+): (.+)")
_PERMANENT: Final = {
    each.__name__ for each in (PipelineTrouble, DataLoss, Fenced, LostTransaction, OptionError)
}
"""`OtherPartitions` is none of them: partitions came or went after a start was settled."""
_AWAY: Final = {each.__name__ for each in (Unreachable, NoBroker, NoBrokerToWrite, ClusterAway)}

_SQL_PERMANENT: Final = re.compile(r"SQLSTATE: (?:22|42|P0)")
"""The data are wrong, the query is wrong, somebody called `raise_error`."""

_FLOW: Final = re.compile(r"^Identifier: (\w+) \[", re.MULTILINE)
_UNRESOLVED: Final = re.compile(r"Failed to resolve flow: '?(?:\w+\.)*(\w+)'?\.\s+Error: (.+)")


class Failure(NamedTuple):
    """Why a run failed."""

    why: str
    passes: bool
    """Whether the same run may succeed later."""
    away: bool = False
    """Whether it failed because no broker answered."""


def failure_in(text: str) -> Failure:
    """Our own words if they are in Spark's message, else its first line."""
    if ours := _OURS.findall(text):
        kind, why = ours[-1]
        if kind == DataLoss.__name__:
            why = _loss(text, why)
        return Failure(why, kind not in _PERMANENT, kind in _AWAY)
    first = text.strip().partition("\n")[0]
    return Failure(first, _SQL_PERMANENT.search(text) is None)


def unresolved_flow(event: str) -> Failure | None:
    """What an event says about a flow that Spark cannot even plan."""
    found = _UNRESOLVED.match(event)
    if found is None:
        return None
    name, _ = found.groups()
    failure = failure_in(event[found.start(2) :])
    return failure._replace(why=f"{name}: {failure.why}")


def _loss(text: str, why: str) -> str:
    flow = _FLOW.search(text)
    table = "" if flow is None else f"{flow[1].removesuffix('_quarantine')}: "
    return f"{table}{why.removesuffix(DataLoss.FIX)}. {REMEDY}"
