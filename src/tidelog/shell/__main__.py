"""`python -m tidelog.shell --config FILE [--ending FILE] [--log FILE]`: one node, started fast.

With `--ending` it leaves in that file how it ended. `--log` names the file that its stderr is, and
it keeps that below `journal.max.bytes`.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path


def main(arguments: list[str]) -> int:
    options = dict(zip(arguments[::2], arguments[1::2], strict=False))
    known = {"--config", "--ending", "--log"}
    if len(arguments) % 2 or "--config" not in options or options.keys() - known:
        usage = "usage: python -m tidelog.shell --config FILE [--ending FILE] [--log FILE]"
        print(usage, file=sys.stderr)
        return 2
    from tidelog.model.errors import TidelogError
    from tidelog.shell.ending import Cause, Ending, leave
    from tidelog.shell.main import run
    from tidelog.shell.process import EXIT_FAILED

    tell = partial(leave, Path(options["--ending"])) if "--ending" in options else _to_nobody
    try:
        return run(Path(options["--config"]), tell, options.get("--log"))
    except TidelogError as error:
        print(error, file=sys.stderr)
        tell(Ending(Cause.FAILED, EXIT_FAILED, str(error)))
        return EXIT_FAILED
    except BaseException as error:
        tell(Ending(Cause.CRASHED, EXIT_FAILED, f"{type(error).__name__}: {error}"))
        raise


def _to_nobody(_: object) -> None:
    """Whoever waits for the process reads its exit code."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
