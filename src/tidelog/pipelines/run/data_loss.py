"""Records that are gone before a table could take them.

Invariant  None is passed over in silence: a run is refused before Spark starts, or it says which
           offsets it goes on without. What is lost while Spark reads, the source refuses itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from tidelog.model.ids import TopicPartition
from tidelog.pipelines.description.mistakes import PipelineTrouble, Tell
from tidelog.pipelines.description.spec import OnDataLoss, Pipeline
from tidelog.pipelines.project.source_options import ends_now, pinned_end, pinned_start
from tidelog.pipelines.run.checkpoints import Checkpoint
from tidelog.spark.source.offsets import Positions

REMEDY: Final = (
    "`on_data_loss: go_on` takes what is left, `--full-refresh` builds the table anew from it; "
    "to lose nothing, raise retention or run more often"
)


def check_losses(pipeline: Pipeline, tell: Tell) -> None:
    """Refuse to run a table whose next records are gone, or say that it goes on without them."""
    for name in (each.name for each in pipeline.filled):
        found = "; ".join(dict.fromkeys(_losses(pipeline, name)))
        if not found:
            continue
        if pipeline.source(name).on_data_loss is OnDataLoss.FAIL:
            raise PipelineTrouble(f"{name}: {found}. {REMEDY}")
        tell(f"{name}: {found}; going on with what is left")


def gone(position: Positions, earliest: Positions, latest: Positions) -> Iterator[str]:
    """What a reader that stands there has lost, in words."""
    for each, at in sorted(position.items()):
        if each not in latest:
            yield f"{each} is no longer there, it was read up to offset {at.offset}"
        elif at.offset < earliest[each].offset:
            last = earliest[each].offset - 1
            yield f"offsets {at.offset} to {last} of {each} were gone before they were read"
        elif at.offset > latest[each].offset:
            yield f"{each} ends at offset {latest[each].offset} now, it was read up to {at.offset}"
    for each in sorted(set(earliest) - set(position)):
        if earliest[each].offset > 0:
            yield f"offsets 0 to {earliest[each].offset - 1} of {each} were gone before it was seen"


def standing(pipeline: Pipeline, name: str) -> list[Positions]:
    """Where each flow of a table has come to, as far as it is known to have begun."""
    state = pipeline.state
    start = pinned_start(state, name)
    flows = (Checkpoint(state.checkpoints(each), each) for each in pipeline.tables[name].flows)
    return [each for flow in flows if (each := {**start, **flow.position()})]


def due(position: Positions, ends: Positions) -> list[TopicPartition]:
    """The partitions that are still to be read up to their ends."""
    return [each for each, end in ends.items() if position[each].offset < end.offset]


def _losses(pipeline: Pipeline, name: str) -> Iterator[str]:
    if found := standing(pipeline, name):
        earliest, latest = ends_now(replace(pipeline, backfill=()), name)
        for position in found:
            if pipeline.backfill:  # partitions that have come to their end lose nothing
                wanted = due(position, pinned_end(pipeline.state, name))
                yield from gone(*(only(each, wanted) for each in (position, earliest, latest)))
            else:
                yield from gone(position, earliest, latest)


def only(positions: Positions, partitions: Collection[TopicPartition]) -> Positions:
    """The positions of these partitions."""
    return {each: at for each, at in positions.items() if each in partitions}
