"""Runs in pods of a real Kubernetes, by where their Spark is, beside the same by hand with SparkSubmitOperator.

``python -m benchmarks.in_pods --work DIR [--days 8] [--rounds 3]`` starts the node of the tests with its Airflow, and
runs in turn the flights of the demo, with

- ``local``: a local Spark in the pod of each task, which starts it when a stage needs it;
- ``connect``: one shared Spark Connect server, a Deployment;
- ``executors``: a driver and executor of their own per run, in cluster mode;
- ``by_hand_local``, ``by_hand_executors``: the same by hand in one job of PySpark, in the task's pod, and as pods;
- ``operator``, ``by_hand_operator``: the same drivers, run by Kubeflow's Spark operator for us and for
  SparkKubernetesOperator, with ``--operator`` (the folder of the operator's repository with its program);
- ``empty``: as many tasks as the Dag of the demo has, which do nothing.

It then backfills the small daily application (:mod:`benchmarks.daily`), two days at a time. Seconds are those between
the start of the first Dag run and the end of the last, CPU seconds those of all pods, the Connect server's included.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Iterable
from contextlib import nullcontext
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pyarrow.dataset as ds

from benchmarks.arguments import made_folder
from benchmarks.daily import write_day
from benchmarks.machine import describe_load, describe_machine
from demo.kubernetes.node import Node
from tests.kubernetes.cluster import (
    PODS,
    ROWS,
    SPARK,
    Cluster,
    airflow_on,
    claim_of_pods,
    cluster_on,
    store_beside,
    until,
)
from tests.kubernetes.shared_sparks import connect_server_on, spark_operator_on

HERE = Path(__file__).parent
FIRST = date(2026, 1, 1)
WAYS = ("local", "connect", "executors", "by_hand_local", "by_hand_executors")
OF_OPERATOR = ("operator", "by_hand_operator")
Figures = dict[str, float]
SPARK_CONF = "spark_conf.json"
"""The settings of pods for Dags by hand, whose Spark connection takes none."""


def settings_of_pods(cluster: Cluster) -> dict[str, str]:
    """Return Spark's settings for pods with little memory, all of which mount the claim."""
    return SPARK | claim_of_pods(cluster.folder) | {"spark.pyspark.python": "python3"}


