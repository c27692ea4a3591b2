"""Rows about tables of Iceberg catalogs: what is not there, what has changed, and what is not read here."""

from __future__ import annotations

import re

import pyarrow as pa
from pyiceberg.table import Table

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.systems.system import SystemBinding
from tests.e2e.bad_input.page import row
from tests.e2e.bad_input.scene import APPLICATION, Scene, raised
from tests.support.iceberg_catalog_server import CatalogServer
from tests.support.iceberg_lake import add_files, data_file, delete_equal, table_of

PLAN = "by `plan`"
BY_RUN = "by `plan` of a Dag run, and by `run`"


def table(scene: Scene, more: str = "") -> Table:
    """Write an application that reads a table, and make the table."""
    scene.systems |= {"lake": f"iceberg:{scene.folder / 'lake'}", "data": f"files:{scene.folder / 'data'}"}
    views = f'app.input_stream("views", system="lake", table="web.views"{more})'
    scene.application(f'{views}.send_to(app.output_stream("out", system="data"))')
    schema = pa.schema([("member_id", pa.int64()), ("country", pa.string())])
    return table_of(scene.folder / "lake", schema, [{"member_id": 7, "country": "NL"}])


@row("iceberg", "A table that its catalog does not have", PLAN)
def _(scene: Scene) -> str:
    table(scene)
    scene.application('app.input_stream("views", system="lake", table="web.view").send_to(app.output_stream("out"))')
    return scene.plan()


@row("iceberg", "A folder without a catalog", PLAN)
def _(scene: Scene) -> str:
    table(scene)
    scene.systems["lake"] = f"iceberg:{scene.folder / 'lost'}"
    return scene.plan()


@row("iceberg", "A tag or a branch that a table does not have", PLAN)
def _(scene: Scene) -> str:
    views = table(scene, ', options={"ref": "montly"}')
    with views.manage_snapshots() as managing:
        managing.create_tag(views.metadata.snapshots[0].snapshot_id, "monthly")
    return scene.plan()


@row("iceberg", "An id of a snapshot that is none", PLAN)
def _(scene: Scene) -> str:
    table(scene, ', options={"snapshot": "monthly"}')
    return scene.plan()


@row("iceberg", "A snapshot that has expired", PLAN)
def _(scene: Scene) -> str:
    table(scene, ', options={"snapshot": "8271638172635514"}')
    text = scene.plan()
    newest = next(iter(re.findall(r"\b\d{16,19}\b", text.replace("8271638172635514", ""))), "")
    return text.replace(newest, "5240913207735206182")


def _of_server(scene: Scene, *, token: str = "hush", answer: int | None = None) -> str:
    """Return the error of a run whose catalog is a server."""
    table(scene)
    with CatalogServer(scene.folder / "lake", token="hush") as server:
        server.answer = answer
        binding = SystemBinding("iceberg", {"uri": server.url, "token": token}, secret=frozenset({"token"}))
        runtime = SparkRuntime(
            str(scene.folder / "samza"), {"lake": binding, "data": SystemBinding("files", {"root": str(scene.folder)})}
        )
        text = raised(lambda: runtime.prepare(RunRequest(APPLICATION, "run-1")))
        return text.replace(server.url, "https://catalog.example.org")


@row("iceberg", "A catalog that rejects the token", BY_RUN)
def _(scene: Scene) -> str:
    return _of_server(scene, token="hash")


@row("iceberg", "A catalog that does not let its table be read", BY_RUN)
def _(scene: Scene) -> str:
    return _of_server(scene, answer=403)


@row("iceberg", "A catalog that fails", BY_RUN)
def _(scene: Scene) -> str:
    return _of_server(scene, answer=503)


@row("iceberg", "A declared column that was renamed in the table", PLAN)
def _(scene: Scene) -> str:
    with table(scene, ', schema="member_id bigint, country string"').update_schema() as changing:
        changing.rename_column("member_id", "member")
    return scene.plan()


@row("iceberg", "A declared column of another type", PLAN)
def _(scene: Scene) -> str:
    table(scene, ', schema="member_id string"')
    return scene.plan()


@row("iceberg", "A table with equality deletes", PLAN)
def _(scene: Scene) -> str:
    delete_equal(table(scene), pa.table({"member_id": pa.array([7], pa.int64())}), [1], name="equal.parquet")
    return scene.plan()


