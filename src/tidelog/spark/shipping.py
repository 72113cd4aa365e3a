"""Sources, readers and writers on their way to executors.

Spark pickles them on the driver. An executor without the package could not even unpickle them, and
would say no more than that a module is missing; so `unpack` travels whole, not by its name, and
says what to do.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

from pyspark import cloudpickle


class Shipped:
    """Arrives on an executor as it was, or with plain words."""

    def __reduce__(self) -> tuple[Any, ...]:
        return unpack, (pickle.dumps((type(self), self.__getstate__())),)


def unpack(pickled: bytes) -> Any:
    """What was shipped; everything this needs it imports itself, as nothing of ours may be here.

    Spark fetches the archive of a session that ships one, but puts it on the path of functions
    only, not of data sources.
    """
    import os
    import pickle
    import platform
    import sys

    from pyspark.core.files import SparkFiles

    fetched = os.path.join(SparkFiles._root_directory or ".", "tidelog.zip")
    if os.path.exists(fetched) and fetched not in sys.path:
        sys.path.insert(0, fetched)
    try:
        kind, state = pickle.loads(pickled)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"the executor on {platform.node()} has no module {error.name}: run "
            f"`pip install 'tidelog[spark]'` for its Python, {sys.executable}, or hand the package "
            "over with tidelog.spark.session.spark_session; see docs/spark.md, On a Spark cluster"
        ) from None
    found = kind.__new__(kind)
    vars(found).update(state)
    return found


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # it has no types
