"""Topics in Spark: the data source `tidelog`, its exactly-once sink, and the audit of replicas.

`pyspark_tidelog`, a top-level module, makes Spark find the source by its name.
"""

from __future__ import annotations
