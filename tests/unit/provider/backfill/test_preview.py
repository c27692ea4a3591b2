"""The preview of a backfill: slices as Airflow makes them, what each reads and what is there; nothing is made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from airflow.models.dagrun import DagRun
from sqlalchemy import update
from sqlalchemy.exc import SQLAlchemyError
from typer.testing import CliRunner

from airflow_samza.cli.app import app as command
from airflow_samza.cli.backfill_command import _of_slice
from airflow_samza.errors import ConfigError, UnknownName
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.provider.airflow_versions import events_take_partitions
from airflow_samza.provider.backfill import preview as backfill_preview, slices as backfill_slices
from airflow_samza.provider.backfill.preview import (
    BackfillPreview,
    SlicePreview,
    _airflow_runs,
    preview_backfill,
)
from airflow_samza.provider.hooks.samza import SamzaHook
from airflow_samza.provider.run_identity import interval_of
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.names import safe
from airflow_samza.runs.records.run_plan import RunPlan
from tests.support.airflow_tables import DAY, airflow_tables
from tests.support.runs_here import Here

APPLICATION = '''
from airflow_samza import stream_application

ORDER = "id bigint, amount bigint"


@stream_application("previewed-orders")
def orders(app):
    """Copy the orders of a day."""
    read = app.input_stream(
        "orders", system="data", schema=ORDER, path="orders/{data_interval_start:%Y-%m-%d}.json", format="json", partitions=1
    )
    read.send_to(app.output_stream("copied", system="log", partitions=1))


@stream_application("previewed-local")
def local(app):
    """Copy the orders of a day in New York."""
    read = app.input_stream("orders", system="data", schema=ORDER, path="orders/{ds|America/New_York}.json", format="json", partitions=1)
    read.send_to(app.output_stream("copied", system="log", partitions=1))


@stream_application("previewed-hive")
def hive(app):
    """Copy what Spark reads: of a path, or of a table of the catalog."""
    place = {"path": "orders/{data_interval_start:%Y-%m-%d}.json"} if app.config["read"] == "path" else {"options": {"table": "shop.orders"}}
    read = app.input_stream("orders", system="hive", schema=ORDER, format="json" if "path" in place else None, **place)
    read.send_to(app.output_stream("copied", system="log", partitions=1))


@stream_application("previewed-carried")
def carried(app):
    """Count orders from run to run."""
    read = app.input_stream("orders", system="data", schema=ORDER, path="orders", format="json", partitions=1, bounded=False)
    read.send_to(app.output_stream("copied", system="log", partitions=1))


@stream_application("previewed-newest")
def newest(app):
    """Keep the newest row of each order."""
    read = app.input_stream(
        "orders", system="data", schema=ORDER, path="orders/{data_interval_start:%Y-%m-%d}.json", format="json", partitions=1
    )
    read.send_to(app.output_stream("kept", system="tables", table="web.kept", create=True, mode="upsert", key="id"))
'''

DAG = """
import pendulum
from airflow import sdk
from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_samza import SamzaTaskGroup

print("a Dag file that prints")

with DAG("orders", schedule=CronDataIntervalTimetable("@daily", timezone="UTC"), start_date=pendulum.datetime(2013, 1, 1)):
    SamzaTaskGroup("copy", application="previewed_orders_app:orders", systems={"data": "orders_data"})

for read in ("path", "table"):
    with DAG(f"by_{read}", schedule=CronDataIntervalTimetable("@daily", timezone="UTC"), start_date=pendulum.datetime(2013, 1, 1)):
        SamzaTaskGroup("copy", application="previewed_orders_app:hive", systems={"hive": "orders_hive"}, config={"read": read})

with DAG("local_days", schedule=CronDataIntervalTimetable("@daily", timezone="America/New_York"), start_date=pendulum.datetime(2013, 1, 1, tz="America/New_York")):
    SamzaTaskGroup("copy", application="previewed_orders_app:local", systems={"data": "orders_data"})

