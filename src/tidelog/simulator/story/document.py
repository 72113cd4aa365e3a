"""Recordings as plain data, for whoever draws them.

Invariant  Equal pictures are kept once: a step names them by number.
Invariant  A document has at most so many steps; of those that are left out, the ones that matter
           are still told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tidelog import __version__
from tidelog.simulator.run.plan import Plan
from tidelog.simulator.story.catalogue import Story
from tidelog.simulator.story.recorder import Recorder, Step
from tidelog.simulator.story.telling import Recording

MOST_STEPS: Final = 3_000
MOST_TOLD: Final = 300


def story_document(story: Story) -> dict[str, Any]:
    """A story of the catalogue, run now."""
    acts = [
        act_document(recorded.recorder, title=act.title, steps=told_steps(recorded, act.begins))
        for act in story.acts
        for recorded in (act.record(),)
    ]
    return _document(story.title, story.about, f"tidelog story {story.name}", acts)


def scenario_document(name: str, command: str, recording: Recording) -> dict[str, Any]:
    """Any transcript."""
    about = recording.recorder.captions[0] if recording.recorder.captions else ""
    steps = told_steps(recording, 0)
    return _document(name, about, command, [act_document(recording.recorder, steps=steps)])


def run_document(plan: Plan, command: str, recording: Recording) -> dict[str, Any]:
    """A seed or a plan: its end if a rule was broken there, else its beginning."""
    recorder, violation = recording
    steps = recorder.steps
    if violation is None:
        about = f"{len(plan.faults)} faults, and every rule was kept."
        kept, left_out = steps[:MOST_STEPS], steps[MOST_STEPS:]
    else:
        about = f"{violation.rule} is broken: {violation.why}"
        kept, left_out = steps[-MOST_STEPS:], steps[:-MOST_STEPS]
    act = act_document(recorder, steps=kept, left_out=left_out)
    return _document(f"Seed {plan.seed}", about, command, [act])


def told_steps(recording: Recording, begins: int) -> list[Step]:
    """The steps of a transcript without its preparation: from a caption on, or the first write."""
    steps = recording.recorder.steps
    first = next((at for at, step in enumerate(steps) if _is_beginning(step, begins)), 0)
    if not first:
        return steps
    opening = steps[first - 1]._replace(
        text="This is how it begins.", message=None, chapter=steps[first].chapter, matters=False
    )
    return [opening, *steps[first:]]


def _is_beginning(step: Step, begins: int) -> bool:
    if begins:
        return step.chapter >= begins
    return step.message is not None and step.message.kind == "produce"


def act_document(
    recorder: Recorder,
    *,
    steps: Sequence[Step],
    title: str = "",
    left_out: Sequence[Step] = (),
) -> dict[str, Any]:
    """One recording."""
    replicas: dict[Any, int] = {}
    clusters: dict[Any, int] = {}
    entries = []
    for step in steps:
        picture = step.picture
        numbers = [
            replicas.setdefault(replica, len(replicas)) for replica in picture.replicas.values()
        ]
        cluster = picture._replace(replicas=())  # type: ignore[arg-type]
        entries.append(
            {
                "at": step.at_us,
                "text": step.text,
                "chapter": step.chapter,
                "matters": step.matters,
                "message": list(step.message) if step.message is not None else None,
                "replicas": numbers,
                "cluster": clusters.setdefault(cluster, len(clusters)),
            }
        )
    matters = [step for step in left_out if step.matters]
    return {
        "title": title,
        "partition": str(recorder.partition),
        "brokers": list(steps[0].picture.replicas) if steps else [],
        "captions": recorder.captions,
        "values": {
            f"{epoch}:{offset}": value
            for (epoch, offset), value in recorder.values.items()
            if value
        },
        "idle": recorder.idle,
        "replicas": [replica.as_json() for replica in replicas],
        "clusters": [cluster.as_json() for cluster in clusters],
        "steps": entries,
        "left_out": [{"at": step.at_us, "text": step.text} for step in matters[-MOST_TOLD:]],
        "left_out_steps": len(left_out),
    }


def _document(title: str, about: str, command: str, acts: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "title": title,
        "about": about,
        "command": command,
        "version": __version__,
        "acts": acts,
    }
