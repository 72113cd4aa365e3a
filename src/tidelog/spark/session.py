"""A Spark session for our own jobs, and plain words when there cannot be one."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import tidelog
from tidelog.model.errors import TidelogError

_JAVA: Final = 17
_PACKAGES: Final = (
    "tidelog",
    "pyspark_tidelog",
    "pyspark_tidelog_segments",
    "pyspark_tidelog_table",
)


class SparkTrouble(TidelogError):
    """Spark cannot run here; the message says what is missing."""


def spark_session(
    application: str, master: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A quiet session; `local[*]` unless told otherwise. Executors elsewhere get our package."""
    require_java()
    # Spark would take whichever python3 it finds first, on the driver's machine too.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    where = master or "local[*]"
    builder = (
        SparkSession.builder.appName(application)
        .master(where)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")
        .config(map=dict(settings or {}))
    )
    if not where.startswith("local"):
        builder = builder.config("spark.submit.pyFiles", str(package_archive()))
    with _aside() as said:
        try:
            session = builder.getOrCreate()
        except PySparkException as error:
            raise SparkTrouble(
                f"Spark does not start with master {where}: {_last(said)}"
            ) from error
    # Our rows are few and small; two hundred tasks for them would be all start and no work.
    session.conf.set("spark.sql.shuffle.partitions", session.sparkContext.defaultParallelism)
    return session


@contextmanager
def _aside() -> Iterator[IO[bytes]]:
    """Keep the chatter of the JVM out of the terminal; it inherits where stderr points now."""
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            yield said
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


def _last(said: IO[bytes]) -> str:
    said.seek(0)
    lines = said.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it says nothing"


def require_java() -> None:
    """Refuse early: without Java Spark ends in a stack trace."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or shutil.which(java) is None:
        raise SparkTrouble(
            f"Spark needs Java {_JAVA} or newer, and there is none: install it, for example with "
            "apt-get install openjdk-17-jre-headless, or set JAVA_HOME"
        )
    said = subprocess.run([java, "-version"], capture_output=True, text=True).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is not None and int(found[1]) < _JAVA:
        raise SparkTrouble(
            f"Spark needs Java {_JAVA} or newer, {java} is Java {found[1]}: install a newer one, "
            "or set JAVA_HOME to it"
        )


def package_archive() -> Path:
    """Our package as a zip that Spark hands to executors; what it needs must be there already."""
    source = Path(tidelog.__file__).parents[1]
    directory = Path(tempfile.mkdtemp(prefix="tidelog-spark-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    archive = directory / "tidelog.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for package in _PACKAGES:
            for path in sorted((source / package).rglob("*.py")):
                out.write(path, path.relative_to(source))
    return archive
