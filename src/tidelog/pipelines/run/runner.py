"""The process that holds Spark: runs projects that it is told on stdin, tells events on stdout.

    {"project": "/path"}                    to it
    {"flow": "Flow bronze is RUNNING."}     from it, any number
    {"done": true}                          from it, once per project, or
    {"failed": "why", "passes": true, "away": false}    why not, whether to try again, and
                                                        whether no broker answered

    python -m tidelog.pipelines.run.runner MASTER SETTINGS

Spark's own chatter goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.pipelines.cli import load_pipeline_spec, register_definitions
from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, start_run
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession

from tidelog.client.errors import Unreachable
from tidelog.model.errors import TidelogError
from tidelog.pipelines.description.mistakes import NotYet
from tidelog.pipelines.project.project import SPEC_FILE
from tidelog.pipelines.run.spark_failures import Failure, failure_in, unresolved_flow
from tidelog.spark.session import package_archive


def main(master: str, settings: dict[str, str]) -> None:
    events = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever prints, prints there
    try:
        spark = _session(master, settings)
    except PySparkException as error:
        why = f"Spark does not start with master {master}: {failure_in(str(error)).why}"
        _tell(events, Failure(why, passes=False))
        return
    threading.Thread(target=_end_with_spark, daemon=True).start()
    try:
        _tell(events, {"ready": True})
        for line in sys.stdin:
            project = Path(json.loads(line)["project"])
            failure = _run(spark, project, events)
            _tell(events, {"done": True} if failure is None else failure)
    finally:
        spark.stop()


def _session(master: str, settings: dict[str, str]) -> SparkSession:
    """A session of our own server: on a free port, so that pipelines run side by side."""
    options = {
        "spark.app.name": "tidelog pipelines",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.sql.connect.serverStacktrace.enabled": "false",
        "spark.python.authenticate.socketTimeout": "2m",
        "spark.sql.pipelines.execution.maxConcurrentFlows": str(_flows()),
        **settings,
    }
    if not master.startswith("local"):
        options["spark.submit.pyFiles"] = str(package_archive())
    # What `spark-pipelines` has PySpark do, which knows one port alone.
    os.environ["SPARK_LOCAL_REMOTE"] = "1"
    ConnectSession._start_connect_server(master, options)
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    session: Any = ConnectSession.builder.remote(f"sc://localhost:{_port()}").getOrCreate()
    return cast(SparkSession, session)


def _end_with_spark() -> None:
    """Spark's client would look for a JVM that was killed for many minutes, and hold the lock."""
    gateway: Any = SparkContext._gateway
    gateway.proc.wait()
    os._exit(1)


def _port() -> int:
    server = SparkSession._instantiatedSession
    assert server is not None
    service = getattr(server._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    return int(getattr(service, "MODULE$").localPort())


def _flows() -> int:
    """Each flow is several processes beside the driver: no more than its cores can carry."""
    return max(2, os.cpu_count() or 1)


def _run(spark: SparkSession, project: Path, events: IO[str]) -> Failure | None:
    """Run a project to its end; what went wrong, if anything did."""
    unresolved: Failure | None = None
    try:
        for message in _messages(spark, project):
            unresolved = unresolved or unresolved_flow(message)
            _tell(events, {"flow": message})
    except TidelogError as error:
        away = isinstance(error, Unreachable)
        return Failure(str(error), passes=away or isinstance(error, NotYet), away=away)
    except PySparkException as error:
        return unresolved or failure_in(str(error))
    return None


def _messages(spark: SparkSession, project: Path) -> Iterator[str]:
    """What `spark-pipelines run` does, in a session that stays; gives what Spark says meanwhile."""
    path = project / SPEC_FILE
    spec = load_pipeline_spec(path)
    graph = create_dataflow_graph(
        spark,
        default_catalog=spec.catalog,
        default_database=spec.database,
        sql_conf=spec.configuration,
    )
    registry = SparkConnectGraphElementRegistry(spark, graph)
    register_definitions(path, registry, spec, spark, graph)
    results = start_run(
        spark,
        graph,
        full_refresh=[],
        full_refresh_all=False,
        refresh=[],
        dry=False,
        storage=spec.storage,
    )
    for result in results:
        if "pipeline_event_result" in result:
            yield result["pipeline_event_result"].event.message


def _tell(events: IO[str], event: dict[str, Any] | Failure) -> None:
    if isinstance(event, Failure):
        event = {"failed": event.why, "passes": event.passes, "away": event.away}
    events.write(json.dumps(event) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
