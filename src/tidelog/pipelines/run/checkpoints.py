"""What Spark's checkpoint of a flow says: how far each batch goes.

_checkpoints/bronze_sink/bronze/0/offsets/7     batch 7 was planned up to these offsets
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tidelog.pipelines.project.source_options import positions_in
from tidelog.spark.source.offsets import Positions


class Checkpoint(NamedTuple):
    """The checkpoint of one flow."""

    sink: Path
    flow: str

    def batches(self) -> list[int]:
        """The batches that were planned and are remembered."""
        return sorted(int(each.name) for each in self._files("offsets") if each.name.isdigit())

    def committed(self) -> list[int]:
        """The batches that Spark knows to be done."""
        return sorted(int(each.name) for each in self._files("commits") if each.name.isdigit())

    def end_of(self, batch: int) -> Positions:
        """The offsets that a batch ends at."""
        (path,) = (each for each in self._files("offsets") if each.name == str(batch))
        return positions_in(path.read_text(encoding="utf-8").splitlines()[-1])

    def position(self) -> Positions:
        """Everything below it is in the table; empty before the first batch."""
        done = [each for each in self.committed() if each in self.batches()]
        return self.end_of(done[-1]) if done else {}

    def _files(self, kind: str) -> list[Path]:
        generations = sorted(
            (each for each in (self.sink / self.flow).glob("*") if each.name.isdigit()),
            key=lambda each: int(each.name),
        )
        return list((generations[-1] / kind).glob("*")) if generations else []
