SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help docs reference servers test-all setup setup-browser setup-databases demo demo-kafka demo-lake demo-month hdfs kafka kubernetes test unit lint format types check bench bench-quick bench-kafka bench-lake nightly matrix constraints page wheel release image stack screenshot clean distclean

# VENV=.venv-3.13 PYTHON=python3.13 works with another Python, in an environment beside.
VENV := .venv
export VENV
PYTHON_IN_VENV := $(VENV)/bin/python
# Hundreds of processes import Airflow, Spark and the tests: the first that compiles a module keeps it for the others.
unexport PYTHONDONTWRITEBYTECODE
ARGS ?=
# Processes that share the tests: those that start no servers, which use a core each, and those that do, which wait a fifth of the time.
WORKERS ?= 2
SERVER_WORKERS ?= 3
KEEP ?=
# Where make bench keeps its data; the figures go to the terminal and into docs/.
BENCH_DATA ?= .bench
BENCH_ROWS ?= 5000000
BENCH_QUICK_ROWS ?= 500000

help: ## List the targets.
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Start here
demo: setup ## Run the flights example in a real Airflow and show what came out (KEEP=1 leaves Airflow running; OPEN=1 opens the Dag run in a browser; ROOT=s3 or azure: on an object store).
	@$(PYTHON_IN_VENV) -m demo $(if $(ROOT),--root $(ROOT)) $(if $(KEEP),--keep) $(if $(OPEN),--open) $(ARGS)

demo-kafka: setup ## Run an hourly Dag over a day of a topic of Kafka in a real Airflow, and compare it with a model (KEEP=1 leaves both running).
	@$(PYTHON_IN_VENV) -m demo --kafka $(if $(KEEP),--keep) $(ARGS)

demo-month: setup ## Run a daily Dag over a month, twice, in a real Airflow on PostgreSQL, and compare it with DuckDB (KEEP=1 leaves both running).
	@scripts/setup-databases.sh
	@$(PYTHON_IN_VENV) -m demo --month $(if $(KEEP),--keep) $(ARGS)

demo-lake: setup ## Run a daily Dag over tables of Iceberg and Delta in a real Airflow, with a correction, a killed runner and a cleared day, and have DuckDB read them (KEEP=1 leaves Airflow running).
	@$(PYTHON_IN_VENV) -m demo --lake $(if $(KEEP),--keep) $(ARGS)

hdfs: setup ## Start an HDFS (NameNode and DataNode, from Maven) to try things with, and print its addresses; Ctrl-C stops it.
	@$(PYTHON_IN_VENV) -m demo.hdfs $(ARGS)

kafka: setup ## Start a Kafka broker (from Maven) to try things with, and print its address; Ctrl-C stops it (ARGS=--secure: with TLS and SASL).
	@$(PYTHON_IN_VENV) -m demo.kafka $(ARGS)

kubernetes: setup ## Start a Kubernetes of one node to try things with (built once a machine, in eight minutes), and print its KUBECONFIG; Ctrl-C stops it.
	@$(PYTHON_IN_VENV) -m demo.kubernetes $(ARGS)

stack: setup ## Start an installation to try things with (Airflow on PostgreSQL and Celery, Spark, Kafka, S3), and print its addresses; Ctrl-C stops it.
	@scripts/setup-databases.sh
	@$(PYTHON_IN_VENV) -m demo.stack $(ARGS)

test: setup servers ## Run the tests that each change runs, in minutes (ARGS="-k join" narrows them down).
	@$(PYTHON_IN_VENV) -m tests --workers $(WORKERS) --server-workers $(SERVER_WORKERS) $(ARGS)

test-all: setup servers ## Run the other tests but the nightly ones: further clusters, sessions, faults, random suites.
	@$(PYTHON_IN_VENV) -m tests --rest --workers $(WORKERS) --server-workers $(SERVER_WORKERS) $(ARGS)

servers:
	@scripts/setup-browser.sh || true  # without one, the tests that need it fail and say so; the others run
	@scripts/setup-databases.sh >/dev/null || true  # without PostgreSQL, the tests' Airflow is over SQLite

setup: ## Build .venv (PYTHON=... chooses the Python) and look for Java; nothing to do when up to date.
	@scripts/setup.sh

##@ While working
unit: setup ## Run the tests that need no Spark, Airflow, HDFS, Kafka or browser: seconds.
	@$(PYTHON_IN_VENV) -m tests --unit --workers $(WORKERS) $(ARGS)

lint: setup ## Check style and formatting.
	@$(PYTHON_IN_VENV) -m ruff check .
	@$(PYTHON_IN_VENV) -m ruff format --check .

format: setup ## Format, and fix what the linter can fix.
	@$(PYTHON_IN_VENV) -m ruff check --fix-only --quiet .
	@$(PYTHON_IN_VENV) -m ruff format .

types: setup ## Check the types (mypy, strict).
	@$(PYTHON_IN_VENV) -m mypy

check: setup ## Do all that continuous integration does.
	@.ci/run

reference: setup ## Write the parts of docs/ that are made from the code anew: public names, commands, configuration, metrics.
	@$(PYTHON_IN_VENV) -m scripts.site.generated

