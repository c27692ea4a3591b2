"""The table, version, files, rows and bytes that a run reads, in each place that shows them, of both kinds of tables."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from openlineage.client.serde import Serde

from airflow_samza.cli.environment import Environment
from airflow_samza.cli.plan_commands import preview_of, render
from airflow_samza.cli.status_command import RunStatus
from airflow_samza.figures import size
from airflow_samza.provider.hooks.samza import SamzaHook
from airflow_samza.provider.lineage.openlineage_facets import facets_of
from airflow_samza.provider.lineage.task_lineage import TaskLineage, names_in
from airflow_samza.provider.operators.planning import SamzaPlanOperator
from airflow_samza.provider.xcoms import PlanTicket
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.systems.system import SystemBinding
from tests.support import delta_lake, iceberg_lake
from tests.support.changing_modules import ChangingModules
from tests.support.page_here import make_page
from tests.support.runs_here import Here

APPLICATION = """
from airflow_samza import StreamApplicationDescriptor, stream_application

@stream_application("dutch-views")
def dutch_views(app: StreamApplicationDescriptor) -> None:
    views = app.input_stream("views", system="lake", table="web.views", where="country = 'nl'")
    views.send_to(app.output_stream("out", partitions=1, system="log"))
"""
SCHEMA = pa.schema([("id", pa.int64()), ("country", pa.string())])
ROWS = [
    [{"id": 0, "country": "be"}],
    [{"id": 1, "country": "nl"}, {"id": 2, "country": "nl"}],
    [{"id": 3, "country": "nl"}],
]
"""Three commits of a file each; the plan leaves the first file out."""


class Lake:
    """A table of one kind, a run that reads it, and the figures that the files themselves have."""

    def __init__(self, kind: str, folder: Path, modules: ChangingModules) -> None:
        place = folder / "lake"
        place.mkdir()
        self.here = Here(folder / "root", bindings={"lake": SystemBinding(kind, {"root": str(place)})})
        modules.write("page_app", APPLICATION)
        self.application = "page_app:dutch_views"
        version: dict[str, Any]
        if kind == "iceberg":
            table = iceberg_lake.table_of(place, SCHEMA, *ROWS)
            version = {"snapshot": str(table.metadata.current_snapshot_id)}
        else:
            version = {"version": delta_lake.table_of(place, SCHEMA, *ROWS).version()}
        written = sorted(place.rglob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
        total = sum(path.stat().st_size for path in written[1:])
        self.word, self.number = next((word, str(number)) for word, number in version.items())
        self.facts: dict[str, Any] = {"table": "web.views", **version, "files": 2, "rows": 3, "bytes": total}
        self.text = f"reads the {self.word} {self.number} of web.views: 2 files, 3 rows, {size(total)}"

    def plan(self) -> RunPlan:
        return self.here.plan(self.application, "run")

    @property
    def environment(self) -> Environment:
        return Environment("test", str(self.here.root), systems=self.here.bindings)


@pytest.fixture(params=["iceberg", "delta"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    return Lake(request.param, tmp_path, ChangingModules(tmp_path, monkeypatch))


def test_the_text_of_a_plan_has_them(lake: Lake) -> None:
    shown = render(preview_of(lake.application, lake.environment, None, {}), "text")
    assert lake.text in " ".join(shown.split())


def test_the_page_has_them(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    page = make_page(lake.here, monkeypatch)
    page.plan(application="dutch-views")
    (stream,) = [one for one in page.get("plan")["streams"] if one["stream_id"] == "views"]
    shown = {detail["name"]: detail["text"] for detail in stream["slice"]}
    figures = {"files": "2", "rows": "3", "bytes": size(lake.facts["bytes"])}
    assert shown == {"table": "web.views", lake.word: lake.number, **figures}


def test_status_has_them_for_people_and_for_programs(lake: Lake) -> None:
    lake.plan()
    status = RunStatus(lake.environment, ["dutch-views", "run"])
    shown = status.lines(status.reports(), 3)
    assert lake.text in "\n".join(shown)
    assert json.loads(status.json(status.reports()))["tables"] == {"views": lake.facts}


def test_lineage_has_them(lake: Lake) -> None:
    run = lake.plan()
    lake.here.stages(run)
    (stage,) = run.plan.stages
    results = [lake.here.runtime.finish(StageHandle(run.application, run.run_id, stage.stage_id, Generation(1, 1)))]
    hook: Any = SimpleNamespace(bindings=lambda: lake.here.bindings, root=str(lake.here.root))
    lineage = TaskLineage(run, [stage.stage_id], names_in(hook, run), whole=True, results=results)
    event = Serde.to_dict(facets_of(lineage, None, SimpleNamespace(application="a", stage="s")))
    assert event["run_facets"]["samza_plan"]["tables"] == {"views": lake.facts}
    (read,) = event["inputs"]
    counts = read["inputFacets"]["inputStatistics"]
    assert (counts["fileCount"], counts["rowCount"], counts["size"]) == (2, 3, lake.facts["bytes"])
    assert read["facets"]["version"]["datasetVersion"] == lake.number


def test_the_xcom_of_the_task_that_plans_has_them(
    lake: Lake, make_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SamzaHook, "get_conn", lambda self: lake.here.runtime)
    connection = {"conn_type": "samza", "extra": {"root": str(lake.here.root)}}
    monkeypatch.setenv("AIRFLOW_CONN_SAMZA_DEFAULT", json.dumps(connection))
    operator = SamzaPlanOperator(task_id="plan", application=lake.application)
    ticket = operator.execute(make_context(operator))
    assert json.loads(json.dumps(ticket))["tables"] == {"views": lake.facts}
    assert operator.hook.load_plan(PlanTicket.from_dict(ticket)).run_id == ticket["run_id"]
