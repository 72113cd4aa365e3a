"""The names of things: nodes, topics, partitions, and the text form of their identities."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final, NamedTuple
from uuid import UUID

NO_LEADER: Final = -1
NO_EPOCH: Final = -1
ZERO_UUID: Final = UUID(int=0)
METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = UUID(int=1)
DIRECTORY_UNASSIGNED: Final = UUID(int=1)
DIRECTORY_LOST: Final = UUID(int=2)
INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)
_UUID_TEXT: Final = re.compile(r"[A-Za-z0-9_-]{22}")


class TopicPartition(NamedTuple):
    """One partition of one topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @classmethod
    def from_directory(cls, name: str) -> TopicPartition | None:
        """The partition a log directory is named after, or None for any other name."""
        topic, dash, partition = name.rpartition("-")
        if not dash or not topic or not partition.isascii() or not partition.isdigit():
            return None
        return cls(topic, int(partition))


def uuid_text(identity: UUID) -> str:
    """Kafka's 22-character text form: url-safe base64 without padding."""
    return urlsafe_b64encode(identity.bytes).rstrip(b"=").decode("ascii")


def is_uuid_text(text: str) -> bool:
    """Whether a text has the form that `uuid_text` gives."""
    return _UUID_TEXT.fullmatch(text) is not None


def parse_uuid_text(text: str) -> UUID:
    """The identity behind a 22-character text form; ValueError for anything else."""
    raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(text) > 24 or len(raw) != 16:
        raise ValueError(f"{text!r} is not a 16-byte identity in url-safe base64")
    return UUID(bytes=raw)
