"""A Dag file is parsed again and again: describing and planning an application loads none of the heavy libraries."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.budgets import extended_but
from tests.support.looping import APPLICATION as LOOPING, Place

HEAVY = (
    "airflow",
    "pyspark",
    "pyarrow",
    "sqlglot",
    "numpy",
    "pandas",
    "fsspec",
    "typer",
    "py4j",
    "fastavro",
    "confluent_kafka",
    "pyiceberg",
    "deltalake",
    "authlib",
    "google",
    "cloudpickle",
)

APPLICATION = """
from dataclasses import dataclass
from datetime import datetime

from airflow_samza import avg, count, stream_application, tumbling


@dataclass(frozen=True)
class View:
    member: int
    country: str
    at: datetime


@dataclass(frozen=True)
class Profile:
    member: int
    tier: str


@dataclass(frozen=True)
class Enriched(View):
    tier: str | None


def enrich(view: View, profile: Profile | None) -> Enriched:
    return Enriched(**vars(view), tier=profile and profile.tier)


@stream_application("light")
def light(app):
    views = app.input_stream("views", system="logs", schema=View, timestamp="at", max_delay="5 minutes", partitions=4, serde="registry:avro")
    clicks = app.input_stream("clicks", system="logs", schema="member bigint, country string, at timestamp", timestamp="at", partitions=4)
    profiles = app.pushed_table("profiles", key="member", schema=Profile, partitions=4)
    (
        views.merge(clicks.map(lambda click: View(click.member, click.country, click.at), schema=View))
        .where("country <> 'NO' AND member > 1")
        .select("member", "upper(country) AS country", "at")
        .map(lambda row: View(row.member, row.country, row.at), schema=View)
        .partition_by("member", id="by-member")
        .join(profiles, enrich, how="left", id="with-profile")
        .partition_by("country", id="by-country")
        .window(tumbling("1 minute"), key="country", views=count(), average=avg("member"), id="per-minute")
        .send_to(app.output_stream("out", system="warehouse"))
    )
"""

REPORT = "import json, sys; print(json.dumps(sorted(sys.modules)))"


def loaded_by(program: str, folder: Path) -> set[str]:
    """Return the packages that a fresh interpreter, with ``folder`` on its path, has loaded after a program."""
    return {name.partition(".")[0] for name in modules_loaded_by(program, folder)}


def modules_loaded_by(program: str, folder: Path) -> set[str]:
    """Return the modules that a fresh interpreter, with ``folder`` on its path, has loaded after a program."""
    (folder / "light_application.py").write_text(APPLICATION)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r})\n{program}\n{REPORT}"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "program",
    [
        "import airflow_samza",
        "from light_application import light; light.spec()",
        "from airflow_samza import plan_shape, load_application; "
        "plan_shape(load_application('light_application:light').spec())",
        "from airflow_samza import ExecutionPlanner, load_application\n"
        "plan = ExecutionPlanner({}, {}).plan(load_application('light_application:light').spec())\n"
        "from airflow_samza.planner.plan import ExecutionPlan\n"
        "assert ExecutionPlan.from_json(plan.to_json()) == plan and len(plan.stages) == 3",
    ],
    ids=["import", "describe", "plan the shape", "plan in full, to JSON and back"],
)
def test_planning_loads_nothing_heavy(program: str, tmp_path: Path) -> None:
    assert sorted(loaded_by(program, tmp_path) & set(HEAVY)) == []


def test_drawing_and_comparing_plans_loads_nothing_heavy(tmp_path: Path) -> None:
    program = (
        "from airflow_samza import ExecutionPlanner, load_application\n"
        "plan = ExecutionPlanner({}, {}).plan(load_application('light_application:light').spec())\n"
        "from airflow_samza.planner import difference, explain, pictures\n"
        "assert pictures.mermaid(plan) and pictures.dot(plan) and explain.explain(plan)\n"
        "assert difference.difference(plan, plan) == ()\n"
    )
    assert sorted(loaded_by(program, tmp_path) & set(HEAVY)) == []


def test_the_watcher_would_notice_a_heavy_import(tmp_path: Path) -> None:
    assert {"numpy", "pyarrow"} <= loaded_by("from airflow_samza.systems.log import system; import pyarrow", tmp_path)


COMMAND = """
from airflow_samza.cli.app import app
try:
    app({words!r})
except SystemExit as end:
    assert not end.code, end
"""


def test_a_command_loads_the_commands_of_no_other_module(tmp_path: Path) -> None:
    modules = modules_loaded_by(COMMAND.format(words=["runs", "list", "--root", str(tmp_path)]), tmp_path)
    of_commands = {
        name for name in modules if name.startswith("airflow_samza.cli") and name.endswith(("command", "commands"))
    }
    assert of_commands == {"airflow_samza.cli.runs_commands"}


def test_the_version_loads_nothing_of_plans_and_records(tmp_path: Path) -> None:
    modules = modules_loaded_by(COMMAND.format(words=["--version"]), tmp_path)
    assert not [name for name in modules if name.startswith(("airflow_samza.planner", "airflow_samza.runs.records"))]


def test_a_sweep_of_the_root_loads_nothing_that_reads_rows(tmp_path: Path) -> None:
    (tmp_path / "looping_app.py").write_text(LOOPING)
    place = Place(tmp_path)
    place.send(0, 5)
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(tmp_path))
        place.prepare("circle", "pipelined")
    modules = modules_loaded_by(COMMAND.format(words=["gc", "--root", str(place.runtime.root)]), tmp_path)
    assert "airflow_samza.runs.upkeep.retention" in modules
    heavy = {*HEAVY, "airflow_samza.task", "airflow_samza.launch.runtime"} - {"typer"}
    assert sorted(modules & heavy) == []


OF_RUNNERS = ("airflow_samza.spark", "airflow_samza.engine", "airflow_samza.launch", "pyspark", "py4j")
"""Packages that start, drive and are Spark."""


def of_runners(modules: set[str]) -> list[str]:
    return sorted(name for name in modules if name.startswith(OF_RUNNERS))


@pytest.mark.parametrize("module", extended_but(["triggers.runs"], ["triggers.runs", "triggers.tables"]))
@pytest.mark.extended
def test_a_triggerer_loads_nothing_of_runners_and_spark(module: str, tmp_path: Path) -> None:
    modules = modules_loaded_by(f"import airflow_samza.provider.{module}", tmp_path)
    assert f"airflow_samza.provider.{module}" in modules
    assert of_runners(modules) == []


@pytest.mark.extended
def test_the_status_of_a_run_loads_nothing_of_runners_and_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "looping_app.py").write_text(LOOPING)
    monkeypatch.syspath_prepend(str(tmp_path))
    place = Place(tmp_path)
    place.send(0, 5)
    place.prepare("circle", "pipelined")
    words = ["status", "--root", str(place.runtime.root), "circling", "run"]
    modules = modules_loaded_by(COMMAND.format(words=words), tmp_path)
    assert "airflow_samza.cli.status_command" in modules
    assert of_runners(modules) == []
