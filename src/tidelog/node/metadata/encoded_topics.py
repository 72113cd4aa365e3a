"""Topics as Metadata tells of them: encoded once, and kept for as long as they look the same.

Clients ask for all topics again and again, most of all when a broker fails. What a topic looks
like depends on its partitions, and on which brokers can be reached over the listener that was
asked.

Invariant  What is kept is what would be encoded now: it is good only for the very partitions, and
           the same view of every broker in them, that it was made from. Nobody has to say that
           something changed.
Invariant  As many forms (version and listener) are kept as a few generations of clients use, and
           in each at most as many topics as there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.controller.image import ClusterImage
from tidelog.controller.partition_image import PartitionImage, TopicImage
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import INTERNAL_TOPICS, NO_LEADER
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.metadata.departures import Departures
from tidelog.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from tidelog.protocol.metadata_response import encode_topic

FORMS_MAX: Final = 8
LISTENER_NOT_FOUND_SINCE: Final = 6


class SeenBroker(NamedTuple):
    """What a client of one listener is told of a broker."""

    is_live: bool
    as_leader: ErrorCode
    """Why it cannot be named as a leader, if it cannot."""


UNKNOWN: Final = SeenBroker(False, ErrorCode.leader_not_available)


class BrokersView:
    """Every registered broker as a client of one listener sees it."""

    def __init__(self, brokers: Mapping[int, SeenBroker]) -> None:
        self.brokers = brokers
        self._offline: dict[tuple[int, ...], tuple[int, ...]] = {}

    def as_leader(self, broker_id: int) -> ErrorCode:
        """Why a broker cannot be named as a leader, if it cannot."""
        return self.brokers.get(broker_id, UNKNOWN).as_leader

    def offline(self, replicas: tuple[int, ...]) -> tuple[int, ...]:
        """Those that are not live; many partitions have the same replicas."""
        offline = self._offline.get(replicas)
        if offline is None:
            known = self.brokers
            offline = tuple(node for node in replicas if not known.get(node, UNKNOWN).is_live)
            self._offline[replicas] = offline
        return offline

    def differs_in(self, other: BrokersView) -> set[int]:
        """The brokers that are seen otherwise there."""
        mine, others = self.brokers, other.brokers
        return {node for node in {**mine, **others} if mine.get(node) != others.get(node)}


class EncodedTopic(NamedTuple):
    encoded: bytes
    partitions: tuple[PartitionImage, ...]
    brokers: frozenset[int]


class Form:
    """The topics in one version, for one listener."""

    def __init__(self) -> None:
        self.view = BrokersView({})
        self.topics: dict[UUID, EncodedTopic] = {}
        self.everything: tuple[ClusterImage, int, list[bytes]] | None = None
        """All topics in order, as they stood at one end of the metadata log."""


class EncodedTopics:
    """The topics of a node's image, in the forms that clients ask for."""

    def __init__(self, cluster: ClusterView, departures: Departures) -> None:
        self._cluster = cluster
        self._departures = departures
        self.forms: dict[tuple[int, str], Form] = {}
        self.encoded = 0
        """How many topics had to be encoded so far."""

    def all(self, version: int, listener: str) -> list[bytes]:
        """Every topic, by name."""
        form = self._form(version, listener)
        image = self._cluster.image
        kept = form.everything
        if kept is not None and kept[0] is image and kept[1] == image.end_offset:
            return kept[2]
        topics = [topic for _, topic in sorted(image.topics_by_name.items())]
        found = [self._topic(form, topic, version) for topic in topics]
        form.everything = (image, image.end_offset, found)
        self._forget_deleted(form)
        return found

    def some(self, topics: Iterable[TopicImage], version: int, listener: str) -> list[bytes]:
        """These topics, in their order."""
        form = self._form(version, listener)
        found = [self._topic(form, topic, version) for topic in topics]
        self._forget_deleted(form)
        return found

    def _topic(self, form: Form, topic: TopicImage, version: int) -> bytes:
        partitions = tuple(topic.partitions.values())
        entry = form.topics.get(topic.topic_id)
        if entry is not None and entry.partitions == partitions:
            return entry.encoded
        self.encoded += 1
        encoded = encode_topic(described(topic, form.view), version)
        brokers = frozenset(each.leader for each in partitions).union(
            *{each.replicas for each in partitions}
        )
        form.topics[topic.topic_id] = EncodedTopic(encoded, partitions, brokers)
        return encoded

    def _form(self, version: int, listener: str) -> Form:
        """The form as it was last used, without the topics on brokers that are seen otherwise."""
        form = self.forms.pop((version, listener), None) or Form()
        self.forms[version, listener] = form  # the latest used is the last
        if len(self.forms) > FORMS_MAX:
            del self.forms[next(iter(self.forms))]
        view = brokers_view(self._cluster, self._departures, version, listener)
        changed = view.differs_in(form.view)
        if changed:
            form.topics = {
                topic_id: entry
                for topic_id, entry in form.topics.items()
                if changed.isdisjoint(entry.brokers)
            }
            form.view, form.everything = view, None
        return form

    def _forget_deleted(self, form: Form) -> None:
        topics = self._cluster.image.topics_by_id
        if len(form.topics) > len(topics):
            form.topics = {key: entry for key, entry in form.topics.items() if key in topics}


def brokers_view(
    cluster: ClusterView, departures: Departures, version: int, listener: str
) -> BrokersView:
    """Every registered broker as a client of this listener may see it."""
    return BrokersView(
        {
            node: _seen(cluster, departures, node, version, listener)
            for node in cluster.image.brokers
        }
    )


def _seen(
    cluster: ClusterView, departures: Departures, node: int, version: int, listener: str
) -> SeenBroker:
    if not cluster.is_live(node):
        return UNKNOWN
    if departures.is_in_doubt(node):
        return SeenBroker(True, ErrorCode.leader_not_available)
    if cluster.endpoint(node, listener) is not None:
        return SeenBroker(True, ErrorCode.none)
    if version >= LISTENER_NOT_FOUND_SINCE:
        return SeenBroker(True, ErrorCode.listener_not_found)
    return SeenBroker(True, ErrorCode.leader_not_available)


def described(topic: TopicImage, view: BrokersView) -> MetadataResponseTopic:
    """A topic as clients with this view of the brokers see it."""
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            described_partition(index, partition, view)
            for index, partition in sorted(topic.partitions.items())
        ],
    )


def described_partition(
    index: int, partition: PartitionImage, view: BrokersView
) -> MetadataResponsePartition:
    """One partition as clients see it: its leader only when it can be reached."""
    error = view.as_leader(partition.leader)
    return MetadataResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=NO_LEADER if error else partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=view.offline(partition.replicas),
    )
