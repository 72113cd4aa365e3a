"""Power goes at every single operation of a log's life: what comes back must be true.

One workload goes through all that a log does. Its trace is cut behind each operation, what was
not synced meets every fate, and the directory is started again from what is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import pytest

from tidelog.model.ids import TopicPartition
from tidelog.simulator.disk.crash import (
    DataFate,
    NameFate,
    Replay,
    data_drawn,
    data_kept,
    data_lost,
    data_torn_at,
    image_after_crash,
    names_drawn,
    names_kept,
    names_undone,
    page_zeroed,
)
from tidelog.simulator.disk.memory_filesystem import DiskImage, MemoryFileSystem
from tidelog.storage.identity import DirectoryIdentity, write_identity
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.producer_state import ActiveProducer

if TYPE_CHECKING:
    from tests.storage.conftest import LogBench, NewBench

PATH = "/data"
ORDERS = TopicPartition("orders", 0)
TOPIC_ID = UUID(int=4711)


class Moment(NamedTuple):
    """What the log held when so many operations had been carried out."""

    operations: int
    batches: tuple[tuple[int, bytes], ...]
    """Including those below `first_base`, which retention took away: a crash may undo that."""
    durable_to: int
    first_base: int


class Life:
    """A directory with one log, and what is true of it at each moment."""

    def __init__(self, bench: LogBench) -> None:
        self.bench = bench
        self.files = bench.files = MemoryFileSystem()
        self.files.make_directory(PATH)
        self.files.sync_directory("/")
        write_identity(self.files, PATH, DirectoryIdentity("cluster", 1, UUID(int=500)))
        self.beginning = len(self.files.trace)
        self.moments = [Moment(self.beginning, (), 0, 0)]
        self.epoch = 0
        self.sequences = [0, 0]
        self.taken_away: tuple[tuple[int, bytes], ...] = ()

    def start(self) -> None:
        self.directory = start(self.files, self.bench)
        if ORDERS not in self.directory.logs:
            self.directory.create_log(ORDERS, TOPIC_ID, self.bench.config, self.bench.now)
        self.bench.log = self.directory.logs[ORDERS]
        self.bench.health = self.directory.health
        self.note()

    def note(self) -> None:
        log = self.bench.log
        here = [(found.header.base_offset, found.data) for found in self.bench.batches()]
        batches = (*self.taken_away, *here)
        first = log.segments.first.base_offset
        self.moments.append(Moment(len(self.files.trace), batches, log.recovery_point, first))

    def append(self, count: int = 1) -> None:
        for at in range(count):
            producer = at % 2
            self.bench.append(
                1 + at % 3,
                epoch=self.epoch,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=self.sequences[producer],
                transactional=producer == 1,
                timestamp=self.bench.now.wall_ms + at,
            )
            self.sequences[producer] += 1 + at % 3
            self.note()

    def end_transaction(self, *, committed: bool) -> None:
        self.bench.end_transaction(1, committed=committed, epoch=self.epoch)
        self.note()

    def new_epoch(self) -> None:
        self.epoch += 1

    def flush(self) -> None:
        job = self.bench.log.flush_job()
        assert job is not None
        self.append()
        job.run()
        self.bench.log.flushed(job)
        self.note()

    def write_checkpoints(self) -> None:
        self.directory.write_checkpoints({ORDERS: self.bench.log.recovery_point})
        self.note()

    def truncate(self, batches_kept: int) -> None:
        offset = self.moments[-1].batches[batches_kept][0]
        self.bench.log.truncate_to(offset, self.bench.now)
        self.epoch += 1
        self.ask_producers()
        self.note()

    def start_over(self, offset: int) -> None:
        self.bench.log.truncate_fully_and_start_at(offset, self.bench.now)
        self.sequences = [0, 0]
        self.taken_away = ()
        self.note()

    def delete_below(self, batches: int) -> None:
        log = self.bench.log
        log.raise_start_to(self.moments[-1].batches[batches][0])
        log.delete_expired(self.bench.now, log.end_offset)
        first = log.segments.first.base_offset
        self.taken_away = tuple(one for one in self.moments[-1].batches if one[0] < first)
        self.note()

    def stop(self) -> None:
        self.directory.close(3, {ORDERS: self.bench.log.end_offset})
        end = self.bench.log.end_offset
        self.moments.append(
            self.moments[-1]._replace(operations=len(self.files.trace), durable_to=end)
        )

    def ask_producers(self) -> None:
        known = {one.producer_id: one.last_sequence for one in self.bench.log.producers.active()}
        self.sequences = [known.get(producer, -1) + 1 for producer in (0, 1)]


def start(files: MemoryFileSystem, bench: LogBench) -> LogDirectory:
    directory = LogDirectory(files, PATH, bench.place.entropy)
    directory.begin()
    directory.load(bench.now, lambda _partition: bench.config)
    return directory


@pytest.fixture
def life(new_bench: NewBench) -> Life:
    """Everything a log can go through."""
    life = Life(
        new_bench(
            segment_bytes=600, index_interval_bytes=150, retention_ms=-1, file_delete_delay_ms=5
        )
    )
    life.start()
    life.append(3)
    life.end_transaction(committed=False)
    life.new_epoch()
    life.append(8)
    life.flush()
    life.write_checkpoints()
    life.append(5)
    life.truncate(9)
    life.append(6)
    life.end_transaction(committed=True)
    life.flush()
    life.write_checkpoints()
    life.truncate(4)
    life.append(4)
    life.stop()
    life.start()
    life.append(7)
    life.delete_below(9)
    life.flush()
    life.write_checkpoints()
    life.bench.log.sweep(life.bench.pass_ms(5))
    life.append(3)
    life.stop()
    life.start()
    life.append(2)
    life.start_over(500)
    life.append(4)
    life.flush()
    life.write_checkpoints()
    life.append(2)
    return life


FATES: dict[str, tuple[DataFate, NameFate]] = {
    "the process dies": (data_kept, names_kept),
    "all that was not synced is lost": (data_lost, names_undone),
    "data is lost, names are not": (data_lost, names_kept),
    "names are lost, data is not": (data_kept, names_undone),
    "one byte arrives": (data_torn_at(1), names_kept),
    "a header arrives": (data_torn_at(61), names_kept),
    "some bytes arrive": (data_torn_at(100), names_kept),
    "a page is zeros": (page_zeroed(0), names_kept),
    "a page is zeros, names are lost": (page_zeroed(0), names_undone),
}


def crashed(life: Life, data: DataFate, names: NameFate) -> Iterator[tuple[int, DiskImage]]:
    """Each different disk that a crash can leave, with the number of operations before it."""
    seen = set()
    replay = Replay(life.files.image)
    for count, operation in enumerate(life.files.trace, 1):
        replay.apply(operation)
        if count < life.beginning:
            continue
        image = image_after_crash(replay.disk, data, names)
        moment = next(at for at, one in enumerate(life.moments) if one.operations >= count)
        content = (moment, tuple((entry.path, entry.content) for entry in image))
        if content not in seen:
            seen.add(content)
            yield count, image


def check_start(life: Life, bench: LogBench, count: int, image: DiskImage) -> None:
    at = max(at for at, moment in enumerate(life.moments) if moment.operations <= count)
    before, after = life.moments[at], life.moments[min(at + 1, len(life.moments) - 1)]
    first = max(before.first_base, after.first_base)
    durable_to = min(before.durable_to, after.durable_to)
    needed = [one for one in before.batches if first <= one[0] < durable_to]

    bench.files = MemoryFileSystem(image)
    log = start(bench.files, bench).logs.get(ORDERS)
    if log is None:
        assert not needed
        return
    found, producers = look_at(bench, log)
    assert log.damage == []
    assert set(needed) <= set(found), "something durable is missing"
    assert any(holds(moment, found) for moment in life.moments[: at + 2]), "never looked like that"

    log = start(bench.files, bench).logs[ORDERS]
    assert look_at(bench, log) == (found, producers), "a second start sees something else"
    directory = start(bench.files, bench)
    log = bench.log = directory.logs[ORDERS]
    bench.append(epoch=100)
    bench.check()
    directory.close()
    again, _ = look_at(bench, start(bench.files, bench).logs[ORDERS])
    assert again[:-1] == found


def look_at(
    bench: LogBench, log: PartitionLog
) -> tuple[tuple[tuple[int, bytes], ...], list[ActiveProducer]]:
    bench.log, bench.health = log, log.health
    bench.check()
    found = tuple((batch.header.base_offset, batch.data) for batch in bench.batches())
    return found, sorted(log.producers.active())


def holds(moment: Moment, found: tuple[tuple[int, bytes], ...]) -> bool:
    """Whether a log is, at one time, what another was from some batch on to some other."""
    if not found:
        return True
    if found[0] not in moment.batches:
        return False
    at = moment.batches.index(found[0])
    return moment.batches[at : at + len(found)] == found


@pytest.mark.parametrize("fate", FATES)
def test_a_log_survives_a_crash_at_every_operation(
    life: Life, new_bench: NewBench, fate: str
) -> None:
    bench = new_bench(**life.bench.config._asdict())
    checked = 0

    for count, image in crashed(life, *FATES[fate]):
        check_start(life, bench, count, image)
        checked += 1

    assert checked > 100


class Dice:
    def __init__(self, seed: int) -> None:
        self._state = seed

    def uuid(self) -> UUID:
        return UUID(int=self.below(1 << 100))

    def below(self, bound: int) -> int:
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self._state >> 33) % bound


@pytest.mark.parametrize("seed", range(3))
def test_a_log_survives_whatever_the_dice_leave_of_it(
    life: Life, new_bench: NewBench, seed: int
) -> None:
    bench, dice = new_bench(**life.bench.config._asdict()), Dice(seed)

    for count, image in crashed(life, data_drawn(dice), names_drawn(dice)):
        check_start(life, bench, count, image)
