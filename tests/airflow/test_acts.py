"""Edits of an application, and what comes next, in a real Airflow on Spark: a dozen cells of the matrix of acts.

``tests/property/test_acts.py`` has the whole matrix, without both. Two thirds of the dozen are nightly.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.nightly, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(3600)]

TRIPS = [(("NL", "SE", "IT")[number % 3], number % 7 + 1) for number in range(40)]

APPLICATION = """
from airflow_samza import count, max_, stream_application, sum_


def corrected(trip):
    if {mistake} and trip.km == 7:
        raise ValueError("a mistake")
    return {{"country": trip.country, "km": trip.km * {factor}}}


@stream_application("acts-{name}", config={{"job.intermediate.stream.partitions": "{partitions}"}})
def app(app):
    trips = app.input_stream("trips", system="data", path="acts/*.jsonl", format="json", schema="country string, km bigint", partitions=2)
    right = trips.map(corrected, id="corrected")
    found = right.partition_by("country", id="{stage}").aggregate("country", id="per-country", km={km}("km"), n=count())
    found.send_to(app.output_stream("out", system="warehouse", path="acts-{name}", format="json"))
    if {aside}:
        right.where("km > 3").send_to(app.output_stream("aside", system="warehouse", path="acts-{name}-aside", format="json"))
"""

DAGS = """
import json
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG

from airflow_samza import SamzaDag, SamzaTaskGroup
from airflow_samza.operators import SamzaCleanupOperator, SamzaPlanOperator, SamzaStreamOperator

SYSTEMS = {"data": "flights_data", "warehouse": "flights_warehouse"}
RETRIES = {"retries": 1, "retry_delay": timedelta(seconds=45)}

for name, way in json.loads((Path(__file__).parent / "ways.json").read_text()).items():
    settings = {"application": f"acts_{name}:app", "systems": SYSTEMS, "poll_interval": 0.2}
    dag_id = f"acts_{name}"
    if way == "SamzaDag":
        globals()[dag_id] = SamzaDag(dag_id, schedule=None, default_args=RETRIES, **settings)
        continue
    with DAG(dag_id, schedule=None, default_args=RETRIES) as dag:
        if way in ("fused", "pipelined"):
            SamzaTaskGroup("shop", mode=way, **settings)
        elif way == "one task":
            SamzaStreamOperator(task_id="run", **settings)
        else:
            plan = SamzaPlanOperator(task_id="plan", application=settings["application"], systems=SYSTEMS)
            first = SamzaStreamOperator(task_id="first", stage="trips", plan=plan.output, **settings)
            last = SamzaStreamOperator(task_id="last", stage="by-country", plan=plan.output, **settings)
            cleanup = SamzaCleanupOperator(
                task_id="cleanup", application=settings["application"], systems=SYSTEMS, plan=plan.output
            )
            first >> last >> cleanup
            cleanup.as_teardown(on_failure_fail_dagrun=False)
    globals()[dag_id] = dag
"""

PLAN = {"SamzaDag": "plan", "by hand": "plan", "fused": "shop.plan", "pipelined": "shop.plan", "one task": "run"}

USUAL = {"mistake": False, "factor": 1, "partitions": 2, "stage": "by-country", "km": "sum_", "aside": False}


@dataclass(frozen=True)
class Cell:
    """An edit, and what is done next: tasks that are cleared, or a command; "": the retry that Airflow makes.

    ``rejected``: that is rejected, with a hint that says to clear the plan task, or to add ``--again``.
    """

    way: str
    edit: Mapping[str, Any]
    then: str
    downstream: bool = False
    rejected: bool = False
    mistake: bool = False


CELLS = {
    "operator_stage": Cell("SamzaDag", {"km": "max_"}, "by-country", rejected=True),
    "operator_plan": Cell("SamzaDag", {"km": "max_"}, "plan", downstream=True),
    "callable_stage": Cell("SamzaDag", {"factor": 3}, "trips", downstream=True),
    "stage_plan": Cell("SamzaDag", {"stage": "by-land"}, "plan", downstream=True),
    "hand_operator": Cell("by hand", {"km": "max_"}, "last", rejected=True),
    "hand_nothing": Cell("by hand", {}, "first", downstream=True),
    "hand_retry": Cell("by hand", {"km": "max_"}, "", rejected=True, mistake=True),
    "task_retry": Cell("one task", {"km": "max_"}, "", mistake=True),
    "task_partitions": Cell("one task", {"partitions": 3}, "run"),
    "fused_output": Cell("fused", {"aside": True}, "shop.run", rejected=True),
    "pipelined_callable": Cell("pipelined", {"factor": 2}, "shop.plan", downstream=True),
    "command": Cell("SamzaDag", {"km": "max_"}, "--run-id", rejected=True),
}


@dataclass
class Edited:
    """The bundle of edited applications in a running Airflow, with a run of each."""

    flights: Any
    runs: dict[str, str] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)

    @property
    def airflow(self) -> Any:
        return self.flights.airflow

    def write(self, name: str, **edit: Any) -> None:
        source = APPLICATION.format(name=name.replace("_", "-"), **{**USUAL, **edit})
        (self.flights.edited / f"acts_{name}.py").write_text(source)

    def end(self, name: str) -> str:
        """Wait for the end of a run; return its state."""
        return str(self.airflow.wait_for_run(f"acts_{name}", self.runs[name], timeout=1800)["state"])

    def clear(self, name: str, task_id: str, *, downstream: bool) -> None:
        self.airflow.clear(f"acts_{name}", self.runs[name], task_id, downstream=downstream)

    def failed_log(self, name: str) -> str:
        """Return the log of the last try of the task that has failed."""
        dag_id, run_id = f"acts_{name}", self.runs[name]
        task = next(task for task in self.airflow.tasks(dag_id, run_id) if task["state"] == "failed")
        return str(self.airflow.log(dag_id, run_id, task["task_id"], task["try_number"]))

    def command(self, name: str, *more: str) -> subprocess.CompletedProcess[str]:
        run_id = self.airflow.xcom(f"acts_{name}", self.runs[name], "plan")["run_id"]
        systems = [f"data=files:{self.flights.data}", f"warehouse=files:{self.flights.warehouse}"]
        given = [part for system in systems for part in ("--system", system)]
        words = ["run", f"acts_{name}:app", "--root", str(self.flights.root), *given, "--run-id", run_id, *more]
        return subprocess.run(
            [str(Path(sys.executable).parent / "airflow-samza"), *words],
            cwd=self.flights.edited,
            capture_output=True,
            text=True,
            check=False,
        )

    def rows(self, name: str) -> Counter[str]:
        folder = Path(self.flights.warehouse) / name
        lines = [line for path in folder.glob("part-*") for line in path.read_text().splitlines()]
        return Counter(json.dumps(json.loads(line), sort_keys=True) for line in lines)


def expected(edit: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the application after an edit."""
    found = defaultdict(list)
    for country, km in TRIPS:
        found[country].append(km * edit.get("factor", 1))
    total = max if edit.get("km") == "max_" else sum
    return [{"country": country, "km": total(kms), "n": len(kms)} for country, kms in found.items()]


