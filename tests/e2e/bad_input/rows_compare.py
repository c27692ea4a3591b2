"""Rows of runs that are compared with others: which cannot be, and which cannot be published."""

from __future__ import annotations

from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.systems.system import SystemBinding
from tests.e2e.bad_input.page import row
from tests.e2e.bad_input.scene import APPLICATION, VIEWS, Scene, raised
from tests.support.runs_here import Here

COMPARE = "by `compare`"


def _here(scene: Scene, more: str = "", views: str = VIEWS) -> Here:
    scene.application(f'{views}.send_to(app.output_stream("out", system="lake", format="json"{more}))')
    scene.views()
    return Here(scene.folder / "samza", bindings={"lake": SystemBinding("files", {"root": str(scene.folder / "data")})})


def _compared(place: Here) -> RunPlan:
    place.whole(APPLICATION, "run-1")
    plan = place.runtime.prepare(place.runtime.request_to_compare(RunRequest(APPLICATION, "run-2")))
    place.stages(plan)
    place.runtime.close(plan)
    return plan


@row("plan", "A comparison where no run has succeeded", COMPARE)
def _(scene: Scene) -> str:
    _here(scene)
    return scene.command("compare", APPLICATION)


@row("plan", "A comparison with a run that has not succeeded", COMPARE)
def _(scene: Scene) -> str:
    _here(scene).plan(APPLICATION, "run-1")
    return scene.command("compare", APPLICATION, "--as-of", "run-1")


@row("plan", "A comparison of a run with itself", COMPARE)
def _(scene: Scene) -> str:
    _here(scene).whole(APPLICATION, "run-1")
    return scene.command("compare", APPLICATION, "--run-id", "run-1")


@row("plan", "A comparison by a key without columns", COMPARE)
def _(scene: Scene) -> str:
    _here(scene)
    return scene.command("compare", APPLICATION, "--key", "out")


@row("plan", "A comparison of an input in another number of partitions", COMPARE)
def _(scene: Scene) -> str:
    _here(scene).whole(APPLICATION, "run-1")
    _here(scene, views=VIEWS.replace("partitions=2", "partitions=3"))
    return scene.command("compare", APPLICATION)


@row("plan", "A comparison of an output that cannot be kept back", COMPARE)
def _(scene: Scene) -> str:
    _here(scene).whole(APPLICATION, "run-1")
    scene.application(f'{VIEWS}.send_to(app.output_stream("out", system="spark", format="json"))')
    scene.systems["spark"] = "spark:"
    runtime = scene.runtime()
    return raised(lambda: runtime.prepare(runtime.request_to_compare(RunRequest(APPLICATION, "run-2"))))


@row("stage", "A compared run that would replace nothing", "by `publish` and `SamzaPublishOperator`")
def _(scene: Scene) -> str:
    _compared(_here(scene))
    return scene.command("publish", "page-views", "run-2")


@row("plan", "A comparison of an input that was deleted since", COMPARE)
def _(scene: Scene) -> str:
    _here(scene).whole(APPLICATION, "run-1")
    (scene.folder / "data/views/1.jsonl").rename(scene.folder / "data/views/2.jsonl")
    return scene.command("compare", APPLICATION)


@row("plan", "A compared run that is planned anew", "by `run --again`")
def _(scene: Scene) -> str:
    _compared(_here(scene))
    return scene.command("run", APPLICATION, "--run-id", "run-2", "--again")
