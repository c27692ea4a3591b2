"""Inputs that are Delta tables: what the plan fixes and says, and what all tries at a run then read."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.errors import StageError, TopicError
from airflow_samza.planner.explain import explain
from airflow_samza.provider.page.plan_graph import _slice
from airflow_samza.runs.progress.run_costs import amounts
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.systems.system import SystemBinding
from tests.support.changing_modules import ChangingModules
from tests.support.delta_lake import append, table_of
from tests.support.runs_here import Here

APPLICATION = """
from airflow_samza import StreamApplicationDescriptor, stream_application

@stream_application("dutch-views")
def dutch_views(app: StreamApplicationDescriptor) -> None:
    views = app.input_stream("views", system="lake", {more})
    views{then}.send_to(app.output_stream("out", partitions=1, system="log"))
"""
SCHEMA = pa.schema([("id", pa.int64()), ("country", pa.string())])


class Lake:
    """A table of four files, of which each has one country, and runs that read it."""

    def __init__(self, folder: Path, modules: ChangingModules) -> None:
        self.modules = modules
        self.here = Here(folder / "root", bindings={"lake": SystemBinding("delta", {"root": str(folder / "lake")})})
        rows = [[{"id": number, "country": country}] for number, country in enumerate(("be", "de", "nl", "nl"))]
        self.table = table_of(folder / "lake", SCHEMA, *rows)

    def plan(self, more: str = 'table="web.views"', then: str = "", run_id: str = "run", **request: Any) -> Any:
        self.modules.write("lake_app", APPLICATION.format(more=more, then=then))
        return self.here.plan("lake_app:dutch_views", run_id, **request)

    def ids(self) -> list[int]:
        return sorted(row["id"] for row in self.here.rows("out"))


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    return Lake(tmp_path, ChangingModules(tmp_path, monkeypatch))


@pytest.mark.parametrize(
    ("more", "then"),
    [
        ('table="web.views", where="country = \'nl\'"', ""),
        ('table="web.views"', ".where(\"country = 'nl'\")"),
        ('table="web.views", where="id BETWEEN 2 AND 9"', ""),
    ],
)
def test_a_condition_behind_the_input_leaves_files_out_of_the_plan(more: str, then: str, lake: Lake) -> None:
    plan = lake.plan(more, then)
    assert len(plan.stream("views").slice["files"]) == 2
    lake.here.stages(plan)
    assert lake.ids() == [2, 3]


def test_all_tries_read_the_version_of_the_plan(lake: Lake) -> None:
    plan = lake.plan()
    append(lake.table, [{"id": 9, "country": "nl"}], SCHEMA)
    lake.table.delete("id = 0")
    lake.here.stages(plan)
    assert lake.ids() == [0, 1, 2, 3]
    lake.here.stages(plan, generation=2)  # a clear
    assert lake.ids() == [0, 1, 2, 3]
    lake.here.stages(lake.plan(generation=2))
    assert lake.ids() == [1, 2, 3, 9]


def test_a_run_whose_files_have_been_removed_says_to_plan_anew(lake: Lake) -> None:
    plan = lake.plan()
    lake.table.delete("id = 0")
    lake.table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises((TopicError, StageError), match=r"of the table web\.views .* is gone: the plan reads version 4"):
        lake.here.stages(plan)


def test_plan_page_and_summary_say_what_is_read(lake: Lake) -> None:
    plan = lake.plan('table="web.views", where="country = \'nl\'"')
    fixed = plan.stream("views").slice
    text = " ".join(explain(plan.plan, plan.engine_texts, plan.notes).split())
    assert "reads the version 4 of web.views: 2 files, 2 rows, " in text
    assert "skips what statistics rule out by country = nl" in text
    shown = {detail.name: detail.text for detail in _slice(plan.stream("views"))}
    assert shown | {"bytes": ""} == {"table": "web.views", "version": "4", "files": "2", "rows": "2", "bytes": ""}
    summary = {"table": "web.views", "version": 4, "files": 2, "rows": 2, "bytes": fixed["bytes"]}
    assert plan.range_facts("views") == summary
    (amount,) = amounts(plan)
    assert (amount.files, amount.bytes) == (2, fixed["bytes"])


def test_the_first_version_is_shown_as_well(lake: Lake) -> None:
    plan = lake.plan('table="web.views", options={"version": "0"}')
    assert plan.range_facts("views")["version"] == 0
    assert "version" in {detail.name for detail in _slice(plan.stream("views"))}


def test_a_run_reads_as_of_the_end_of_its_interval(lake: Lake) -> None:
    end = datetime.now(timezone.utc) + timedelta(minutes=1)
    more = 'table="web.views", options={"as_of": "{data_interval_end}"}'
    plan = lake.plan(more, interval=DataInterval(end - timedelta(days=1), end))
    assert plan.stream("views").slice["version"] == 4
    with pytest.raises(TopicError, match="has no version as of"):
        lake.plan(more, run_id="past", interval=DataInterval(end - timedelta(days=2), end - timedelta(days=1)))
