"""Spark's messages are long; what a user has to know is in them, and whether to wait."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.model.ids import TopicPartition
from tidelog.pipelines.description.mistakes import ClusterAway, NotYet, PipelineTrouble
from tidelog.pipelines.project.row_functions import load_function
from tidelog.pipelines.run.spark_failures import Failure, failure_in, unresolved_flow
from tidelog.pipelines.run.spark_process import SparkGone, SparkProcess, last_complaint
from tidelog.spark.errors import (
    DataLoss,
    Fenced,
    LostTransaction,
    NoBroker,
    OptionError,
    SourceError,
)
from tidelog.spark.source.planning import find_positions
from tidelog.spark.source.range_limits import Offsets
from tidelog.spark.source.topics import Topics

STREAM = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: {why}
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: a_quarantine [id = 1, runId = 2]
"""
TRACEBACK = """[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Traceback (most recent call last):
  File "table_shape.py", line 30, in new_columns
    raise PipelineTrouble(
{kind}: {text}"""


def stream_failure(error: Exception) -> Failure:
    kind = f"{type(error).__module__}.{type(error).__name__}"
    return failure_in(STREAM.format(why=TRACEBACK.format(kind=kind, text=error)))


def test_our_own_words_are_found_in_what_spark_says() -> None:
    refused = PipelineTrouble("column id of a is string and would be long")
    assert stream_failure(refused) == Failure(str(refused), passes=False)
    away = SourceError("127.0.0.1:9092 cannot answer")
    assert stream_failure(away) == Failure(str(away), passes=True)
    silent = NoBroker("no broker answers at 127.0.0.1:9092")
    assert stream_failure(silent) == Failure(str(silent), passes=True, away=True)


@pytest.mark.parametrize(
    "refused",
    [
        OptionError("delivery=exactly-once needs a streaming query"),
        LostTransaction("transactions of batch 7 were aborted after it was decided"),
        Fenced("another run has taken over"),
    ],
)
def test_what_no_other_try_can_mend_is_not_waited_for(refused: Exception) -> None:
    assert stream_failure(refused) == Failure(str(refused), passes=False)


@pytest.mark.parametrize("there", [[0, 1, 2], [0]])
def test_partitions_that_came_or_went_after_a_start_was_settled_are_waited_for(
    there: list[int],
) -> None:
    partitions = [TopicPartition("o", each) for each in there]
    settled = Offsets({TopicPartition("o", each): 5 for each in (0, 1)})
    topics = object.__new__(Topics)  # nobody asks it
    with pytest.raises(OptionError, match="o-") as outrun:
        find_positions(
            topics, settled, partitions, name="startingOffsets", latest_if_too_young=False
        )
    assert stream_failure(outrun.value).passes


def test_a_loss_while_spark_reads_names_the_table_and_the_key_of_the_description() -> None:
    found = stream_failure(DataLoss("o-0 begins at 6 now, the query stands at 2"))
    assert not found.passes
    assert found.why.startswith("a: o-0 begins at 6 now, the query stands at 2. `on_data_loss: go")
    assert "failOnDataLoss" not in found.why


def test_wrong_queries_and_wrong_data_stay_wrong_and_the_rest_may_pass() -> None:
    data = failure_in(STREAM.format(why="[USER_RAISED_EXCEPTION] 0 SQLSTATE: P0001"))
    assert not data.passes and data.why.endswith("[USER_RAISED_EXCEPTION] 0 SQLSTATE: P0001")
    assert not failure_in("[PARSE_SYNTAX_ERROR] near x. SQLSTATE: 42601").passes
    assert failure_in("Job aborted due to stage failure: ExecutorLostFailure").passes


def test_a_flow_that_cannot_be_planned_is_told_with_its_name() -> None:
    event = (
        "Failed to resolve flow: 'a'.\nError: [UNRESOLVED_ROUTINE] nosuch. SQLSTATE: 42883; line 1"
    )
    assert unresolved_flow(event) == Failure(
        "a: [UNRESOLVED_ROUTINE] nosuch. SQLSTATE: 42883; line 1", passes=False
    )
    assert unresolved_flow("Flow a is RUNNING.") is None


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (Failure("so it is", passes=True), NotYet),
        (Failure("so it is", passes=False), PipelineTrouble),
        (Failure("so it is", passes=True, away=True), ClusterAway),
    ],
)
def test_a_failure_is_raised_as_what_it_is(tmp_path: Path, failure: Failure, kind: type) -> None:
    failed = {"failed": failure.why, "passes": failure.passes, "away": failure.away}
    retried = {"flow": "Flow 'a' has FAILED.\nError: [STREAM_FAILED] ..."}
    given_up = {"flow": "Flow 'a' has FAILED more than 2 times and will not be restarted."}
    events = [{"ready": True}, retried, given_up, failed]
    lines = "\n".join(map(json.dumps, events))
    told: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-c", f"import sys; print({lines!r}, flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        spark = SparkProcess(process, tmp_path / "log", told.append)
        with pytest.raises(PipelineTrouble, match="so it is") as raised:
            spark.run(tmp_path)
        assert type(raised.value) is kind
        assert process.stdin is not None
        process.stdin.close()
    assert told == ["a: failed, Spark tries again: [STREAM_FAILED] ..."]


def test_a_python_file_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    path = tmp_path / "steps.py"
    path.write_text("import nosuch_module\ndef f(row): return row\n")
    with pytest.raises(PipelineTrouble, match=r"steps\.py fails: ModuleNotFoundError"):
        load_function(path, "f")


@pytest.mark.parametrize(
    ("log", "complaint"),
    [
        (
            "Error occurred during initialization of VM\nToo small maximum heap\n",
            "Error occurred during initialization of VM: Too small maximum heap",
        ),
        (
            "WARN x\nException in thread main java.lang.RuntimeException: [unresolved]\n"
            "\tat org.apache.spark.Error.x(Y.scala)\n",
            "Exception in thread main java.lang.RuntimeException: [unresolved]",
        ),
        ("Traceback (most recent call last):\n  File x\nOSError: full\n", "OSError: full"),
        ("26/11/16 WARN nothing to see\n", ""),
    ],
)
def test_what_a_log_complains_of_last_is_told(tmp_path: Path, log: str, complaint: str) -> None:
    path = tmp_path / "spark.log"
    path.write_text("OSError: of the run before\n" + log)
    assert last_complaint(path, len("OSError: of the run before\n")) == complaint


def test_a_spark_that_is_gone_leaves_its_last_words_and_where_the_rest_is(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text("java.lang.OutOfMemoryError: Java heap space\n")
    with (
        subprocess.Popen(
            [sys.executable, "-c", ""], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process,
        pytest.raises(SparkGone) as gone,
    ):
        SparkProcess(process, log, print)
    assert "OutOfMemoryError: Java heap space" in str(gone.value)
    assert str(log) in str(gone.value)


def test_a_spark_that_does_not_start_tells_what_only_its_log_knows(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text("Error occurred during initialization of VM\nToo small maximum heap\n")
    failed = {"failed": "does not start: [JAVA_GATEWAY_EXITED]", "passes": False, "away": False}
    with (
        subprocess.Popen(
            [sys.executable, "-c", f"print({json.dumps(failed)!r})"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
        pytest.raises(PipelineTrouble, match="Too small maximum heap") as told,
    ):
        SparkProcess(process, log, print)
    assert str(log) in str(told.value)
