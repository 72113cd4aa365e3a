"""A cluster on this machine: its description, its directories and its processes.

    DIR/cluster.json               which nodes there are and where they listen
    DIR/view/, DIR/links/          the processes beside the nodes: live view, links for development
    DIR/node-100/node.properties   the node's configuration, in Kafka's property names
    DIR/node-100/node.log          everything the process has said
    DIR/node-100/pid               its process, while it runs
    DIR/node-100/ending            how its process ended
    DIR/node-100/data/             its log directory: partition directories lie directly in it

Invariant  `cluster.json` is written last, after every node is formatted: a directory without it
           holds no cluster, and one with it can be started.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidelog.local.development_keys import ADMIN, DevelopmentKeys
from tidelog.local.links import LinkProxies
from tidelog.local.node_process import NodeProcess, NodeState, NodeTrouble
from tidelog.local.node_setup import (
    NodeDescription,
    NodeLinks,
    change_settings,
    local_nodes,
    node_directory,
    refuse_taken_ports,
    refuse_taken_proxies,
    set_up_nodes,
    with_http,
    with_links,
)
from tidelog.local.ports import HOST
from tidelog.local.view_process import ViewProcess
from tidelog.model.errors import ConfigError

if TYPE_CHECKING:
    from tidelog.client.security import ClientSecurity

_DESCRIPTION: Final = "cluster.json"
_POLL_S: Final = 0.01
_SHORT_OF_CONTROLLERS_S: Final = 1.0
"""So long others may be started with a node that waits for them, before it is said that it does."""


class NoCluster(NodeTrouble):
    """The directory holds no cluster."""


class TooFewControllers(NodeTrouble):
    """A node runs and waits: fewer controllers run than it takes for one to be elected."""


class StartCancelled(NodeTrouble):
    """Whoever asked for the start has changed their mind."""


class LocalCluster:
    """The cluster in one directory; every method works from any process."""

    def __init__(
        self, directory: Path, cluster_id: str, descriptions: list[NodeDescription]
    ) -> None:
        self.directory = directory
        self.cluster_id = cluster_id
        self.descriptions = {each.node_id: each for each in descriptions}
        self.nodes = {
            each.node_id: NodeProcess(each.node_id, node_directory(directory, each.node_id))
            for each in descriptions
        }
        self.links = LinkProxies(directory)

    @property
    def has_links(self) -> bool:
        """Whether its links can be cut: it was created for development."""
        return any(each.proxied for each in self.descriptions.values())

    @classmethod
    def open(cls, directory: Path) -> LocalCluster:
        """The cluster that was created in `directory` before."""
        try:
            text = (directory / _DESCRIPTION).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            raise NoCluster(f"there is no cluster in {directory}") from None
        try:
            stored = json.loads(text)
            nodes = [
                NodeDescription(
                    node["id"],
                    tuple(node["roles"]),
                    node["listener"],
                    node["controller_listener"],
                    node.get("http_listener"),
                    NodeLinks(*links) if (links := node.get("links")) else None,
                )
                for node in stored["nodes"]
            ]
            return cls(directory, stored["cluster_id"], nodes)
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{directory / _DESCRIPTION} is damaged: {error!r}") from error

    @classmethod
    def create(
        cls,
        directory: Path,
        *,
        ports: Sequence[int],
        controllers: int = 0,
        controller_ports: Sequence[int] | None = None,
        http_ports: Sequence[int] | None = (),
        development: bool = False,
        settings: Mapping[str, str] | None = None,
        secure: bool = False,
    ) -> LocalCluster:
        """Format a new cluster, with a broker on each port, in an empty or missing directory.

        Without separate controllers the first brokers are controllers as well. Nodes answer over
        HTTP as long as there are ports for it; with None, all of them do, beside their other ports.
        A `secure` one has keys and users of its own (`keys`), and asks everybody who he is.
        """
        if directory.exists() and any(directory.iterdir()):
            raise NodeTrouble(
                f"{directory} is not empty and holds no cluster: empty it or choose another one"
            )
        nodes = with_http(local_nodes(ports, controller_ports, controllers=controllers), http_ports)
        if development and len(nodes) > 1:
            nodes = with_links(nodes)
        existed = directory.exists()
        try:
            cluster_id = set_up_nodes(
                directory, nodes, development=development, settings=settings or {}, secure=secure
            )
            cluster = cls(directory, cluster_id, nodes)
            cluster._write_description()
        except BaseException:
            _remove_what_was_made(directory, existed, nodes)
            raise
        return cluster

    @property
    def keys(self) -> DevelopmentKeys:
        """Its keys and users; `exist` says whether there are any."""
        return DevelopmentKeys.of(self.directory)

    def security(self, *, of_nodes: bool = False) -> ClientSecurity | None:
        """How its brokers let us in, or the listeners that nodes keep to themselves."""
        keys = self.keys
        if not keys.exist:
            return None
        from tidelog.client.security import ClientSecurity

        return ClientSecurity.of_file(
            keys.node_properties if of_nodes else keys.client_properties(ADMIN)
        )

    @property
    def bootstrap(self) -> str:
        """Where a client starts."""
        listeners = (each.listener for each in self.descriptions.values())
        return ",".join(listener for listener in listeners if listener is not None)

    def node(self, node_id: int) -> NodeProcess:
        found = self.nodes.get(node_id)
        if found is None:
            known = ", ".join(map(str, sorted(self.nodes)))
            raise NodeTrouble(f"there is no node {node_id}; this cluster has {known}")
        return found

    def link(self, one: int, other: int) -> LinkProxies:
        """The links, if these two nodes have one that can be cut."""
        for each in (one, other):
            self.node(each)
        if one == other:
            raise NodeTrouble(f"node {one} has no link to itself")
        if not self.has_links:
            raise NodeTrouble(
                "nodes of this cluster talk to each other directly; a cluster that is created with "
                "`tidelog up --dev` has links that can be cut"
            )
        return self.links

    def change_settings(self, settings: Mapping[str, str], *, development: bool = False) -> None:
        """Add properties to every node's configuration; they hold from the next start."""
        for node in self.nodes.values():
            description = self.descriptions[node.node_id]
            change_settings(self.directory, description, settings, development=development)

    def running(self) -> list[int]:
        """The nodes that have a process, paused ones included."""
        return [each for each, node in self.nodes.items() if node.state is not NodeState.STOPPED]

    def start(
        self, timeout_s: float = 30.0, *, cancelled: Callable[[], bool] = lambda: False
    ) -> list[int]:
        """Start every stopped node and wait until all are ready; the ids of those it started.

        If one fails, none of them is left.
        """
        running = self.running()
        stopped = [each for each in self.nodes if each not in running]
        self._start(stopped, timeout_s, cancelled)
        return stopped

    def start_node(self, node_id: int, timeout_s: float = 30.0) -> None:
        """Start one stopped node and wait until it is ready.

        `TooFewControllers` when it cannot be before others run; then it is left running.
        """
        if (pid := self.node(node_id).pid) is not None:
            raise NodeTrouble(f"node {node_id} is already running with pid {pid}")
        self._start([node_id], timeout_s, lambda: False, with_others=False)

    def stop(self, node_ids: Collection[int] | None = None) -> list[int]:
        """Stop these nodes, or all, cleanly, controllers last; the ids of those that ran."""
        running = [each for each in self.running() if node_ids is None or each in node_ids]
        for node_id in sorted(running, key=self._is_controller):
            self.nodes[node_id].stop()
        if not self.running():
            self.links.stop()
        return running

    def delete(self) -> list[str]:
        """Remove a stopped cluster and all its data; what else lies in its directory, and stays."""
        if running := self.running():
            raise NodeTrouble(f"node {running[0]} runs: only a stopped cluster can be deleted")
        (self.directory / _DESCRIPTION).unlink()  # first: half of a cluster is none
        for node in self.nodes.values():
            shutil.rmtree(node.directory)
        ViewProcess(self.directory).delete()
        self.links.delete()
        rest = sorted(path.name for path in self.directory.iterdir())
        if not rest:
            self.directory.rmdir()
        return rest

    def _is_controller(self, node_id: int) -> bool:
        return self.descriptions[node_id].is_controller

    def status(self) -> dict[str, Any]:
        """The object `tidelog status --json` prints."""
        view = ViewProcess(self.directory).url
        return {
            "cluster_id": self.cluster_id,
            "controller": self.active_controller(),
            "view": None if view is None else view.partition("#")[0],
            "nodes": [self._node_status(each) for each in sorted(self.nodes)],
        }

    def active_controller(self) -> int | None:
        """Whom most of the running controllers take for the leader of their quorum."""
        from tidelog.client.probe import known_controller

        security = self.security(of_nodes=True)
        answers = [
            known_controller(
                HOST, self.descriptions[node_id].ports[-1], timeout_s=1.0, security=security
            )
            for node_id, node in sorted(self.nodes.items())
            if self._is_controller(node_id) and node.state is NodeState.RUNNING
        ]
        named = [answer for answer in answers if answer is not None]
        return max(named, key=named.count) if named else None

    def short_of_controllers(self) -> str | None:
        """What is wrong while fewer controllers run than it takes for one to be elected."""
        controllers = [each for each in self.nodes if self._is_controller(each)]
        running = sum(self.nodes[each].state is NodeState.RUNNING for each in controllers)
        if 2 * running > len(controllers):
            return None
        verb = "runs" if running == 1 else "run"
        return f"{running} of {len(controllers)} controllers {verb}; `tidelog up` starts all"

    def why_undecided(self) -> str | None:
        """What is wrong while nodes run and nobody can decide anything."""
        if not self.running():
            return None
        if (why := self.short_of_controllers()) is not None or self.active_controller() is not None:
            return why
        return "the controllers that run have elected none of them"

    def _node_status(self, node_id: int) -> dict[str, Any]:
        node, description = self.nodes[node_id], self.descriptions[node_id]
        ending, http = node.last_ending, description.http_listener
        return {
            "id": node_id,
            "roles": list(description.roles),
            "pid": node.pid,
            "listener": description.listener,
            "controller_listener": description.controller_listener,
            "http": None if http is None or node.pid is None else f"http://{http}",
            "data": str(node.data),
            "log": str(node.log),
            "state": str(node.state),
            "ending": None if ending is None else ending._asdict(),
        }

    def _start(
        self,
        node_ids: list[int],
        timeout_s: float,
        cancelled: Callable[[], bool],
        *,
        with_others: bool = True,
    ) -> None:
        for node_id in node_ids:
            refuse_taken_ports(self.descriptions[node_id])
        if self.has_links and not self.links.is_running:
            refuse_taken_proxies(self.descriptions.values())
        try:
            if self.has_links:
                self.links.start()
            for node_id in node_ids:
                self.nodes[node_id].start()
            for node_id in node_ids:
                began = time.monotonic()
                while not self._is_ready(node_id):
                    if cancelled():
                        raise StartCancelled("stopped before the cluster was ready")
                    self._refuse_ended(node_ids)
                    passed_s = time.monotonic() - began
                    if not with_others and passed_s > _SHORT_OF_CONTROLLERS_S:
                        self._refuse_too_few_controllers()
                    if passed_s > timeout_s:
                        words = self.nodes[node_id].last_words()
                        raise NodeTrouble(
                            f"node {node_id} was not ready after {timeout_s:g} s:\n{words}"
                        )
                    time.sleep(_POLL_S)
        except TooFewControllers:
            raise
        except BaseException:
            self._end_at_once(node_ids)
            raise

    def _end_at_once(self, node_ids: list[int]) -> None:
        """Leave nothing of a start that failed; what ran before goes on."""
        for node_id in node_ids:
            if self.nodes[node_id].state is not NodeState.STOPPED:
                with suppress(NodeTrouble):  # the others are to end as well
                    self.nodes[node_id].kill()
        if not self.running():
            self.links.stop()

    def _is_ready(self, node_id: int) -> bool:
        """Whether a broker shows itself, unfenced, in its own answer to Metadata, or a mere
        controller knows who leads."""
        from tidelog.client.probe import is_unfenced, known_controller

        description = self.descriptions[node_id]
        if description.is_broker:
            security = self.security()
            return is_unfenced(HOST, description.port, node_id, timeout_s=1.0, security=security)
        security = self.security(of_nodes=True)
        known = known_controller(HOST, description.port, timeout_s=1.0, security=security)
        return known is not None

    def _refuse_ended(self, node_ids: list[int]) -> None:
        for node_id in node_ids:
            node = self.nodes[node_id]
            if node.state is NodeState.STOPPED:
                raise NodeTrouble(
                    f"node {node_id} ended during its start ({node.ending}):\n{node.last_words()}"
                )

    def _refuse_too_few_controllers(self) -> None:
        if (why := self.short_of_controllers()) is not None:
            raise TooFewControllers(why)

    def _write_description(self) -> None:
        nodes = [
            {
                "id": node.node_id,
                "roles": list(node.roles),
                "listener": node.listener,
                "controller_listener": node.controller_listener,
                "http_listener": node.http_listener,
                "links": None if node.links is None else list(node.links),
            }
            for node in self.descriptions.values()
        ]
        content = {"cluster_id": self.cluster_id, "nodes": nodes}
        path = self.directory / _DESCRIPTION
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        os.replace(temporary, path)


def _remove_what_was_made(directory: Path, existed: bool, nodes: Sequence[NodeDescription]) -> None:
    """Half of a cluster is none, and would stand in the way of the next attempt."""
    for node in nodes:
        shutil.rmtree(node_directory(directory, node.node_id), ignore_errors=True)
    shutil.rmtree(DevelopmentKeys.of(directory).directory, ignore_errors=True)
    if not existed:
        with suppress(OSError):
            directory.rmdir()