if hasattr(sdk, "CronPartitionTimetable"):
    for name, form in (("days", "%Y-%m-%d"), ("moments", "%Y-%m-%dT%H:%M:%S")):
        with DAG(f"partitions_of_{name}", schedule=sdk.CronPartitionTimetable("@daily", timezone="UTC", key_format=form)):
            SamzaTaskGroup("copy", application="previewed_orders_app:orders", systems={"data": "orders_data"})

with DAG("newest", schedule=CronDataIntervalTimetable("@daily", timezone="UTC"), start_date=pendulum.datetime(2013, 1, 1)):
    SamzaTaskGroup("keep", application="previewed_orders_app:newest", systems={"data": "orders_data", "tables": "orders_tables"})

with DAG("carried", schedule=CronDataIntervalTimetable("@daily", timezone="UTC"), start_date=pendulum.datetime(2013, 1, 1)):
    SamzaTaskGroup("copy", application="previewed_orders_app:carried", systems={"data": "orders_data"}, state_from="manual__1")

with DAG("by_hand", schedule=None):
    SamzaTaskGroup("copy", application="previewed_orders_app:orders", systems={"data": "orders_data"})

with DAG("from_a_task", schedule=CronDataIntervalTimetable("@daily", timezone="UTC"), start_date=pendulum.datetime(2013, 1, 1)):
    SamzaTaskGroup(
        "copy",
        application="previewed_orders_app:orders",
        systems={"data": "orders_data"},
        config={"job.day": "{{ ti.xcom_pull(task_ids='elsewhere') }}"},
    )
