"""What the driver asks a cluster: which topics there are, where partitions begin and end.

Invariant  A broker that is away is waited for; only a cluster that stays silent is an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
)
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tidelog.model.ids import TopicPartition
from tidelog.spark.client_settings import admin_settings
from tidelog.spark.errors import NoBroker, OptionError, SourceError
from tidelog.spark.options import ReadOptions
from tidelog.spark.source.offsets import Position, Positions

T = TypeVar("T")

_FIRST_ANSWER_S: Final = 10.0
_REQUEST_S: Final = 5.0
_PAUSE_S: Final = 0.1
NO_RECORD: Final = -1
"""The offset of a moment after the last record."""


class Topics:
    """A look at the topics of one cluster, through librdkafka."""

    def __init__(self, options: ReadOptions) -> None:
        self._bootstrap = options.bootstrap
        level = "READ_COMMITTED" if options.committed_only else "READ_UNCOMMITTED"
        self._isolation = getattr(IsolationLevel, level)
        self._settings = admin_settings(options.client)
        try:
            self._admin = AdminClient(self._settings)
        except KafkaException as error:
            raise OptionError(f"the client refuses its settings: {_words(error)}") from error
        self._answered = False
        self._patience_s = options.api_timeout_ms / 1000
        self._request_s = min(_REQUEST_S, self._patience_s)

    def partition_counts(self) -> dict[str, int]:
        """Every topic with its number of partitions."""

        def ask() -> dict[str, int]:
            found = self._admin.list_topics(timeout=self._request_s).topics
            return {name: len(each.partitions) for name, each in found.items() if not each.error}

        return self._patiently(ask)

    def earliest(self, partitions: Iterable[TopicPartition]) -> Positions:
        """The first record that is still there."""
        return self._positions(dict.fromkeys(partitions, OffsetSpec.earliest()))

    def latest(self, partitions: Iterable[TopicPartition]) -> Positions:
        """The end that a reader may see: below it everything is committed."""
        return self._positions(dict.fromkeys(partitions, OffsetSpec.latest()))

    def at(self, moments: Mapping[TopicPartition, int]) -> Positions:
        """The first record that is not older; offset `NO_RECORD` where there is none."""
        specs = {each: OffsetSpec.for_timestamp(moment) for each, moment in moments.items()}
        return self._positions(specs)

    def commit(self, group: str, positions: Positions) -> None:
        """Show progress as the committed offsets of a group."""
        offsets = [
            ClientPartition(topic, index, position.offset)
            for (topic, index), position in sorted(positions.items())
        ]
        request = [ConsumerGroupTopicPartitions(group, offsets)]

        def ask() -> None:
            answers = self._admin.alter_consumer_group_offsets(
                request, request_timeout=self._request_s
            )
            for each in answers[group].result().topic_partitions:
                if each.error is not None:
                    raise KafkaException(each.error)

        self._patiently(ask)

    def _positions(self, specs: Mapping[TopicPartition, Any]) -> Positions:
        if not specs:
            return {}
        request = {ClientPartition(*each): spec for each, spec in specs.items()}

        def ask() -> Positions:
            answers = self._admin.list_offsets(
                request, isolation_level=self._isolation, request_timeout=self._request_s
            )
            found = {}
            for where, answer in answers.items():
                result = answer.result()
                if result.offset < NO_RECORD:
                    # Nobody led the partition, and librdkafka does not call that an error.
                    raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
                epoch = -1 if result.leader_epoch is None else result.leader_epoch
                found[TopicPartition(where.topic, where.partition)] = Position(result.offset, epoch)
            return found

        return self._patiently(ask)

    def _patiently(self, ask: Callable[[], T]) -> T:
        limit_s = self._patience_s if self._answered else min(_FIRST_ANSWER_S, self._patience_s)
        deadline = time.monotonic() + limit_s
        while True:
            try:
                found = ask()
            except KafkaException as error:
                if not _passes(error) or time.monotonic() > deadline:
                    raise self._trouble(error) from error
                time.sleep(_PAUSE_S)
                # What librdkafka believes about leaders outlives the leaders; a new client asks.
                self._admin = AdminClient(self._settings)
            else:
                self._answered = True
                return found

    def _trouble(self, error: KafkaException) -> SourceError:
        if self._answered or not _passes(error):
            kind = NoBroker if error.args[0].code() in _SILENCE else SourceError
            return kind(f"{self._bootstrap} cannot answer: {_words(error)}")
        return NoBroker(
            f"no broker answers at {self._bootstrap}: check kafka.bootstrap.servers, and that "
            f"the cluster is up (`tidelog status`). The client says: {_words(error)}"
        )


def _passes(error: KafkaException) -> bool:
    found: KafkaError = error.args[0]
    return found.retriable() or found.code() in _WAITED_OUT


_SILENCE: Final = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
    }
)
_WAITED_OUT: Final = _SILENCE | frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)


def _words(error: KafkaException) -> str:
    found: KafkaError = error.args[0]
    return str(found.str())
