"""The topics of the cluster, as groups need to know them."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple, Protocol
from uuid import UUID


class IdPartition(NamedTuple):
    """One partition of one topic, by the id of the topic."""

    topic_id: UUID
    partition: int


class KnownTopic(NamedTuple):
    """A topic that exists."""

    name: str
    topic_id: UUID
    partitions: int


class Topics(Protocol):
    """What the metadata says now."""

    @property
    def version(self) -> int:
        """Rises whenever something may have changed."""
        ...

    def named(self, name: str) -> KnownTopic | None: ...

    def with_id(self, topic_id: UUID) -> KnownTopic | None: ...

    def names(self) -> Iterable[str]:
        """All topics, the cluster's own included."""
        ...


def fingerprint(topics: Topics, names: Iterable[str]) -> int:
    """A number that changes when one of the topics does: 64 bits, 0 for no topics at all."""
    known = [topic for name in sorted(names) if (topic := topics.named(name)) is not None]
    if not known:
        return 0
    digest = blake2b(digest_size=8)
    for topic in known:
        digest.update(f"{topic.name}/{topic.topic_id}/{topic.partitions};".encode())
    return int.from_bytes(digest.digest(), "big", signed=True)
