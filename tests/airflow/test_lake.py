"""The example Dags over tables of Iceberg and Delta, beside what DuckDB makes of the files, and Dags that publish."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from airflow_samza.cli.app import app as command
from tests.support import delta_lake
from tests.support.iceberg_lake import append, catalog_at, rows_of, stream, system_at, table_of

pytestmark = [pytest.mark.nightly, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1800)]

DAG, DELAYS_DAG = "flights_lake", "flights_lake_delays"
DAYS = ("2013-01-01", "2013-01-02")


def rows(lake: Path, table: str) -> list[dict[str, Any]]:
    return rows_of(system_at(lake), stream(table))


def of_files(data: Path, what: str, days: tuple[str, ...]) -> list[tuple[Any, ...]]:
    files = [f"{data}/flights/{day}.parquet" for day in days]
    found: list[tuple[Any, ...]] = duckdb.execute(
        f"SELECT {what} FROM read_parquet({files}) WHERE dep_delay IS NOT NULL GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    return found


def delays(mart: Path) -> list[tuple[Any, ...]]:
    found = delta_lake.rows_of(delta_lake.system_at(mart), delta_lake.stream("air.delays"))
    return sorted((str(row["day"]), row["carrier"], row["flights"], round(row["delay"], 9)) for row in found)


def test_a_dag_reads_what_days_append_and_reads_all_anew_after_rows_were_replaced(flights: Any) -> None:
    airflow, lake, mart = flights.airflow, flights.root.parent / "tables", flights.root.parent / "mart"
    snapshots: list[str] = []
    for done, day in enumerate((*DAYS, DAYS[0]), 1):
        at = datetime.fromisoformat(f"{day}T00:00+00:00")
        interval = {"data_interval_start": at.isoformat(), "data_interval_end": (at + timedelta(days=1)).isoformat()}
        run_id = airflow.trigger(DAG, logical_date=at + timedelta(hours=done), **interval)
        assert airflow.wait_for_run(DAG, run_id, timeout=1200)["state"] == "success", airflow.task_states(DAG, run_id)
        snapshots.append(airflow.xcom(DAG, run_id, "load")["outputs"]["departures"]["snapshot"])
        reader = airflow.wait_until(partial(runs_after, airflow, done - 1), 300, f"a run of {DELAYS_DAG}")
        state = airflow.wait_for_run(DELAYS_DAG, reader, timeout=1200)["state"]
        if done > len(DAYS):
            log = airflow.log(DELAYS_DAG, reader, "delays")
            assert (state, f"{snapshots[-1]} of the table air.departures has replaced rows" in log) == ("failed", True)
            reset = ["state", "reset", "delays-of-lake", "--yes", "--root", str(flights.root)]
            assert CliRunner().invoke(command, reset).exit_code == 0
            airflow.clear(DELAYS_DAG, reader)
            state = airflow.wait_for_run(DELAYS_DAG, reader, timeout=1200)["state"]
        assert state == "success", airflow.task_states(DELAYS_DAG, reader)
        days = DAYS[:done]
        ((new,),) = of_files(flights.data, "count(*)", days if done > len(DAYS) else (day,))
        assert airflow.xcom(DELAYS_DAG, reader, "delays")["read"]["departures"]["messages"] == new
        assert [(len(rows(lake, "air.departures")),)] == of_files(flights.data, "count(*)", days)
        complete = days[:-1]
        per_day = "make_date(year, month, day)::VARCHAR, carrier, count(*), round(avg(dep_delay), 9)"
        assert delays(mart) == (of_files(flights.data, per_day, complete) if complete else [])
        pushed = airflow.xcom(DELAYS_DAG, reader, "push")
        assert pushed["rows"] == len({carrier for _, carrier, *_ in delays(mart)})
    assert len(set(snapshots)) == 3
    events = airflow.api("GET", "/assets/events", params={"source_dag_id": DAG, "limit": 100})["asset_events"]
    told = {event["extra"].get("snapshot") for event in events}
    assert set(snapshots) <= told, json.dumps(events)[:2000]
    assert {event["uri"] for event in events} == {f"file://{lake}/air/departures"}


def runs_after(airflow: Any, former: int) -> str | None:
    """Return the id of the run of the reader behind so many."""
    new = airflow.runs(DELAYS_DAG)[former:]
    return new[0]["dag_run_id"] if new else None


AUDITED_APPLICATION = """
from airflow_samza import stream_application

