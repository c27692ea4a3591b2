"""Rows about Delta tables: what is not there, what has gone, and what is not read here."""

from __future__ import annotations

import pyarrow as pa

from airflow_samza.systems.system import SystemBinding
from tests.e2e.bad_input.page import row
from tests.e2e.bad_input.scene import APPLICATION, Scene
from tests.support.delta_lake import HandMade, column
from tests.support.runs_here import Here

PLAN = "by `plan`"
PUBLISH = "by `publish` and `SamzaPublishOperator`"


def table(scene: Scene, more: str = "", name: str = "web.views") -> HandMade:
    """Write an application that reads a table, and make the table."""
    scene.systems |= {"lake": f"delta:{scene.folder / 'lake'}", "data": f"files:{scene.folder / 'data'}"}
    views = f'app.input_stream("views", system="lake", table="{name}"{more})'
    scene.application(f'{views}.send_to(app.output_stream("out", system="data"))')
    made = HandMade(scene.folder / "lake", [column("member_id", "long"), column("country", "string")])
    made.begin()
    made.commit(made.file("a.parquet", pa.table({"member_id": [7], "country": ["NL"]})))
    return made


@row("delta", "A table that is not in its folder", PLAN)
def _(scene: Scene) -> str:
    table(scene, name="web.view")
    return scene.plan()


@row("delta", "A version that is no number", PLAN)
def _(scene: Scene) -> str:
    table(scene, ', options={"version": "newest"}')
    return scene.plan()


@row("delta", "A time before the first version", PLAN)
def _(scene: Scene) -> str:
    made = table(scene, ', options={"as_of": "2013-01-01"}')
    for commit in made.log.glob("*.json"):
        commit.rename(commit.with_suffix(".moved"))
    made.checkpoint(
        [
            {"protocol": made.protocol},
            {"metaData": {**made.metadata, "configuration": [], "format": {"provider": "parquet", "options": []}}},
        ],
        f"{1:020}.checkpoint.parquet",
    )
    return scene.plan()


@row("delta", "A version whose log was cleaned up", PLAN)
def _(scene: Scene) -> str:
    made = table(scene, ', options={"version": "0"}')
    for commit in made.log.glob("*.json"):
        commit.unlink()
    made.checkpoint(
        [
            {"protocol": made.protocol},
            {"metaData": {**made.metadata, "configuration": [], "format": {"provider": "parquet", "options": []}}},
        ],
        f"{1:020}.checkpoint.parquet",
    )
    return scene.plan()


@row("delta", "A declared column that the table does not have", PLAN)
def _(scene: Scene) -> str:
    table(scene, ', schema="member bigint"')
    return scene.plan()


@row("delta", "A feature that is not known here", PLAN)
def _(scene: Scene) -> str:
    made = table(scene)
    features = ["typeWidening"]
    made.commit(
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": features,
                "writerFeatures": features,
            }
        }
    )
    return scene.plan()


@row("delta", "A log without one of its commits", PLAN)
def _(scene: Scene) -> str:
    made = table(scene)
    (made.log / f"{0:020}.json").unlink()
    return scene.plan()


def _written(scene: Scene, output: str) -> str:
    """Return the error of an application that writes to a table."""
    out = f'app.output_stream("out", system="lake", {output})'
    scene.application(f'app.input_stream("views", system="lake", table="web.views").select("member_id").send_to({out})')
    return scene.plan()


@row("delta", "An output to a table with a CHECK constraint", PLAN)
def _(scene: Scene) -> str:
    table(scene)
    place = scene.folder / "checked"
    HandMade(place, [column("member_id", "long")], configuration={"delta.constraints.few": "member_id < 9"}).begin()
    (place / "web/views").rename(scene.folder / "lake/web/checked")
    return _written(scene, 'table="web.checked"')


@row("delta", "An output whose table is partitioned by an expression", PLAN)
def _(scene: Scene) -> str:
    table(scene)
    return _written(scene, 'table="web.copies", create=True, partition_by="day(at)"')


@row("delta", "An output with a property that is not set here", PLAN)
def _(scene: Scene) -> str:
    table(scene)
    return _written(scene, 'table="web.copies", create=True, options={"delta.enableDeletionVectors": "true"}')


