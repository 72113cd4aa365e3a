"""How a command ends: what went wrong in words on stderr, and a code a script can rely on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import NoReturn

import typer

from tidelog.cli.output import say


class ExitCode(IntEnum):
    """The contract with scripts; printed at the end of `tidelog --help`."""

    FINE = 0
    REFUSED = 1
    USAGE = 2
    UNREACHABLE = 3
    INTERRUPTED = 130


def refuse(why: str) -> NoReturn:
    """End with 1: the request was understood and cannot be done."""
    say(why, style="red")
    raise typer.Exit(ExitCode.REFUSED)


@contextmanager
def answering() -> Iterator[None]:
    """Run a command's work; whatever the world does to it ends in words and an exit code."""
    from tidelog.client.errors import Unreachable
    from tidelog.model.errors import TidelogError

    try:
        yield
    except Unreachable as error:
        say(str(error), style="red")
        raise typer.Exit(ExitCode.UNREACHABLE) from error
    except TidelogError as error:
        say(str(error), style="red")
        raise typer.Exit(ExitCode.REFUSED) from error
    except KeyboardInterrupt as error:
        raise typer.Exit(ExitCode.INTERRUPTED) from error
    except BrokenPipeError as error:
        # The reader of our output went away (`| head`); Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(ExitCode.FINE) from error