@stream_application("audited-views")
def audited_views(app):
    views = app.input_stream("views", system="data", path="audited.jsonl", schema="id bigint")
    table = app.output_stream("out", system="lake", table="web.audited", create=True, branch="audit/{run_id}")
    views.send_to(table)
"""

AUDITED = """
from airflow.sdk import DAG, task
from airflow_samza.operators import SamzaPublishOperator, SamzaStreamOperator
from tests.support.iceberg_lake import rows_of, stream, system_at

with DAG("lake_audited", schedule=None):
    parameters = dict(
        application="audited_views:audited_views", systems={{"data": "flights_data", "lake": "flights_lake"}}
    )

    @task
    def audit(written):
        rows = rows_of(system_at("{lake}"), stream("web.audited", ref="audit/" + written["run_id"]))
        assert rows and all(row["id"] > 0 for row in rows), rows

    load = SamzaStreamOperator(task_id="load", **parameters)
    audit(load.output) >> SamzaPublishOperator(task_id="publish", **parameters)
"""


def test_a_run_is_seen_when_it_was_audited_and_published(flights: Any) -> None:
    airflow, lake = flights.airflow, flights.root.parent / "tables"
    (flights.edited / "audited_views.py").write_text(AUDITED_APPLICATION)
    (flights.edited / "lake_audited.py").write_text(AUDITED.format(lake=lake))
    run_id = audited_twice(flights, "lake_audited", "audited.jsonl", lambda: ids_of(rows(lake, "web.audited")))
    (published,) = airflow.xcom("lake_audited", run_id, "publish")
    branch = f"audit/{airflow.xcom('lake_audited', run_id, 'load')['run_id']}"
    assert (published["table"], published["branch"]) == ("web.audited", branch)
    told = f"The branch '{branch}' of the table web.audited is published (snapshot {published['version']})."
    assert told in airflow.log("lake_audited", run_id, "publish")
    events = airflow.api("GET", "/assets/events", params={"source_dag_id": "lake_audited"})["asset_events"]
    (seen,) = [(event["source_task_id"], event["uri"], event["extra"]["snapshot"]) for event in events]
    assert seen == ("publish", f"file://{lake}/web/audited", published["version"])
    with catalog_at(str(lake)) as catalog:
        assert set(catalog.load_table("web.audited").metadata.refs) == {"main"}


WAITING_APPLICATIONS = """
from airflow_samza import stream_application

@stream_application("waiting-views")
def waiting_views(app):
    views = app.input_stream("views", system="data", path="waiting.jsonl", schema="id bigint")
    table = app.output_stream("out", system="mart", table="web.waiting", create=True, branch="audit/{run_id}")
    views.send_to(table)

def checked(view):
    assert view["id"] > 0, f"{view['id']} is no id"
    return view

@stream_application("waiting-views-audit")
def audit(app):
    waiting = app.input_stream(
        "waiting", system="mart", table="web.waiting", options={"waiting": "waiting-views/{config[audited]}"}
    )
    waiting.map(checked, schema="id bigint").send_to(app.output_stream("audited", partitions=1))
"""

WAITING = """
from airflow.sdk import DAG
from airflow_samza.operators import SamzaPublishOperator, SamzaStreamOperator

with DAG("lake_waiting", schedule=None):
    loading = dict(
        application="waiting_views:waiting_views", systems={"data": "flights_data", "mart": "flights_mart"}
    )
    load = SamzaStreamOperator(task_id="load", **loading)
    audit = SamzaStreamOperator(
        task_id="audit", application="waiting_views:audit", systems={"mart": "flights_mart"},
        config={"audited": "{{ ti.xcom_pull('load')['run_id'] }}"},
    )
    load >> audit >> SamzaPublishOperator(task_id="publish", **loading)
