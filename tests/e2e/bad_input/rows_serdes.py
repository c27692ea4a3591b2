"""Rows of serdes: what is said at the call, and where the system of a stream sends no bytes."""

from __future__ import annotations

from airflow_samza.runs.records.data_interval import DataInterval
from tests.e2e.bad_input.page import row
from tests.e2e.bad_input.rows_plan import PLAN
from tests.e2e.bad_input.rows_wrong_use import CALL
from tests.e2e.bad_input.scene import OUT, Scene


def _views(scene: Scene, serde: str, *, system: str = "lake", schema: str = "View", options: str = "") -> None:
    scene.application(
        'app.system("warehouse", kind="spark")',
        f'views = app.input_stream("views", system="{system}", schema={schema}, partitions=2, '
        f'serde="{serde}"{options})',
        f"views.send_to({OUT})",
    )


@row("call", "A serde that does not exist", CALL)
def _(scene: Scene) -> str:
    _views(scene, "jsn")
    return scene.plan()


@row("call", "A serde of Avro without a schema file", CALL)
def _(scene: Scene) -> str:
    _views(scene, "avro")
    return scene.plan()


@row("call", "A serde of plain text for several columns", CALL)
def _(scene: Scene) -> str:
    _views(scene, "string")
    return scene.plan()


@row("call", "A serde without a schema", CALL)
def _(scene: Scene) -> str:
    _views(scene, "json", schema="None")
    return scene.plan()


@row("plan", "A serde for files", PLAN)
def _(scene: Scene) -> str:
    scene.views()
    _views(scene, "json")
    return scene.prepare()


@row("plan", "A serde for a topic of the log", PLAN)
def _(scene: Scene) -> str:
    _views(scene, "json", system="log")
    return scene.prepare()


@row("plan", "A schema file of Avro that does not exist", PLAN)
def _(scene: Scene) -> str:
    _views(scene, "avro:view.avsc", system="warehouse")
    return scene.prepare()


@row("plan", "A schema of Avro without a column", PLAN)
def _(scene: Scene) -> str:
    scene.write("dags/view.avsc", '{"type": "record", "name": "view", "fields": [{"name": "member", "type": "long"}]}')
    _views(scene, "avro:view.avsc", system="warehouse")
    return scene.prepare()


@row("plan", "A custom serde that does not exist", PLAN)
def _(scene: Scene) -> str:
    _views(scene, "page_views:Mine", system="warehouse")
    return scene.prepare()


@row("plan", 'slice="timestamp" of a table of bytes', PLAN)
def _(scene: Scene) -> str:
    schema = '"member_id bigint, at timestamp"'
    _views(scene, "json", system="warehouse", schema=schema, options=', timestamp="at", slice="timestamp"')
    return scene.prepare(interval=DataInterval.from_iso("2026-03-01", "2026-03-02"))


@row("plan", "partition_by of an output with a serde", PLAN)
def _(scene: Scene) -> str:
    options = '{"mode": "overwrite_partitions", "partition_by": "country"}'
    scene.application(
        'app.system("warehouse", kind="spark")',
        'views = app.input_stream("views", system="warehouse", schema=View)',
        f'views.send_to(app.output_stream("sent", system="warehouse", serde="json", options={options}))',
    )
    return scene.prepare()
