"""OpenLineage facets of operators, in this process: datasets, columns, counts, and the plan."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from openlineage.client.serde import Serde

from airflow_samza.errors import ConfigError, MessageError, UnknownName
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.provider.airflow_versions import AirflowException
from airflow_samza.provider.assets import version_facts
from airflow_samza.provider.lineage import openlineage_facets
from airflow_samza.provider.lineage.methods import openlineage_is_active
from airflow_samza.provider.lineage.openlineage_facets import (
    MOST_FIELDS,
    MOST_STAGES,
    column_facet,
    facets_of,
    plan_facet,
)
from airflow_samza.provider.lineage.task_lineage import (
    PushLineage,
    TaskLineage,
    WholeRun,
    names_in,
    push_lineage,
    whole_run,
)
from airflow_samza.provider.operators.planning import SamzaPlanOperator
from airflow_samza.provider.operators.stream import SamzaStreamOperator
from airflow_samza.runs.records.expectations import ExpectationResult
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import InputResult, OutputResult, StageResult
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.systems.system import SystemBinding
from airflow_samza.task.program.column_sources import ColumnSource, StreamLineage
from tests.support.iceberg_lake import table_of
from tests.support.lineage_events import check_dataset, check_facets, reached
from tests.support.pushes import Pushes
from tests.support.runs_here import Here

TRIPS = "provider_applications:trips"


@pytest.fixture
def planned(tmp_path: Path) -> tuple[RunPlan, Any]:
    """A run of ``trips`` that is planned over files, and the hook that plans it."""
    (tmp_path / "trips").mkdir()
    (tmp_path / "trips" / "a.csv").write_text("city,km,paid\nRome,3,true\nOslo,5,false\n")
    bindings = {name: SystemBinding("files", {"root": str(tmp_path)}) for name in ("lake", "warehouse")}
    root = str(tmp_path / "root")
    run = SparkRuntime(root, bindings).prepare(RunRequest(TRIPS, "run-1"))
    return run, SimpleNamespace(bindings=lambda: bindings, root=root)


def results_of(run: RunPlan) -> list[StageResult]:
    found = []
    for stage in run.plan.stages:
        handle = StageHandle(run.application, run.run_id, stage.stage_id, Generation(1, 1), 1)
        outputs = tuple(
            OutputResult(name, "x", name, 2, 7, 0, 70, own=run.is_own(name), facts={"files": ["a", "b"]})
            for name in stage.outputs
        )
        inputs = tuple(InputResult(name, "x", name, 2, 9, 0, 90) for name in stage.inputs)
        made = StageResult(
            run.application, run.run_id, stage.stage_id, str(handle.generation), 2, 1.5, 2.0, inputs, outputs
        )
        found.append(made)
    return found


def events_of(planned: tuple[RunPlan, Any], *, whole: bool = False) -> list[dict[str, Any]]:
    """Return the lineage of each stage that has ended, or of the whole run, as JSON."""
    run, hook = planned
    names, results = names_in(hook, run), results_of(run)
    parts = [[stage.stage_id for stage in run.plan.stages]] if whole else [[s.stage_id] for s in run.plan.stages]
    found = []
    for stages in parts:
        ended = [result for result in results if result.stage_id in stages]
        lineage = TaskLineage(run, stages, names, whole=whole, results=ended)
        told = facets_of(lineage, None, SimpleNamespace(application=TRIPS, stage=stages[0]))
        found.append(Serde.to_dict(told))
    for event in found:
        check_facets({**event["run_facets"], **event["job_facets"]})
        for dataset in (*event["inputs"], *event["outputs"]):
            check_dataset(dataset)
    return found


def test_stages_are_connected_from_source_to_sink_through_their_topics(planned: Any, tmp_path: Path) -> None:
    events = events_of(planned)
    topic = ("file", f"{tmp_path}/root/topics/trips-1-by-city")
    assert [(o["namespace"], o["name"]) for o in events[0]["outputs"]] == [topic]
    assert reached(events, ("file", f"{tmp_path}/trips")) == {
        ("file", f"{tmp_path}/trips"),
        topic,
        ("file", f"{tmp_path}/per-city"),
    }


def test_a_stage_tells_columns_rows_bytes_and_files(planned: Any) -> None:
    (read,), (sent,) = (events_of(planned)[0][part] for part in ("inputs", "outputs"))
    assert [(f["name"], f["type"]) for f in read["facets"]["schema"]["fields"]] == [
        ("city", "string"),
        ("km", "bigint"),
        ("paid", "boolean"),
    ]
    assert read["inputFacets"]["inputStatistics"]["rowCount"] == 9
    statistics = sent["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"], statistics["fileCount"]) == (7, 70, 2)


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_table_of_a_lake_is_named_by_its_place_with_its_name_in_the_catalog_and_its_version(
    kind: str, tmp_path: Path
) -> None:
    lake, rows = tmp_path / "lake", pa.table({"city": ["Rome"], "km": [3], "paid": [True]})
    lake.mkdir()
    bindings = {
        "lake": SystemBinding(kind, {"root": str(lake)}),
        "out": SystemBinding("iceberg", {"root": str(lake)}),
    }
    if kind == "iceberg":
        read = str(table_of(lake, rows.schema, rows.to_pylist()).metadata.current_snapshot_id)
    else:
        write_deltalake(lake / "web" / "views", rows)
        read = "0"
    here = Here(tmp_path / "root", bindings=bindings)
    run = here.plan("provider_applications:lake_to_lake", "run-1")
    here.stages(run)
    hook: Any = SimpleNamespace(bindings=lambda: bindings, root=str(here.root))
    (stage,) = run.plan.stages
    results = [here.runtime.finish(StageHandle(run.application, run.run_id, stage.stage_id, Generation(1, 1)))]
    lineage = TaskLineage(run, [stage.stage_id], names_in(hook, run), results=results)
    event = Serde.to_dict(facets_of(lineage, None, SimpleNamespace(application="a", stage="s")))
    (source,), (target,) = event["inputs"], event["outputs"]
    for dataset in (source, target):
        check_dataset(dataset)
    assert [(one["namespace"], one["name"]) for one in (source, target)] == [
        ("file", f"{lake}/web/views"),
        ("file", f"{lake}/web/copies"),
    ]
    catalog = [{"namespace": f"file:{lake}", "name": "web.copies", "type": "TABLE"}]
    assert target["facets"]["symlinks"]["identifiers"] == catalog
    assert ("symlinks" in source["facets"]) is (kind == "iceberg")  # a Delta table in a folder has no catalog
    written = results[0].outputs[0].facts["snapshot"]
    versions = [one["facets"]["version"]["datasetVersion"] for one in (source, target)]
    assert versions == [read, written]


def columns_of(output: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    fields = output["facets"]["columnLineage"]["fields"]
    return {
        name: [(f["field"], t["subtype"]) for f in found["inputFields"] for t in f["transformations"]]
        for name, found in fields.items()
    }


def test_results_of_expectations_are_assertions_about_the_dataset(planned: Any) -> None:
    run, hook = planned
    expected = (
        ExpectationResult("city is not null", "not_null", "passed", ("city",), rows=7),
        ExpectationResult("km >= 0", "condition", "dropped", ("km",), rows=9, failed=2),
        ExpectationResult("foreign_key(city, cities)", "foreign_key", "passed", ("city",), rows=7),
    )
    result = results_of(run)[0]
    result = replace(result, outputs=tuple(replace(output, expectations=expected) for output in result.outputs))
    lineage = TaskLineage(run, [result.stage_id], names_in(hook, run), whole=False, results=[result])
    told = Serde.to_dict(facets_of(lineage, None, SimpleNamespace(application=TRIPS, stage=result.stage_id)))
    (sent,) = told["outputs"]
    check_dataset(sent)
    found = sent["facets"]["dataQualityAssertions"]["assertions"]
    assert [(each["assertion"], each["success"], each["column"]) for each in found] == [
        ("not_null", True, "city"),
        ("custom_sql", False, "km"),
        ("relationships", True, "city"),
    ]


def test_the_whole_run_has_its_columns_in_those_of_its_sources(planned: Any, tmp_path: Path) -> None:
    (event,) = events_of(planned, whole=True)
    (read,), (written,) = event["inputs"], event["outputs"]
    assert read["name"] == f"{tmp_path}/trips"
    assert columns_of(written) == {"city": [("city", "IDENTITY")], "n": [], "km": [("km", "AGGREGATION")]}
    of_rows = {
        (f["field"], t["subtype"]) for f in written["facets"]["columnLineage"]["dataset"] for t in f["transformations"]
    }
    assert of_rows == {("paid", "FILTER"), ("city", "GROUP_BY")}
    assert [stage["id"] for stage in event["run_facets"]["samza_plan"]["stages"]] == ["trips", "by-city"]
    assert event["job_facets"]["samza"]["application"] == TRIPS


def test_an_application_that_can_no_longer_be_read_has_datasets_without_columns(planned: Any) -> None:
    run, hook = planned
    lineage = TaskLineage(replace(run, reference="provider_applications:gone"), ["by-city"], names_in(hook, run))
    told = facets_of(lineage, None, None)
    assert [dataset.name.rpartition("/")[2] for dataset in told.outputs] == ["per-city"]
    assert "columnLineage" not in told.outputs[0].facets


def test_a_plan_of_many_stages_is_cut(planned: Any) -> None:
    run, _ = planned
    many = replace(run, plan=replace(run.plan, stages=run.plan.stages * 200))
    facet = plan_facet(many)
    assert (len(facet.stages), facet.leftOut) == (MOST_STAGES, 400 - MOST_STAGES)


def test_too_many_sources_stand_for_the_dataset_as_a_whole() -> None:
    names = [f"c{number}" for number in range(100)]
    sources = frozenset(ColumnSource("in", name, opaque=True) for name in names)
    place = {"in": names_for("in")}
    facet = column_facet(StreamLineage(dict.fromkeys(names, sources)), place)
    assert len(names) ** 2 > MOST_FIELDS
    assert facet.fields == {}
    assert {field.field for field in facet.dataset or ()} == set(names)
    few = column_facet(StreamLineage({"a": sources}), place)
    descriptions = {str(change.description)[:20] for change in few.fields["a"].inputFields[0].transformations or ()}
    assert descriptions == {"by a Python callable"}


def names_for(name: str) -> Any:
    from airflow_samza.provider.lineage.dataset_names import path_dataset

    return path_dataset(f"s3://lake/{name}")


# -- operators -----------------------------------------------------------------------------------------------------------


SYSTEMS = {"logs": "views_logs", "warehouse": "views_out"}


def test_a_start_says_the_same_each_time_that_a_task_starts(runtime: Any, make_context: Any) -> None:
    operator = SamzaStreamOperator(
        task_id="s", application="provider_applications:views", systems=SYSTEMS, stage="by-member"
    )
    once, again = operator.get_openlineage_facets_on_start(), operator.get_openlineage_facets_on_start()
    assert once == again
    assert (once.inputs, once.outputs) == ([], [])
    assert once.job_facets["samza"].stage == "by-member"


def test_a_stage_that_failed_tells_its_error_in_one_sentence(
    runtime: Any, make_context: Any, stage_failed: Any
) -> None:
    operator = SamzaStreamOperator(
        task_id="s", application="provider_applications:views", systems=SYSTEMS, poll_interval=0.001, deferrable=False
    )
    runtime.ends["by-member"] = stage_failed
    context = make_context(operator)
    with pytest.raises(Exception, match="failed"):
        operator.execute(context)
    told = operator.get_openlineage_facets_on_failure(context["ti"])
    assert told.run_facets["errorMessage"].message == "Stage 'by-tail' failed."
    assert "stackTrace" not in told.run_facets["errorMessage"].message


def test_the_error_of_a_lineage_event_quotes_no_message_where_columns_are_masked(
    runtime: Any, make_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = MessageError("f raised ValueError, on the message Visit(email='c@d.de').", stage="by-member", operator="f")
    runtime.ends["by-member"] = error
    said = []
    for masked in ("", "email"):
        monkeypatch.setenv("AIRFLOW__SAMZA__PAGE_MASKED_COLUMNS", masked)
        operator = SamzaStreamOperator(
            task_id="s", application="provider_applications:views", systems=SYSTEMS, poll_interval=0.001
        )
        operator.deferrable = False
        context = make_context(operator)
        with pytest.raises(AirflowException):
            operator.execute(context)
        said.append(operator.get_openlineage_facets_on_failure(context["ti"]).run_facets["errorMessage"].message)
    assert said[0] == error.sentence
    assert said[1].startswith("MessageError, stage 'by-member', operator 'f'. Its text may quote a message")


def test_a_task_that_failed_before_it_knew_its_run_says_no_more_than_at_its_start() -> None:
    operator = SamzaStreamOperator(task_id="s", application="provider_applications:views", systems=SYSTEMS)
    assert operator.get_openlineage_facets_on_failure(None) == operator.get_openlineage_facets_on_start()


def test_the_plan_is_a_facet_of_the_task_that_made_it(runtime: Any, make_context: Any) -> None:
    operator = SamzaPlanOperator(task_id="plan", application="provider_applications:views", systems=SYSTEMS)
    context = make_context(operator)
    operator.execute(context)
    facet = operator.get_openlineage_facets_on_complete(context["ti"]).run_facets["samza_plan"]
    assert [stage["id"] for stage in facet.stages] == ["page-views", "by-member", "by-country"]


# -- pushes --------------------------------------------------------------------------------------------------------------


def pushed(tmp_path: Path, source: Any, columns: Any = None, url: str = "") -> PushLineage:
    runtime = SparkRuntime(str(tmp_path), {})
    hook: Any = SimpleNamespace(pushed_table=runtime.pushed_table, bindings=dict, root=str(tmp_path))
    found = push_lineage(hook, "provider_applications:with_profiles", "profiles", {}, source, columns, url)
    assert found is not None
    return found


def test_a_push_reads_its_source_and_writes_the_stream_that_its_readers_read(tmp_path: Path) -> None:
    found = pushed(tmp_path, "s3a://lake/profiles", {"id": "member", "tier": "upper(plan)"})
    assert found.source is not None
    assert found.source[:2] == ("s3://lake", "profiles")
    assert found.table[:2] == ("file", f"{tmp_path}/topics/profiles-push")
    (table,) = facets_of(found, None, None).outputs
    assert columns_of(json.loads(Serde.to_json(table))) == {
        "id": [("member", "IDENTITY")],
        "tier": [("plan", "TRANSFORMATION")],
    }


def test_a_push_from_a_database_names_no_user_and_no_password(tmp_path: Path) -> None:
    url = "jdbc:postgresql://me:hush@db:5432/shop?password=hush"
    found = pushed(tmp_path, {"jdbc": {"dbtable": "members"}}, url=url)
    assert found.source is not None
    assert found.source[:2] == ("postgres://db:5432", "shop.members")
    assert "hush" not in Serde.to_json(facets_of(found, None, None))


@pytest.mark.parametrize("source", [{"query": "select 1"}, {"callable": "a:b"}, len])
def test_a_source_that_has_no_address_is_no_dataset(tmp_path: Path, source: Any) -> None:
    assert facets_of(pushed(tmp_path, source), None, None).inputs == []


def test_a_push_tells_the_results_of_its_checks(tmp_path: Path) -> None:
    found = pushed(tmp_path, "/in")
    place = Pushes(tmp_path)
    found.version = place.push("monday", {1: "gold"}, min_rows=1)
    (dataset,) = facets_of(found, None, None).outputs
    told = json.loads(Serde.to_json(dataset))["facets"]["dataQualityAssertions"]["assertions"]
    assert [(each["assertion"], each["success"]) for each in told] == [
        ("not_null", True),
        ("unique", True),
        ("row_count", True),
    ]
    assert version_facts(found.version)["expectations"] == {
        "not_null(id)": "passed",
        "unique(id)": "passed",
        "min_rows=1": "passed",
    }


def test_a_push_that_has_ended_tells_its_version_and_one_that_failed_its_error(tmp_path: Path) -> None:
    pushes = Pushes(tmp_path)
    found = pushed(tmp_path, "s3a://lake/profiles")
    found.version = pushes.push("monday", {1: "gold", 2: "silver"})
    found.error = "The push failed."
    told = facets_of(found, None, None)
    (table,) = told.outputs
    assert table.facets["version"].datasetVersion == "1"
    statistics = table.outputFacets["outputStatistics"]
    assert (statistics.rowCount, statistics.size) == (2, found.version.bytes)
    assert told.run_facets["errorMessage"].message == "The push failed."


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ({"path": "s3://lake/profiles"}, ("s3://lake", "profiles")),
        ({"table": "shop.profiles"}, ("spark://catalog", "shop.profiles")),
        ({"jdbc": {"dbtable": "t", "url": "jdbc:mysql://db/shop"}}, ("mysql://db", "shop.t")),
    ],
)
def test_a_source_is_named_by_its_path_its_table_or_its_database(
    tmp_path: Path, source: Any, name: tuple[str, str]
) -> None:
    found = pushed(tmp_path, source)
    assert found.source is not None
    assert found.source[:2] == name


@pytest.mark.parametrize(
    "source", [{"jdbc": {"dbtable": "t"}}, {"jdbc": {"query": "select 1"}}, {"jdbc": "t"}, {}, None]
)
def test_a_source_whose_database_is_not_known_is_no_dataset(tmp_path: Path, source: Any) -> None:
    assert pushed(tmp_path, source).source is None


def test_a_table_that_cannot_be_found_has_no_lineage() -> None:
    def missing(*_: Any) -> Any:
        raise UnknownName("There is no such table.", name="t")

    hook: Any = SimpleNamespace(pushed_table=missing)
    assert push_lineage(hook, "provider_applications:with_profiles", "t", {}, "s3://lake/t") is None


# -- whole runs ----------------------------------------------------------------------------------------------------------


class Instance:
    """A task instance as OpenLineage's provider hands it over, in a process beside the task."""

    dag_id, try_number = "flights", 2
    start_date = datetime(2026, 1, 1, 5, tzinfo=timezone.utc)

    def __init__(self, **dates: Any) -> None:
        after = datetime(2026, 1, 1, 4, tzinfo=timezone.utc)
        self.dag_run = SimpleNamespace(**{"logical_date": None, "run_after": after, "start_date": None, **dates})

    def get_template_context(self) -> dict[str, Any]:
        return {"dag_run": self.dag_run}


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The events that are sent beside the task's own."""
    emitted: list[Any] = []
    listener = SimpleNamespace(adapter=SimpleNamespace(emit=emitted.append))
    monkeypatch.setattr(openlineage_facets, "get_openlineage_listener", lambda: listener)
    monkeypatch.setattr(openlineage_facets, "lineage_root_run_id", lambda ti: "019b7a4e-0000-7000-8000-000000000000")
    monkeypatch.setattr(openlineage_facets, "lineage_job_namespace", lambda: "airflow")
    return emitted


