"""A rule that did not hold: what a simulated run is there to find."""

from __future__ import annotations


class Violation(Exception):
    """A broken rule, by its name in docs/rules.md, and what was seen in words."""

    def __init__(self, rule: str, why: str) -> None:
        super().__init__(f"{rule}: {why}")
        self.rule = rule
        self.why = why