def _changes(scene: Scene, more: str, name: str = "country") -> str:
    """Return the error of an application that reads the changes of a table."""
    place = scene.folder / "lake"
    HandMade(place, [column("member_id", "long"), column(name, "string")], name="web.changed").begin()
    scene.systems |= {"lake": f"delta:{place}", "data": f"files:{scene.folder / 'data'}"}
    views = f'app.input_stream("views", table="web.changed", changes=True{more})'
    scene.application(f'{views}.send_to(app.output_stream("out", system="data"))')
    return scene.plan()


@row("delta", "Changes of a table, and no slice=", "at the call")
def _(scene: Scene) -> str:
    return _changes(scene, ', system="lake"')


@row("delta", "Changes of a table with declared columns that do not tell inserts from deletes", "at the call")
def _(scene: Scene) -> str:
    return _changes(scene, ', system="lake", slice="checkpoint", schema="member_id bigint"')


@row("delta", "Changes of what is no table", PLAN)
def _(scene: Scene) -> str:
    return _changes(scene, ', system="data", slice="checkpoint"')


@row("delta", "Changes of a table that has a column of such a name itself", PLAN)
def _(scene: Scene) -> str:
    return _changes(scene, ', system="lake", slice="checkpoint"', "_Change_Type")


@row("delta", "Changes of one version", PLAN)
def _(scene: Scene) -> str:
    return _changes(scene, ', system="lake", slice="checkpoint", options={"version": "0"}')


@row("delta", "Changes of what a run has waiting", PLAN)
def _(scene: Scene) -> str:
    return _changes(scene, ', system="lake", slice="checkpoint", options={"waiting": "page-views/run-1"}')


@row("delta", "Changes of which some are not to be read", PLAN)
def _(scene: Scene) -> str:
    return _changes(scene, ', system="lake", slice="checkpoint", options={"overwrites": "skip"}')


@row("delta", "An output whose columns are to be mapped in a way that there is not", PLAN)
def _(scene: Scene) -> str:
    table(scene)
    return _written(scene, 'table="web.copies", create=True, options={"delta.columnMapping.mode": "names"}')


def audited(scene: Scene, output: str = 'branch="audit/{run_id}"') -> Here:
    """Write an application that copies a table, by a branch of the copy."""
    table(scene)
    out = f'app.output_stream("out", system="lake", table="web.copy", create=True, {output})'
    scene.application(f'app.input_stream("views", system="lake", table="web.views").send_to({out})')
    lake = SystemBinding("delta", {"root": str(scene.folder / "lake")})
    return Here(scene.folder / "samza", bindings={"lake": lake})


@row("delta", "An output to a table of Delta with the name of what readers see as its branch", PLAN)
def _(scene: Scene) -> str:
    audited(scene, 'branch="main"')
    return scene.plan()


@row("delta", "A run that is published before all of its stages have succeeded", PUBLISH)
def _(scene: Scene) -> str:
    audited(scene).plan(APPLICATION, "run-1")
    return scene.command("publish", "page-views", "run-1")


@row("delta", "A run to be published that keeps no output back", PUBLISH)
def _(scene: Scene) -> str:
    audited(scene, 'mode="replace"').whole(APPLICATION, "run-1")
    return scene.command("publish", "page-views", "run-1")


@row("delta", "A run to be published whose branch was dropped", PUBLISH)
def _(scene: Scene) -> str:
    audited(scene).whole(APPLICATION, "run-1")
    (commit,) = (scene.folder / "samza" / "runs").rglob("branches/*/*.json")
    commit.rename(commit.with_name(commit.name.replace("-0.json", "-dropped.json")))
    return scene.command("publish", "page-views", "run-1")


@row("delta", "A run of which rows are to be read that wait, and none do", PLAN)
def _(scene: Scene) -> str:
    table(scene, ', options={"waiting": "page-views/monday"}')
    return scene.plan()


@row("delta", "A text that names no run of which rows could wait", PLAN)
def _(scene: Scene) -> str:
    table(scene, ', options={"waiting": "monday"}')
    return scene.plan()
