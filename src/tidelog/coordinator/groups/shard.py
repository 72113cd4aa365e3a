"""The group coordinator of one partition of `__consumer_offsets`."""

from __future__ import annotations

from tidelog.coordinator.decision import Decision, Producer
from tidelog.coordinator.groups.offset_records import OffsetCommitKey, OffsetCommitValue
from tidelog.coordinator.groups.offsets import Offsets
from tidelog.coordinator.groups.records import GroupRecord, decode_record, encode_record
from tidelog.coordinator.shard import Marker, Timers
from tidelog.model.errors import Refusal
from tidelog.model.time import Now


class GroupShard:
    """Groups and their offsets."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self.offsets = Offsets()

    def encode(self, record: GroupRecord) -> tuple[bytes, bytes | None]:
        return encode_record(record)

    def decode(self, key: bytes, value: bytes | None) -> GroupRecord | None:
        return decode_record(key, value)

    def replay(self, record: GroupRecord, producer: Producer | None) -> None:
        key, value = record
        match key:
            case OffsetCommitKey():
                if value is None or isinstance(value, OffsetCommitValue):
                    self.offsets.replay(key, value, producer)

    def replay_marker(self, marker: Marker) -> None:
        self.offsets.replay_marker(marker)

    def loaded(self, now: Now) -> Decision[GroupRecord, None]:
        return Decision((), None)

    def unloaded(self, refusal: Refusal) -> None:
        pass
