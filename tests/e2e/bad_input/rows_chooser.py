"""Rows of message choosers."""

from __future__ import annotations

from tests.e2e.bad_input.page import row
from tests.e2e.bad_input.rows_plan import PLAN
from tests.e2e.bad_input.scene import OUT, VIEWS, Scene


@row("plan", "A message chooser that does not exist", PLAN)
def _(scene: Scene) -> str:
    scene.views()
    scene.application(f"{VIEWS}.send_to({OUT})")
    return scene.prepare(config={"task.chooser.class": "page_views:UrgentFirst"})


@row("plan", "A priority of a stream that is not read", PLAN)
def _(scene: Scene) -> str:
    scene.views()
    scene.application(f"{VIEWS}.send_to({OUT})")
    return scene.prepare(config={"task.chooser.priorities.lake.viws": "1"})


@row("plan", "A key that choosers do not have", PLAN)
def _(scene: Scene) -> str:
    scene.views()
    scene.application(f"{VIEWS}.send_to({OUT})")
    return scene.prepare(config={"task.chooser.wait.for.heads": "all"})
