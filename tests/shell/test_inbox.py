from __future__ import annotations

import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.protocol.frame import MalformedRequest
from tidelog.shell.inbox import Inbox
from tidelog.shell.slabs import SLAB_SIZE, SlabPool

LIMIT = 104_857_600


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


class Wire:
    """An inbox and the far end of its socket."""

    def __init__(self) -> None:
        self.pool = SlabPool()
        self.inbox = Inbox(self.pool, LIMIT)
        self._near, self._far = socket.socketpair()
        self._near.setblocking(False)

    def deliver(self, piece: bytes) -> None:
        """Send a piece and receive until it is in the inbox."""
        view = memoryview(piece)
        while view:
            sent = self._far.send(view[:100_000])
            view = view[sent:]
            while sent:
                received = self.inbox.receive(self._near)
                assert received
                sent -= received

    def take(self) -> list[bytes]:
        frames = []
        while (frame := self.inbox.next_frame()) is not None:
            frames.append(bytes(frame))
        self.inbox.settle()
        return frames

    def nothing_to_receive(self) -> bool:
        return self.inbox.receive(self._near) is None

    def close(self) -> None:
        self._near.close()
        self._far.close()


sizes = st.lists(
    st.one_of(
        st.integers(1, 300),
        st.integers(100_000, 140_000),
        st.sampled_from([SLAB_SIZE - 5, SLAB_SIZE - 4, SLAB_SIZE - 3, 2 * SLAB_SIZE]),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=examples(40), deadline=None)
@given(sizes, st.integers(1, 3_000_000), st.booleans())
def test_frames_come_out_as_they_went_in_however_they_are_cut(
    sizes: list[int], piece: int, settle_between: bool
) -> None:
    bodies = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    stream = b"".join(map(framed, bodies))
    piece = max(piece, len(stream) // 200)
    wire = Wire()
    seen: list[bytes] = []
    for start in range(0, len(stream), piece):
        wire.deliver(stream[start : start + piece])
        if settle_between:
            seen += wire.take()
    seen += wire.take()

    assert seen == bodies
    assert wire.inbox.pending_bytes == 0
    assert wire.nothing_to_receive()
    wire.inbox.settle()
    assert wire.pool.idle_bytes >= SLAB_SIZE
    wire.close()


def test_a_little_of_a_large_frame_gives_the_slab_back() -> None:
    wire = Wire()
    wire.deliver((50_000_000).to_bytes(4, "big") + b"x" * 1000)
    assert wire.take() == []
    assert wire.inbox.pending_bytes == 1004
    assert wire.pool.idle_bytes == SLAB_SIZE
    wire.close()


def test_much_of_a_large_frame_keeps_a_buffer_of_its_own_until_it_is_cleared() -> None:
    wire = Wire()
    wire.deliver((50_000_000).to_bytes(4, "big") + b"x" * 200_000)
    assert wire.take() == []
    assert wire.pool.idle_bytes == 0
    wire.inbox.clear()
    assert wire.pool.idle_bytes == SLAB_SIZE
    assert wire.inbox.pending_bytes == 0
    wire.close()


def test_four_bytes_decide_about_a_forbidden_length() -> None:
    wire = Wire()
    wire.deliver((LIMIT + 1).to_bytes(4, "big"))
    with pytest.raises(MalformedRequest):
        wire.inbox.next_frame()
    wire.close()


def test_the_pool_keeps_only_so_much() -> None:
    pool = SlabPool(idle_limit=2 * SLAB_SIZE)
    slabs = [pool.take() for _ in range(5)]
    large = pool.take(4 * SLAB_SIZE)
    for slab in (*slabs, large):
        pool.give_back(slab)
    assert pool.idle_bytes == 2 * SLAB_SIZE
    assert pool.take() in slabs
    assert pool.idle_bytes == SLAB_SIZE