@pytest.mark.parametrize(("succeeded", "kind"), [(True, "COMPLETE"), (False, "FAIL")])
def test_a_whole_run_is_a_job_of_its_own_below_the_dag_run(
    planned: Any, emitted: list[Any], succeeded: bool, kind: str
) -> None:
    run, hook = planned
    stages = [stage.stage_id for stage in run.plan.stages]
    lineage = TaskLineage(run, stages, names_in(hook, run), whole=True, results=results_of(run))
    operator = SimpleNamespace(application=TRIPS, stage=None)
    told = facets_of(WholeRun(lineage, "trips", succeeded), Instance(), operator)
    assert (told.inputs, told.outputs) == ([], [])  # the task itself reads and writes nothing
    start, end = emitted
    assert [event.eventType.value for event in emitted] == ["START", kind]
    assert {(event.job.namespace, event.job.name) for event in emitted} == {("airflow", "flights.trips")}
    assert start.run.runId == end.run.runId
    for event in emitted:
        parent = event.run.facets["parent"]
        assert (parent.job.name, parent.run.runId) == ("flights", "019b7a4e-0000-7000-8000-000000000000")
    assert (start.eventTime, start.inputs, start.outputs) == ("2026-01-01T05:00:00+00:00", [], [])
    assert [len(datasets) for datasets in (end.inputs, end.outputs)] == [1, 1]
    assert end.run.facets["samza_plan"].application == "trips"
    assert end.job.facets["jobType"].jobType == "APPLICATION"


