"""Test suites of client libraries, as their authors wrote them, each against three fresh brokers.

    python -m tests.soak.client_suites
    python -m tests.soak.client_suites --suite franz-go --only TestTxnEtl --records 2000
    python -m tests.soak.client_suites --suite librdkafka --only '0081|0113'
    python -m tests.soak.client_suites --apache                       # the same of Apache Kafka
    python -m tests.soak.client_suites --bootstrap 127.0.0.1:9092     # whoever listens there

A suite passes when nothing fails but what is known to fail on Apache Kafka 4.3.1 too. What it says
goes to files, whose directory is told in the end.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.servers import ApacheKafka, Tidelog, running

CACHE: Final = Path(__file__).parents[2] / ".cache"
FRANZ_GO: Final = CACHE / "clients" / "franz-go" / "pkg" / "kgo"
LIBRDKAFKA: Final = CACHE / "suites" / "rdkafka-sys" / "librdkafka" / "tests"
KAFKA_PYTHON: Final = CACHE / "suites" / "kafka-python"
BROKERS: Final = 3
SPOKEN_VERSION: Final = "4.3.1"
"""The Apache Kafka that the brokers are said to be, where a suite asks."""
LIMIT_S: Final = 3_600
RECORDS: Final = 20_000
AT_ONCE: Final = 3
"""So many of librdkafka's tests; they wait for most of their time."""


class Asked(NamedTuple):
    """What to run of a suite, and how much."""

    only: str = ""
    """Matches the names of tests; of all, if empty."""
    records: int = RECORDS
    limit_s: int = LIMIT_S


class Outcome(NamedTuple):
    """The tests of a suite by what became of them; a test counts, its parts tell why."""

    passed: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    skipped: frozenset[str] = frozenset()


class Suite(NamedTuple):
    """One library's tests, or one way to run them."""

    name: str
    run: Callable[[str, Path, Asked], Outcome]
    """Given brokers, a directory for what the tests say, and what is asked."""
    settings: Mapping[str, str] = {}
    """Of the brokers that its authors test with."""
    fails_everywhere: Mapping[str, str] = {}
    """Tests that fail on three brokers of Apache Kafka 4.3.1 as well, and why."""


def franz_go(bootstrap: str, directory: Path, asked: Asked) -> Outcome:
    """`go test` of its client, compiled."""
    environment = {
        "KGO_SEEDS": bootstrap,
        "KGO_TEST_RF": str(BROKERS),
        "KGO_TEST_RECORDS": str(asked.records),
    }
    command = ["./kgo.test", "-test.v", "-test.timeout", f"{asked.limit_s}s"]
    command += ["-test.run", asked.only or "."]
    code, said = _run(command, FRANZ_GO, environment, directory / "franz-go.log", asked.limit_s)
    return _with_the_process_itself("the suite", code, read_go_tests(said))


def read_go_tests(said: str) -> Outcome:
    """`--- PASS: TestName (0.01s)`, at the beginning of a line."""
    return _by_verdict(
        re.findall(r"^--- (PASS|FAIL|SKIP): (\S+)", said, re.MULTILINE), ("PASS", "FAIL", "SKIP")
    )


def librdkafka(
    bootstrap: str, directory: Path, asked: Asked, *, scenario: str, protocol: str
) -> Outcome:
    """Its tests that want brokers; a process for each number, as a test that hangs ends its own."""
    config = directory / "test.conf"
    config.write_text(f"metadata.broker.list={bootstrap}\ntest.topic.random=true\n")
    environment = {
        "BROKERS": bootstrap,
        "CI": "true",
        "KAFKA_PATH": str(CACHE / "suites" / "kafka"),
        "LD_LIBRARY_PATH": "../src:../src-cpp",
        "RDKAFKA_TEST_CONF": str(config),
        "TEST_CONSUMER_GROUP_PROTOCOL": protocol,
        "TEST_KAFKA_VERSION": SPOKEN_VERSION,
    }

    def run(number: str, part: str) -> Outcome:
        log = directory / f"{number}{part}.log"
        these = {"TESTS": number, "TEST_SEED": str(random.getrandbits(31))}
        if part:
            these["SUBTESTS"] = part
        command = ["./test-runner", "-L", "-p1", "-s", scenario]
        code, said = _run(command, LIBRDKAFKA, environment | these, log, asked.limit_s)
        outcome = read_librdkafka_tests(said, part)
        return _with_the_process_itself(number + part, code, outcome)

    files = [path for path in LIBRDKAFKA.glob("0*-*.c*") if re.search(asked.only, path.name)]
    numbers = sorted({path.name[:4] for path in files})
    parts = [("0081", part) for part in admin_parts() if "0081" in numbers]
    with ThreadPoolExecutor(AT_ONCE) as workers:
        runs = [*((number, "") for number in numbers), *parts]
        outcomes = [Outcome(), *workers.map(run, *zip(*runs, strict=True))]
    return Outcome(*(frozenset[str]().union(*each) for each in zip(*outcomes, strict=True)))


