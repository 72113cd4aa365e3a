"""Search further than the tests do; without a name, all scopes. What is not given stays as it is.

python -m tests.quorum.exploration --timeouts 3 two voters
"""

from __future__ import annotations

from argparse import ArgumentParser
from time import process_time

from tests.quorum.exploration.quiet import require_a_leader_after, require_resignation_when_alone
from tests.quorum.exploration.scope import Budget
from tests.quorum.exploration.scopes import SCOPES
from tests.quorum.exploration.search import Search


def main() -> None:
    parser = ArgumentParser(prog="python -m tests.quorum.exploration", description=__doc__)
    parser.add_argument("scope", nargs="*", help=f"one of: {', '.join(SCOPES)}")
    parser.add_argument("--states", type=int, help="stop after so many states")
    for name in Budget._fields:
        parser.add_argument(f"--{name.replace('_', '-')}", type=int)
    options = parser.parse_args()
    for name in [" ".join(options.scope)] if options.scope else SCOPES:
        given = {each: getattr(options, each) for each in Budget._fields}
        changed = {each: value for each, value in given.items() if value is not None}
        scope = SCOPES[name]._replace(budget=SCOPES[name].budget._replace(**changed))
        began_s = process_time()
        search = Search(scope)
        found = search.run(options.states)
        for voters in sorted(found.worlds):
            require_resignation_when_alone(search.behaviour, voters)
            if not scope.changes:
                require_a_leader_after(search.behaviour, voters)
        print(
            f"{name}: {found.states:,} states, {found.steps:,} steps, {found.depth} deep, "
            f"{len(found.worlds):,} worlds that find a leader, {process_time() - began_s:.1f} s"
        )


main()