def test_a_whole_run_has_one_id_for_all_who_ask_and_another_one_for_each_try(planned: Any, emitted: list[Any]) -> None:
    run, hook = planned
    date = datetime(2026, 1, 2, tzinfo=timezone.utc)
    lineage = TaskLineage(run, [], names_in(hook, run), whole=True)
    again = Instance(logical_date=date, start_date=date)
    again.try_number = 3
    for instance in (Instance(logical_date=date, start_date=date), Instance(logical_date=date), again):
        facets_of(WholeRun(lineage, "trips", True), instance, None)
    first, second, third = (event.run.runId for event in emitted[::2])
    assert first == second
    assert third != first
    assert emitted[0].eventTime == "2026-01-02T00:00:00+00:00"


def test_a_run_whose_records_cannot_be_read_has_no_lineage(planned: Any) -> None:
    run, hook = planned

    def broken(run: RunPlan) -> Any:
        raise OSError("the root is away")

    found = whole_run(SimpleNamespace(**{**vars(hook), "results": results_of}), run, "trips")  # type: ignore[arg-type]
    assert found is not None
    assert (found.scope, found.succeeded, len(found.lineage.results)) == ("trips", False, len(run.plan.stages))
    assert whole_run(SimpleNamespace(**{**vars(hook), "results": broken}), run, "trips") is None  # type: ignore[arg-type]


