"""Inputs that are tables of a catalog: what the plan fixes and says, and what all tries at a run then read."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow

from airflow_samza.cli.environment import Environment
from airflow_samza.cli.status_command import RunStatus
from airflow_samza.errors import InvalidApplication
from airflow_samza.planner.explain import explain
from airflow_samza.provider.page.plan_graph import _slice
from airflow_samza.runs.progress.run_costs import amounts
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.systems.delta import system as delta_system
from airflow_samza.systems.system import SystemBinding
from tests.support import delta_lake
from tests.support.changing_modules import ChangingModules
from tests.support.iceberg_lake import add_files, append, data_file, table_of
from tests.support.runs_here import Here

APPLICATION = """
from airflow_samza import StreamApplicationDescriptor, dead_letter, stream_application

@stream_application("dutch-views")
def dutch_views(app: StreamApplicationDescriptor) -> None:
    views = app.input_stream("views", system="lake", {more})
    views{then}.send_to(app.output_stream("out", partitions=1, system="log"))
"""
SECRET = "hunter2"


class Lake:
    """A table of four files, of which each has one country, and runs that read it."""

    def __init__(self, folder: Path, modules: ChangingModules) -> None:
        self.modules = modules
        binding = SystemBinding("iceberg", {"root": str(folder / "lake"), "s3.secret-access-key": SECRET})
        self.here = Here(folder / "root", bindings={"lake": binding})
        schema = pa.schema([("id", pa.int64()), ("country", pa.string()), ("at", pa.timestamp("us", "UTC"))])
        self.table = table_of(folder / "lake", schema)
        columns = schema_to_pyarrow(self.table.schema())
        for number, country in enumerate(("be", "de", "nl", "nl")):
            hour = 3_600_000_000 * number
            rows = pa.table({"id": [number], "country": [country], "at": pa.array([hour], pa.timestamp("us", "UTC"))})
            add_files(self.table, data_file(self.table, rows.cast(columns)))

    def write(self, more: str = 'table="web.views"', then: str = "") -> str:
        self.modules.write("lake_app", APPLICATION.format(more=more, then=then))
        return "lake_app:dutch_views"

    def plan(self, more: str = 'table="web.views"', then: str = "", run_id: str = "run", **request: Any) -> Any:
        return self.here.plan(self.write(more, then), run_id, **request)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    return Lake(tmp_path, ChangingModules(tmp_path, monkeypatch))


def files(plan: Any) -> int:
    return len(plan.stream("views").slice["files"])


@pytest.mark.parametrize(
    ("more", "then"),
    [
        ('table="web.views", where="country = \'nl\'"', ""),
        ('table="web.views"', ".where(\"country = 'nl'\")"),
        ('table="web.views", where="country >= \'n\'"', '.where("id > 0")'),
        ('table="web.views", where="id BETWEEN 2 AND 9"', ""),
    ],
)
def test_a_condition_behind_the_input_leaves_files_out_of_the_plan(more: str, then: str, lake: Lake) -> None:
    plan = lake.plan(more, then)
    assert files(plan) == 2
    lake.here.stages(plan)
    assert [row["id"] for row in lake.here.rows("out")] == [2, 3]


@pytest.mark.parametrize(
    ("more", "then"),
    [
        ('table="web.views"', ""),
        ('table="web.views", where="upper(country) = \'NL\'"', ""),
        ('table="web.views"', '.select("id", "\'nl\' AS country").where("country = \'nl\'")'),
        ('table="web.views", on_error="drop"', ".where(\"country = 'nl'\")"),
    ],
)
def test_what_says_nothing_of_columns_of_the_input_leaves_none_out(more: str, then: str, lake: Lake) -> None:
    assert files(lake.plan(more, then)) == 4


def test_the_condition_of_one_of_two_readers_leaves_none_out(lake: Lake) -> None:
    then = ".where(\"country = 'nl'\").merge(views)"
    plan = lake.plan(then=then)
    assert files(plan) == 4
    lake.here.stages(plan)
    assert len(lake.here.rows("out")) == 6


def test_all_tries_read_the_snapshot_of_the_plan(lake: Lake) -> None:
    plan = lake.plan()
    append(lake.table, [{"id": 9, "country": "nl", "at": None}])
    lake.table.delete("id = 0")
    lake.here.stages(plan)
    assert sorted(row["id"] for row in lake.here.rows("out")) == [0, 1, 2, 3]
    lake.here.stages(plan, generation=2)  # a clear
    assert sorted(row["id"] for row in lake.here.rows("out")) == [0, 1, 2, 3]
    again = lake.plan(generation=2)
    lake.here.stages(again)
    assert sorted(row["id"] for row in lake.here.rows("out")) == [1, 2, 3, 9]


def test_plan_page_and_summary_say_what_is_read(lake: Lake) -> None:
    plan = lake.plan('table="web.views", where="country = \'nl\'"')
    fixed = plan.stream("views").slice
    text = " ".join(explain(plan.plan, plan.engine_texts, plan.notes).split())
    assert f"reads the snapshot {fixed['snapshot']} of web.views: 2 files, 2 rows, " in text
    assert "skips what statistics rule out by country = nl" in text
    shown = {detail.name: detail.text for detail in _slice(plan.stream("views"))}
    assert (shown["table"], shown["snapshot"], shown["files"], shown["rows"]) == (
        "web.views",
        fixed["snapshot"],
        "2",
        "2",
    )
    assert plan.range_facts("views") == {
        "table": "web.views",
        "snapshot": fixed["snapshot"],
        "files": 2,
        "rows": 2,
        "bytes": fixed["bytes"],
    }
    status = RunStatus(Environment("test", str(lake.here.root)), ["dutch-views", "run"])
    (said,) = status.tables()["views"]
    assert said.startswith("views: ")
    assert f"reads the snapshot {fixed['snapshot']} of web.views: 2 files, 2 rows, " in said
    assert said in "\n".join(status.lines(status.reports(), 3))
    assert json.loads(status.json(status.reports()))["tables"] == {"views": plan.range_facts("views")}
    (amount,) = amounts(plan)
    assert (amount.files, amount.bytes) == (2, fixed["bytes"])


def test_no_secret_of_the_binding_is_in_a_file_of_the_run(lake: Lake) -> None:
    plan = lake.plan()
    lake.here.stages(plan)
    written = [path.read_bytes() for path in lake.here.root.rglob("*") if path.is_file()]
    assert written
    assert not any(SECRET.encode() in data for data in written)


def test_a_data_interval_is_a_predicate_on_the_column_of_times(lake: Lake) -> None:
    hour = DataInterval.from_iso("1970-01-01T01:00+00:00", "1970-01-01T03:00+00:00")
    plan = lake.plan('table="web.views", timestamp="at", slice="timestamp"', interval=hour)
    assert files(plan) == 2
    lake.here.stages(plan)
    assert [row["id"] for row in lake.here.rows("out")] == [1, 2]


def test_a_run_reads_as_of_the_end_of_its_interval(lake: Lake) -> None:
    newest = lake.table.metadata.snapshots[-1].timestamp_ms / 1000
    end = datetime.fromtimestamp(newest, timezone.utc) + timedelta(seconds=1)
    interval = DataInterval(end - timedelta(days=1), end)
    plan = lake.plan('table="web.views", options={"as_of": "{data_interval_end}"}', interval=interval)
    assert files(plan) == 4
    assert dict(plan.stream("views").spec.options)["as_of"] == end.isoformat()


def test_a_table_is_named_once(lake: Lake) -> None:
    with pytest.raises(InvalidApplication, match=r"table='web\.views', and the option table='web\.clicks'"):
        lake.plan('table="web.views", options={"table": "web.clicks"}')


FOLLOWING = 'table="web.views", slice="checkpoint"'


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_condition_leaves_files_out_of_what_was_appended(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, modules = tmp_path / "lake", ChangingModules(tmp_path, monkeypatch)
    schema = pa.schema([("id", pa.int64()), ("country", pa.string())])
    made: Any = table_of(place, schema) if kind == "iceberg" else delta_lake.table_of(place, schema)
    here = Here(tmp_path / "root", bindings={"lake": SystemBinding(kind, {"root": str(place)})})
    modules.write("lake_app", APPLICATION.format(more=FOLLOWING, then=".where(\"country = 'nl'\")"))
    for number, run_id in ((0, "first"), (2, "second")):
        for one, country in enumerate(("be", "nl"), number):
            rows = [{"id": one, "country": country}]
            if kind == "iceberg":
                append(made, rows)
            else:
                delta_lake.append(made, rows, schema)
        plan = here.plan("lake_app:dutch_views", run_id)
        assert files(plan) == 1
        here.stages(plan)
        here.runtime.close(plan)
    assert [row["id"] for row in here.rows("out")] == [1, 3]


COPIES = """
from airflow_samza import StreamApplicationDescriptor, stream_application

