"""Which partition a key belongs to, in agreement with the Java client.

Invariant  The same key goes to the same partition from every client, as long as the number of
           partitions stays the same.
"""

from __future__ import annotations

import struct

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit murmur2 hash with Kafka's seed, as an unsigned number."""
    whole = len(data) & ~3
    hashed = (_SEED ^ len(data)) & _MASK
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        mixed = (word * _MULTIPLIER) & _MASK
        mixed ^= mixed >> 24
        mixed = (mixed * _MULTIPLIER) & _MASK
        hashed = ((hashed * _MULTIPLIER) & _MASK) ^ mixed
    if tail := data[whole:]:
        hashed ^= int.from_bytes(tail, "little")
        hashed = (hashed * _MULTIPLIER) & _MASK
    hashed ^= hashed >> 13
    hashed = (hashed * _MULTIPLIER) & _MASK
    return hashed ^ (hashed >> 15)


def partition_for_key(key: bytes, partitions: int) -> int:
    """Where the Java client's default partitioner puts a record with this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
