"""Load kio without hypothesis; import this before anything of kio.

Where hypothesis is installed kio imports it, to offer strategies. That takes longer than all the
rest of a node's start, and neither a node nor a command nor a job of Spark has a use for it.
"""

from __future__ import annotations

import sys

if "hypothesis" not in sys.modules:
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # None forbids the import
    import kio.schema.errors  # noqa: F401

    del sys.modules["hypothesis"]
