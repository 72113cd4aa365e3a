"""What `tidelog top` shows, as text of a given size.

Invariant  It fits: 80 columns and 24 lines are enough, and what does not fit is left out from the
           bottom of each table, never cut in the middle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tidelog.cli.health import COLOURS
from tidelog.cli.output import counted
from tidelog.monitor.activity import NodeActivity, PartitionActivity
from tidelog.monitor.problems import Problem, all_is_well
from tidelog.monitor.snapshot import ClusterSnapshot

_PROBLEMS: Final = 4
_NODES: Final = 8
_GROUPS: Final = 3
_ROWS_WITHOUT_LIMIT: Final = 10
_FIGURES_WIDTH: Final = 54
"""So much of a line is left to figures; names that are longer are cut."""


class Picture(NamedTuple):
    """One look at a cluster."""

    seen: ClusterSnapshot | None
    trouble: str | None
    """Why brokers told nothing."""
    problems: Sequence[Problem]
    nodes: Sequence[NodeActivity]
    partitions: Sequence[PartitionActivity]
    lags: Mapping[str, int]

    def drawn(self, width: int, height: int | None) -> RenderableType:
        """The picture for a terminal of that size; without a height, of as much as is useful."""
        parts: list[RenderableType] = [self._head(), *self._told_problems()]
        used = len(parts)
        if self.nodes:
            shown = self.nodes[:_NODES]
            parts += [Text(), _nodes_table(shown, width)]
            used += 2 + len(shown)
        elif self.seen is not None:
            parts.append(_cut("no HTTP listener of a node is known: --http shows rates", "dim"))
            parts += [Text(), _brokers_table(self.seen, width)]
            used += 3 + len(self.seen.brokers)
        lags = list(self.lags.items())[:_GROUPS]
        rows = _ROWS_WITHOUT_LIMIT
        if height is not None:
            rows = height - used - 2 - (2 + len(lags) if lags else 0)
        busy = self.partitions[: max(0, rows)]
        if busy:
            parts += [Text(), _partitions_table(busy, width)]
        if lags:
            parts += [Text(), _lags_table(lags, width)]
        return Group(*parts)

    def _head(self) -> Text:
        clock = f"{datetime.now(UTC):%H:%M:%S} UTC"
        if self.seen is None:
            return _cut(f"{clock}  {self.trouble}", "bold red")
        brokers = counted(len(self.seen.brokers), "broker")
        partitions = counted(len(self.seen.partitions), "partition")
        leader = (
            "no controller"
            if self.seen.quorum is None
            else (f"controller {self.seen.quorum.leader}")
        )
        return _cut(f"{clock}  {self.seen.cluster_id}  {brokers}, {partitions}, {leader}", "bold")

    def _told_problems(self) -> list[Text]:
        if self.seen is None:
            return []
        if not self.problems:
            return [_cut(all_is_well(self.seen), "green")]
        lines = [
            _cut(f"{each.severity.name.lower():<8}  {each.what}", COLOURS[each.severity.name])
            for each in self.problems[:_PROBLEMS]
        ]
        more = len(self.problems) - _PROBLEMS
        if more > 0:
            lines.append(_cut(f"and {more} more: `tidelog cluster health`", "yellow"))
        return lines


def _nodes_table(nodes: Sequence[NodeActivity], width: int) -> Table:
    heads = ("node", "leads", "records/s", "in/s", "out/s", "requests/s", "lag", "cpu", "memory")
    table = _table(heads, width)
    for each in nodes:
        if not each.answers:
            table.add_row(each.node, Text("silent", style="red"), *[""] * 7)
            continue
        cpu = "-" if each.cpu_share is None else f"{each.cpu_share:.0%}"
        table.add_row(
            each.node,
            short_number(each.leaders),
            short_number(each.records_in_per_s),
            short_bytes(each.bytes_in_per_s),
            short_bytes(each.bytes_out_per_s),
            short_number(each.requests_per_s),
            short_number(each.follower_lag),
            cpu,
            short_bytes(each.resident_bytes),
        )
    return table


def _brokers_table(seen: ClusterSnapshot, width: int) -> Table:
    table = _table(("broker", "state", "listener", "leads"), width)
    for each in seen.brokers:
        led = sum(view.leader == each.node_id for view in seen.partitions.values())
        state = "fenced" if each.fenced else "active"
        table.add_row(str(each.node_id), state, f"{each.host}:{each.port}", str(led))
    return table


def _partitions_table(partitions: Sequence[PartitionActivity], width: int) -> Table:
    table = _table(("partition", "leader", "epoch", "isr", "end", "records/s", "lag"), width)
    for name, end, rate in partitions:
        in_sync = f"{len(end.in_sync)} of {len(end.replicas)}"
        whole = len(end.in_sync) >= len(end.replicas)
        lag = PartitionActivity(name, end, rate).follower_lag
        table.add_row(
            _name(name.topic, f"-{name.partition}", width),
            str(end.leader),
            str(end.leader_epoch),
            Text(in_sync, style="" if whole else "yellow"),
            str(end.log_end_offset),
            short_number(rate),
            short_number(lag),
        )
    return table


def _lags_table(lags: Sequence[tuple[str, int]], width: int) -> Table:
    table = _table(("group", "records to read"), width)
    for group, lag in lags:
        table.add_row(_name(group, "", width), str(lag))
    return table


def _table(heads: Sequence[str], width: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", width=width)
    for index, head in enumerate(heads):
        table.add_column(
            Text(head.upper()),
            justify="right" if index else "left",
            no_wrap=True,
            overflow="ellipsis",
        )
    return table


def _name(name: str, ending: str, width: int) -> str:
    room = max(8, width - _FIGURES_WIDTH) - len(ending)
    return f"{name}{ending}" if len(name) <= room else f"{name[: room - 1]}…{ending}"


def _cut(text: str, style: str) -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def short_number(value: float | None) -> str:
    """A number in at most five characters."""
    if value is None:
        return "-"
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e4)):
        if value >= size:
            divisor = 1e3 if unit == "k" else size
            return (
                f"{value / divisor:.0f}{unit}"
                if value >= 100 * divisor
                else (f"{value / divisor:.1f}{unit}")
            )
    return f"{value:.0f}"


def short_bytes(value: float | None) -> str:
    """Bytes, as short."""
    if value is None:
        return "-"
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return f"{value:.0f} B"
