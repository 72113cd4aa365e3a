"""What pages ask the brokers, as any client would: topics, records, groups, transactions, moves.

Every answer is plain JSON. They block; a server runs them in threads.

Invariant  Nothing here changes the cluster.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final

from tidelog.client.admin import Admin, ConfigSource, ResourceType
from tidelog.client.blocking import Client
from tidelog.client.consumer import ConsumedRecord, Consumer
from tidelog.client.groups import Groups
from tidelog.client.offsets import EARLIEST, LATEST, BoundsSurvey, Isolation, find_offsets
from tidelog.client.reassignment_plan import Plan, write_plan
from tidelog.client.reassignments import Reassignments
from tidelog.client.security import ClientSecurity
from tidelog.client.transactions import Transactions
from tidelog.http.messages import json_text
from tidelog.model.errors import ConfigError
from tidelog.model.ids import TopicPartition
from tidelog.view.record_decoding import Decoder, decoder, show

_TIMEOUT_S: Final = 5.0
_MOST_RECORDS: Final = 500
_MOST_BYTES: Final = 8 << 20
"""Of keys, values and headers in one answer; a page asks for more."""
_MOST_HEADERS: Final = 200
_LAST_DATE_MS: Final = 8_640_000_000_000_000
"""The last moment for which a browser has a date."""
_MOST_SCANNED: Final = 200_000
_SCAN_S: Final = 4.0
_TAIL_WAIT_S: Final = 2.0
_MOST_TRANSACTIONS: Final = 200


class KafkaQuestions:
    """Questions to one cluster."""

    def __init__(self, bootstrap: str, security: ClientSecurity | None = None) -> None:
        self._bootstrap = bootstrap
        self._security = security

    @contextmanager
    def client(self) -> Iterator[Client]:
        with Client(
            self._bootstrap,
            client_id="tidelog-view",
            timeout_s=_TIMEOUT_S,
            request_timeout_s=_TIMEOUT_S,
            security=self._security,
        ) as client:
            yield client

    # -- topics and records --------------------------------------------------------------------

    def topic(self, name: str) -> dict[str, Any]:
        """One topic: partitions with their offsets, and the settings that somebody changed."""
        with self.client() as client:
            admin = Admin(client)
            found = admin.topics([name]).topic(name)
            bounds = BoundsSurvey(client).of(name, [each.partition for each in found.partitions])
            configs = admin.describe_configs(ResourceType.TOPIC, name)
        return {
            "topic": name,
            "partitions": [
                {
                    "partition": each.partition,
                    "leader": each.leader,
                    "epoch": each.leader_epoch,
                    "replicas": each.replicas,
                    "isr": each.in_sync,
                    "bounds": bounds[each.partition],
                }
                for each in found.partitions
            ],
            "settings": [
                {"name": each.name, "value": each.value, "source": each.source.name.lower()}
                for each in configs
                if each.source is not ConfigSource.DEFAULT and not each.sensitive
            ],
        }

    def messages(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Records of a topic from a place on, and the place behind them.

        `from` is `beginning`, `end`, `newest` (the last few), `{"time": milliseconds}` or
        `{"offsets": {partition: offset}}`; with `wait`, records that come in the next seconds are
        waited for.
        """
        topic = str(asked["topic"])
        limit = min(int(asked.get("limit", 100)), _MOST_RECORDS)
        value_of = decoder(str(asked.get("form", "auto")), str(asked.get("schema", "")))
        wanted = str(asked.get("contains", "")).lower()
        committed = bool(asked.get("committed", False))
        isolation = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
        with self.client() as client:
            known = [
                each.partition for each in Admin(client).topics([topic]).topic(topic).partitions
            ]
            only = asked.get("partition")
            if only is not None and int(only) not in known:
                raise ConfigError(f"{topic} has no partition {only}")
            partitions = known if only is None else [int(only)]
            starts = _starts(client, topic, partitions, asked.get("from", "newest"), limit)
            consumer = Consumer(client, topic, starts, isolation=isolation)
            records, scanned, is_complete = _read(
                consumer, value_of, wanted, limit, wait=bool(asked.get("wait"))
            )
            return {
                "records": records,
                "next": {str(index): offset for index, offset in consumer.positions.items()},
                "scanned": scanned,
                "complete": is_complete,
            }

    # -- groups and transactions ---------------------------------------------------------------

    def groups(self) -> list[dict[str, Any]]:
        with self.client() as client:
            return [each._asdict() for each in Groups(client).list(missed=[])]

    def group(self, name: str) -> dict[str, Any]:
        """A group with its members, and for each partition how far behind it is."""
        with self.client() as client:
            groups = Groups(client)
            described = groups.describe(name)
            offsets = groups.offsets(name)
            owners = {
                partition: member.member_id
                for member in described.members
                for partition in member.partitions
            }
            survey = BoundsSurvey(client)
            by_topic: dict[str, list[int]] = {}
            for each in {**offsets, **owners}:
                by_topic.setdefault(each.topic, []).append(each.partition)
            bounds = {
                TopicPartition(topic, index): found
                for topic, indexes in by_topic.items()
                for index, found in survey.of(topic, indexes).items()
            }
        lags = [
            {
                "topic": each.topic,
                "partition": each.partition,
                "committed": offsets.get(each),
                "end": end[1] if not isinstance(end, str) else None,
                "lag": _lag(offsets.get(each), end),
                "member": owners.get(each),
                "trouble": end if isinstance(end, str) else "",
            }
            for each, end in sorted(bounds.items())
        ]
        return {
            "group": name,
            "state": described.state,
            "type": described.type,
            "assignor": described.assignor,
            "coordinator": described.coordinator,
            "partitions": lags,
            "members": [
                {
                    **member._asdict(),
                    "partitions": [str(each) for each in member.partitions],
                    "lag": sum(
                        each["lag"] or 0 for each in lags if each["member"] == member.member_id
                    ),
                }
                for member in described.members
            ],
        }

    def transactions(self) -> list[dict[str, Any]]:
        """Transactional ids, those with an open transaction in full."""
        with self.client() as client:
            transactions = Transactions(client)
            listed = transactions.list(missed=[])
            shown = []
            for each in sorted(listed, key=lambda each: each.state != "Ongoing")[
                :_MOST_TRANSACTIONS
            ]:
                described = transactions.describe(each.transactional_id)
                shown.append(
                    {
                        "transactional_id": each.transactional_id,
                        "coordinator": each.coordinator,
                        "producer_id": described.producer.producer_id,
                        "producer_epoch": described.producer.producer_epoch,
                        "state": described.state,
                        "timeout_ms": described.timeout_ms,
                        "started_ms": described.started_ms,
                        "partitions": [str(name) for name in described.partitions],
                    }
                )
            return shown

    # -- reassignment --------------------------------------------------------------------------

    def reassignments(self) -> list[dict[str, Any]]:
        """What moves at this moment."""
        with self.client() as client:
            return [
                {**each._asdict(), "name": str(each.name)}
                for each in Reassignments(client).under_way()
            ]

    def preview(self, topic: str, brokers: list[int]) -> dict[str, Any]:
        """What would move if a topic were spread over these brokers."""
        with self.client() as client:
            return preview_of(client, plan_for(client, topic, brokers))


