"""The operating system's dice."""

from __future__ import annotations

import os
from uuid import UUID

from tidelog.model.ids import uuid_text


class SystemEntropy:
    """Randomness nobody can foresee."""

    def uuid(self) -> UUID:
        """A fresh identity; a text form that starts with a dash would look like an option."""
        while True:
            identity = UUID(bytes=os.urandom(16), version=4)
            if not uuid_text(identity).startswith("-"):
                return identity

    def below(self, bound: int) -> int:
        bits = bound.bit_length()
        size = (bits + 7) // 8
        while True:
            number = int.from_bytes(os.urandom(size)) >> (8 * size - bits)
            if number < bound:
                return number