def test_streams_whose_connections_are_gone_have_no_names(planned: Any) -> None:
    def gone() -> Any:
        raise ConfigError("The connection 'lake' is not defined.")

    assert names_in(SimpleNamespace(bindings=gone, root="/root"), planned[0]) == {}  # type: ignore[arg-type]


# -- without OpenLineage -------------------------------------------------------------------------------------------------


@pytest.mark.extended
def test_operators_load_nothing_of_openlineage() -> None:
    code = (
        "import sys, airflow_samza.operators, airflow_samza.provider.task_group\n"
        "print([name for name in sys.modules if name.startswith('openlineage.') or name.endswith('openlineage_facets')])"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_without_openlineage_it_is_not_active(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage", None)
    assert not openlineage_is_active()


@pytest.mark.parametrize(
    ("disabled", "listener", "active"), [(False, object(), True), (False, None, False), (True, object(), False)]
)
def test_it_is_active_where_openlineage_listens_and_is_not_disabled(
    monkeypatch: pytest.MonkeyPatch, disabled: bool, listener: object, active: bool
) -> None:
    monkeypatch.setattr("airflow.providers.openlineage.conf.is_disabled", lambda: disabled)
    place = "airflow.providers.openlineage.plugins.listener.get_openlineage_listener"
    monkeypatch.setattr(place, lambda: listener)
    assert openlineage_is_active() is active