"""


def day(number: int, month: int = 1) -> datetime:
    return datetime(2013, month, number, tzinfo=timezone.utc)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "previewed_orders_app.py").write_text(APPLICATION)
    (tmp_path / "dags" / "orders.py").write_text(DAG)
    orders = tmp_path / "data" / "orders"
    orders.mkdir(parents=True)
    for number in (1, 2):
        (orders / f"2013-01-0{number}.json").write_text('{"id": 1, "amount": 2}\n' * number * 10)
    connections = {
        "SAMZA_DEFAULT": {"conn_type": "samza", "extra": {"root": str(tmp_path / "root")}},
        "ORDERS_DATA": {"conn_type": "fs", "extra": {"path": str(tmp_path / "data")}},
        "ORDERS_TABLES": {"conn_type": "delta", "extra": {"root": str(tmp_path / "tables")}},
        "ORDERS_HIVE": {"conn_type": "spark_sql", "extra": {"root": str(tmp_path / "data")}},
    }
    for name, connection in connections.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(connection))
    monkeypatch.syspath_prepend(str(tmp_path / "dags"))
    monkeypatch.setattr(backfill_preview, "_airflow_runs", lambda dag_id, slices: ({}, []))
    return tmp_path


def preview(place: Path, first: datetime, last: datetime, dag_id: str = "orders") -> BackfillPreview:
    return preview_backfill(dag_id, first, last, place / "dags" / "orders.py")


def slices(found: BackfillPreview) -> tuple[SlicePreview, ...]:
    (application,) = found.applications
    return application.slices


def run_the_first(place: Path) -> None:
    """Run the application over the first day, as its Dag would."""
    here = Here(place / "root", bindings=SamzaHook("samza_default", systems={"data": "orders_data"}).bindings())
    here.whole("previewed_orders_app:orders", "first", interval=DataInterval(day(1), day(2)))


def test_slices_are_those_of_the_schedule_and_read_their_own_files(place: Path) -> None:
    found = preview(place, day(1), day(2))
    assert [each.slice.text for each in slices(found)] == ["2013-01-01 – 2013-01-02", "2013-01-02 – 2013-01-03"]
    amounts = [(each.inputs[0].files, each.inputs[0].bytes) for each in slices(found)]
    assert amounts == [(1, 230), (1, 460)]


def test_slices_of_a_local_day_read_the_files_of_the_zone_that_their_path_names(place: Path) -> None:
    found = preview(place, day(1) + timedelta(hours=5), day(2) + timedelta(hours=5), "local_days")
    starts = [each.slice.start for each in slices(found)]
    assert starts == [day(1) + timedelta(hours=5), day(2) + timedelta(hours=5)]
    assert [(each.inputs[0].files, each.inputs[0].bytes) for each in slices(found)] == [(1, 230), (1, 460)]


@pytest.mark.parametrize(
    ("read", "amounts"), [("path", [(1, 230), (1, 460)]), ("table", [(None, None)] * 2)], ids=["path", "table"]
)
def test_files_that_spark_reads_are_listed_and_of_a_table_nothing_is_known(
    place: Path, read: str, amounts: list[tuple[int | None, int | None]]
) -> None:
    found = slices(preview(place, day(1), day(2), f"by_{read}"))
    assert [(each.inputs[0].files, each.inputs[0].bytes) for each in found] == amounts
    assert [each.problem for each in found] == [None, None]


def test_nothing_is_made(place: Path) -> None:
    preview(place, day(1), day(2))
    assert not (place / "root").exists() or not any((place / "root").rglob("*"))


def test_a_slice_that_cannot_be_planned_says_why_and_the_others_are_shown(place: Path) -> None:
    there, missing = slices(preview(place, day(2), day(3)))
    assert there.problem is None
    assert "2013-01-03.json" in str(missing.problem)


def test_what_is_there_is_found_by_the_interval_and_former_runs_give_the_estimate(place: Path) -> None:
    run_the_first(place)
    done, new = slices(preview(place, day(1), day(2)))
    assert [(run.state, dict(run.rows)) for run in done.there] == [("succeeded", {"copied": 10})]
    assert not new.there
    assert done.outputs["copied"].startswith("replaces what the run 'first' wrote for the data interval [2013-01-01")
    assert not new.outputs
    assert new.estimate is not None
    assert done.estimate is not None
    assert (new.estimate.by, new.estimate.runs, new.estimate.rows) == ("bytes", 1, 20)
    assert done.estimate.rows == 10


def test_later_runs_whose_rows_would_be_replaced_are_named_but_those_of_the_backfill(place: Path) -> None:
    (place / "data" / "orders" / "2013-01-03.json").write_text('{"id": 1, "amount": 3}\n')
    systems = {"data": "orders_data", "tables": "orders_tables"}
    here = Here(place / "root", bindings=SamzaHook("samza_default", systems=systems).bindings())
    for number in (2, 3):
        interval = DataInterval(day(number), day(number + 1))
        here.whole("previewed_orders_app:newest", f"day-{number}", interval=interval)
    first, second, third = slices(preview(place, day(1), day(3), "newest"))
    assert [each.later.run_ids for each in (first, second, third)] == [(), (), ()]  # all days run again, in their order
    first, second = slices(preview(place, day(1), day(2), "newest"))
    assert [each.later.run_ids for each in (first, second)] == [("day-3",), ("day-3",)]
    words = ["backfill-preview", "newest", "--from", "2013-01-01", "--to", "2013-01-02"]
    words += ["--dag-file", str(place / "dags" / "orders.py")]
    said = (
        "The later run 'day-3' has written to 'kept', and this run replaces newer rows there by older ones: clear it "
        "behind it, too."
    )
    assert said in CliRunner().invoke(command, words).stdout.splitlines()
    found = json.loads(CliRunner().invoke(command, [*words, "--json"]).stdout)
    assert [each["later"] for each in found["applications"][0]["slices"]] == [["day-3"], ["day-3"]]


def test_a_state_is_named_as_for_the_plan_task_by_the_id_of_airflows_run(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[RunRequest] = []
    plan = SamzaHook.preview

    def noted(hook: SamzaHook, request: RunRequest) -> RunPlan:
        asked.append(request)
        return plan(hook, request)

    monkeypatch.setattr(SamzaHook, "preview", noted)
    (found,) = slices(preview(place, day(1), day(1), "carried"))
    assert (found.problem, [each.state_from for each in asked]) == (None, [safe("carried~copy~manual__1")])


def test_dates_to_come_are_no_slices(place: Path) -> None:
    today = datetime.now(timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0)
    found = preview(place, today - timedelta(days=1), today + timedelta(days=5))
    assert [each.slice.start for each in slices(found)] == [today - timedelta(days=1)]


def test_a_dag_without_a_schedule_has_no_backfill(place: Path) -> None:
    with pytest.raises(ConfigError, match="has no schedule"):
        preview(place, day(1), day(2), "by_hand")


def test_a_date_after_the_last_is_rejected(place: Path) -> None:
    with pytest.raises(ConfigError, match="is after --to"):
        preview(place, day(2), day(1))


def test_a_dag_that_is_not_there_is_named_with_those_that_are(place: Path) -> None:
    with pytest.raises(UnknownName, match="There is no Dag 'order'") as caught:
        preview(place, day(1), day(2), "order")
    assert "Did you mean 'orders'?" in caught.value.hint


def test_runs_that_exist_have_their_states_by_their_dates(monkeypatch: pytest.MonkeyPatch) -> None:
    with airflow_tables() as database:
        for number in range(3):
            database.run(f"run-{number}", "orders", ("success", "failed", "running")[number])
        database.run("theirs", "others")
        monkeypatch.setattr("airflow.utils.session.create_session", lambda: nullcontext(database.session))
        dates = [DAY, DAY + timedelta(days=1)]
        wanted = [backfill_slices.Slice(date, date, date, date) for date in dates]
        assert _airflow_runs("orders", wanted) == ({dates[0]: "success", dates[1]: "failed"}, [])


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (RuntimeError("Direct database access is not allowed\nhere"), "Direct database access is not allowed"),
        (RuntimeError(), "RuntimeError"),
        (SQLAlchemyError("postgresql://me:hush@db is away"), "postgresql://me:***@db is away"),
    ],
)
def test_a_database_that_cannot_be_asked_is_a_note(monkeypatch: pytest.MonkeyPatch, error: Exception, why: str) -> None:
    def reject() -> Any:
        raise error

    monkeypatch.setattr("airflow.utils.session.create_session", reject)
    assert _airflow_runs("orders", [backfill_slices.Slice(DAY, DAY, DAY, DAY)]) == (
        {},
        [f"Airflow's database was not asked for runs that exist: {why}"],
    )


def test_without_dates_no_database_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow.utils.session.create_session", lambda: pytest.fail("it was asked"))
    assert _airflow_runs("orders", []) == ({}, [])
    assert _airflow_runs("orders", [backfill_slices.Slice(day(1), None, None, None)]) == ({}, [])


def test_of_many_dags_the_first_twenty_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    dags = {f"dag-{number:02}": object() for number in range(25)}
    monkeypatch.setattr(backfill_slices, "dags_in", lambda file: (dags, {}))
    with pytest.raises(UnknownName) as caught:
        backfill_slices.find_dag("orders")
    assert caught.value.sentence == "There is no Dag 'orders' in the Dag bundles of this Airflow."
    assert caught.value.hint == f"Known are {', '.join(sorted(dags)[:20])} and 5 more."


def test_a_dag_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"There is no Dag file .*none\.py"):
        backfill_slices.find_dag("orders", tmp_path / "none.py")


def test_a_file_that_cannot_be_read_is_named_with_its_error(place: Path) -> None:
    broken = place / "dags" / "broken.py"
    broken.write_text("from airflow.sdk import DAG\nimport nowhere_at_all\n")
    with pytest.raises(ConfigError, match="No module named 'nowhere_at_all'"):
        backfill_slices.find_dag("orders", broken)


def test_what_only_a_task_knows_is_said(place: Path) -> None:
    (each,) = slices(preview(place, day(1), day(1), "from_a_task"))
    assert "is known only when it runs" in str(each.problem)


def test_a_runs_own_interval_is_what_airflow_would_give_it(place: Path) -> None:
    (task,), (one,) = backfill_slices.planned_slices("orders", day(1), day(1), place / "dags" / "orders.py")
    _, context = backfill_slices.for_slice(task, one)
    assert interval_of(context) == DataInterval(day(1), day(2))
    assert (context["ds"], context["ts_nodash"]) == ("2013-01-01", "20130101T000000")


def asked(place: Path, *more: str) -> Any:
    file = str(place / "dags" / "orders.py")
    words = ["backfill-preview", "orders", "--from", "2013-01-01", "--to", "2013-01-03", "--dag-file", file, *more]
    return CliRunner().invoke(command, words)


def test_the_command_shows_a_table_and_what_the_slices_are_together(place: Path) -> None:
    run_the_first(place)
    done = asked(place)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == (
        "A backfill of orders makes 3 runs: 2013-01-01 – 2013-01-02 … 2013-01-03 – 2013-01-04. Nothing was run."
    )
    assert "previewed-orders, planned by copy.plan:" in lines
    rows = {line.split(" – ")[0]: line for line in lines if line.startswith("2013-")}
    assert "succeeded, 10 rows of copied" in rows["2013-01-01"]
    assert "cannot be planned" in rows["2013-01-03"]
    assert any(
        line.startswith("Estimate of 2 of 3 slices, by 1 of 1 former runs (their cost per byte): ") for line in lines
    )


def test_json_is_all_that_the_command_prints(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = json.loads(asked(place, "--json").stdout)
    assert [each["inputs"][0]["bytes"] for each in found["applications"][0]["slices"][:2]] == [230, 460]
    assert "a Dag file that prints" not in capfd.readouterr().out


@pytest.mark.extended
def test_airflows_own_lines_are_left_out_and_warnings_are_not(place: Path) -> None:
    """A process of its own, since Airflow reads the level of its logs when it is loaded."""
    file = place / "dags" / "orders.py"
    file.write_text(f"import logging\n{DAG}logging.getLogger('airflow.mine').warning('the disk is nearly full')\n")
    dates = ["--from", "2013-01-01", "--to", "2013-01-02", "--dag-file", str(file)]
    words = [str(Path(sys.executable).with_name("airflow-samza")), "backfill-preview", "orders", *dates]
    environment = {**os.environ, "AIRFLOW_HOME": str(place / "home")}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert lines[0] == "a Dag file that prints"
    assert "the disk is nearly full" in lines[1]
    assert not [line for line in lines if "info" in line.lower()]
    assert lines[-1].startswith("Note: Airflow's database was not asked for runs that exist: ")


@pytest.mark.parametrize("text", ["yesterday", "2013-1", ""])
def test_a_date_that_is_none_is_rejected(place: Path, text: str) -> None:
    done = CliRunner().invoke(command, ["backfill-preview", "orders", "--from", text, "--to", "2013-01-01"])
    assert done.exit_code != 0
    assert "is no date" in done.output + str(done.exception)


def test_dags_are_looked_for_in_the_bundles(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = "airflow.dag_processing.bundles.local.LocalDagBundle"
    bundles = [{"name": "mine", "classpath": kind, "kwargs": {"path": os.fspath(place / "dags")}}]
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps(bundles))
    assert backfill_slices.find_dag("orders").dag_id == "orders"


FEEDING = """
import pendulum
from airflow.sdk import DAG, Asset, task
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_samza import SamzaTaskGroup
from airflow_samza.operators import SamzaTablePushOperator

