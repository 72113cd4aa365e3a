"""How far a batch has come into a table: the moments at which something can be killed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidelog.pipelines.run.checkpoints import Checkpoint
from tidelog.pipelines.run.state import State
from tidelog.pipelines.tables.decisions import Decisions

STEPS: Final = ("planned", "decided", "carried out", "checkpointed")


def checkpoint_of(state: State, flow: str) -> Checkpoint:
    return Checkpoint(state.checkpoints(flow), flow)


def reached(state: State, flows: Iterable[str]) -> dict[str, int]:
    """The last batch that has made each step, for example `orders decided`; -1 before the first."""
    found = {}
    for flow in flows:
        checkpoint, decisions = checkpoint_of(state, flow), state.decisions(flow)
        last, done = Decisions(decisions).last(), decisions / "carried_out"
        found[f"{flow} planned"] = max(checkpoint.batches(), default=-1)
        found[f"{flow} decided"] = -1 if last is None else last.batch
        found[f"{flow} carried out"] = int(done.read_text()) if done.exists() else -1
        found[f"{flow} checkpointed"] = max(checkpoint.committed(), default=-1)
    return found
