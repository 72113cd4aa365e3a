"""The driver's part of an exactly-once batch: decide, then end what was prepared.

    decide  one record in the ledger; from here on the batch is written, whatever happens
    end     commit every prepared transaction; those that are lost are named afterwards
    sweep   abort what failed attempts and earlier runs have left open

Invariant  Nothing is committed before its decision can be read back from the ledger, and nothing
           that is decided is aborted.
Invariant  A sweep touches only this run's own leftovers and those of earlier ones: the number of
           the generation is part of every transactional id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Self

from tidelog.client.blocking import Client
from tidelog.client.errors import RequestRefused
from tidelog.client.transactions import ProducerIdentity, Transactions
from tidelog.model.errors import ErrorCode
from tidelog.spark.errors import LostTransaction, SinkError
from tidelog.spark.options import WriteOptions
from tidelog.spark.sink.ledger import Ledger
from tidelog.spark.sink.ledger_records import Decision, Prepared
from tidelog.spark.sink.task_transaction import Written, id_prefix

_LOST: Final = (
    ErrorCode.producer_fenced,
    ErrorCode.invalid_producer_epoch,
    ErrorCode.invalid_producer_id_mapping,
    ErrorCode.invalid_txn_state,
)
_ABORTING_ATTEMPT: Final = -1


class BatchDecision:
    """The steps for one batch, one method each."""

    def __init__(
        self,
        options: WriteOptions,
        batch: int,
        written: Sequence[Written],
        transactions: Transactions,
        ledger: Ledger,
    ) -> None:
        self._options, self._batch, self._written = options, batch, written
        self._transactions, self._ledger = transactions, ledger
        self._task = written[0].task

    @classmethod
    def asking(
        cls, client: Client, options: WriteOptions, batch: int, written: Sequence[Written]
    ) -> Self:
        """The decision about a batch of the cluster that a client is connected to."""
        ledger = Ledger(client, options.ledger_topic, written[0].task.sink)
        return cls(options, batch, written, Transactions(client), ledger)

    def commit(self) -> None:
        """Make the batch visible, once and for all."""
        decision = self.decide()
        try:
            if decision is not None:
                self.end(decision)
        except LostTransaction:
            self.sweep()
            raise
        self.sweep()

    def decide(self) -> Decision | None:
        """The decision, made now or found; None when a later batch is decided already."""
        found = self._ledger.state.decided
        if found is not None and found.batch >= self._batch:
            return found if found.batch == self._batch else None
        prepared = [each.prepared for each in self._written if each.prepared is not None]
        if len(prepared) < len(self._written):
            raise SinkError(
                f"batch {self._batch}: some tasks found it decided, but the ledger "
                f"{self._options.ledger_topic} does not have the decision any more. Was the "
                "topic deleted, or is it not compacted? Start the query again: it writes the batch "
                "again, and what the decision had already made visible is there twice then"
            )
        return self._ledger.decide(self._task.run, self._batch, tuple(prepared))

    def end(self, decision: Decision) -> None:
        lost = {}
        for each in decision.transactions:
            if each.has_rows and (refusal := self._commit(each)) is not None:
                lost[each] = refusal
        if lost:
            raise self._lost(lost)

    def sweep(self) -> None:
        decided = self._ledger.state.decided
        kept = set() if decided is None else {each[1] for each in decided.transactions}
        self._abort_open(kept)

    def abort(self) -> None:
        """Give the batch up, unless it is decided or another run has taken over.

        The ledger is claimed first: a decision that is still on its way comes too late then.
        """
        if self._ledger.state.run != self._task.run:
            return
        self._ledger.claim(f"{self._task.run} aborting {self._batch}", _ABORTING_ATTEMPT)
        if self._ledger.state.batch < self._batch:
            self._abort_open(kept=())

    def _commit(self, prepared: Prepared) -> RequestRefused | None:
        """Commit one transaction; the refusal if it is lost."""
        identity = ProducerIdentity(prepared.producer_id, prepared.producer_epoch)
        try:
            self._transactions.end(prepared.transactional_id, identity, commit=True)
        except RequestRefused as error:
            if error.code not in _LOST:
                raise
            return error
        return None

    def _lost(self, lost: Mapping[Prepared, RequestRefused]) -> LostTransaction:
        named = ", ".join(f"{each.transactional_id} (task {each.partition})" for each in lost)
        said = "; ".join(sorted({str(refusal) for refusal in lost.values()}))
        return LostTransaction(
            f"batch {self._batch} was decided, but {len(lost)} of its transactions were aborted "
            f"before they could be committed, and their rows are gone: {named}. All others are "
            "committed. To go on, run the query once with delivery=at-least-once: it writes the "
            "batch again, and the rows of the other tasks are there twice then. So that it does "
            "not happen again, enable two-phase commit on the brokers, or raise "
            f"kafka.transaction.timeout.ms. The brokers say: {said}"
        )

    def _abort_open(self, kept: Iterable[str]) -> None:
        prefix, ours = id_prefix(self._options, self._task.sink), self._ledger.state.generation
        for each in self._transactions.list(states=["Ongoing"]):
            name = each.transactional_id
            if not name.startswith(prefix) or name in kept:
                continue
            if int(name.removeprefix(prefix).split("-")[0]) <= ours:
                self._transactions.abort(name)
