"""One JVM for all the calls of Kafka's tools that a worker makes: they start in milliseconds.

Invariant  The tools are Apache Kafka's, unmodified, called by `main` as from the command line; what
           they print and how they exit is what the test sees.
Invariant  Calls follow one another: a JVM has one `System.out`.
"""

from __future__ import annotations

import struct
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO

PROGRAM = Path(__file__).parents[1] / "java" / "Resident.java"
JVM = ("java", "-Xmx768m", str(PROGRAM))


@dataclass(frozen=True)
class Ran:
    """How a program ended."""

    code: int
    stdout: str
    stderr: str


class Resident:
    """A JVM that starts with the first call and ends with the tests."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._one = threading.Lock()

    def run(self, jars: Path, program: str, *arguments: str, timeout_s: float = 120) -> Ran:
        """Run a class, or a source file, with all jars of a directory."""
        with self._one:
            process = self._process
            if process is None:
                process = self._process = subprocess.Popen(
                    JVM, stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
            overdue = threading.Timer(timeout_s, process.kill)
            overdue.start()
            try:
                return self._call(process, (str(jars), program, *arguments))
            except (EOFError, BrokenPipeError) as lost:
                self.close()
                message = f"{program} did not end within {timeout_s:g} s, or ended its JVM"
                raise AssertionError(message) from lost
            finally:
                overdue.cancel()

    def _call(self, process: subprocess.Popen[bytes], strings: tuple[str, ...]) -> Ran:
        assert process.stdin is not None and process.stdout is not None
        texts = [text.encode() for text in strings]
        framed = b"".join(struct.pack(">H", len(text)) + text for text in texts)
        process.stdin.write(struct.pack(">i", len(texts)) + framed)
        process.stdin.flush()
        (code,) = struct.unpack(">i", _exactly(process.stdout, 4))
        out, err = (_text(process.stdout) for _ in range(2))
        return Ran(code, out, err)

    def close(self) -> None:
        """End the JVM."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _text(stream: IO[bytes]) -> str:
    (size,) = struct.unpack(">i", _exactly(stream, 4))
    return _exactly(stream, size).decode()


def _exactly(stream: IO[bytes], size: int) -> bytes:
    read = stream.read(size)
    if len(read) != size:
        raise EOFError
    return read
