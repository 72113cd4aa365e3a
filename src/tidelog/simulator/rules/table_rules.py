"""The rule on compacted topics, as their readers see them.

K2  who reads a compacted topic to its end has the last acknowledged value of every key
"""

from __future__ import annotations

from tidelog.simulator.clients.table import TableRead, TableReader, TableWriter
from tidelog.simulator.rules.ghost import Ghost
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.happenings import ClientActed, Happening
from tidelog.simulator.world.world import World


class TableRules:
    """Compares what was read with what was acknowledged.

    A key that is being written may be anything: compaction may have made room for a record that
    the writer has not heard of yet. Where tombstones go early, so may a key that was deleted: a
    reader, or a replica, that was between the value and its tombstone never hears of the latter.
    """

    def __init__(
        self,
        world: World,
        ghost: Ghost,
        writer: TableWriter,
        reader: TableReader,
        *,
        keeps_tombstones: bool,
    ) -> None:
        self._world = world
        self._ghost = ghost
        self._writer = writer
        self._reader = reader
        self._keeps_tombstones = keeps_tombstones

    def watch(self) -> None:
        """Judge from now on."""
        self._world.observers.append(self._look)
        self._world.expect("K2", self._reading)

    def _look(self, _world: World, happening: Happening) -> None:
        if isinstance(happening, ClientActed):
            while self._reader.fresh:
                self._judge(self._reader.fresh.pop())

    def _judge(self, read: TableRead) -> None:
        if self._is_forgiven():
            return
        for key in {**read.acked, **read.rows}:
            found, acked = read.rows.get(key), read.acked.get(key)
            if key in read.under_way or (acked is None and not self._keeps_tombstones):
                continue
            if found != acked:
                what = f"{self._reader.name} found {_text(found)} for {key.decode()}"
                raise Violation("K2", f"{what}, and {_text(acked)} was acknowledged last")

    def _is_forgiven(self) -> bool:
        ghost = self._ghost.by_name(self._writer.partition)
        return ghost is not None and (ghost.is_murky or bool(ghost.forgiven))

    def _reading(self) -> str | None:
        if self._is_forgiven():
            return None
        if not self._writer.is_idle:
            return f"{self._writer.name} is not done"
        calm_ms = self._world.calm_since_ms
        if calm_ms is not None and self._reader.end_read_ms <= calm_ms:
            return f"{self._reader.name} is not done"
        return None


def _text(value: bytes | None) -> str:
    return "nothing" if value is None else value.decode()
