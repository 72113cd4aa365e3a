"""What a ledger says about the exactly-once deliveries of one query, and how it is read.

The ledger is a log; its order decides. Each run of the query *claims* it, each task *takes* a
transactional id that an earlier batch has left behind, the driver *decides* a batch.

Invariant  A decision counts if the run that wrote it held the ledger at that place of the log. A
           run that was superseded can write what it likes, it decides nothing.
Invariant  The first to take a transactional id for a batch has it; nobody else touches it in that
           batch, and if the batch is decided without it, nobody ever does again.
Invariant  Compaction changes no answer: every record that counts has a key of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

NOTHING_DECIDED = -1
NO_GENERATION = 0


class Prepared(NamedTuple):
    """The transaction of one task: what it takes to end it from anywhere."""

    partition: int
    transactional_id: str
    producer_id: int
    producer_epoch: int

    @property
    def has_rows(self) -> bool:
        return self.producer_id >= 0


class Claim(NamedTuple):
    """A run takes over from whichever had the ledger before; `attempt` is the task that says so."""

    run: str
    generation: int
    attempt: int

    @property
    def key(self) -> list[object]:
        return ["claim", self.run, self.attempt]


class Take(NamedTuple):
    """A task takes a transactional id for its batch."""

    transactional_id: str
    batch: int
    attempt: int

    @property
    def key(self) -> list[object]:
        return ["take", self.transactional_id]


class Decision(NamedTuple):
    """A batch is to be committed, with these transactions and no others."""

    run: str
    generation: int
    batch: int
    transactions: tuple[Prepared, ...]

    @property
    def key(self) -> list[object]:
        return ["decision", self.run, self.batch]


LedgerRecord = Claim | Take | Decision
_KINDS: Mapping[str, type[Claim] | type[Take] | type[Decision]] = {
    "claim": Claim,
    "take": Take,
    "decision": Decision,
}


@dataclass
class LedgerState:
    """What the records read so far amount to."""

    generation: int = NO_GENERATION
    run: str | None = None
    former_runs: set[str] = field(default_factory=set)
    decided: Decision | None = None
    taken: dict[str, Take] = field(default_factory=dict)

    @property
    def batch(self) -> int:
        """The last batch that is decided."""
        return NOTHING_DECIDED if self.decided is None else self.decided.batch

    def replay(self, record: LedgerRecord) -> None:
        """Go one record further in the log."""
        match record:
            case Claim():
                if record.generation > self.generation and record.run not in self.former_runs:
                    if self.run is not None:
                        self.former_runs.add(self.run)
                    self.generation, self.run = record.generation, record.run
                elif record.run != self.run:
                    self.former_runs.add(record.run)
            case Take():
                before = self.taken.get(record.transactional_id)
                if before is None or before.batch < record.batch:
                    self.taken[record.transactional_id] = record
            case Decision():
                holds = (record.generation, record.run) == (self.generation, self.run)
                if holds and record.batch > self.batch:
                    self.decided = record

    def left_behind(self, partition: int) -> str | None:
        """The transactional id with which the last decided batch, of this run, wrote a partition.

        Its task has ended, so nothing of it can stir any more.
        """
        if self.decided is None or self.decided.run != self.run:
            return None
        found = (each for each in self.decided.transactions if each.partition == partition)
        return next((each.transactional_id for each in found), None)


def key_of(sink: str, record: LedgerRecord) -> bytes:
    """The key under which compaction keeps the last record."""
    return json.dumps([sink, *record.key], separators=(",", ":")).encode()


def encode(record: LedgerRecord) -> bytes:
    """A record as it stands in the topic, readable by people."""
    kind = type(record).__name__.lower()
    fields: dict[str, Any] = record._asdict()
    if isinstance(record, Decision):
        fields["transactions"] = [each._asdict() for each in record.transactions]
    return json.dumps({"kind": kind, **fields}, separators=(",", ":")).encode()


def decode(value: bytes) -> LedgerRecord:
    """What `encode` wrote."""
    fields = json.loads(value)
    kind = _KINDS[fields.pop("kind")]
    if kind is Decision:
        fields["transactions"] = tuple(Prepared(**each) for each in fields["transactions"])
    return kind(**fields)


def sink_of(key: bytes) -> str:
    """Whose record it is."""
    return str(json.loads(key)[0])