OUT = 'app.output_stream("out", system="lake", {})'


def _written(scene: Scene, output: str, what: str = 'select("member_id")') -> str:
    """Return the error of an application that writes to a table."""
    scene.application(
        f'app.input_stream("views", system="lake", table="web.views").{what}.send_to({OUT.format(output)})'
    )
    return scene.plan()


@row("iceberg", "An output to a table that does not exist", PLAN)
def _(scene: Scene) -> str:
    table(scene)
    return _written(scene, 'table="web.copies"')


@row("iceberg", "An output with a column that the table does not have", PLAN)
def _(scene: Scene) -> str:
    table(scene)
    return _written(scene, 'table="web.views"', 'select("member_id", "member_id + 1 as next")')


@row("iceberg", "An output with a column of another type than the table's", PLAN)
def _(scene: Scene) -> str:
    table(scene)
    return _written(scene, 'table="web.views"', 'select("cast(member_id as string) as member_id")')


@row("iceberg", "An output to a table that is to be made, of unknown columns", PLAN)
def _(scene: Scene) -> str:
    table(scene)
    return _written(scene, 'table="web.copies", create=True', 'select("soundex(country) as sound")')


@row("iceberg", "A mode that tables do not have", PLAN)
def _(scene: Scene) -> str:
    table(scene)
    return _written(scene, 'table="web.views", mode="overwrite"')


@row("iceberg", "A partition field that is none", PLAN)
def _(scene: Scene) -> str:
    table(scene)
    return _written(scene, 'table="web.copies", create=True, partition_by="zorder(member_id)"')


@row("iceberg", "Two partition fields by time of one column", PLAN)
def _(scene: Scene) -> str:
    table(scene)
    output = 'table="web.copies", create=True, schema="seen timestamp", partition_by="month(seen), hour(seen)"'
    return _written(scene, output, 'select("cast(country as timestamp) AS seen")')


@row("iceberg", "A limit on what is read of an input that the application does not have", BY_RUN)
def _(scene: Scene) -> str:
    table(scene)
    return scene.prepare(input_versions={"view": "8271638172635514"})


@row("iceberg", "A snapshot up to which is to be read, and that has expired", BY_RUN)
def _(scene: Scene) -> str:
    table_of(scene.folder / "lake", table(scene).schema(), name="web.empty")
    scene.application('app.input_stream("views", system="lake", table="web.empty").send_to(app.output_stream("out"))')
    return scene.prepare(input_versions={"views": "8271638172635514"})


@row("iceberg", "A limit on an input of which the application says what is read", BY_RUN)
def _(scene: Scene) -> str:
    table(scene, ', options={"as_of": "2026-11-01T00:00Z"}')
    return scene.prepare(input_versions={"views": "8271638172635514"})


@row("iceberg", "A table as a side input by a key", PLAN)
def _(scene: Scene) -> str:
    table(scene)
    side = 'app.side_input("members", system="lake", table="web.views", key="member_id", partitions=2)'
    scene.application(
        f'members = app.table("by-id", key="member_id", side_inputs=[{side}])',
        'views = app.input_stream("views", system="lake", table="web.views", partitions=2)',
        'keyed = views.partition_by("member_id", id="by-member").select("member_id", id="ids")',
        'keyed.join(members, id="named").send_to(app.output_stream("out", system="data"))',
    )
    return scene.plan()


@row("iceberg", "A branch of an output that somebody else has begun", PLAN)
def _(scene: Scene) -> str:
    made = table(scene)
    snapshot = made.metadata.current_snapshot_id
    assert snapshot is not None
    made.manage_snapshots().create_branch(snapshot, "audit").commit()
    return _written(scene, 'table="web.views", branch="audit"')


@row("iceberg", "An output to the branch that readers see", PLAN)
def _(scene: Scene) -> str:
    table(scene)
    return _written(scene, 'table="web.views", branch="main"')


@row("iceberg", "A table that names a file outside of its folder", PLAN)
def _(scene: Scene) -> str:
    views = table(scene)
    file = data_file(views, pa.table({"member_id": [8], "country": ["BE"]}), ids=False)
    file._data[1] = "file:///archive/views.parquet"
    add_files(views, file)
    return scene.plan()
