"""A bounded set of open file descriptors behind any number of open files.

A log directory has thousands of segments, each with its indexes; a process has far fewer
descriptors, and needs some for its connections. A file that has not been used for a while loses
its descriptor and gets another one when it is used again. Second chance (a mark per use, taken
away by the passing hand) instead of a list in order of use: using a file costs one assignment.

Invariant  A descriptor in use (borrowed) is never closed; nobody sees one file's descriptor
           while it already stands for another file.
Invariant  Files whose name is gone keep their descriptor: it is the only way to their content.
"""

from __future__ import annotations

import errno
import os
import resource
import threading
from collections import OrderedDict
from contextlib import suppress
from typing import Final

from tidelog.model.errors import invariant
from tidelog.shell.os_errors import disk_error

_CLOSED: Final = -1
_MOST_DESCRIPTORS: Final = 65_536


class Descriptor:
    """The way to one file's content; opened when needed, for as long as it is needed."""

    __slots__ = ("borrowed", "fd", "nameless", "path", "used")

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = _CLOSED
        self.borrowed = 0
        self.used = True
        self.nameless = False


class DescriptorPool:
    """Opens descriptors and takes them back from files that are not in use."""

    def __init__(self, limit: int) -> None:
        invariant(limit > 0, "at least one file can be open")
        self._limit = limit
        self._open: OrderedDict[Descriptor, None] = OrderedDict()
        # Jobs sync and read files in their own threads while the loop appends.
        self.lock: Final = threading.RLock()

    @property
    def open_count(self) -> int:
        """How many descriptors are open now."""
        return len(self._open)

    def borrow(self, descriptor: Descriptor) -> int:
        """A descriptor that stays open until `give_back`."""
        with self.lock:
            if descriptor.fd == _CLOSED:
                self.open(descriptor, create=False)
            descriptor.borrowed += 1
            descriptor.used = True
            return descriptor.fd

    def give_back(self, descriptor: Descriptor) -> None:
        with self.lock:
            descriptor.borrowed -= 1

    def open(self, descriptor: Descriptor, *, create: bool) -> None:
        """Open the file under its present name."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        with self.lock:
            self._make_room()
            try:
                descriptor.fd = os.open(descriptor.path, flags, 0o644)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._take_one_back():
                    raise disk_error("open", descriptor.path, error) from error
                self.open(descriptor, create=create)
                return
            self._open[descriptor] = None

    def keep_without_name(self, descriptor: Descriptor) -> None:
        """The file is about to lose its name: hold on to its content until it is closed."""
        with self.lock:
            if descriptor.fd == _CLOSED:
                self.open(descriptor, create=False)
            descriptor.nameless = True

    def close(self, descriptor: Descriptor) -> None:
        with self.lock:
            invariant(descriptor.borrowed == 0, f"{descriptor.path} closed while it is in use")
            if descriptor.fd == _CLOSED:
                return
            del self._open[descriptor]
            fd, descriptor.fd = descriptor.fd, _CLOSED
            try:
                os.close(fd)
            except OSError as error:
                raise disk_error("close", descriptor.path, error) from error

    def _make_room(self) -> None:
        while len(self._open) >= self._limit and self._take_one_back():
            pass

    def _take_one_back(self) -> bool:
        """Close the first descriptor the hand finds idle; False when all are in use."""
        for _ in range(2 * len(self._open)):
            candidate = next(iter(self._open))
            if candidate.used or candidate.borrowed or candidate.nameless:
                candidate.used = False
                self._open.move_to_end(candidate)
                continue
            del self._open[candidate]
            fd, candidate.fd = candidate.fd, _CLOSED
            with suppress(OSError):  # what could not be written is reported by the next sync
                os.close(fd)
            return True
        return False


def raise_descriptor_limit() -> int:
    """Let this process open as many files as it is allowed to; returns that number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # some systems have a lower, unnamed limit
            return soft
    return wanted