def plan_for(client: Client, topic: str, brokers: list[int]) -> Plan:
    """The plan that spreads a topic over brokers that are there."""
    partitions = Admin(client).topics([topic]).topic(topic).partitions
    names = [TopicPartition(topic, each.partition) for each in partitions]
    return Reassignments(client).spread_over(names, brokers)


def preview_of(client: Client, plan: Plan) -> dict[str, Any]:
    moves = Reassignments(client).preview(plan)
    return {
        "plan": write_plan(plan),
        "moves": [
            {
                "name": str(each.name),
                "before": each.before,
                "after": each.after,
                "adding": each.adding,
                "removing": each.removing,
                "bytes": each.bytes_to_copy,
                "changes": each.changes,
            }
            for each in moves
        ],
    }


def _starts(
    client: Client, topic: str, partitions: list[int], place: Any, limit: int
) -> dict[int, int]:
    """The offsets at which reading begins."""
    kind, given = _place(place)
    if kind == "offsets" and isinstance(given, dict):
        known = {int(index): _number(offset) for index, offset in given.items()}
        missing = [index for index in partitions if index not in known]
        bounds = find_offsets(client, topic, dict.fromkeys(missing, LATEST)) if missing else {}
        return {index: known.get(index, bounds.get(index, 0)) for index in partitions}
    firsts = find_offsets(client, topic, dict.fromkeys(partitions, EARLIEST))
    if kind == "beginning":
        return firsts
    ends = find_offsets(client, topic, dict.fromkeys(partitions, LATEST))
    match kind:
        case "end":
            return ends
        case "newest":
            each = max(1, limit // len(partitions))
            return {index: max(firsts[index], ends[index] - each) for index in partitions}
        case "time":
            found = find_offsets(client, topic, dict.fromkeys(partitions, _number(given)))
            return {
                index: ends[index] if found[index] < 0 else found[index] for index in partitions
            }
        case "offset":
            wanted = _number(given)
            return {index: min(max(wanted, firsts[index]), ends[index]) for index in partitions}
    raise ConfigError(f"records cannot be read from {place!r:.80}")


def _place(place: Any) -> tuple[str, Any]:
    """From where to read, and what belongs to it."""
    if isinstance(place, dict) and len(place) == 1:
        ((kind, given),) = place.items()
        return str(kind), given
    return (place, None) if isinstance(place, str) else ("", None)


def _number(given: Any) -> int:
    """An offset or a moment as the protocol has them."""
    found = int(given)
    if not 0 <= found < 2**63:
        raise ConfigError(f"{given!r:.80} is neither an offset nor a moment")
    return found


def _read(
    consumer: Consumer, value_of: Decoder, wanted: str, limit: int, *, wait: bool
) -> tuple[list[dict[str, Any]], int, bool]:
    """Records that fit, how many were looked at, and whether the end was reached."""
    deadline = time.monotonic() + _SCAN_S
    found: list[dict[str, Any]] = []
    scanned = shown_bytes = 0
    records = _tail(consumer) if wait else consumer.until_end()
    for each in islice(records, _MOST_SCANNED):
        scanned += 1
        if not wanted or _contains(each, wanted):
            found.append(record_json(each, value_of))
            shown_bytes += len(json_text(found[-1]))
        is_full = len(found) >= limit or shown_bytes >= _MOST_BYTES
        if is_full or time.monotonic() > deadline:
            return found, scanned, False
    return found, scanned, scanned < _MOST_SCANNED


def _tail(consumer: Consumer) -> Iterator[ConsumedRecord]:
    """Records from here on, until there are some and no more, or the wait was long enough."""
    deadline = time.monotonic() + _TAIL_WAIT_S
    while time.monotonic() < deadline:
        is_something = False
        for each in consumer.until_end():
            is_something = True
            yield each
        if is_something:
            return
        time.sleep(0.1)


def _contains(found: ConsumedRecord, wanted: str) -> bool:
    record = found.record
    parts = [record.key, record.value, *(value for _, value in record.headers)]
    texts = (bytes(part).decode("utf-8", "replace") for part in parts if part is not None)
    names = (name for name, _ in record.headers)
    return any(wanted in text.lower() for text in (*texts, *names))


def record_json(found: ConsumedRecord, value_of: Decoder) -> dict[str, Any]:
    """One record as JSON; what of it a page cannot show is said beside its value."""
    record = found.record
    value = show(None) if record.value is None else value_of(bytes(record.value))
    troubles = [value["trouble"]] if "trouble" in value else []
    if len(record.headers) > _MOST_HEADERS:
        troubles.append(f"{_MOST_HEADERS} of its {len(record.headers)} headers are shown")
    if abs(record.timestamp) > _LAST_DATE_MS:
        troubles.append(f"its timestamp is {record.timestamp} ms, for which there is no date")
    if troubles:
        value = {**value, "trouble": "; ".join(troubles)}
    return {
        "partition": found.partition,
        "offset": record.offset,
        "at_ms": max(-_LAST_DATE_MS, min(record.timestamp, _LAST_DATE_MS)),
        "epoch": found.leader_epoch,
        "key": show(None if record.key is None else bytes(record.key)),
        "value": value,
        "headers": [
            [name, show(None if content is None else bytes(content))]
            for name, content in record.headers[:_MOST_HEADERS]
        ],
    }


def _lag(committed: int | None, end: tuple[int, int] | str) -> int | None:
    if isinstance(end, str):
        return None
    first, last = end
    return max(
        0, last - max(first, committed if committed is not None and committed >= 0 else first)
    )