@stream_application("copies")
def copies(app: StreamApplicationDescriptor) -> None:
    views = app.input_stream("views", schema="id bigint, country string", path="views", system="files", format="json")
    views.send_to(app.output_stream("copies", system="lake", table="web.copies", options={options}))
"""


@pytest.mark.parametrize("options", [{}, {"create": "true"}], ids=["there", "made if missing"])
@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_plan_loads_the_table_of_an_output_once(
    kind: str, options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "views").write_text('{"id": 1, "country": "nl"}\n')
    bound = {"lake": SystemBinding(kind, {"root": str(tmp_path / "lake")})}
    here = Here(tmp_path / "root", bindings={**bound, "files": SystemBinding("files", {"root": str(tmp_path / "in")})})
    modules = ChangingModules(tmp_path, monkeypatch)
    modules.write("copying", COPIES.format(options={"create": "true"}))
    here.plan("copying:copies", "first")  # makes the table
    loaded: list[Any] = []
    place, name = (SqlCatalog, "load_table") if kind == "iceberg" else (delta_system, "find_log")
    load = getattr(place, name)

    def counted(*said: Any, **more: Any) -> Any:
        loaded.append(said)
        return load(*said, **more)

    monkeypatch.setattr(place, name, counted)
    modules.write("copying", COPIES.format(options=options))
    interval = DataInterval(datetime(2026, 1, 1, tzinfo=timezone.utc), datetime(2026, 1, 2, tzinfo=timezone.utc))
    plan = here.plan("copying:copies", "second", interval=interval)
    assert len(loaded) == 1
    assert str((plan.stream("copies").slice or {})["run"]).endswith("/copies/second/1")