def admin_parts() -> list[str]:
    """The parts of one long test, which would hide each other: it ends with the first that fails.

    Those that want an authorizer or users with passwords are not among them.
    """
    source = (LIBRDKAFKA / "0081-admin.c").read_text(encoding="utf-8")
    parts = re.findall(r"^static void\s+(do_test_[A-Z]\w+)\(", source, re.MULTILINE)
    return [part for part in dict.fromkeys(parts) if not re.search("Acls|Scram|authorized", part)]


def read_librdkafka_tests(said: str, part: str = "") -> Outcome:
    """`Running test NAME`, then its verdict; a test without one has ended the process, or hung."""
    begun = re.findall(r"= Running test (\S+) =", said)
    verdicts = re.findall(r"= Test (\S+) (PASSED|FAILED|SKIPPED) =", said)
    found = {**dict.fromkeys(begun, "FAILED"), **dict(verdicts)}
    named = [(word, f"{name}/{part}" if part else name) for name, word in found.items()]
    return _by_verdict(named, ("PASSED", "FAILED", "SKIPPED"))


def kafka_python(bootstrap: str, directory: Path, asked: Asked) -> Outcome:
    """Its tests that want a broker, by pytest."""
    environment = {
        "KAFKA_URI": f"kafka://{bootstrap.partition(',')[0]}",
        "KAFKA_VERSION": SPOKEN_VERSION,
        "KAFKA_ROOT": str(KAFKA_PYTHON),
    }
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-o", "addopts="]
    command += ["-k", asked.only, "test/integration"]
    log = directory / "kafka-python.log"
    code, said = _run(command, KAFKA_PYTHON, environment, log, asked.limit_s)
    return _with_the_process_itself("the suite", code, read_pytest(said))


def read_pytest(said: str) -> Outcome:
    """`test/file.py::test_name PASSED [ 1%]`, at the beginning of a line."""
    found = re.findall(r"^\S+::(\S+) (PASSED|FAILED|ERROR|SKIPPED)", said, re.MULTILINE)
    verdicts = [("FAILED" if word == "ERROR" else word, name) for name, word in found]
    return _by_verdict(verdicts, ("PASSED", "FAILED", "SKIPPED"))


