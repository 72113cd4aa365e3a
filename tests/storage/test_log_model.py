"""A log against the plainest model of one: a list of batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.records.batch import read_header, whole_batches
from tidelog.storage.log_values import Appended

if TYPE_CHECKING:
    from tests.storage.conftest import LogBench, NewBench

STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 4), st.sampled_from([None, 1, 2])),
    st.tuples(st.just("append"), st.integers(1, 4), st.sampled_from([None, 1, 2])),
    st.tuples(st.just("transaction"), st.sampled_from([3, 4]), st.booleans()),
    st.tuples(st.just("fetch"), st.integers(1, 3), st.integers(0, 3)),
    st.tuples(st.just("new epoch")),
    st.tuples(st.just("roll")),
    st.tuples(st.just("truncate"), st.floats(0, 1)),
    st.tuples(st.just("start over"), st.integers(0, 50)),
    st.tuples(st.just("raise start"), st.floats(0, 1)),
    st.tuples(st.just("retain"), st.integers(0, 1500)),
    st.tuples(st.just("flush")),
    st.tuples(st.just("sweep")),
    st.tuples(st.just("reopen")),
    st.tuples(st.just("kill")),
    st.tuples(st.just("read"), st.floats(0, 1), st.floats(0, 1), st.integers(0, 2000)),
)


@dataclass
class Model:
    """What a log should hold."""

    bench: LogBench
    epoch: int = 0
    batches: list[bytes] = field(default_factory=list)
    start: int = 0
    end: int = 0
    sequences: dict[int, int] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)

    def step(self, step: tuple[Any, ...]) -> None:
        kind, *arguments = step
        getattr(self, kind.replace(" ", "_"))(*arguments)
        log = self.bench.log
        assert (log.start_offset, log.end_offset) == (self.start, self.end)
        first = log.segments.first.base_offset
        self.batches = [batch for batch in self.batches if read_header(batch).base_offset >= first]

    def append(self, count: int, producer: int | None) -> None:
        more = self._next_sequence(producer, count) if producer is not None else {}
        batch = self.bench.batch(count, **more)
        self._written(self.bench.log.append_as_leader(batch, self.epoch, self.bench.now))
        self.batches.append(bytes(batch.data))

    def transaction(self, producer: int, committed: bool) -> None:
        if producer in self.open:
            self.bench.end_transaction(producer, committed=committed, epoch=self.epoch)
            self.open.discard(producer)
            self.end += 1
        else:
            batch = self.bench.batch(2, transactional=True, **self._next_sequence(producer, 2))
            self._written(self.bench.log.append_as_leader(batch, self.epoch, self.bench.now))
            self.open.add(producer)
        self.batches.append(self.bench.contents()[-1])

    def fetch(self, count: int, cut: int) -> None:
        self.epoch += 1
        made = [
            bytes(self.bench.batch(2, base_offset=self.end + 2 * n, leader_epoch=self.epoch).data)
            for n in range(count)
        ]
        data = b"".join(made)
        view = memoryview(data)[: len(data) - cut]
        kept = made if cut == 0 else made[:-1]
        fetched = self.bench.log.append_as_follower(view, self.bench.now, fetch_epoch=self.epoch)
        assert (fetched is None) == (not kept)
        self.batches += kept
        self.end += 2 * len(kept)

    def new_epoch(self) -> None:
        self.epoch += 1

    def roll(self) -> None:
        if self.bench.log.segments.active.size:
            self.bench.log.roll(self.bench.now)

    def truncate(self, where: float) -> None:
        self.epoch += 1
        kept = int(where * len(self.batches))
        if not self.batches:
            return
        headers = [read_header(batch) for batch in self.batches]
        offset = headers[kept].base_offset if kept < len(headers) else self.end
        self.bench.log.truncate_to(offset, self.bench.now)
        self.batches = self.batches[:kept]
        self.end = offset
        self.start = min(self.start, offset)
        self._ask_producers()

    def start_over(self, offset: int) -> None:
        self.bench.log.truncate_fully_and_start_at(offset, self.bench.now)
        self.batches, self.start, self.end = [], offset, offset
        self._ask_producers()

    def raise_start(self, where: float) -> None:
        self.start += int(where * (self.end - self.start))
        self.bench.log.raise_start_to(self.start)

    def retain(self, size: int) -> None:
        log = self.bench.log
        log.config = log.config._replace(retention_bytes=size)
        log.delete_expired(self.bench.now, log.end_offset)
        log.config = log.config._replace(retention_bytes=-1)
        self.start = max(self.start, log.segments.first.base_offset)

    def flush(self) -> None:
        self.bench.log.sync()
        assert self.bench.log.recovery_point == self.end

    def sweep(self) -> None:
        self.bench.log.sweep(self.bench.pass_ms(60_000))

    def reopen(self) -> None:
        point = self.bench.log.end_offset
        self.bench.log.close()
        self.bench.load(clean=True, recovery_point=point, log_start=self.start)
        self._ask_producers()

    def kill(self) -> None:
        point = self.bench.log.recovery_point
        self.bench.load(recovery_point=point, log_start=self.start)
        assert (self.bench.log.damage, self.bench.log.cut_bytes) == ([], 0)
        self._ask_producers()

    def read(self, where: float, bound: float, max_bytes: int) -> None:
        headers = [read_header(batch) for batch in self.batches]
        offset = self.start + int(where * (self.end - self.start))
        bounds = [self.start, *(header.next_offset for header in headers), self.end]
        up_to = bounds[int(bound * (len(bounds) - 1))]
        found = self.bench.log.read(offset, max_bytes, up_to)
        expected = [
            batch
            for header, batch in zip(headers, self.batches, strict=True)
            if header.last_offset >= offset and header.next_offset <= up_to
        ]
        if offset >= up_to or not expected:
            assert found is None
            return
        assert found is not None
        content = found.read()
        assert content == b"".join(expected)[: len(content)]
        assert next(iter(whole_batches(content)))[1] == expected[0]
        assert len(content) <= max(max_bytes, len(expected[0]))

    def _written(self, appended: object) -> None:
        assert isinstance(appended, Appended), appended
        assert appended.first_offset == self.end
        self.end = appended.last_offset + 1

    def _next_sequence(self, producer: int, count: int) -> dict[str, Any]:
        first = self.sequences.get(producer, 0)
        self.sequences[producer] = first + count
        return {"producer_id": producer, "producer_epoch": 0, "base_sequence": first}

    def _ask_producers(self) -> None:
        """What was cut off, or lost with old segments, is to be sent again."""
        state, _ = self.bench.replayed()
        known = {producer.producer_id: producer for producer in state.active()}
        active = {producer.producer_id: producer for producer in self.bench.log.producers.active()}
        self.sequences = {number: producer.last_sequence + 1 for number, producer in active.items()}
        self.open = {
            number for number, producer in active.items() if producer.current_txn_start_offset >= 0
        }
        assert known.keys() <= active.keys()


@given(steps=st.lists(STEPS, max_size=40), compact=st.booleans())
@settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_log_holds_what_a_list_of_batches_would(
    new_bench: NewBench, steps: list[tuple[Any, ...]], compact: bool
) -> None:
    bench = new_bench(
        segment_bytes=700, index_interval_bytes=150, cleanup_compact=compact, retention_ms=-1
    )
    model = Model(bench)

    for step in steps:
        model.step(step)

    assert bench.contents() == model.batches
    bench.check()
    bench.load(recovery_point=bench.log.recovery_point, log_start=model.start)
    assert bench.contents() == model.batches
    bench.check()
