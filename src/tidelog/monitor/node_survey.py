"""Who answers over HTTP, of which cluster, and whether anybody leads it; all are asked at once.

Invariant  Nodes of two clusters are never looked at as one: whoever names such is refused, with the
           ids of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from tidelog.http.questions import NodeListener, NodeSilent
from tidelog.model.errors import TidelogError
from tidelog.model.ids import NO_LEADER

PATIENCE_S: Final = 3.0
_THREADS: Final = 32


class MixedClusters(TidelogError):
    """Nodes, or brokers and nodes, that were named together and are not of one cluster."""


class NodeSurvey(NamedTuple):
    """What nodes say of themselves."""

    cluster_id: str | None
    """None when nobody answers."""
    answering: tuple[NodeListener, ...]
    silent: Mapping[NodeListener, str]
    """Why others do not."""
    is_led: bool
    """Whether one of those who answer knows an active controller."""


def survey(listeners: Sequence[NodeListener]) -> NodeSurvey:
    """Ask all of them; `MixedClusters` when they are of several."""
    with ThreadPoolExecutor(max(1, min(_THREADS, len(listeners)))) as threads:
        answers = dict(zip(listeners, threads.map(_asked, listeners), strict=True))
    silent = {each: str(told) for each, told in answers.items() if isinstance(told, NodeSilent)}
    states = {each: told for each, told in answers.items() if isinstance(told, dict)}
    ids = {each: str(state.get("cluster_id")) for each, state in states.items()}
    refuse_mixture({str(each): cluster_id for each, cluster_id in ids.items()})
    return NodeSurvey(
        next(iter(ids.values()), None),
        tuple(states),
        silent,
        any(_leader(state) != NO_LEADER for state in states.values()),
    )


def refuse_mixture(cluster_ids: Mapping[str, str]) -> None:
    """Raise `MixedClusters` unless all of these are of the same cluster."""
    first = next(iter(cluster_ids.items()), None)
    for name, cluster_id in cluster_ids.items():
        if first is not None and cluster_id != first[1]:
            raise MixedClusters(
                f"{first[0]} is of cluster {first[1]}, and {name} of {cluster_id}: name those of "
                "one cluster"
            )


def _asked(listener: NodeListener) -> dict[str, Any] | NodeSilent:
    try:
        state = listener.ask_json("/state?partitions=none", PATIENCE_S)
    except NodeSilent as silent:
        return silent
    if not isinstance(state.get("cluster_id"), str):
        return NodeSilent(f"{listener} does not say of which cluster it is: is it a node?")
    return state


def _leader(state: Mapping[str, Any]) -> object:
    quorum = state.get("quorum")
    return quorum.get("leader", NO_LEADER) if isinstance(quorum, dict) else NO_LEADER