def connections(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Return the connections of the Dags, other than those of the tests."""
    conf, cluster_mode = settings_of_pods(cluster), {"deploy-mode": "cluster", "namespace": "default"}
    root = {"root": str(cluster.folder / "root-of-dags")}
    return {
        "pods": {**PODS, "extra": cluster_mode},
        "samza_on_pods": {"conn_type": "samza", "extra": {**root, "spark_conn_id": "pods", "spark_conf": conf}},
        "operator": {"conn_type": "spark", "host": "sparkapplication://default"},
        "samza_on_operator": {"conn_type": "samza", "extra": {**root, "spark_conn_id": "operator", "spark_conf": conf}},
        "spark_local": {"conn_type": "spark", "host": "local[2]"},
        "spark_pods": {**PODS, "extra": cluster_mode},
    }


class Measured:
    """The Airflow of one measurement."""

    def __init__(self, airflow: Any, cluster: Cluster) -> None:
        self.airflow = airflow
        self.cluster = cluster

    def run(self, dag_id: str) -> Figures:
        """Run a Dag once."""
        before = self.cluster.node.processor_seconds()
        run_id = self.airflow.trigger(dag_id)
        run = self.airflow.wait_for_run(dag_id, run_id, 1200)
        if run["state"] != "success":
            raise SystemExit(f"The run {run_id} of {dag_id} ended as {self.airflow.task_states(dag_id, run_id)}.")
        self._wait_for_no_pods()
        return {"seconds": _seconds([run]), "cpu": self.cluster.node.processor_seconds() - before}

    def backfill(self, dag_id: str, days: int) -> Figures:
        """Run a Dag for each day, two days at a time."""
        before = self.cluster.node.processor_seconds()
        self.airflow.wait_for_dag(dag_id)
        self.airflow.backfill(dag_id, str(FIRST), str(FIRST + timedelta(days=days - 1)), "--max-active-runs", "2")
        found = [run for run in self.airflow.runs(dag_id) if run["run_type"] == "backfill"]
        runs = [self.airflow.wait_for_run(dag_id, run["dag_run_id"], 3600) for run in found]
        if {run["state"] for run in runs} != {"success"} or len(runs) != days:
            raise SystemExit(f"The runs of {dag_id} ended as {[run['state'] for run in runs]}.")
        self._wait_for_no_pods()
        return {"seconds": _seconds(runs), "cpu": self.cluster.node.processor_seconds() - before}

    def _wait_for_no_pods(self) -> None:
        """Return when no pod of the run is at work any more, so that the next one has the machine for itself."""

        def at_work() -> list[str]:
            pods = self.cluster.node.get("pods", "-l", "app!=samza-connect")["items"]
            return [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] in ("Pending", "Running")]

        until(lambda: not at_work(), 120)

    def check(self, ways: Iterable[str]) -> None:
        """End with an error unless the flights by hand have as many rows as those of the demo."""
        for way in ways:
            if not way.startswith("by_hand"):
                continue
            rows = ds.dataset(self.cluster.folder / "by-hand" / way, format="parquet", exclude_invalid_files=True)
            if rows.count_rows() != ROWS:
                raise SystemExit(f"{way} has {rows.count_rows()} rows instead of {ROWS}.")


def _seconds(runs: list[dict[str, str]]) -> float:
    starts = [datetime.fromisoformat(run["start_date"]) for run in runs]
    return (max(datetime.fromisoformat(run["end_date"]) for run in runs) - min(starts)).total_seconds()


def measure(
    work: Path, rounds: int, days: int, operator: Path | None
) -> tuple[dict[str, list[dict[str, float]]], dict[str, dict[str, float]]]:
    """Measure the flights by round, and the backfills."""
    ways = WAYS if operator is None else (*WAYS, *OF_OPERATOR)
    flights: dict[str, list[Figures]] = {way: [] for way in (*ways, "empty")}
    backfills: dict[str, Figures] = {}
    with Node(work / "node") as node:
        cluster = cluster_on(node)
        for number in range(days):
            write_day(cluster.folder / "data", str(FIRST + timedelta(days=number)))
        (work / SPARK_CONF).write_text(json.dumps(settings_of_pods(cluster)), encoding="utf-8")
        node.kubectl(
            "create", "rolebinding", "tasks", "--clusterrole=cluster-admin", "--serviceaccount=default:default"
        )
        with (
            store_beside(cluster, made_folder(str(work / "store"))) as store,
            connect_server_on(cluster),
            nullcontext() if operator is None else spark_operator_on(cluster, operator),
            airflow_on(
                cluster,
                store,
                work / "airflow",
                *(HERE / name for name in ("in_pods_dags.py", "daily.py", "peers/flights_by_hand.py")),
                work / SPARK_CONF,
                connections=connections(cluster),
            ) as airflow,
        ):
            (cluster.folder / "by-hand").mkdir()
            (cluster.folder / "by-hand").chmod(0o777)
            measured = Measured(airflow, cluster)
            for _ in range(rounds):
                for way, found in flights.items():
                    found.append(measured.run(f"flights_{way}"))
                    print(json.dumps({way: found[-1]}), flush=True)
            measured.check(ways)
            for way in ways:
                backfills[way] = measured.backfill(f"daily_{way}", days)
                print(json.dumps({f"{days} days, {way}": backfills[way]}), flush=True)
    return flights, backfills


def main() -> None:
    """Measure, and print two tables."""
    parser = argparse.ArgumentParser(description="Runs in pods, by where their Spark is.")
    parser.add_argument("--work", required=True, type=made_folder)
    parser.add_argument("--days", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--operator", type=Path)
    arguments = parser.parse_args()
    before, began = psutil.getloadavg()[0], time.monotonic()
    work = Path(tempfile.mkdtemp(prefix="p", dir=arguments.work)).resolve()
    try:
        flights, backfills = measure(work, arguments.rounds, arguments.days, arguments.operator)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    load = describe_load(before, psutil.getloadavg()[0])
    print(f"Measured on {describe_machine(2)}{load}, in {time.monotonic() - began:.0f} s.\n")
    print("| flights | seconds of the run | CPU seconds of its pods |\n|---|---:|---:|")
    for way, runs in flights.items():
        shown = (", ".join(f"{run[what]:.0f}" for run in runs) for what in ("seconds", "cpu"))
        print(f"| {way} | {' | '.join(shown)} |")
    print(f"\n| {arguments.days} days, two at a time | seconds | CPU seconds |\n|---|---:|---:|")
    for way, backfill in backfills.items():
        print(f"| {way} | {backfill['seconds']:.0f} | {backfill['cpu']:.0f} |")


if __name__ == "__main__":
    main()
