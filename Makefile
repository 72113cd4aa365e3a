# Everything sets itself up: `make demo` and `make test` work on a fresh machine.
.DEFAULT_GOAL := help
.PHONY: help setup setup-java setup-clients setup-suites setup-browser up demo test quick soak check types tidiness lint imports format docs screenshots messages site bench bench-vs-kafka bench-failover bench-scale bench-watching bench-spark bench-nats kill-pipelines lock clean

VENV := .venv
BIN := $(VENV)/bin
PORT ?= 9092
ROUNDS ?= 20
SEEDS ?= 2000
FIRST ?= $(shell date +%s)
# Tests wait for brokers and JVMs a third of their time, so two cores take three workers.
WORKERS ?= 3
PYTEST = $(BIN)/pytest -n $(WORKERS)
# What does not need each other runs two at a time, the longest first; each is told whole, when it is done.
CHECKS := types tidiness lint imports
SIDE_BY_SIDE := $(MAKE) --no-print-directory --jobs=2 $(if $(filter output-sync,$(.FEATURES)),--output-sync)

# Compiled modules are kept, whatever the environment says: brokers and commands of tests start with them.
export PYTHONDONTWRITEBYTECODE :=

help: ## Show the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

setup: $(VENV)/.done ## Make .venv with everything pinned in requirements.lock

$(VENV)/.done: requirements.lock pyproject.toml scripts/setup
	@scripts/setup

setup-java: .cache/java/.done ## Fetch Apache Kafka's own clients and tools (for tests and benchmarks)

.cache/java/.done: scripts/setup-java tests/java/tools.xml tests/java/older-client.xml \
  tests/java/newer-client.xml tests/java/spark-connector.xml
	@scripts/setup-java

setup-clients: .cache/clients/.done ## Build the Go client with its own tests, fetch the JavaScript client (for tests)

.cache/clients/.done: scripts/setup-clients tests/go/main.go tests/go/read.go tests/go/transform.go \
  tests/go/go.mod \
  tests/js/everyday.mjs tests/js/transform.mjs tests/js/package-lock.json
	@scripts/setup-clients

setup-suites: .cache/suites/.done ## Build librdkafka with its own tests, fetch kafka-python's (for `make soak`)

.cache/suites/.done: scripts/setup-suites requirements.lock | setup setup-java
	@scripts/setup-suites

setup-browser: ## See to it that there is a Chromium (for tests of pages and for screenshots)
	@scripts/setup-browser

up: setup ## Start a broker on 127.0.0.1:$(PORT) and stay in the foreground
	@$(BIN)/tidelog up --port $(PORT)

demo: setup ## Brokers, a pipeline, kill -9 in the middle, recovery, the proofs: the main job in one go
	@scripts/require-java
	@$(BIN)/python -m examples.demo $(DEMO)

check: ## Format, lint, types, imports, tidiness
	@$(SIDE_BY_SIDE) $(CHECKS)

types: setup
	$(BIN)/mypy

tidiness: setup
	$(BIN)/pytest -q tests/tidiness

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

imports: setup
	$(BIN)/lint-imports

test: ## All checks and all tests, stock clients and Apache Kafka's tools included
	@$(SIDE_BY_SIDE) $(CHECKS) setup-clients setup-java setup-browser
	$(PYTEST) --ignore=tests/tidiness

quick: WORKERS := 2
quick: setup ## What answers soonest: unit, property and protocol tests, some seeds, a few stock clients
	@TIDELOG_TIER=quick $(PYTEST)

kill-pipelines: setup ## Kill drivers, workers and brokers under a running pipeline, ROUNDS=20 times, then audit it
	@scripts/require-java
	@$(BIN)/python -m tests.pipelines.killing --rounds $(ROUNDS)

soak: setup setup-java setup-clients setup-suites setup-browser ## For hours: all tests with many more examples, every version damaged, SEEDS=2000 new seeds of each kind, kills, the client libraries' own suites
	@TIDELOG_TIER=soak $(PYTEST)
	@$(BIN)/tidelog sim --seeds $(SEEDS) --seed $(FIRST)
	@$(BIN)/tidelog sim --seeds $(SEEDS) --seed $(FIRST) --transactions --groups
	@$(BIN)/tidelog sim --seeds $(SEEDS) --seed $(FIRST) --compaction
	@$(BIN)/python -m tests.pipelines.killing --rounds $(ROUNDS)
	@$(BIN)/python -m tests.soak.client_suites $(SOAK)

format: setup ## Rewrite the code in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: setup ## Write the generated parts of docs/ anew from the code
	@$(BIN)/python scripts/generate-docs

screenshots: setup setup-browser ## Take the pictures of docs/images anew
	@$(BIN)/python -m tests.view.screenshots
	@$(BIN)/python -m tests.view.live_screenshots

messages: setup setup-java ## Write the classes of Kafka's messages anew from the definitions in its jars
	@$(BIN)/python scripts/generate-messages

site: .cache/site/.done ## Build the documentation as a static site in build/site
	@.cache/site/bin/mkdocs build --strict --quiet

.cache/site/.done: requirements-site.lock | setup
	@$(BIN)/python -m venv --clear .cache/site
	@.cache/site/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-site.lock
	@touch $@

bench: setup ## Measure one broker: MB/s, latency, requests/s, start, memory, CPU
	@$(BIN)/python -m benchmarks

bench-vs-kafka: setup setup-java ## The same table with Apache Kafka beside it, in one run
	@$(BIN)/python -m benchmarks --versus-kafka

bench-failover: setup setup-java setup-clients ## How long any partition takes no writes or gives no records when brokers are killed or restarted, beside Apache Kafka
	@$(BIN)/python -m benchmarks.failover

bench-scale: setup ## How three nodes carry 1,000, 3,000 and 10,000 partitions
	@$(BIN)/python -m benchmarks.scale

bench-watching: setup ## What it costs a loaded cluster that somebody watches it live, or scrapes its metrics
	@$(BIN)/python -m benchmarks.watching

bench-spark: setup setup-java ## Spark's own connector and ours, reading and writing the same topics
	@$(BIN)/python -m benchmarks.spark

bench-nats: setup .cache/nats/nats-server ## Three brokers beside three servers of NATS JetStream
	@$(BIN)/python -m benchmarks.nats

.cache/nats/nats-server:
	@scripts/setup-nats

lock: setup ## Pin all dependencies anew from pyproject.toml
	$(BIN)/pip -q install uv
	$(BIN)/uv pip compile -q --upgrade --generate-hashes --no-header --no-emit-find-links \
	  --no-emit-index-url --extra dev pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile -q --upgrade --generate-hashes --no-header --no-emit-index-url \
	  --universal --python-version 3.11 --group site -o requirements-site.lock

clean: ## Remove the virtual environment, caches and fetched tools
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