COMMON = {{"schedule": CronDataIntervalTimetable("@daily", timezone="UTC"), "start_date": pendulum.datetime(2013, 1, 1)}}

with DAG("orders", **COMMON):
    {before}
    last = SamzaTaskGroup("copy", application="previewed_chain_app:{last}", systems={{"data": "orders_data"}})
    before >> last
"""

CHAIN = '''
from airflow_samza import stream_application

ORDER = "id bigint, amount bigint"

@stream_application("previewed-fed")
def fed(app):
    """Write the orders that another application reads."""
    read = app.input_stream("raw", system="data", schema=ORDER, path="raw", format="json", partitions=1)
    read.partition_by("id", id="by-id").send_to(
        app.output_stream("orders", system="data", path="fed/{data_interval_start:%Y-%m-%d}", format="json")
    )

@stream_application("previewed-fed-topic")
def fed_topic(app):
    """Write a topic that another application reads."""
    read = app.input_stream("raw", system="data", schema=ORDER, path="raw", format="json", partitions=1)
    read.send_to(app.output_stream("fed", system="log", partitions=1, shared=True))

def reading(name, system, more):
    @stream_application(name)
    def app(app):
        read = app.input_stream("orders", system=system, schema=ORDER, **more)
        read.send_to(app.output_stream("copied", system="log", partitions=1))
    return app

OF_DAY = "fed/{data_interval_start:%Y-%m-%d}"
folder = reading("previewed-folder", "data", {"path": OF_DAY, "format": "json", "partitions": 1})
glob = reading("previewed-glob", "data", {"path": OF_DAY + "/*.json", "format": "json", "partitions": 1})

@stream_application("previewed-sections")
def sections(app):
    app.shared_stream("fed", system="log", schema=ORDER).send_to(app.output_stream("copied", system="log", partitions=1))

@stream_application("previewed-table")
def table(app):
    known = app.pushed_table("known", key="id", schema="id bigint, tier string", partitions=1)
    read = app.input_stream("raw", system="data", schema=ORDER, key="id", path="raw", format="json", partitions=1)
    read.join(known, id="with-tier").send_to(app.output_stream("copied", system="log", partitions=1))
'''
GROUP = 'before = SamzaTaskGroup("feed", application="previewed_chain_app:{}", systems={{"data": "orders_data"}})'
PUSH = 'before = SamzaTablePushOperator(task_id="push", application="previewed_chain_app:table", table="known", source="/x")'
OUTLET = """
    @task(outlets=[Asset("file://{place}/data/fed")])
    def load(): ...
    before = load()"""

AWAITED = [
    (GROUP.format("fed"), "folder", "orders", "feed.by-id"),
    (GROUP.format("fed"), "glob", "orders", "feed.by-id"),
    (GROUP.format("fed_topic"), "sections", "fed", "feed.raw"),
    (PUSH, "table", "known", "push"),
    (OUTLET, "folder", "orders", "load"),
]


def fed(place: Path, before: str, last: str) -> None:
    (place / "dags" / "previewed_chain_app.py").write_text(CHAIN)
    (place / "dags" / "orders.py").write_text(FEEDING.format(before=before.replace("{place}", str(place)), last=last))
    (place / "data" / "raw").mkdir(exist_ok=True)
    (place / "data" / "raw" / "a.json").write_text('{"id": 1, "amount": 2}\n')


@pytest.mark.parametrize(
    ("before", "last", "stream", "task"), AWAITED, ids=["folder", "glob", "sections", "table", "outlet"]
)
@pytest.mark.extended
def test_what_a_task_before_writes_is_unknown_until_then(
    place: Path, before: str, last: str, stream: str, task: str
) -> None:
    fed(place, before, last)
    found = preview(place, day(1), day(2))
    each = found.applications[-1].slices[0]
    assert (each.problem, each.estimate) == (None, None)
    assert [(awaited.stream_id, awaited.task_id) for awaited in each.awaited] == [(stream, task)]
    done = asked(place)
    assert f"{stream!r} is written by task {task}, unknown until then." in done.stdout.splitlines()
    assert f"unknown until {task} has run" in done.stdout
    assert "cannot be planned" not in done.stdout
    facts = json.loads(asked(place, "--json").stdout)["applications"][-1]["slices"][0]
    assert facts["awaited"] == [{"stream_id": stream, "task_id": task}]


def test_what_is_there_of_an_earlier_run_is_shown(place: Path) -> None:
    fed(place, GROUP.format("fed"), "folder")
    (place / "data" / "fed" / "2013-01-01").mkdir(parents=True)
    (place / "data" / "fed" / "2013-01-01" / "a.json").write_text('{"id": 1, "amount": 2}\n')
    there, missing = preview(place, day(1), day(2)).applications[-1].slices
    assert (there.inputs[0].files, there.awaited) == (1, ())
    assert [awaited.task_id for awaited in missing.awaited] == ["feed.by-id"]


def test_tasks_before_of_which_nothing_is_known_are_named(place: Path) -> None:
    fed(place, OUTLET.replace('outlets=[Asset("file://{place}/data/fed")]', "retries=1"), "folder")
    problem = str(preview(place, day(1), day(1)).applications[-1].slices[0].problem)
    assert "does not exist" in problem
    assert problem.endswith("Before the plan run load: what they write is not known here.")


def test_what_a_task_behind_the_plan_writes_is_missing(place: Path) -> None:
    fed(place, GROUP.format("fed"), "folder")
    file = place / "dags" / "orders.py"
    file.write_text(file.read_text().replace("before >> last", "last >> before"))
    each = next(a for a in preview(place, day(1), day(1)).applications if a.application == "previewed-folder").slices[0]
    assert "does not exist" in str(each.problem)


@pytest.mark.skipif(not events_take_partitions(), reason="backfills are of partitions since Airflow 3.3")
@pytest.mark.parametrize("form", ["days", "moments"])
def test_slices_of_partitions_have_their_keys_and_read_and_find_what_is_of_them(place: Path, form: str) -> None:
    run_the_first(place)
    found = preview(place, day(1), day(2), f"partitions_of_{form}")
    more = "T00:00:00" if form == "moments" else ""
    assert [each.slice.text for each in slices(found)] == [f"2013-01-01{more}", f"2013-01-02{more}"]
    assert [each.slice.date for each in slices(found)] == [day(1), day(2)]
    assert [each.interval for each in slices(found)] == [
        DataInterval(day(1), day(2)).iso(),
        DataInterval(day(2), day(3)).iso(),
    ]
    assert [(each.inputs[0].files, each.inputs[0].bytes) for each in slices(found)] == [(1, 230), (1, 460)]
    done, new = slices(found)
    assert [run.run_id for run in done.there] == ["first"]
    assert done.outputs["copied"].startswith("replaces what the run 'first' wrote for the data interval [2013-01-01")
    assert not new.there
    first = found.slices[0]
    assert first.run_id == f"backfill__2013-01-01T00:00:00+00:00__2013-01-01{more}"
    assert _of_slice(first)["partition_date"] == "2013-01-01T00:00:00+00:00"


@pytest.mark.skipif(not events_take_partitions(), reason="runs have partition dates since Airflow 3.3")
def test_runs_of_partitions_have_their_states_by_the_dates_of_these(monkeypatch: pytest.MonkeyPatch) -> None:
    with airflow_tables() as database:
        for number, state in enumerate(("failed", "success")):
            database.run(f"run-{number}", "orders", state, dated=False)
        database.session.execute(update(DagRun).values(partition_date=DAY, partition_key="2026"))
        monkeypatch.setattr("airflow.utils.session.create_session", lambda: nullcontext(database.session))
        wanted = [backfill_slices.Slice(DAY, partition_key="2026", partition_date=DAY)]
        assert _airflow_runs("orders", wanted) == ({DAY: "success"}, [])
