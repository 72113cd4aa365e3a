"""What Spark imports at its first look-up; a module that fails there hides all the others."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SRC = Path(__file__).parents[2] / "src"
WITHOUT_PIPELINES = """
import sys
sys.path.insert(0, sys.argv[1])
sys.modules.update(dict.fromkeys(["deltalake", "fastavro", "sqlglot", "yaml"]))
import pyspark_tidelog, pyspark_tidelog_segments, pyspark_tidelog_table
print(*(each.DefaultSource.name() for each in
        (pyspark_tidelog, pyspark_tidelog_segments, pyspark_tidelog_table)))
table = pyspark_tidelog_table.DefaultSource({"path": "/there/is/none"})
for ask in (table.schema, lambda: table.reader(None), lambda: table.streamWriter(None, False)):
    try:
        ask()
    except Exception as error:
        print(error)
"""


def test_formats_are_found_without_the_extra_for_pipelines() -> None:
    command = [sys.executable, "-c", WITHOUT_PIPELINES, str(SRC)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    names, *refusals = ran.stdout.splitlines()
    assert names.split() == ["tidelog", "tidelog-segments", "tidelog-table"]
    needs = re.compile(
        r"tidelog-table needs (deltalake|yaml): run `pip install 'tidelog\[pipelines\]'`"
    )
    assert len(refusals) == 3
    assert all(map(needs.fullmatch, refusals)), refusals
