"""One archive with what somebody needs who helps from afar.

Invariant  No record of a topic is in it, and no value of a setting that may be a secret.
Invariant  What cannot be had is named with the reason, and keeps nothing else out.
Invariant  All of it is of one cluster; what is of another one, or may be, is left out and named.
"""

from __future__ import annotations

import io
import json
import os
import platform
import re
import shutil
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Final, NamedTuple

from tidelog import __version__
from tidelog.client.admin import Admin, ConfigSource, ResourceType
from tidelog.client.blocking import Client
from tidelog.client.errors import NoController
from tidelog.client.groups import Groups
from tidelog.client.reassignments import Reassignments
from tidelog.client.security import ClientSecurity
from tidelog.local.local_cluster import LocalCluster
from tidelog.local.node_process import NodeProcess
from tidelog.model.errors import TidelogError
from tidelog.model.ids import uuid_text
from tidelog.model.settings.properties import parse_properties, write_properties

_SECRET: Final = re.compile(
    r"password|secret|token|credential|jaas|passphrase|private|keystore\.key", re.I
)
_HIDDEN: Final = "(hidden)"
_MOST_OF_A_LOG: Final = 16 << 20
"""Bytes; of a longer file the end is taken."""
_ASKED_WITHIN_S: Final = 5.0
_ASKED_OF_NOBODY_S: Final = 2.0
"""So long a broker may take that nobody would replace."""
_KNOWN_TO_CONTROLLERS: Final = ("quorum", "reassignments")
_SMALL_FILES: Final = ("meta.properties", "*-checkpoint", "__cluster_metadata-0/quorum-state")


class Entry(NamedTuple):
    """A file of the archive."""

    name: str
    size: int
    what: str


class SupportBundle:
    """An archive that is being written."""

    def __init__(self, archive: tarfile.TarFile, root: str) -> None:
        self.contents: list[Entry] = []
        self.missing: dict[str, str] = {}
        self.left_out: dict[str, str] = {}
        """What could be had and is of another cluster."""
        self.warnings: list[str] = []
        self._archive = archive
        self._root = root

    @contextmanager
    def trying(self, what: str) -> Iterator[None]:
        """Note why something could not be had, and go on."""
        try:
            yield
        except (TidelogError, OSError) as error:
            self.missing[what] = str(error)

    def add(self, name: str, content: str | bytes, what: str) -> None:
        data = content.encode() if isinstance(content, str) else content
        entry = tarfile.TarInfo(f"{self._root}/{name}")
        entry.size, entry.mtime, entry.mode = len(data), int(time.time()), 0o600
        self._archive.addfile(entry, io.BytesIO(data))
        self.contents.append(Entry(name, len(data), what))

    def add_json(self, name: str, value: object, what: str) -> None:
        self.add(name, json.dumps(value, indent=1, default=str) + "\n", what)

    def add_end_of(self, name: str, path: Path, what: str) -> None:
        """A file, or the end of a long one, as it is at this moment."""
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _MOST_OF_A_LOG))
            self.add(name, file.read(_MOST_OF_A_LOG), what)

    def finish(self) -> None:
        """Say in the archive what is in it."""
        lines = ["What is in this archive; records of topics and secrets are not.", ""]
        lines += [f"{each.name}  {each.what}" for each in self.contents]
        lines += ["", *(f"warning: {each}" for each in self.warnings)]
        lines += [f"missing: {what}: {why}" for what, why in self.missing.items()]
        lines += [f"left out: {what}: {why}" for what, why in self.left_out.items()]
        self.add("README.txt", "\n".join(lines) + "\n", "this list")


@contextmanager
def new_bundle(path: Path) -> Iterator[SupportBundle]:
    """An archive that only its owner can read; it must not be there yet."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with (
            os.fdopen(descriptor, "wb") as file,
            tarfile.open(fileobj=file, mode="w:gz") as archive,
        ):
            bundle = SupportBundle(archive, path.name.removesuffix(".tar.gz"))
            yield bundle
            bundle.finish()
    except BaseException:
        path.unlink(missing_ok=True)  # half of one helps nobody
        raise


def add_versions(bundle: SupportBundle) -> None:
    """What runs here."""
    bundle.add_json(
        "versions.json",
        {
            "tidelog": __version__,
            "python": sys.version,
            "platform": platform.platform(),
            "packages": {
                each.name: each.version
                for each in sorted(distributions(), key=lambda each: each.name.lower())
            },
        },
        "versions of Tidelog, Python, the system and all packages",
    )


def add_local_cluster(bundle: SupportBundle, cluster: LocalCluster) -> None:
    """The nodes of this machine, as their files tell of them."""
    with bundle.trying("status"):
        bundle.add_json("status.json", cluster.status(), "`tidelog status`")
    if (why := cluster.why_undecided()) is not None:
        bundle.warnings.append(f"nothing can be decided: {why}")
    for node in cluster.nodes.values():
        other = _other_cluster(node, cluster.cluster_id)
        if other is None:
            _add_node(bundle, node)
        else:
            why = f"{node.data} is of cluster {other}, and this is {cluster.cluster_id}"
            bundle.left_out[f"node {node.node_id}"] = why


def _other_cluster(node: NodeProcess, cluster_id: str) -> str | None:
    """The cluster that a node's directory is of, if it is another one."""
    try:
        identity = parse_properties((node.data / "meta.properties").read_text(encoding="utf-8"))
    except (OSError, ValueError, TidelogError):
        return None
    found = identity.get("cluster.id", cluster_id)
    return None if found == cluster_id else found


