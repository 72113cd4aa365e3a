"""Topics in Spark: the data source `tidelog`, its exactly-once sink, and the audit of replicas.

`pyspark_tidelog`, a top-level module, makes Spark find the source by its name.
"""

from __future__ import annotations

import sys

if "hypothesis" not in sys.modules:
    # Where hypothesis is installed kio imports it, to offer strategies. That is 0.2 s for each of
    # the many processes that Spark starts, and a job has no use for it.
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # None forbids the import
    import kio.schema.errors  # noqa: F401

    del sys.modules["hypothesis"]