"""


@pytest.mark.nightly
def test_rows_that_wait_for_a_table_of_delta_are_audited_by_an_application(flights: Any) -> None:
    airflow, mart = flights.airflow, flights.root.parent / "mart"
    (flights.edited / "waiting_views.py").write_text(WAITING_APPLICATIONS)
    (flights.edited / "lake_waiting.py").write_text(WAITING)
    read = partial(delta_lake.rows_of, delta_lake.system_at(mart), delta_lake.stream("web.waiting"))
    run_id = audited_twice(flights, "lake_waiting", "waiting.jsonl", lambda: ids_of(read()))
    assert "-2 is no id" in airflow.log("lake_waiting", run_id, "audit")
    (published,) = airflow.xcom("lake_waiting", run_id, "publish")
    events = airflow.api("GET", "/assets/events", params={"source_dag_id": "lake_waiting"})["asset_events"]
    (event,) = [event for event in events if event["uri"] == f"file://{mart}/web/waiting"]
    assert (event["source_task_id"], event["extra"]["version"]) == ("publish", published["version"])


def audited_twice(flights: Any, dag_id: str, source: str, ids: Callable[[], list[int]]) -> str:
    """Run a Dag whose audit fails, clear the run over good rows, and return its id; ``ids`` are those that are seen."""
    airflow = flights.airflow
    (flights.data / source).write_text('{"id": 1}\n{"id": -2}\n')
    airflow.wait_for_dag(dag_id, timeout=300)
    run_id: str = airflow.trigger(dag_id)
    assert airflow.wait_for_run(dag_id, run_id, timeout=600)["state"] == "failed"
    states = {"load": "success", "audit": "failed", "publish": "upstream_failed"}
    assert airflow.task_states(dag_id, run_id) == states
    assert ids() == []
    (flights.data / source).write_text('{"id": 1}\n{"id": 2}\n')
    airflow.clear(dag_id, run_id)
    state = airflow.wait_for_run(dag_id, run_id, timeout=600)["state"]
    assert state == "success", airflow.task_states(dag_id, run_id)
    assert ids() == [1, 2]
    return run_id


def ids_of(found: list[dict[str, Any]]) -> list[int]:
    return sorted(row["id"] for row in found)


COMMITS = """
from airflow.sdk import DAG, Asset, AssetWatcher
from airflow_samza import stream_application
from airflow_samza.operators import SamzaPlanOperator
from airflow_samza.planner.planner import plan_shape
from tests.support.announced_commit import AnnouncedCommit

@stream_application("lake-commits")
def lake_commits(app):
    views = app.input_stream("views", system="lake", table="web.views")
    views.send_to(app.output_stream("lake-commits-out", partitions=1))

def planning(dag_id, asset):
    with DAG(dag_id, schedule=[asset]):
        SamzaPlanOperator(
            task_id="plan", application="lake_commits:lake_commits", systems={{"lake": "flights_lake"}}, scope=dag_id,
            expected_stages=[stage.stage_id for stage in plan_shape(lake_commits.spec({{}})).stages],
        )

watch = AssetWatcher(name="commit", trigger=AnnouncedCommit(table="web.views", snapshot_id={snapshot}))
planning("lake_watched", Asset("watched-views", watchers=[watch]))
planning("lake_written", Asset("{uri}"))
"""


def test_a_dag_run_reads_a_table_up_to_the_commit_that_started_it(flights: Any) -> None:
    airflow, lake = flights.airflow, flights.root.parent / "tables"
    lake.mkdir(exist_ok=True)
    table = table_of(lake, pa.schema([("id", pa.int64())]), [{"id": 1}], [{"id": 2}], [{"id": 3}])
    first, second, _ = (one.snapshot_id for one in table.metadata.snapshots)
    uri = f"file://{lake}/web/views"
    (flights.edited / "lake_commits.py").write_text(COMMITS.format(snapshot=first, uri=uri))
    for dag_id in ("lake_watched", "lake_written"):
        airflow.wait_for_dag(dag_id, timeout=300)
        airflow.pause(dag_id, False)
    (asset,) = airflow.api("GET", "/assets", params={"uri_pattern": uri})["assets"]
    event = {"application": "load", "stream": "views", "run_id": "r", "snapshot": str(second)}
    airflow.api("POST", "/assets/events", json={"asset_id": asset["id"], "extra": event})
    for dag_id, snapshot in (("lake_watched", first), ("lake_written", second)):
        (run,) = airflow.wait_until(partial(airflow.runs, dag_id), 300, f"a run of {dag_id}")
        run_id = run["dag_run_id"]
        for tries in (1, 2):
            assert airflow.wait_for_run(dag_id, run_id, timeout=600)["state"] == "success"
            assert f"reads the snapshot {snapshot} of web.views" in airflow.xcom(dag_id, run_id, "plan", "plan_text")
            assert f"views is read up to {snapshot} of web.views" in airflow.log(dag_id, run_id, "plan", tries)
            append(table.refresh(), [{"id": 4}])
            if tries == 1:
                airflow.clear(dag_id, run_id, "plan")
