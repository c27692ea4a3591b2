"""The table of docs/operate/containers.md says what the code decides, row by row, and names tests that are there."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from airflow.sdk import Connection

from airflow_samza.errors import ConfigError
from airflow_samza.launch.masters import SubmitOptions
from airflow_samza.provider import containers
from airflow_samza.provider.connections.spark import SparkPlace
from airflow_samza.provider.hooks.samza import SamzaHook

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "operate/containers.md").read_text(encoding="utf-8")

PLACES = {
    "`local[*]`": SparkPlace(),
    "client": SparkPlace("spark://spark:7077", SubmitOptions("client")),
    "cluster": SparkPlace("spark://spark:7077", SubmitOptions("cluster")),
    "Connect": SparkPlace("sc://spark:15002"),
}
ROOTS = {
    "volume": "/volume/samza",
    "HDFS": "webhdfs://nn:9870/samza",
    "object store": "s3://bucket/samza",
    "the container's own disk": "/own/samza",
}


class Row(NamedTuple):
    executor: str
    place: str
    root: str
    deferrable: bool
    result: str
    held_by: str


def rows() -> Iterator[Row]:
    table = PAGE.partition("|---|---|---|---|---|---|\n")[2].partition("\n\n")[0]
    for line in table.splitlines():
        executors, places, roots, deferrable, result, held_by = (cell.strip() for cell in line.strip("|").split("|"))
        alternatives: list[list[Any]] = [
            executors.split(", "),
            list(PLACES) if places == "any" else places.split(", "),
            [name for name in ROOTS if name != "the container's own disk"]
            if roots.startswith("any")
            else roots.split(", "),
            [word == "yes" for word in deferrable.split(", ")],
        ]
        for executor, place, root, defers in itertools.product(*alternatives):
            yield Row(str(executor), str(place), str(root), bool(defers), result, held_by.strip("`"))


ROWS = list(rows())


def decide(row: Row, monkeypatch: pytest.MonkeyPatch) -> str:
    """Error of the plan task for a run, else the owner of its runners."""
    disk = lambda root: "overlay" if root.startswith("/own") else None  # noqa: E731
    monkeypatch.setattr(containers, "_own_disk", disk)
    monkeypatch.setattr(SamzaHook, "spark_place", lambda self: PLACES[row.place])
    connection = Connection(conn_id="samza", conn_type="samza", extra=f'{{"root": "{ROOTS[row.root]}"}}')
    monkeypatch.setattr(SamzaHook, "_connection", lambda self, conn_id: connection)
    hook = SamzaHook("samza", executor=row.executor)
    try:
        hook.reject_own_disk()
        if row.deferrable:
            hook.reject_short_lived("views.by-tail", row.executor)
    except ConfigError as error:
        return "deferring" if error.facts["key"] == "deferrable" else "a root that ends with the container"
    return "own" if hook._owner(PLACES[row.place]) else "shared"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(map(str, row[:4])))
def test_each_row_says_what_the_plan_task_decides(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    decided = decide(row, monkeypatch)
    rejected = re.search(r"rejected when the run is planned: \[([^\]]*)\]", row.result)
    if rejected is not None:
        assert decided == rejected[1]
    elif "LocalExecutor" in row.executor or "Celery" in row.executor or row.place == "cluster":
        assert decided == "shared"
    else:
        assert decided == "own"


def test_the_table_leaves_no_combination_of_a_container_without_a_row() -> None:
    named = {row[:4] for row in ROWS}
    for executor in ("KubernetesExecutor", "AwsEcsExecutor", "AwsBatchExecutor"):
        missing = [found for found in itertools.product([executor], PLACES, ROOTS, [True, False]) if found not in named]
        assert missing == []


def test_each_row_names_a_test_that_is_there() -> None:
    assert [row.held_by for row in ROWS if not (ROOT / row.held_by).is_file()] == []


def test_the_pod_mounts_what_it_declares_and_is_a_task_of_airflows() -> None:
    """The KubernetesExecutor takes the container named base for the task's."""
    pod: Any = yaml.safe_load(PAGE.partition("```yaml\n")[2].partition("```")[0])
    assert (pod["apiVersion"], pod["kind"], pod["spec"]["restartPolicy"]) == ("v1", "Pod", "Never")
    (base,) = pod["spec"]["containers"]
    assert base["name"] == "base"
    assert {mount["name"] for mount in base["volumeMounts"]} == {volume["name"] for volume in pod["spec"]["volumes"]}
    assert "/tmp" in {mount["mountPath"] for mount in base["volumeMounts"]}
    assert base["securityContext"]["readOnlyRootFilesystem"] is True
