"""What is told of denied requests: everything at first, and then how often.

Invariant  A client that is denied the same again and again costs one event in a minute, and all
           clients together a fixed number; what is left out is counted.
"""

from __future__ import annotations

from typing import Final

from tidelog.model.time import Now
from tidelog.node.core.runtime import Runtime
from tidelog.observe.access_events import AccessDenied, AccessDeniedToMany
from tidelog.protocol.apis import ApiKey
from tidelog.security.authorizer import Action, Authorizer

WINDOW_MS: Final = 60_000
TOLD_MAX: Final = 100
"""So many different denials are told one by one in a window."""
NAME_MAX: Final = 249
"""Of a longer name, which no topic has, this much is told."""


class Denials:
    """The denials of a node that are still to be told."""

    def __init__(self, runtime: Runtime, authorizer: Authorizer) -> None:
        self._runtime = runtime
        self._authorizer = authorizer
        self._again: dict[tuple[Action, ApiKey], int] = {}
        """What was told in this window, and how often it came again since."""
        self._left_out = 0
        self._is_open = False

    def note(self, action: Action, api: ApiKey) -> None:
        """Something was denied."""
        self._runtime.counters.denials += 1
        if not self._is_open:
            self._is_open = True
            ends_ms = self._runtime.now.monotonic_ms + WINDOW_MS
            self._runtime.deadlines.at(ends_ms, self._window_ended)
        key = (action, api)
        if key in self._again:
            self._again[key] += 1
        elif len(self._again) < TOLD_MAX:
            self._again[key] = 0
            self._tell(action, api, 1)
        else:
            self._left_out += 1

    def _window_ended(self, now: Now) -> None:
        again, self._again = self._again, {}
        left_out, self._left_out = self._left_out, 0
        self._is_open = False
        for (action, api), times in again.items():
            if times:
                self._tell(action, api, times)
        if left_out:
            cause = f"more than {TOLD_MAX} different ones were denied within {WINDOW_MS // 1000} s"
            self._runtime.announce(AccessDeniedToMany(times=left_out, cause=cause))

    def _tell(self, action: Action, api: ApiKey, times: int) -> None:
        denying = self._authorizer.denied_by(action)
        action = action._replace(resource_name=action.resource_name[:NAME_MAX])
        if denying is None:
            cause = f"no ACL allows it; this one would: {action.wanted_acl}"
        else:
            cause = f"an ACL forbids it, whatever others allow: {denying}"
        self._runtime.announce(
            AccessDenied(
                principal=str(action.principal),
                host=action.host,
                api=api.name,
                operation=action.operation.name,
                resource_type=action.resource_type.name,
                resource_name=action.resource_name,
                times=times,
                cause=cause,
            )
        )
