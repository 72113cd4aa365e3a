"""What the coordinator asks of a group of either protocol."""

from __future__ import annotations

from typing import TypeAlias

from tidelog.coordinator.groups.classic.group import ClassicGroup
from tidelog.coordinator.groups.consumer.group import ConsumerGroup

Group: TypeAlias = ClassicGroup | ConsumerGroup
