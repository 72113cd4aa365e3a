"""A real cluster for a test: broker processes on free ports, in a directory that goes away.

    with Cluster() as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        ...
        cluster.kill(100)
        cluster.start(100)

Invariant  After the `with` block no process of the cluster is left, whatever happened inside.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tidelog.local.local_cluster import LocalCluster
from tidelog.local.node_process import NodeProcess, NodeState
from tidelog.local.node_setup import FIRST_NODE_ID, VOTERS
from tidelog.local.ports import free_ports


class Cluster:
    """Starts when entered, ready when the block begins, gone when it ends."""

    def __init__(
        self,
        directory: Path | None = None,
        *,
        brokers: int = 1,
        controllers: int = 0,
        http: bool = False,
        settings: Mapping[str, str] | None = None,
        secure: bool = False,
    ) -> None:
        """With `http`, every node answers questions over HTTP as well; a `secure` cluster asks
        everybody who he is, and `client_properties` says how to be let in."""
        self._secure = secure
        self._brokers = brokers
        self._http = http
        self._controllers = controllers
        self._settings = dict(settings or {})
        self._temporary = (
            tempfile.TemporaryDirectory(prefix="tidelog-") if directory is None else None
        )
        self.directory = Path(self._temporary.name) if self._temporary else Path(directory or ".")
        self._cluster: LocalCluster | None = None

    def __enter__(self) -> Self:
        others = max(self._controllers, VOTERS)
        nodes = self._brokers + self._controllers
        ports = free_ports(self._brokers + others + nodes * self._http)
        try:
            self._cluster = LocalCluster.create(
                self.directory,
                ports=ports[: self._brokers],
                controllers=self._controllers,
                controller_ports=ports[self._brokers : self._brokers + others],
                http_ports=ports[self._brokers + others :],
                settings=self._settings,
                secure=self._secure,
            )
            self._cluster.start()
        except BaseException:
            self._clear_away()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._clear_away()

    @property
    def local(self) -> LocalCluster:
        """The cluster itself, for whatever this class does not offer."""
        if self._cluster is None:
            raise RuntimeError("the cluster is there only inside its `with` block")
        return self._cluster

    def http(self, node_id: int = FIRST_NODE_ID) -> str:
        """Where a node answers over HTTP: host:port."""
        listener = self.local.descriptions[node_id].http_listener
        if listener is None:
            raise RuntimeError("the cluster was made without `http`")
        return listener

    @property
    def bootstrap(self) -> str:
        """host:port for any client."""
        return self.local.bootstrap

    @property
    def client_properties(self) -> Path:
        """A file of client properties (`security.protocol`, `sasl.*`, `ssl.*`) that lets one in."""
        if not self._secure:
            raise RuntimeError("the cluster was made without `secure`")
        return self.local.keys.client_properties()

    @property
    def cluster_id(self) -> str:
        return self.local.cluster_id

    @property
    def node_ids(self) -> list[int]:
        return sorted(self.local.nodes)

    def node(self, node_id: int = FIRST_NODE_ID) -> NodeProcess:
        return self.local.node(node_id)

    def data(self, node_id: int = FIRST_NODE_ID) -> Path:
        """The node's log directory, with a directory for each partition in it."""
        return self.node(node_id).data

    def log_text(self, node_id: int = FIRST_NODE_ID) -> str:
        """Everything the node has said."""
        return self.node(node_id).log.read_text(encoding="utf-8")

    def state(self, node_id: int = FIRST_NODE_ID) -> NodeState:
        return self.node(node_id).state

    def kill(self, node_id: int = FIRST_NODE_ID) -> None:
        """SIGKILL; returns when the process is gone."""
        self.node(node_id).kill()

    def stop(self, node_id: int = FIRST_NODE_ID) -> None:
        """SIGTERM; returns when the node has ended cleanly."""
        self.node(node_id).stop()

    def pause(self, node_id: int = FIRST_NODE_ID) -> None:
        """SIGSTOP."""
        self.node(node_id).pause()

    def resume(self, node_id: int = FIRST_NODE_ID) -> None:
        """SIGCONT."""
        self.node(node_id).resume()

    def start(self, node_id: int = FIRST_NODE_ID) -> None:
        """Start a stopped node again; returns when it is ready.

        While too few controllers run for that it raises `TooFewControllers`; the node runs and
        becomes ready with the others.
        """
        self.local.start_node(node_id)

    def start_all(self) -> None:
        """Start every stopped node; returns when all are ready."""
        self.local.start()

    def _clear_away(self) -> None:
        if self._cluster is not None:
            for node_id in self._cluster.running():
                self._cluster.nodes[node_id].kill()
        if self._temporary is not None:
            self._temporary.cleanup()
