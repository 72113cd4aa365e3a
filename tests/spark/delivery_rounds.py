"""Exactly-once delivery with processes that die: the sink's steps, driven as Spark drives them.

A round delivers one batch. Its tasks and its driver are processes of their own, and a task, the
driver or both in turn kill themselves with SIGKILL before or after a step. As in Spark, a task that
dies is tried again in the same run, a driver that dies or gives a batch up is followed by a new
run, and a batch is behind us only when its commit has returned.

    python -m tests.spark.delivery_rounds BOOTSTRAP TOPIC '[BROKER] STEP [+ [BROKER] STEP]' ...

Each step is printed when it is reached. A broker that is named with it dies instead of the process:
whoever reads kills the broker, and the step goes on when a byte comes back.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

from tidelog.client.blocking import Client
from tidelog.client.consumer import Consumer
from tidelog.client.errors import RequestRefused
from tidelog.client.offsets import EARLIEST, Isolation, find_offsets
from tidelog.client.transactions import ProducerIdentity
from tidelog.spark.options import WriteOptions, write_options
from tidelog.spark.sink.batch_decision import BatchDecision
from tidelog.spark.sink.ledger import Ledger
from tidelog.spark.sink.ledger_records import Decision, Prepared
from tidelog.spark.sink.row_writing import RowWriting
from tidelog.spark.sink.rows import Rows
from tidelog.spark.sink.task_transaction import TaskIdentity, TaskTransaction, Written

TASKS = 2
ROWS = 20
TASK_STEPS = ["within write", *(f"{when} {step}" for when in ("before", "after")
              for step in ("claim", "take", "open", "write", "prepare"))]  # fmt: skip
DRIVER_STEPS = [f"{when} {step}" for step in ("decide", "end", "second end", "sweep")
                for when in ("before", "after")]  # fmt: skip
ABORT_STEPS = [f"{when} abort" for when in ("before", "within", "after")]


class Fate(NamedTuple):
    """At which moment something dies: a broker, or the process that reaches it."""

    moment: str
    broker: int | None = None

    @classmethod
    def parse(cls, text: str) -> Fate:
        first, _, rest = text.partition(" ")
        return cls(rest, int(first)) if first.isdigit() else cls(text)


fate: Fate | None = None


def reach(moment: str) -> None:
    if fate is None or moment != fate.moment:
        return
    print(json.dumps({"reached": moment, "broker": fate.broker}), flush=True)
    if fate.broker is None:
        os.kill(os.getpid(), signal.SIGKILL)
    os.read(sys.stdin.fileno(), 1)


class MortalTask(TaskTransaction):
    """A task that dies at the chosen moment."""

    def claim(self) -> Ledger:
        reach("before claim")
        ledger = super().claim()
        reach("after claim")
        return ledger

    def take(self, ledger: Ledger) -> str:
        reach("before take")
        name = super().take(ledger)
        reach("after take")
        return name

    def open(self, transactional_id: str) -> RowWriting:
        reach("before open")
        writing = super().open(transactional_id)
        reach("after open")
        return writing

    def write(self, writing: RowWriting, rows: Iterator[Rows]) -> None:
        reach("before write")
        super().write(writing, self._interrupted(writing, rows))
        reach("after write")

    def _interrupted(self, writing: RowWriting, rows: Iterator[Rows]) -> Iterator[Rows]:
        yield next(rows)
        writing.finish()
        reach("within write")
        yield from rows

    def prepare(self, transactional_id: str, identity: ProducerIdentity) -> ProducerIdentity:
        reach("before prepare")
        prepared = super().prepare(transactional_id, identity)
        reach("after prepare")
        return prepared


class MortalDecision(BatchDecision):
    """A driver that dies at the chosen moment."""

    ended = 0
    aborting = False

    def decide(self) -> Decision | None:
        reach("before decide")
        decision = super().decide()
        reach("after decide")
        return decision

    def end(self, decision: Decision) -> None:
        reach("before end")
        super().end(decision)
        reach("after end")

    def _commit(self, prepared: Prepared) -> RequestRefused | None:
        self.ended += 1
        if self.ended == TASKS:
            reach("before second end")
        refusal = super()._commit(prepared)
        if self.ended == TASKS:
            reach("after second end")
        return refusal

    def sweep(self) -> None:
        reach("before sweep")
        super().sweep()
        reach("after sweep")

    def abort(self) -> None:
        reach("before abort")
        self.aborting = True
        super().abort()
        reach("after abort")

    def _abort_open(self, kept: Iterable[str]) -> None:
        if self.aborting:
            reach("within abort")
        super()._abort_open(kept)


def in_a_process(work: Callable[[], Any], given: Fate | None) -> Any:
    """What the work returns, or None when its process died."""
    global fate
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        fate = given
        with os.fdopen(write_end, "wb") as out:
            pickle.dump(work(), out)
            out.flush()
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as come:
        data = come.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return None
    assert os.waitstatus_to_exitcode(status) == 0, "a process failed on its own account"
    return pickle.loads(data)


def write_part(options: WriteOptions, task: TaskIdentity) -> Written:
    names = [f"{task.batch}/{task.partition}/{index}".encode() for index in range(ROWS)]
    halves = [
        Rows(str(options.topic), [{"value": name} for name in half], len(half))
        for half in (names[: ROWS // 2], names[ROWS // 2 :])
    ]
    with Client(options.bootstrap) as client:
        return MortalTask(options, task, client).run(iter(halves))


def drive(
    options: WriteOptions, sink: str, run: str, batch: int, dies: Fate | None, gives_up: bool
) -> bool:
    """The driver of one run: tasks until each has succeeded, then the commit, or an abort."""
    written = []
    for partition in range(TASKS):
        while True:
            task = TaskIdentity(sink, run, batch, partition, int.from_bytes(os.urandom(6)))
            found = in_a_process(partial(write_part, options, task), dies)
            dies = None
            if found is not None:
                written.append(found)
                break
    with Client(options.bootstrap) as client:
        decision = MortalDecision.asking(client, options, batch, written)
        decision.abort() if gives_up else decision.commit()
    return not gives_up


def deliver(options: WriteOptions, sink: str, run: str, batch: int, steps: list[str]) -> str:
    """One batch, by as many runs as it takes; the run that has done it goes on."""
    fates = list(map(Fate.parse, steps))
    task_dies, driver_dies = (
        next((each for each in fates if each.moment in known), None)
        for known in (TASK_STEPS, DRIVER_STEPS + ABORT_STEPS)
    )
    while True:
        gives_up = driver_dies is not None and driver_dies.moment in ABORT_STEPS
        driving = partial(drive, options, sink, run, batch, task_dies, gives_up)
        driven = in_a_process(driving, driver_dies)
        task_dies = driver_dies = None
        if driven:
            return run
        run = str(uuid4())


def visible(bootstrap: str, topic: str) -> list[str]:
    with Client(bootstrap) as client:
        partitions = [each.partition for each in client.refresh([topic]).topic(topic).partitions]
        starts = find_offsets(client, topic, dict.fromkeys(partitions, EARLIEST))
        consumer = Consumer(client, topic, starts, isolation=Isolation.READ_COMMITTED)
        return [(each.record.value or b"").decode() for each in consumer.until_end()]


def main(bootstrap: str, topic: str, steps: list[str]) -> None:
    options = write_options({"kafka.bootstrap.servers": bootstrap, "topic": topic}, streaming=True)
    sink, run = str(uuid4()), str(uuid4())
    for batch, step in enumerate(steps):
        run = deliver(options, sink, run, batch, step.split(" + "))
        print(json.dumps({"batch": batch, "step": step}), flush=True)
    expected = sorted(
        f"{batch}/{partition}/{index}"
        for batch in range(len(steps))
        for partition in range(TASKS)
        for index in range(ROWS)
    )
    found = sorted(visible(bootstrap, topic))
    assert found == expected, {
        "missing": sorted(set(expected) - set(found)),
        "twice": sorted({each for each in found if found.count(each) > 1}),
    }


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
