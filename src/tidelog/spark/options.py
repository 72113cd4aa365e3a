"""The options of a read and of a write, checked once on the driver.

Invariant  Whatever is wrong with an option is said before a broker is asked anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from tidelog.client.security import ClientSecurity
from tidelog.model.errors import ConfigError
from tidelog.spark import option_names
from tidelog.spark.errors import OptionError
from tidelog.spark.source.range_limits import (
    EARLIEST,
    LATEST,
    End,
    OffsetRangeLimit,
    Offsets,
    duration_ms,
    parse_end,
    parse_start,
    parse_timestamp,
    parse_timestamps,
)
from tidelog.spark.source.subscription import Subscription, parse_subscription

T = TypeVar("T")

_STARTS: Final = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_ENDS: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_STREAM_ONLY: Final = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "commitGroup",
)
_DEFAULT_TRIGGER_DELAY_MS: Final = 15 * 60_000
_DEFAULT_POLL_TIMEOUT_MS: Final = 120_000
DEFAULT_API_TIMEOUT_MS: Final = 60_000
"""How long a question about the cluster waits for brokers that are away."""
DEFAULT_MAX_BLOCK_MS: Final = 30_000
"""How long a writer waits for the first broker that answers."""
READ_COMMITTED: Final = "read_committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Everything a reader needs to know; travels to executors as it is."""

    client: Mapping[str, str]
    subscription: Subscription
    start: OffsetRangeLimit | None
    end: OffsetRangeLimit
    latest_if_no_record_is_that_young: bool
    fail_on_data_loss: bool
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records_per_partition: int | None
    include_headers: bool
    include_leader_epoch: bool
    columns: tuple[str, ...] | None
    group_id_prefix: str
    commit_group: str | None
    poll_timeout_ms: int
    api_timeout_ms: int = DEFAULT_API_TIMEOUT_MS

    @property
    def bootstrap(self) -> str:
        return self.client["bootstrap.servers"]

    @property
    def committed_only(self) -> bool:
        return self.client.get("isolation.level", READ_COMMITTED) == READ_COMMITTED


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Everything a writer needs to know; travels to executors as it is."""

    client: Mapping[str, str]
    topic: str | None
    exactly_once: bool
    ledger_topic: str
    transactional_id_prefix: str
    two_phase: bool | None = None
    """None: where the cluster offers it."""
    max_block_ms: int = DEFAULT_MAX_BLOCK_MS

    @property
    def bootstrap(self) -> str:
        return self.client["bootstrap.servers"]


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """The options of any read; what only batch or stream knows is checked by the next two."""
    given = _Given(option_names.checked(options, option_names.READ))
    min_records = given.count("minOffsetsPerTrigger")
    max_records = given.count("maxOffsetsPerTrigger")
    if min_records and max_records and min_records > max_records:
        raise OptionError(
            f"minOffsetsPerTrigger ({min_records}) is above maxOffsetsPerTrigger ({max_records}): "
            "lower the one or raise the other"
        )
    client = option_names.client_settings(options)
    _refuse_both(client, given)
    return ReadOptions(
        client=client,
        subscription=parse_subscription(given.texts),
        start=given.start(),
        end=given.end(),
        latest_if_no_record_is_that_young=given.choice(
            "startingOffsetsByTimestampStrategy", {"error": False, "latest": True}, "error"
        ),
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        max_offsets_per_trigger=max_records,
        min_offsets_per_trigger=min_records,
        max_trigger_delay_ms=given.duration("maxTriggerDelay", _DEFAULT_TRIGGER_DELAY_MS),
        min_partitions=given.count("minPartitions"),
        max_records_per_partition=given.count("maxRecordsPerPartition"),
        include_headers=given.flag("includeHeaders", False),
        include_leader_epoch=given.flag("includeLeaderEpoch", False),
        columns=given.names("columns"),
        group_id_prefix=given.texts.get("groupIdPrefix", "tidelog-spark"),
        commit_group=given.texts.get("commitGroup"),
        poll_timeout_ms=given.count("kafkaConsumer.pollTimeoutMs") or _DEFAULT_POLL_TIMEOUT_MS,
        api_timeout_ms=_client_count(options, "kafka.default.api.timeout.ms")
        or DEFAULT_API_TIMEOUT_MS,
    )


def batch_options(options: Mapping[str, str]) -> ReadOptions:
    """The options of `spark.read`."""
    _refuse(options, _STREAM_ONLY, "has no meaning in a batch query")
    read = read_options(options)
    if read.start == End(LATEST) or _names(read.start, LATEST):
        raise OptionError(
            "startingOffsets: a batch query that starts at latest reads nothing; "
            "start at earliest, at an offset, or at -100 for the last hundred records"
        )
    _refuse_no_records(read)
    return read


def stream_options(options: Mapping[str, str]) -> ReadOptions:
    """The options of `spark.readStream`."""
    read = read_options(options)
    _refuse_no_records(read)
    return read


def write_options(options: Mapping[str, str], *, streaming: bool) -> WriteOptions:
    """The options of `df.write` and `df.writeStream`."""
    given = _Given(option_names.checked(options, option_names.WRITE))
    exactly_once = given.choice(
        "delivery",
        {"exactly-once": True, "at-least-once": False},
        "exactly-once" if streaming else "at-least-once",
    )
    if exactly_once and not streaming:
        raise OptionError(
            "delivery=exactly-once needs a streaming query, whose checkpoint tells a batch that "
            "was written from one that was not: use writeStream, or leave delivery out"
        )
    client = option_names.client_settings(options)
    if exactly_once:
        _refuse_unspoken(client)
    return WriteOptions(
        client=client,
        topic=given.texts.get("topic"),
        exactly_once=exactly_once,
        ledger_topic=given.texts.get("ledgerTopic", "__spark_ledger"),
        transactional_id_prefix=given.texts.get("transactionalIdPrefix", "spark"),
        two_phase=given.choice(
            "twoPhaseCommit", {"auto": None, "true": True, "false": False}, "auto"
        ),
        max_block_ms=_client_count(options, "kafka.max.block.ms") or DEFAULT_MAX_BLOCK_MS,
    )


def _refuse_unspoken(client: Mapping[str, str]) -> None:
    """Exactly once needs requests that librdkafka does not have, so our own client logs in, too."""
    try:
        ClientSecurity.of_librdkafka(client)
    except ConfigError as error:
        raise OptionError(
            f"delivery=exactly-once cannot log in with these settings ({error}): mend them, or set "
            "delivery to at-least-once"
        ) from error


@dataclass(frozen=True, slots=True)
class _Given:
    """Options under their documented names, and how to read each kind of value."""

    texts: Mapping[str, str] = field(default_factory=dict)

    def start(self) -> OffsetRangeLimit | None:
        return self._limit(_STARTS, parse_start)

    def end(self) -> OffsetRangeLimit:
        return self._limit(_ENDS, parse_end) or End(LATEST)

    def _limit(
        self, names: tuple[str, str, str], parse_offsets: Callable[[str, str], OffsetRangeLimit]
    ) -> OffsetRangeLimit | None:
        present = [name for name in names if name in self.texts]
        if len(present) > 1:
            raise OptionError(f"{' and '.join(present)} contradict each other: keep one of them")
        if not present:
            return None
        (name,) = present
        text = self.texts[name]
        if name == names[0]:
            return parse_timestamp(name, text)
        if name == names[1]:
            return parse_timestamps(name, text)
        return parse_offsets(name, text)

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, {"true": True, "false": False}, str(default).lower())

    def choice(self, name: str, values: Mapping[str, T], default: str) -> T:
        text = self.texts.get(name, default).strip().lower()
        if text not in values:
            raise OptionError(f"{name} is one of {', '.join(values)}, not {text!r}")
        return values[text]

    def count(self, name: str) -> int | None:
        text = self.texts.get(name)
        if text is None:
            return None
        if not text.strip().isdigit() or int(text) == 0:
            raise OptionError(f"{name} is a number from 1 on, not {text!r}")
        return int(text)

    def duration(self, name: str, default_ms: int) -> int:
        text = self.texts.get(name)
        return default_ms if text is None else duration_ms(name, text)

    def names(self, name: str) -> tuple[str, ...] | None:
        text = self.texts.get(name)
        return None if text is None else tuple(re.split(r"\s*,\s*", text.strip()))


def _client_count(options: Mapping[str, str], name: str) -> int | None:
    """A setting of the client that we heed ourselves, because librdkafka has none like it."""
    return _Given({given.lower(): text for given, text in options.items()}).count(name)


def _refuse(options: Mapping[str, str], names: tuple[str, ...], why: str) -> None:
    given = {option.lower() for option in options}
    for name in names:
        if name.lower() in given:
            raise OptionError(f"{name} {why}: leave it out")


def _refuse_both(client: Mapping[str, str], given: _Given) -> None:
    if "group.id" in client and "groupIdPrefix" in given.texts:
        raise OptionError("kafka.group.id and groupIdPrefix contradict each other: keep one")


def _refuse_no_records(read: ReadOptions) -> None:
    if read.end == End(EARLIEST) or _names(read.end, EARLIEST):
        raise OptionError("endingOffsets: a query that ends at earliest reads nothing")


def _names(limit: OffsetRangeLimit | None, end: int) -> bool:
    return isinstance(limit, Offsets) and end in limit.by_partition.values()
