"""`python -m tidelog.shell --config FILE [--ending FILE]`: one node, started as fast as can be.

With `--ending` it leaves in that file how it ended.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path


def main(arguments: list[str]) -> int:
    options = dict(zip(arguments[::2], arguments[1::2], strict=False))
    if len(arguments) % 2 or "--config" not in options or options.keys() - {"--config", "--ending"}:
        print("usage: python -m tidelog.shell --config FILE [--ending FILE]", file=sys.stderr)
        return 2
    from tidelog.model.errors import TidelogError
    from tidelog.shell.ending import Cause, Ending, leave
    from tidelog.shell.main import run
    from tidelog.shell.process import EXIT_FAILED

    tell = partial(leave, Path(options["--ending"])) if "--ending" in options else _to_nobody
    try:
        return run(Path(options["--config"]), tell)
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