def _add_node(bundle: SupportBundle, node: NodeProcess) -> None:
    home = f"node-{node.node_id}"
    with bundle.trying(f"settings of node {node.node_id}"):
        settings = parse_properties(node.properties.read_text(encoding="utf-8"))
        text = write_properties(without_secrets(settings))
        bundle.add(f"{home}/node.properties", text, "its settings, secrets hidden")
    for path in sorted(node.directory.glob("node.log*")):
        with bundle.trying(str(path)):
            bundle.add_end_of(f"{home}/{path.name}", path, "what it said")
    for path in sorted(node.data.glob("events.jsonl*")):
        with bundle.trying(str(path)):
            bundle.add_end_of(f"{home}/{path.name}", path, "its events")
    for path in sorted(each for pattern in _SMALL_FILES for each in node.data.glob(pattern)):
        with bundle.trying(str(path)):
            bundle.add_end_of(f"{home}/data/{path.relative_to(node.data)}", path, "as it is")
    with bundle.trying(f"files of node {node.node_id}"):
        bundle.add(f"{home}/files.txt", _listing(node.data), "size, time and name of each file")


def without_secrets(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings that may be shown to anybody."""
    return {key: _HIDDEN if _SECRET.search(key) else value for key, value in settings.items()}


def _listing(directory: Path) -> str:
    room = shutil.disk_usage(directory)
    lines = [f"# {directory}: {room.free} of {room.total} bytes are free"]
    for path in sorted(directory.rglob("*")):
        try:
            found = path.lstat()
        except OSError:  # removed meanwhile
            continue
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(found.st_mtime))
        lines.append(f"{found.st_size:>14} {moment} {path.relative_to(directory)}")
    return "\n".join(lines) + "\n"


def add_cluster(
    bundle: SupportBundle,
    bootstrap: str,
    cluster_id: str | None = None,
    security: ClientSecurity | None = None,
) -> str | None:
    """The cluster as it describes itself to a client, unless it is another than the one that is
    wanted; its id."""
    with (
        bundle.trying(f"the cluster at {bootstrap}"),
        Client(
            bootstrap,
            timeout_s=_ASKED_WITHIN_S,
            request_timeout_s=_ASKED_WITHIN_S,
            security=security,
        ) as client,
    ):
        admin = Admin(client)
        found, _, _ = admin.describe_cluster()
        if cluster_id not in (None, found):
            why = f"they are of cluster {found}, and this is {cluster_id}"
            bundle.left_out[f"the brokers at {bootstrap}"] = why
            return found
        undecided = _why_undecided(bundle, admin)
        if undecided is not None:
            client.timeout_s = client.request_timeout_s = _ASKED_OF_NOBODY_S
        _add_parts(bundle, client, admin, undecided)
        return found
    return None


def _why_undecided(bundle: SupportBundle, admin: Admin) -> str | None:
    try:
        admin.require_controller()
    except NoController as missing:
        bundle.warnings.append(f"{missing}; brokers tell what they knew last")
        return str(missing)
    return None


def _add_parts(bundle: SupportBundle, client: Client, admin: Admin, undecided: str | None) -> None:
    parts: dict[str, tuple[Callable[[], object], str]] = {
        "brokers": (lambda: _brokers(admin), "the brokers that are registered"),
        "quorum": (lambda: admin.describe_quorum()._asdict(), "controllers and their logs"),
        "topics": (lambda: _topics(admin), "partitions, leaders, replicas, in-sync replicas"),
        "settings": (lambda: _settings(admin), "settings of topics that are not the default"),
        "reassignments": (
            lambda: [each._asdict() for each in Reassignments(client).under_way()],
            "partitions that move",
        ),
        "groups": (
            lambda: [each._asdict() for each in Groups(client).list([])],
            "consumer groups",
        ),
    }
    for name, (ask, what) in parts.items():
        if undecided is not None and name in _KNOWN_TO_CONTROLLERS:
            bundle.missing[f"{name} of the cluster"] = undecided
            continue
        with bundle.trying(f"{name} of the cluster"):
            bundle.add_json(f"cluster/{name}.json", ask(), what)


def _brokers(admin: Admin) -> dict[str, Any]:
    cluster_id, _, brokers = admin.describe_cluster()
    return {"cluster_id": cluster_id, "brokers": [each._asdict() for each in brokers]}


def _topics(admin: Admin) -> list[dict[str, Any]]:
    return [
        {
            "topic": topic.name,
            "topic_id": uuid_text(topic.topic_id),
            "partitions": [
                {**each._asdict(), "error": each.error.name} for each in topic.partitions
            ],
        }
        for _, topic in sorted(admin.topics().topics.items())
    ]


def _settings(admin: Admin) -> dict[str, dict[str, str | None]]:
    return {
        name: {
            entry.name: _HIDDEN if entry.sensitive or _SECRET.search(entry.name) else entry.value
            for entry in admin.describe_configs(ResourceType.TOPIC, name)
            if entry.source is not ConfigSource.DEFAULT
        }
        for name in sorted(admin.topics().topics)
    }
