"""A lake with an input file a day, runs of :mod:`tests.support.slot_apps` over it, and what readers find, for tests."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.systems.delta.system import DeltaSystem
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import MessageRun, StreamSpec, SystemBinding, SystemStreamPartition
from tests.support import delta_lake
from tests.support.iceberg_lake import rows_of, stream as table_stream, system_at
from tests.support.runs_here import Here

FILES, LOG = "tests.support.slot_apps:daily", "tests.support.slot_apps:daily_log"
TABLE, DELTA = "tests.support.slot_apps:daily_table", "tests.support.slot_apps:daily_delta"
OTHERS = {application: application.replace(":daily", ":others") for application in (FILES, LOG, TABLE, DELTA)}
"""The other application that writes to the place of each."""


def days(first: int, last: int | None = None) -> DataInterval:
    """Return the interval of a day of January 2013, or of several."""
    return DataInterval.from_iso(f"2013-01-{first:02}", f"2013-01-{(last or first) + 1:02}")


class Outputs:
    """A lake with an input file a day, runs over it, and what readers find in their outputs."""

    def __init__(self, folder: Path) -> None:
        self.lake = folder / "lake"
        (self.lake / "in").mkdir(parents=True)
        self.bindings = {
            "lake": SystemBinding("files", {"root": str(self.lake)}),
            "tables": SystemBinding("iceberg", {"root": str(folder / "tables")}),
            "deltas": SystemBinding("delta", {"root": str(folder / "deltas")}),
        }
        self.here = Here(folder / "root", bindings=self.bindings)

    def day(self, day: int, *rows: int) -> None:
        """Write the input of a day anew."""
        text = "".join(json.dumps({"n": row}) + "\n" for row in rows)
        (self.lake / f"in/2013-01-{day:02}.jsonl").write_text(text)

    def plan(self, application: str, run_id: str, day: int | None = None, **more: Any) -> RunPlan:
        """Plan a run of a day."""
        if day is not None:
            more.setdefault("interval", days(day))
        return self.here.plan(application, run_id, **more)

    def run(self, application: str, run_id: str, day: int | None = None, **more: Any) -> RunPlan:
        """Run a day from its plan to its end."""
        plan = self.plan(application, run_id, day, **more)
        self.here.stages(plan)
        self.here.runtime.close(plan)
        return plan

    def rows(self, application: str = FILES, path: str = "out") -> list[int]:
        """Return what a reader of this package finds in the output of an application."""
        if application.endswith("table"):
            tables = system_at(self.lake.parent / "tables")
            return sorted(row["n"] for row in rows_of(tables, table_stream("web.out")))
        if application.endswith("delta"):
            return sorted(row["n"] for row in delta_lake.rows_of(self.deltas, table_stream("web.out")))
        if application.endswith("log"):
            return sorted(row["n"] for row in self.here.rows("out"))
        system = FilesSystem("lake", self.bindings["lake"])
        stream = StreamSpec("out", schema="n bigint", path=path)
        found = system.consumer(stream).read(SystemStreamPartition("lake", "out", 0), None)
        return sorted(n for run in found if isinstance(run, MessageRun) for n in run.batch.column("n").to_pylist())

    @property
    def deltas(self) -> DeltaSystem:
        """The system of tables in a folder."""
        return delta_lake.system_at(self.lake.parent / "deltas")

    def found_by_others(self, path: str = "out") -> list[int]:
        """Return what any other engine finds in a folder."""
        files = (self.lake / path).glob("*.parquet")
        return sorted(n for file in files for n in pq.ParquetFile(file).read()["n"].to_pylist())


def notes(plan: RunPlan, stream_id: str = "out") -> str:
    """Return what a plan says of an output."""
    found = "; ".join(texts[stream_id] for texts in plan.notes.values() if stream_id in texts)
    return re.sub(r"^(makes|commits to) the table web\.out(; |$)", "", found)
