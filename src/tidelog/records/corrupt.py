"""What reading code raises when bytes that claim to be a batch are not one."""

from __future__ import annotations

from tidelog.model.errors import TidelogError


class CorruptBatch(TidelogError):
    """These bytes are not a whole, well-formed batch of records."""


class InflatesTooLarge(CorruptBatch):
    """The compressed records would take more room than the reader allows."""
