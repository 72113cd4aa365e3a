"""The fixture that comes with the package, as a user's test suite gets it."""

from __future__ import annotations

from tidelog.testing.plugin import tidelog_cluster

__all__ = ["tidelog_cluster"]