def _run(
    command: Sequence[str], cwd: Path, environment: Mapping[str, str], log: Path, limit_s: int
) -> tuple[int, str]:
    """What it ended with and all that it said, which is in the file, too."""
    everything = {**os.environ, **environment}
    with log.open("wb") as said:
        try:
            code = subprocess.run(
                command, cwd=cwd, env=everything, timeout=limit_s,
                stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
    return code, log.read_text(encoding="utf-8", errors="replace")


def _by_verdict(found: Sequence[tuple[str, str]], words: tuple[str, str, str]) -> Outcome:
    return Outcome(*(frozenset(name for word, name in found if word == each) for each in words))


def _with_the_process_itself(what: str, code: int, outcome: Outcome) -> Outcome:
    """It may fail though none of its tests did."""
    if code and not outcome.failed:
        return outcome._replace(failed=frozenset({f"{what} itself, with {code},"}))
    return outcome


NO_AUTHORIZER: Final = "wants an authorizer"
SMALL_SEGMENTS: Final = "wants segments smaller than Apache Kafka allows since 4.0"
ONE_BROKER: Final = "wants to be alone with broker 0"
OWN_BROKER: Final = "wants to start a broker itself"
LIBRDKAFKA_FAILS: Final = {
    "0077_compaction": SMALL_SEGMENTS,
    "0081_admin": NO_AUTHORIZER,
    "0109_auto_create_topics": NO_AUTHORIZER,
    "0115_producer_auth": NO_AUTHORIZER,
    "0119_consumer_auth": NO_AUTHORIZER,
    "0129_fetch_aborted_msgs": SMALL_SEGMENTS,
}
KAFKA_PYTHON_FAILS: Final = {
    "test_alter_replica_log_dirs": ONE_BROKER,
    "test_create_describe_delete_acls": NO_AUTHORIZER,
    "test_create_partitions": ONE_BROKER,
    "test_delete_records": ONE_BROKER,
    "test_legacy_kafka_client_ssl": OWN_BROKER,
    "test_ssl_handshake": OWN_BROKER,
}
LIBRDKAFKA_BROKERS: Final = {"num.partitions": "4", "group.initial.rebalance.delay.ms": "3000"}
SUITES: Final = (
    Suite("franz-go", franz_go),
    Suite(
        "librdkafka",
        partial(librdkafka, scenario="default", protocol="classic"),
        LIBRDKAFKA_BROKERS,
        LIBRDKAFKA_FAILS,
    ),
    Suite(
        "librdkafka-consumer-groups",
        partial(librdkafka, scenario="default", protocol="consumer"),
        LIBRDKAFKA_BROKERS,
        {
            **LIBRDKAFKA_FAILS,
            "0045_resubscribe_with_regex": "wants two assignments where one comes",
        },
    ),
    Suite(
        "librdkafka-no-auto-create",
        partial(librdkafka, scenario="noautocreate", protocol="classic"),
        {**LIBRDKAFKA_BROKERS, "auto.create.topics.enable": "false"},
    ),
    Suite(
        "kafka-python",
        kafka_python,
        {"num.partitions": "4", "group.min.session.timeout.ms": "1000"},
        KAFKA_PYTHON_FAILS,
    ),
)


@contextmanager
def brokers(suite: Suite, asked: argparse.Namespace) -> Iterator[str]:
    """Where to reach them: those that were named, or three for this suite alone."""
    if asked.bootstrap:
        yield asked.bootstrap
        return
    kind = ApacheKafka if asked.apache else Tidelog
    with running(kind(BROKERS, suite.settings)) as server:
        yield server.bootstrap


def is_green(suite: Suite, outcome: Outcome, directory: Path) -> bool:
    """Tell what became of the tests; something must pass, and nothing fail that need not."""
    passed, failed, skipped = (len(each) for each in outcome)
    print(f"{suite.name}: {passed} passed, {failed} failed, {skipped} skipped; {directory}")
    for name in sorted(outcome.failed):
        why = suite.fails_everywhere.get(name)
        print(f"  {name} failed{f', as on Apache Kafka: {why}' if why else ''}", flush=True)
    return bool(outcome.passed) and outcome.failed <= suite.fails_everywhere.keys()


def main() -> int:
    """Run, tell, and fail if anything did that must not."""
    parser = argparse.ArgumentParser(description="Client libraries' own tests.")
    parser.add_argument("--suite", choices=[suite.name for suite in SUITES], help="this one alone")
    parser.add_argument("--only", default="", help="tests whose names match")
    parser.add_argument("--records", type=int, default=RECORDS, help="that franz-go's tests write")
    parser.add_argument("--apache", action="store_true", help="against Apache Kafka 4.3.1")
    parser.add_argument("--bootstrap", help="brokers that run already")
    asked = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="tidelog-client-suites-"))
    green = []
    for suite in SUITES:
        if asked.suite in (None, suite.name):
            directory = home / suite.name
            directory.mkdir()
            with brokers(suite, asked) as bootstrap:
                outcome = suite.run(bootstrap, directory, Asked(asked.only, asked.records))
            green.append(is_green(suite, outcome, directory))
    return 0 if all(green) else 1


if __name__ == "__main__":
    sys.exit(main())
