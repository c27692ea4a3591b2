"""Rows of remote tables: what is said at the call, and what the stage says."""

from __future__ import annotations

from tests.e2e.bad_input.page import row
from tests.e2e.bad_input.rows_stage import STAGE
from tests.e2e.bad_input.rows_wrong_use import CALL
from tests.e2e.bad_input.scene import OUT, VIEWS, Scene


def _tiers(scene: Scene, reader: str, **said: str) -> None:
    more = "".join(f", {name}={value}" for name, value in said.items())
    scene.application(
        "def fetch(member_id):",
        f"    {reader}",
        'tiers = app.remote_table("tiers", key="member_id", schema="member_id bigint, tier string", '
        f"reader=fetch{more})",
        f'{VIEWS}.join(tiers, id="with-tier").send_to({OUT})',
    )


@row("call", "An invalid rate", CALL)
def _(scene: Scene) -> str:
    _tiers(scene, "return None", rate='"quickly"')
    return scene.plan()


@row("call", "concurrency= of a plain function", CALL)
def _(scene: Scene) -> str:
    _tiers(scene, "return None", concurrency="8")
    return scene.plan()


@row("stage", "A remote table that does not answer", STAGE)
def _(scene: Scene) -> str:
    _tiers(scene, 'raise ConnectionError("connection refused")', retries="2", backoff='"1 ms"')
    scene.views()
    return scene.run_and_drive()


@row("stage", "A reader of a remote table that returns no row", STAGE)
def _(scene: Scene) -> str:
    _tiers(scene, "return 'gold'")
    scene.views()
    return scene.run_and_drive()
