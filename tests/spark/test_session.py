"""What a job needs around it: a Java that is new enough, and our package on executors."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from pyspark import cloudpickle

from tidelog.spark.options import read_options
from tidelog.spark.session import SparkTrouble, package_archive, require_java
from tidelog.spark.source.schema import read_schema
from tidelog.spark.source.stream_reader import StreamReader

OPTIONS = {"kafka.bootstrap.servers": "b:1", "subscribe": "orders"}
CLOCK = {"_last_batch_s": 0.0}


def java_that_says(place: Path, version: str) -> str:
    java = place / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return str(place)


@pytest.mark.parametrize(("version", "major"), [("1.8.0_402", "8"), ("11.0.2", "11")])
def test_a_java_that_is_too_old_is_named_with_its_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, major: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", java_that_says(tmp_path, version))
    with pytest.raises(SparkTrouble, match=rf"java is Java {major}: install a newer one"):
        require_java()


def test_a_java_that_is_new_enough_will_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", java_that_says(tmp_path, "21.0.1"))
    require_java()


def test_a_machine_without_java_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkTrouble, match="there is none: install it, for example with apt-get"):
        require_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(SparkTrouble, match="or set JAVA_HOME"):
        require_java()


def test_the_package_that_executors_get_is_whole() -> None:
    with zipfile.ZipFile(package_archive()) as archive:
        names = set(archive.namelist())
    wanted = {
        "tidelog/spark/source/range_reading.py",
        "tidelog/model/ids.py",
        "tidelog/records/batch.py",
    }
    assert wanted | {"pyspark_tidelog/__init__.py", "pyspark_tidelog_segments/__init__.py"} <= names


def reader() -> StreamReader:
    options = read_options(OPTIONS)
    return StreamReader(options, read_schema(options))


def shipped() -> bytes:
    """A reader as Spark sends it."""
    return bytes(cloudpickle.dumps(reader()))  # type: ignore[no-untyped-call]  # it has no types


def test_a_reader_arrives_as_it_was_shipped() -> None:
    arrived = pickle.loads(shipped())
    assert type(arrived) is StreamReader
    assert {**arrived.__getstate__(), **CLOCK} == {**reader().__getstate__(), **CLOCK}


def unpacked_by_a_bare_python(place: Path) -> subprocess.CompletedProcess[bytes]:
    """Without `site` no .pth file adds our source; what was installed is there by its directory."""
    bare = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
    code = "import pickle, sys; print(type(pickle.load(sys.stdin.buffer)))"
    return subprocess.run([sys.executable, "-S", "-c", code], input=shipped(), env=bare, cwd=place,
                          capture_output=True)  # fmt: skip


def test_an_executor_without_the_package_is_told_what_to_install(tmp_path: Path) -> None:
    said = unpacked_by_a_bare_python(tmp_path).stderr.decode()
    assert "has no module tidelog: run `pip install 'tidelog[spark]'` for its Python" in said


def test_an_executor_uses_the_package_that_spark_has_fetched(tmp_path: Path) -> None:
    shutil.copy(package_archive(), tmp_path)
    assert b"StreamReader" in unpacked_by_a_bare_python(tmp_path).stdout
