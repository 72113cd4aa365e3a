"""Replication as it was before leader epochs decided where a log is cut (KIP-101, KIP-279).

A node that keeps no leader epochs has only its high watermark to go by: whenever it begins to
follow, it gives up everything above that, and its fetches cannot say whose last record it has.

Invariant  Nothing else is different: the same code runs, and finds no epochs in its logs.
"""

from __future__ import annotations

from tidelog.model.config import NodeConfig
from tidelog.model.entropy import Entropy
from tidelog.model.time import Now
from tidelog.node.core.effects import Effect
from tidelog.node.core.inputs import Input
from tidelog.node.node import Node
from tidelog.storage.filesystem import FileSystem
from tidelog.storage.leader_epoch_cache import LeaderEpochCache


class _NoEpochs(LeaderEpochCache):
    """Takes note of nothing."""

    __slots__ = ()

    def assign(self, epoch: int, start_offset: int) -> bool:
        return False

    def begin(self, epoch: int, start_offset: int) -> None:
        pass


class NodeWithoutEpochs(Node):
    """A node whose logs keep no leader epochs."""

    def __init__(self, config: NodeConfig, files: FileSystem, entropy: Entropy) -> None:
        super().__init__(config, files, entropy)
        self._disk = files

    def start(self, now: Now) -> list[Effect]:
        effects = super().start(now)
        self._keep_no_epochs()
        return effects

    def step(self, happened: Input) -> list[Effect]:
        effects = super().step(happened)
        self._keep_no_epochs()
        return effects

    def _keep_no_epochs(self) -> None:
        for partition in self.replicas if self.has_started else ():
            log = partition.log
            if not isinstance(log.epochs, _NoEpochs):
                log.epochs.clear()
                log.epochs = _NoEpochs(self._disk, log.epochs.path)
