"""Tables of a run in the page: versions of pushed ones, and those of their readers that the user may see."""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG as DAG_OF_AIRFLOW
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_samza.provider.airflow_versions import scheduler_form
from airflow_samza.provider.page.looks import _tables
from airflow_samza.provider.page.opened_run import OpenedRun
from airflow_samza.provider.page.routes import data
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.expectations import Checked, Declared
from airflow_samza.runs.tables.retention import expire_versions
from airflow_samza.runs.tables.versions import rollback
from airflow_samza.systems.system import StreamSpec
from tests.support.page_here import DAG, DAG_RUN, Page, make_page
from tests.support.pushes import TOPIC, Pushes
from tests.support.runs_here import Here

APPLICATION = """
from airflow_samza import stream_application

@stream_application("visits")
def visits(app):
    profiles = app.pushed_table("profiles", key="id", schema="id bigint, tier string", partitions=2)
    views = app.input_stream("views", system="log", schema="id bigint", key="id", partitions=2, bounded=True)
    views.send_to(app.local_table("seen", key="id", schema="id bigint"))
    views.join(profiles, lambda view, row: row, id="lookup", schema="id bigint, tier string").send_to(app.output_stream("out"))
"""


class Tables:
    """The page over a root with a table that is pushed to."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.pushes = Pushes(page.here.root)

    def push(self, *push_ids: str) -> None:
        for push_id in push_ids:
            self.pushes.push(push_id, {1: push_id, 2: None})

    def table(self, table_id: str = "profiles") -> dict[str, Any]:
        (found,) = (table for table in self.page.get("tables")["tables"] if table["table_id"] == table_id)
        table: dict[str, Any] = found
        return table

    def readers(self) -> dict[int, list[str]]:
        """Return the Dags of the readers that are shown, by version."""
        return {
            version["number"]: sorted(reader["dag_id"] for reader in version["readers"])
            for version in self.table()["versions"]
        }


@pytest.fixture
def of_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tables:
    (tmp_path / "page_app.py").write_text(APPLICATION, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "page_app", raising=False)
    found = Tables(make_page(Here(tmp_path / "root"), monkeypatch))
    found.pushes.system.create([StreamSpec("views", 2, "id bigint"), StreamSpec("out", 2)])
    return found


def test_a_pushed_table_has_the_version_that_the_run_reads_and_the_newest_ones(of_page: Tables) -> None:
    of_page.push("monday")
    of_page.page.plan()
    of_page.push("tuesday")
    table = of_page.table()
    assert (table["system"], table["topic"], table["reads"], table["current"]) == ("log", TOPIC.name, 1, 2)
    assert (table["hidden_readers"], table["note"]) == (0, None)
    newest, oldest = table["versions"]
    assert (newest["number"], newest["push_id"], newest["current"]) == (2, "tuesday", True)
    assert (oldest["number"], oldest["push_id"], oldest["current"]) == (1, "monday", False)
    assert (oldest["rows"], oldest["deletes"], oldest["expired"]) == (1, 1, False)


def test_a_version_names_the_runs_that_read_it(of_page: Tables) -> None:
    of_page.push("monday")
    run = of_page.page.plan()
    of_page.push("tuesday")
    newest, oldest = of_page.table()["versions"]
    assert newest["readers"] == []
    assert oldest["readers"] == [
        {"application": "visits", "run": run.run_id, "version": 1, "dag_id": DAG, "dag_run_id": DAG_RUN}
    ]


def test_readers_in_dags_that_the_user_may_not_read_are_counted(of_page: Tables) -> None:
    of_page.push("monday")
    of_page.page.plan("manual__9", dag_id="theirs")
    of_page.page.plan()
    assert of_page.readers() == {1: ["theirs", DAG]}
    of_page.page.forbidden = {"theirs"}
    assert of_page.readers() == {1: [DAG]}
    assert of_page.table()["hidden_readers"] == 1


def test_a_reader_that_no_dag_has_planned_is_hidden(of_page: Tables) -> None:
    of_page.push("monday")
    of_page.page.here.plan("page_app:visits", "by-hand")
    of_page.page.plan()
    assert of_page.readers() == {1: [DAG]}
    assert of_page.table()["hidden_readers"] == 1


def test_versions_that_are_given_up_have_no_readers(of_page: Tables) -> None:
    of_page.push("monday", "tuesday", "wednesday")
    of_page.page.plan()
    expire_versions(of_page.pushes.files, of_page.pushes.system, "log", TOPIC.name, 1)
    assert [(version["number"], version["expired"]) for version in of_page.table()["versions"]] == [
        (3, False),
        (2, True),
        (1, True),
    ]
    assert of_page.readers() == {3: [DAG], 2: [], 1: []}


@pytest.mark.parametrize(("asked", "versions"), [("current", [3, 3, 3, 3]), ("as_of_interval", [None, 1, 2, 2])])
def test_a_backfill_shows_the_version_that_each_of_its_runs_would_read(
    of_page: Tables, asked: str, versions: list[int | None]
) -> None:
    days = [datetime(2013, 1, number, tzinfo=timezone.utc) for number in range(1, 10)]

    def push(push_id: str, start: int) -> None:
        of_page.pushes.push(push_id, {1: push_id}, interval=DataInterval(days[start], days[start + 1]).iso())

    push("first", 0)
    push("second", 1)
    of_page.page.airflow.form = scheduler_form(
        DAG_OF_AIRFLOW("visits", schedule=CronDataIntervalTimetable("@daily", timezone="UTC"), start_date=days[0])
    )
    of_page.page.plan(interval=DataInterval(days[3], days[4]), tables={"profiles": asked})
    push("third", 7)
    slices = of_page.page.get("backfill", first="2013-01-01", last="2013-01-04")["slices"]
    assert [slice_["tables"][0]["version"] for slice_ in slices] == versions


def test_the_newest_versions_are_shown(of_page: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "VERSIONS_SHOWN", 2)
    of_page.push("monday", "tuesday", "wednesday")
    of_page.page.plan()
    assert list(of_page.readers()) == [3, 2]


def test_a_table_that_was_not_pushed_before_the_plan_says_so(of_page: Tables) -> None:
    of_page.page.plan()
    of_page.push("monday")
    table = of_page.table()
    assert (table["versions"], table["reads"], table["current"]) == ([], None, None)
    assert table["note"] == "Nothing was pushed when it was planned."


def test_a_table_that_is_not_pushed_has_no_versions(of_page: Tables) -> None:
    of_page.page.plan()
    table = of_page.table("seen")
    assert (table["kind"], table["system"], table["topic"], table["versions"]) == ("local", None, None, [])
    assert table["note"] == "Only pushed tables have versions."


def test_a_run_at_work_shows_the_version_that_it_reads_beside_the_current_one(of_page: Tables) -> None:
    of_page.push("monday")
    of_page.page.plan()
    of_page.push("tuesday")
    (held,) = _tables(OpenedRun(of_page.page.airflow.plans[-1])).values()
    assert (held.table_id, held.version, held.newest) == ("profiles", 1, 2)
    assert held.current_from == of_page.pushes.current().current_from


def test_what_was_expected_of_a_table_stands_among_the_expectations_of_the_run_that_reads_it(of_page: Tables) -> None:
    declared = Declared("tier <> 'x'", "condition", "warn", sql="tier <> 'x'")
    found = Checked("tier <> 'x'", "condition", "warn", rows=3, failed=2, samples=("a secret row",))
    pushes = of_page.pushes
    pushes.finish(pushes.stage(pushes.request("first", expect=(declared,)), {1: "x"}, checked=(found,)))
    of_page.page.run()
    of_page.push("second")  # which this run does not read
    shown = of_page.page.get("outputs")["expectations"]
    assert {each["expectation"]: each["outcome"] for each in shown}["not_null(id)"] == "passed"
    (warned,) = [each for each in shown if each["outcome"] == "warned"]
    assert warned == {
        "stage_id": "views",
        "stage_name": "push of version 1",
        "stream_id": "profiles",
        "expectation": "tier <> 'x'",
        "outcome": "warned",
        "rows": 3,
        "failed": 2,
        "found": warned["found"],
    }
    assert "secret" not in str(shown)


def test_a_rollback_has_the_results_of_the_push_that_it_brings_back(of_page: Tables) -> None:
    of_page.push("first", "second")
    rollback(of_page.pushes.files, "log", TOPIC.name, 1, "back")
    of_page.page.run()
    shown = of_page.page.get("outputs")["expectations"]
    assert {each["stage_name"] for each in shown} == {"push of version 3"}
    assert "unique(id)" in {each["expectation"] for each in shown}
