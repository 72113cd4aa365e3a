"""`python -m tidelog.broker --config FILE`: one node, started as fast as can be."""

from __future__ import annotations

import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] != "--config":
        print("usage: python -m tidelog.broker --config FILE", file=sys.stderr)
        return 2
    import tidelog.lean_kio  # noqa: F401
    from tidelog.broker.main import run
    from tidelog.model.errors import TidelogError

    try:
        return run(Path(arguments[1]))
    except TidelogError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