docs: setup ## Build the site of docs/ into build/site, without network; broken links fail.
	@NO_MKDOCS_2_WARNING=1 $(PYTHON_IN_VENV) -m mkdocs build  # --quiet would hide warnings from --strict, too
	@echo "build/site/index.html"

##@ Now and then
setup-databases: setup ## Make sure that PostgreSQL and Redis are there for demo-month and the soak.
	@scripts/setup-databases.sh

nightly: export NIGHTLY=1  # random suites have their whole budgets
nightly: setup setup-browser setup-databases ## Run what takes long: the matrix of versions, soaks, big data, chaos (an hour of it; CHAOS_SECONDS=1800 for each half).
	@$(PYTHON_IN_VENV) -m pytest -m nightly --timeout 7200 $(ARGS)
	@FUZZ_SECONDS=600 $(PYTHON_IN_VENV) -m pytest --timeout 7200 tests/fuzz $(ARGS)
	@CRASH_SECONDS=3600 $(PYTHON_IN_VENV) -m pytest -s tests/unit/engine/test_epoch_crashes.py $(ARGS)
	@EXPRESSIONS_SCALE=20 $(PYTHON_IN_VENV) -m pytest --timeout 7200 tests/property/test_expressions_against_spark.py $(ARGS)
	@MODES_EXAMPLES=5000 $(PYTHON_IN_VENV) -m pytest --timeout 7200 tests/property/test_modes.py $(ARGS)
	@$(MAKE) --no-print-directory matrix

matrix: setup ## Build an environment for each combination of Airflow, Spark and Python, and try it there (MATRIX="--only airflow-3.1"; MATRIX="--spark 4.3.0": a new release, with its row of the table).
	@$(PYTHON_IN_VENV) -m tests.matrix $(MATRIX)

bench: setup ## Measure all workloads beside plain PySpark, and scale; write docs/project/benchmarks.md and docs/project/scale.md (BENCH_ROWS=5000000).
	@$(PYTHON_IN_VENV) -m pip install --quiet --disable-pip-version-check -c constraints.txt matplotlib  # draws the pictures
	@$(PYTHON_IN_VENV) -m benchmarks.run --data $(BENCH_DATA) --rows $(BENCH_ROWS) --write-docs $(ARGS)
	@$(PYTHON_IN_VENV) -m benchmarks.scale --data $(BENCH_DATA) --spark 2 16 256 --write-docs

bench-quick: setup ## Print the ratios of W1 to W7 beside plain PySpark, of few rows and one round (BENCH_QUICK_ROWS=500000), in five minutes.
	@$(PYTHON_IN_VENV) -m benchmarks.run --data $(BENCH_DATA)/quick --rows $(BENCH_QUICK_ROWS) --repeat 1 --cold 0 --workload W1 W2 W3 W4 W5 W6 W7 $(ARGS)

bench-kafka: setup ## Measure reading and publishing on Kafka beside other engines; write docs/project/benchmarks-kafka.md (BENCH_DATA keeps their environments).
	@$(PYTHON_IN_VENV) -m benchmarks.kafka --work $(BENCH_DATA)/kafka --write-docs $(ARGS)

bench-lake: setup ## Measure tables of Iceberg and Delta beside their connectors for Spark, and Polars; write docs/project/benchmarks-lake.md (BENCH_DATA keeps their environments).
	@$(PYTHON_IN_VENV) -m benchmarks.lake --work $(BENCH_DATA)/lake --rows $(BENCH_ROWS) --write-docs $(ARGS)
	@$(PYTHON_IN_VENV) -m benchmarks.lake_latency --work $(BENCH_DATA)/lake --write-docs

setup-browser: setup ## Make sure that a Chromium is there for the browser tests.
	@scripts/setup-browser.sh

image: ## Build the image of docker/Dockerfile with Docker or Podman (IMAGE names it).
	@scripts/image.sh

screenshot: setup setup-browser ## Run the demo and take the documentation's pictures: of its Dag run, and of the page in Airflow.
	@$(PYTHON_IN_VENV) -m pip install --quiet --disable-pip-version-check pillow  # makes the pictures small
	@$(PYTHON_IN_VENV) -m demo --screenshot docs/images/dag-run.png --home /tmp/samza $(ARGS)

page: ## Build what browsers load of the page in Airflow, after a change of its sources or of its interface (needs Node 20.19 or newer).
	@cd airflow_samza/provider/page/web && npm ci --silent && npm run --silent types && npm test --silent && npm run --silent build

constraints: setup ## Resolve the dependencies anew into constraints.txt, and into the requirements.txt with hashes.
	@UPGRADE=--upgrade scripts/constraints.sh
	@git diff --stat -- constraints.txt requirements.txt docker/requirements.txt

wheel: ## Build wheel and sdist into dist/, and try the wheel in an empty environment beside Airflow (PYTHON=... chooses the Python; needs no .venv).
	@scripts/check-wheel.sh

release: setup ## Build what a release publishes from the commit into dist/, checked: sdist, wheel, SBOM, checksums. Without a tag it is a trial.
	@scripts/release.sh

clean: ## Remove what runs, builds and checks leave behind (.demo included).
	@rm -rf .demo .bench .matrix build dist spark-warehouse metastore_db derby.log .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './.venv*' -prune -exec rm -rf {} +

distclean: clean ## Remove .venv, too, and those of other Pythons.
	@rm -rf .venv .venv-*
