"""Rows of tables that side inputs fill: what their declaration, the plan and the stage are rejected for."""

from __future__ import annotations

import shutil
import time

import pyarrow as pa

from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from tests.e2e.bad_input.page import row
from tests.e2e.bad_input.rows_stage import STAGE
from tests.e2e.bad_input.rows_wrong_use import CALL
from tests.e2e.bad_input.scene import OUT, Scene
from tests.support.pushes import Pushes

PLAN = "by `plan`"

VIEWS = 'app.input_stream("views", system="lake", schema=View, partitions=1, key="member_id")'

CHANGES = 'changes = app.side_input("changes", key="member_id")'

BROKEN = """\
class Tiers:
    def __init__(self, config, metrics):
        pass

    def process(self, message, store):
        yield message.key, {"tier": message.message.tier.upper()}
"""


def _application(scene: Scene, table: str, *before: str) -> None:
    scene.application(
        *before, CHANGES, f"table = {table}", f'{VIEWS}.join(table, how="left", id="with-tier").send_to({OUT})'
    )
    scene.views()


def _changes(scene: Scene, **columns: list[object]) -> LogSystem:
    log = LogSystem("log", SystemBinding("log", {"root": str(scene.folder / "samza")}))
    rows = pa.table(columns or {"member_id": pa.array([7], pa.int64()), "tier": pa.array(["gold"])})
    log.append("changes", rows, partitions=1)
    return log


TABLE = 'app.table("tiers", key="member_id", side_inputs=[changes]'


@row("call", "A table with side inputs and a changelog", CALL)
def _(scene: Scene) -> str:
    _application(scene, f"{TABLE}, changelog=True)")
    return scene.plan()


@row("plan", "A side input that does not exist", PLAN)
def _(scene: Scene) -> str:
    _application(scene, f"{TABLE})")
    return scene.prepare()


@row("plan", "A pushed table that was never pushed", PLAN)
def _(scene: Scene) -> str:
    _application(
        scene, 'app.pushed_table("tiers", key="member_id", schema="member_id bigint, tier string", partitions=1)'
    )
    return scene.prepare()


@row("plan", "A table that was pushed by another key than it is declared with", PLAN)
def _(scene: Scene) -> str:
    table = 'app.pushed_table("profiles", key="member_id", schema="member_id bigint, tier string", partitions=2)'
    scene.application(
        f'{VIEWS}.partition_by("member_id", id="by-id").join({table}, how="left", id="with-tier").send_to({OUT})'
    )
    scene.views()
    Pushes(scene.folder / "samza").push("monday", {7: "gold"})
    return scene.prepare()


@row("plan", "Files as a side input by a key", PLAN)
def _(scene: Scene) -> str:
    scene.views()
    scene.application(
        'tiers = app.side_input("tiers", system="lake", path="views", schema=View, key="member_id", partitions=2)',
        'table = app.table("by-id", key="member_id", side_inputs=[tiers])',
        f'{VIEWS}.select("member_id", id="ids").partition_by("member_id", id="by-member")'
        f'.join(table, id="with-tier").send_to({OUT})',
    )
    return scene.plan()


@row("plan", "A side input without the column of its table's key", PLAN)
def _(scene: Scene) -> str:
    _application(scene, f'{TABLE}, schema="member_id bigint, tier string")')
    _changes(scene, id=[7], tier=["gold"])
    return scene.prepare()


@row("plan", "A side input whose messages are no rows of its table, and no processor", PLAN)
def _(scene: Scene) -> str:
    _application(scene, f'{TABLE}, schema="member_id bigint, tier string")')
    _changes(scene, member_id=[7], points=[3])
    return scene.prepare()


@row("plan", "A processor that cannot be imported", PLAN)
def _(scene: Scene) -> str:
    _application(scene, f'{TABLE}, schema="member_id bigint, tier string", processor="pipelines.tiers:Tiers")')
    _changes(scene)
    return scene.prepare()


@row("stage", "A processor of side inputs that raises", STAGE)
def _(scene: Scene) -> str:
    _application(scene, f'{TABLE}, schema="member_id bigint, tier string", processor=Tiers)', *BROKEN.splitlines())
    _changes(scene, member_id=[7], tier=pa.array([None], pa.string()))
    return scene.run()


@row("stage", "A side input that vanished after the plan", STAGE)
def _(scene: Scene) -> str:
    _application(scene, f"{TABLE})")
    _changes(scene)
    return scene.run(before={"views": lambda: shutil.rmtree(scene.folder / "samza/topics/changes")})


@row("stage", "A side input that was created again after the plan", STAGE)
def _(scene: Scene) -> str:
    _application(scene, f"{TABLE})")
    _changes(scene)

    def make_anew() -> None:
        shutil.rmtree(scene.folder / "samza/topics/changes")
        time.sleep(0.002)
        _changes(scene)

    return scene.run(before={"views": make_anew})


@row("call", "Side inputs in the configuration for a table that does not exist", CALL)
def _(scene: Scene) -> str:
    _application(scene, f"{TABLE})")
    return scene.plan("-c", "stores.cities.side.inputs=lake.cities")


@row("call", "Side inputs in the configuration that differ from the code", CALL)
def _(scene: Scene) -> str:
    _application(scene, f"{TABLE})")
    return scene.plan("-c", "stores.tiers.side.inputs=lake.cities")