@pytest.fixture(scope="module")
def edited(flights: Any, request: pytest.FixtureRequest) -> Edited:
    """Every selected cell up to where what came next has ended; a rejection is followed by the act that its hint names."""
    items = [
        item for item in request.session.items if isinstance(item, pytest.Function) and item.parent is request.node
    ]
    cells = {name: CELLS[name] for name in (str(item.callspec.params["name"]) for item in items)}
    made = Edited(flights)
    (flights.data / "acts").mkdir()
    for number in range(2):
        lines = [json.dumps({"country": country, "km": km}) for country, km in TRIPS[number::2]]
        (flights.data / "acts" / f"{number}.jsonl").write_text("\n".join(lines) + "\n")
    for name, cell in cells.items():
        made.write(name, mistake=cell.mistake)
    (flights.edited / "ways.json").write_text(json.dumps({name: cell.way for name, cell in cells.items()}))
    (flights.edited / "acts_dags.py").write_text(DAGS)
    for name in cells:
        made.runs[name] = flights.airflow.trigger(f"acts_{name}")
    failing = {name: "run" if cell.way == "one task" else "first" for name, cell in cells.items() if cell.mistake}

    def are_edited() -> bool:
        """Edit what waits for its retry: each at once, or the retry comes before the edit."""
        for name, task_id in list(failing.items()):
            state = flights.airflow.task(f"acts_{name}", made.runs[name], task_id)["state"]
            assert state != "failed", f"{name} was retried before it was edited"
            if state == "up_for_retry":
                made.write(name, **cells[name].edit)
                del failing[name]
        return not failing

    flights.airflow.wait_until(are_edited, 1200, "the failures")
    for name, cell in cells.items():
        if not cell.mistake:
            assert made.end(name) == "success", flights.airflow.task_states(f"acts_{name}", made.runs[name])
            made.write(name, **cell.edit)
    if "stage_plan" in cells:
        flights.airflow.parse_again("acts_stage_plan")
        flights.airflow.wait_until(
            lambda: "by-land" in str(flights.airflow.api("GET", "/dags/acts_stage_plan/tasks")),
            120,
            "the renamed stage",
        )
    for name, cell in cells.items():
        if cell.then and not cell.then.startswith("--"):
            made.clear(name, cell.then, downstream=cell.downstream)
    for name, cell in cells.items():
        if cell.then.startswith("--"):
            made.told[name] = made.command(name).stderr
            assert made.command(name, "--again").returncode == 0
        elif cell.rejected:
            assert made.end(name) == "failed"
            made.told[name] = made.failed_log(name)
            made.clear(name, PLAN[cell.way], downstream=True)
    return made


@pytest.mark.parametrize("name", CELLS)
def test_what_comes_after_an_edit_gives_the_rows_of_a_run_from_scratch(edited: Edited, name: str) -> None:
    cell = CELLS[name]
    assert edited.end(name) == "success", edited.airflow.task_states(f"acts_{name}", edited.runs[name])
    if cell.rejected:
        assert "is not the one of which the run" in edited.told[name]
        assert ("--again" if cell.then.startswith("--") else "Clear the plan task") in edited.told[name]
    wanted = Counter(json.dumps(row, sort_keys=True) for row in expected(cell.edit))
    assert edited.rows(f"acts-{name.replace('_', '-')}") == wanted
    if cell.edit.get("aside"):
        assert edited.rows(f"acts-{name.replace('_', '-')}-aside").total() == sum(km > 3 for _, km in TRIPS)
