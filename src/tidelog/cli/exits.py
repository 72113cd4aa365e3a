"""How a command ends: what went wrong in words on stderr, and a code a script can rely on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
    from tidelog.client.errors import NoController, Unreachable
    from tidelog.model.errors import TidelogError

    try:
        yield
        sys.stdout.flush()
    except NoController as error:
        say(str(error), style="red")
        say(
            "nothing can be decided before a majority of the controllers runs: start those that "
            "do not answer; `tidelog up` starts what is missing on this machine"
        )
        raise typer.Exit(ExitCode.UNREACHABLE) from error
    except Unreachable as error:
        say(str(error), style="red")
        say(
            "`tidelog status` tells about the cluster on this machine; --bootstrap names another, "
            "--data finds one by its directory"
        )
        raise typer.Exit(ExitCode.UNREACHABLE) from error
    except TidelogError as error:
        say(str(error), style="red")
        raise typer.Exit(ExitCode.REFUSED) from error
    except UnicodeEncodeError as error:
        say(f"{ascii(error.object)[:80]} is not text in UTF-8", style="red")
        raise typer.Exit(ExitCode.REFUSED) from error
    except KeyboardInterrupt as error:
        raise typer.Exit(ExitCode.INTERRUPTED) from error
    except BrokenPipeError as error:
        _forget_output()  # the reader of our output went away (`| head`)
        raise typer.Exit(ExitCode.FINE) from error
    except OSError as error:
        reason = error.strerror or str(error)
        with suppress(OSError):
            say(f"{error.filename}: {reason}" if error.filename else reason, style="red")
        if error.filename is None:
            _forget_output()  # it was our output that failed (`> /dev/full`)
        raise typer.Exit(ExitCode.REFUSED) from error


def _forget_output() -> None:
    """What could not be written stays unwritten; Python would try, and complain, at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
