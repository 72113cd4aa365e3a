"""Search further than the tests do; without a name, all scopes. What is not given stays as it is.

python -m tests.quorum.exploration --timeouts 3 two voters
"""

from __future__ import annotations

from argparse import ArgumentParser
from time import process_time

from tests.quorum.exploration.quiet import require_leaders_after, require_resignations_in
from tests.quorum.exploration.scope import Budget
from tests.quorum.exploration.scopes import LONG_SCOPES, SCOPES
from tests.quorum.exploration.search import Search


def main() -> None:
    scopes = {**SCOPES, **LONG_SCOPES}
    parser = ArgumentParser(prog="python -m tests.quorum.exploration", description=__doc__)
    parser.add_argument("scope", nargs="*", help=f"one of: {', '.join(scopes)}")
    parser.add_argument("--states", type=int, help="stop after so many states")
    for name in Budget._fields:
        parser.add_argument(f"--{name.replace('_', '-')}", type=int)
    options = parser.parse_args()
    for name in [" ".join(options.scope)] if options.scope else scopes:
        given = {each: getattr(options, each) for each in Budget._fields}
        changed = {each: value for each, value in given.items() if value is not None}
        scope = scopes[name]._replace(budget=scopes[name].budget._replace(**changed))
        began_s = process_time()
        search = Search(scope)
        found = search.run(options.states)
        require_resignations_in(search.behaviour, found.worlds)
        if not scope.changes:
            require_leaders_after(search.behaviour, found.worlds)
        print(
            f"{name}: {found.states:,} states, {found.steps:,} steps, {found.depth} deep, "
            f"{len(found.worlds):,} worlds of voters, {process_time() - began_s:.1f} s"
        )


main()
