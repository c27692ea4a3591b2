"""Applications over the last days, the files of these days, and runs over them, for tests."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_samza import (
    avg,
    collect,
    count,
    first,
    last,
    max_,
    min_,
    stream_application,
    sum_,
    tumbling,
)
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.folders import RunFolder, must_read
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import StageResult
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.system import SystemBinding
from tests.support.runs_here import Here

DAYS = 4
SCHEMA = "page string, dwell bigint, weight double"
LAST_DAYS, ALL_VALUES = "tests.support.interval_apps:last_days", "tests.support.interval_apps:all_values"
TWICE, WINDOWS = "tests.support.interval_apps:twice", "tests.support.interval_apps:windows"


@dataclass(frozen=True)
class View:
    page: str
    dwell: int | None
    weight: float


def _views(app: Any, schema: Any = View, **more: Any) -> Any:
    where = {"path": "in/{ds}", "partitions": 2, "intervals": DAYS, "options": {"allow_missing_path": True}}
    return app.input_stream("views", system="lake", schema=schema, **{**where, **more})


def _output(app: Any, name: str = "out") -> Any:
    return app.output_stream(name, system="lake", path=f"{name}/{{run_id}}", format="parquet")


def _weighed(view: View) -> View:
    return View(view.page, view.dwell, view.weight * 1.1)


@stream_application("last-days")
def last_days(app: Any) -> None:
    """Aggregate the views of the last days by page."""
    views = _views(app).where("dwell IS NULL OR dwell >= 0").map(_weighed, id="weighed", schema=View)
    totals = views.partition_by("page", id="by-page").aggregate(
        key="page",
        id="per-page",
        views=count(),
        dwelt=sum_("dwell"),
        weight=sum_("weight"),
        mean=avg("weight"),
        least=min_("dwell"),
        most=max_("dwell"),
        begun=first("weight"),
        ended=last("weight"),
    )
    totals.send_to(_output(app))


@stream_application("all-values")
def all_values(app: Any) -> None:
    """Collect the values of the last days, which are no partial results."""
    by_page = _views(app).partition_by("page", id="by-page")
    by_page.aggregate(key="page", id="per-page", weights=collect("weight")).send_to(_output(app))


@stream_application("twice")
def twice(app: Any) -> None:
    """Aggregate the views of the last days by page, and by dwell."""
    views = _views(app)
    by_page = views.partition_by("page", id="by-page")
    by_page.aggregate(key="page", id="per-page", views=count()).send_to(_output(app))
    by_dwell = views.partition_by("dwell", id="by-dwell")
    by_dwell.aggregate(key="dwell", id="per-dwell", views=count()).send_to(_output(app, "dwells"))


@stream_application("windows")
def windows(app: Any) -> None:
    """Count the views of the last days in windows of time: ``dwell`` is taken for milliseconds since 1970."""
    by_page = _views(app, timestamp="dwell").partition_by("page", id="by-page")
    by_page.window(tumbling("20 milliseconds"), key="page", id="per-time", views=count()).send_to(_output(app))


@stream_application("overlapping")
def overlapping(app: Any) -> None:
    """Count the views of days, by a path that has the files of the day after, too."""
    views = _views(app, path="in/2026-01-0[{data_interval_start:%-d}{data_interval_end:%-d}]/*")
    by_page = views.partition_by("page", id="by-page")
    by_page.aggregate(key="page", id="per-page", views=count()).send_to(_output(app))


class Lake:
    """A lake with files by day, and runs over its last days under one root or another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.days = folder / "lake/in"
        self.days.mkdir(parents=True)
        self.bindings = {"lake": SystemBinding("files", {"root": str(folder / "lake")})}
        self.here = self.root("root")
        self._numbers = itertools.count(1)

    def root(self, name: str) -> Here:
        """Return runs under a root of this name."""
        return Here(self.folder / name, bindings=self.bindings)

    def write(self, day: int, name: str, rows: Sequence[tuple[str, int | None, float]]) -> None:
        """Write a file of a day, anew if it is there."""
        path = self.days / f"2026-01-{day:02}" / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        table = pa.table({name: [row[place] for row in rows] for place, name in enumerate(View.__annotations__)})
        pq.write_table(table.cast(pa.schema([("page", "string"), ("dwell", "int64"), ("weight", "double")])), path)

    def forget(self, day: int) -> None:
        """Delete the files of a day."""
        shutil.rmtree(self.days / f"2026-01-{day:02}", ignore_errors=True)

    def run(self, day: int, application: str = LAST_DAYS, here: Here | None = None, **more: Any) -> RunPlan:
        """Run the days up to one, from the plan to the end."""
        more.setdefault("interval", DataInterval.from_iso(f"2026-01-{day:02}", f"2026-01-{day + 1:02}"))
        return (here or self.here).whole(application, f"run-{next(self._numbers)}", **more)

    def rows(self, run: RunPlan, output: str = "out") -> list[dict[str, Any]]:
        """Return what a run wrote, in the order of all columns."""
        folder = self.folder / f"lake/{output}/{run.run_id}"
        files = [path for path in sorted(folder.rglob("*.parquet")) if "_samza" not in path.parts]
        rows = [row for path in files for row in pq.read_table(path).to_pylist()]
        return sorted(rows, key=repr)

    def read(self, run: RunPlan, here: Here | None = None) -> tuple[int, int, int]:
        """Return the messages that the first stage read, and how many results of intervals it used and made."""
        files = open_filesystem(str((here or self.here).root))
        stage_id = run.plan.stages[0].stage_id
        folder = RunFolder(run.application, run.run_id).stage(stage_id, Generation(run.generation, 1))
        result = must_read(files, folder.result, StageResult)
        facts = result.task_facts
        return result.read, int(facts.get("interval_results_used", 0)), int(facts.get("interval_results_made", 0))
