"""Requests that somebody has tampered with."""

from __future__ import annotations

import random

ODD_BYTES = (0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF)


def changed(frame: bytes, dice: random.Random) -> bytes:
    """The frame with something else, something more or something less behind its header."""
    data = bytearray(frame)
    at = dice.randrange(min(14, len(data) - 1), len(data))
    match dice.randrange(3):
        case 0:
            data[at] = dice.choice(ODD_BYTES)
        case 1:
            del data[at : at + dice.randrange(1, 4)]
        case _:
            data[at:at] = bytes(dice.choices(ODD_BYTES, k=dice.randrange(1, 4)))
    return bytes(data)
