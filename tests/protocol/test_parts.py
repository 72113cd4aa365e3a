from __future__ import annotations

from tidelog.protocol.parts import FileRegion, Part, joined, part_length


class StoredFile:
    def read(self, position: int, length: int) -> bytes:
        return b"0123456789"[position : position + length]


def test_parts_sent_one_after_the_other_are_the_answer() -> None:
    parts: list[Part] = [b"ab", FileRegion(StoredFile(), 3, 4), bytearray(b"c"), memoryview(b"de")]

    assert [part_length(part) for part in parts] == [2, 4, 1, 2]
    assert joined(parts) == b"ab3456cde"
