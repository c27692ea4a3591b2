"""Each benchmark runs whole over few rows, its rounds and its comparison of results included, or says why it does not.

A run is a process of its own, as a reader of the page starts it; those on Spark start theirs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

SHORT = {
    "beside_backfill": "--work {} --seconds 1 --rows 2000000",
    "catalyst_beside": "2000 1",
    "compare_rows": "--work {} --rows 2000 --rounds 2",
    "distinct": "--work {} --rows 2000 --rounds 1",
    "edits": "--work {} --rows 2000 --rounds 1",
    "expectations": "--work {} --rows 2000 --rounds 1",
    "expressions": "--rounds 2",
    "failing_expressions": "2000 1",
    "fixed_cost": "--work {} --runs 2 --cold 0 --only aggregate",
    "followed": "--work {} --rows 2000 --rounds 1",
    "gen_data": "--data {} --rows 2000 --json",
    "growth": "6",
    "history": "--work {} --runs 3 --stages 5 --gone 1 --times 1 --only run",
    "key_checks": "--work {} --rows 4000 --rounds 2",
    "lake_commits": "--epochs 2 4",
    "lake_plan": "--files 300 --rounds 2",
    "latency": "--work {} --seconds 1 --rates 20 --rows 4000",
    "long_tables": "--rows 2000 --keys 1 10",
    "long_window": "--work {} --runs 2 --days 3 --rows 200 --pages 10",
    "new_files": "--work {} --runs 2 --small 2 --large 0",
    "nexmark": "--work {} --events 3000 --rounds 1 --who airflow_samza spark --queries q0 q3",
    "nexmark_events": "{} --events 2000 --files 2",
    "page_looks": "--stages 20 --partitions 16",
    "planning": "100 --repeat 2",
    "restore": "--rows 2000 --repeat 2",
    "run": "--data {} --workload W2 --rows 2000 --repeat 2 --cold 0",
    "scale": "--data {} --partitions 2 4 --repeat 2",
    "temporal_join": "--work {} --rows 2000 --rounds 1",
    "topics": "--rows 5000 --repeat 2 --partitions 4",
    "topics_between": "--rows 4000 --times 2",
    "upserts": "--work {} --rows 2000 --rounds 2",
    "warm": "--work {} --days 1",
}
"""The arguments of a short run by benchmark; ``{}`` is a folder of its own."""

OF_A_PEER = "a peer's process, which the benchmark of its name starts"
WITH_A_PEER = "its peers need environments of their own, which take minutes to install"
MINUTES = "starts a whole Airflow, which takes minutes"

ELSEWHERE = {
    "daily": "the peer by hand of benchmarks.warm and benchmarks.in_airflow",
    "in_airflow": MINUTES,
    "in_pods": "needs a node of Kubernetes",
    "kafka": WITH_A_PEER,
    "kafka_topics": "fills the topics of benchmarks.kafka, on its broker",
    "lake": WITH_A_PEER,
    "lake_latency": WITH_A_PEER,
    "memory": "test_memory.py runs it",
    "parse_cost": "tests/matrix/test_constrained_install.py runs it, and with it fails when the limit is passed",
    "report": "writes the page from figures; test_report.py tests it",
    "requests": "test_requests.py measures by it",
    "peers.flights_by_hand": "the peer by hand of benchmarks.in_airflow and benchmarks.in_pods",
    "peers.kafka_bytewax": OF_A_PEER,
    "peers.kafka_flink": OF_A_PEER,
    "peers.kafka_quix": OF_A_PEER,
    "peers.kafka_spark": OF_A_PEER,
    "peers.lake_polars": OF_A_PEER,
    "peers.lake_spark": OF_A_PEER,
    "peers.new_files": OF_A_PEER,
    "peers.nexmark_flink": OF_A_PEER,
    "peers.nexmark_spark": OF_A_PEER,
    "peers.spark": "the peers of benchmarks.run",
    "peers.views_polars": OF_A_PEER,
}
"""Reasons by benchmark that has no short run here."""


def benchmarks() -> list[str]:
    """Return the modules that can be run, by their names below the package."""
    folder = ROOT / "benchmarks"
    files = [file for file in folder.rglob("*.py") if 'if __name__ == "__main__"' in file.read_text()]
    return sorted(".".join(file.relative_to(folder).with_suffix("").parts) for file in files)


def test_each_benchmark_has_a_short_run_or_a_reason() -> None:
    assert sorted([*SHORT, *ELSEWHERE]) == benchmarks(), "SHORT or ELSEWHERE has a line for each"


@pytest.mark.nightly
@pytest.mark.parametrize("name", SHORT)
def test_a_short_run_ends_well(name: str) -> None:
    with tempfile.TemporaryDirectory(prefix="b") as folder:  # a short path: sockets of warm runners lie below it
        command = [sys.executable, "-m", f"benchmarks.{name}", *SHORT[name].format(folder).split()]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
