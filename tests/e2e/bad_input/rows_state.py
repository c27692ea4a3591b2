"""Rows of state that goes from run to run, and of streams between Dags: what ``plan`` and the stages say."""

from __future__ import annotations

from typing import Any

from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.folders import write_once
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.state_upkeep import abandon
from airflow_samza.systems.system import Publication, StreamSpec
from tests.e2e.bad_input.page import row
from tests.e2e.bad_input.rows_plan import PLAN
from tests.e2e.bad_input.rows_stage import STAGE
from tests.e2e.bad_input.scene import A_VIEW, APPLICATION, Scene, raised
from tests.support.runs_here import Here

SCHEMA = 'schema="member_id bigint, country string"'
GOING_ON = f'views = app.input_stream("views", system="log", {SCHEMA}, key="member_id", slice="checkpoint")'
OUT = 'app.output_stream("out", system="log", partitions=1)'


def _runs(scene: Scene, *, shared: bool = False) -> Here:
    """An application of two stages that goes on from run to run, with two views."""
    out = 'app.output_stream("minutes", system="log", key="country", partitions=1, shared=True)' if shared else OUT
    scene.application(GOING_ON, f'views.partition_by("country", id="by-country").send_to({out})')
    here = Here(scene.folder / "samza")
    _views(here, 2)
    return here


def _views(here: Here, count: int) -> None:
    import pyarrow as pa

    rows = pa.table({"member_id": pa.array(range(count), pa.int64()), "country": ["NL"] * count})
    here.log.append("views", rows, key=["member_id"], partitions=1)


def _plan(here: Here, run_id: str, **more: Any) -> str:
    return raised(lambda: here.plan(APPLICATION, run_id, **more))


def _half_done(here: Here) -> None:
    plan = here.plan(APPLICATION, "run-1")
    here.stages(plan, "views")
    here.runtime.close(plan, succeeded=False)


@row("state", "Another run holds the state", PLAN)
def _(scene: Scene) -> str:
    here = _runs(scene)
    here.plan(APPLICATION, "run-1")
    return _plan(here, "run-2")


@row("state", "The run before is half done", PLAN)
def _(scene: Scene) -> str:
    here = _runs(scene)
    _half_done(here)
    return _plan(here, "run-2")


@row("state", "A run is planned again after later runs have continued from its state", PLAN)
def _(scene: Scene) -> str:
    here = _runs(scene)
    for run_id in ("run-1", "run-2"):
        here.whole(APPLICATION, run_id)
    return _plan(here, "run-1", generation=2)


@row("state", "A run is to start from a run that left no state", PLAN)
def _(scene: Scene) -> str:
    here = _runs(scene)
    here.whole(APPLICATION, "run-1")
    return _plan(here, "backfill", state_from="run-7")


@row("state", "An unbounded input was created again", PLAN)
def _(scene: Scene) -> str:
    here = _runs(scene)
    here.whole(APPLICATION, "run-1")
    here.log.filesystem.delete_tree("topics/views")
    _views(here, 1)
    return _plan(here, "run-2")


def _counted(scene: Scene, functions: str, name: str) -> Here:
    counted = f'views.aggregate("member_id", {functions}, id="{name}").send_to({OUT})'
    scene.application(GOING_ON, counted)
    return Here(scene.folder / "samza")


@row("state", "An operator with another definition than the one that made its state", PLAN)
def _(scene: Scene) -> str:
    here = _counted(scene, "views=count()", "per-member")
    _views(here, 2)
    here.whole(APPLICATION, "run-1")
    return _plan(_counted(scene, 'last=max_("country")', "per-member"), "run-2")


@row("state", "An operator was removed, and its state exists", PLAN)
def _(scene: Scene) -> str:
    here = _counted(scene, "views=count()", "per-member")
    _views(here, 2)
    here.whole(APPLICATION, "run-1")
    return _plan(_counted(scene, "views=count()", "by-member"), "run-2")


@row("state", "State is dropped of an operator that still exists", PLAN)
def _(scene: Scene) -> str:
    here = _counted(scene, "views=count()", "per-member")
    module = scene.folder / "dags/page_views.py"
    scene.application(
        *module.read_text().replace('("page-views")', '("page-views", dropped=["per-member"])').splitlines()
    )
    _views(here, 2)
    return _plan(here, "run-1")


def _read_then(scene: Scene, stream: str) -> str:
    """The rejection of an input of files that is declared otherwise after a run has read it."""
    scene.application(f'app.input_stream("views", system="lake", schema=View, slice="checkpoint").send_to({OUT})')
    scene.views()
    scene.write("data/clicks/1.jsonl", A_VIEW)
    runtime = scene.runtime()
    first = runtime.prepare(RunRequest(APPLICATION, "run-1"))
    Here(scene.folder / "samza").stages(first, bindings=runtime._systems)
    runtime.close(first)
    scene.application(f'app.input_stream({stream}, system="lake", schema=View, slice="checkpoint").send_to({OUT})')
    return raised(lambda: scene.runtime().prepare(RunRequest(APPLICATION, "run-2")))


@row("state", "An input was renamed or removed after runs have read it", PLAN)
def _(scene: Scene) -> str:
    return _read_then(scene, '"page-views", path="views"')


@row("state", "An input lies elsewhere than runs have read it", PLAN)
def _(scene: Scene) -> str:
    return _read_then(scene, '"views", path="clicks"')


@row("state", "An input that another run has rewritten after it was read", PLAN)
def _(scene: Scene) -> str:
    import pyarrow as pa

    here = _runs(scene)
    stream = StreamSpec("views", partitions=1)
    for generation in ("1.1", "1.2"):
        writer = here.log.producer(stream, generation)
        writer.write(0, pa.record_batch({"member_id": pa.array([7], pa.int64()), "country": ["NL"]}))
        here.log.publish(stream, Publication("feeding/monday/views", generation, 0, {0: writer.finish()}))
        if generation == "1.1":
            here.whole(APPLICATION, "run-1")
    return _plan(here, "run-2")


@row("state", "A run with the id of a run whose records are deleted", PLAN)
def _(scene: Scene) -> str:
    here = _runs(scene)
    here.whole(APPLICATION, "run-1")
    here.log.filesystem.delete_tree("runs/page-views/run-1")
    return _plan(here, "run-1", state_from="fresh")


def _arriving(scene: Scene, options: str) -> None:
    scene.application(
        f'app.input_stream("views", system="lake", schema=View, slice="checkpoint", options={options}).send_to({OUT})'
    )


@row("state", "A file that was written again after it had been read", PLAN)
def _(scene: Scene) -> str:
    _arriving(scene, "{}")
    scene.views()
    runtime = scene.runtime()
    first = runtime.prepare(RunRequest(APPLICATION, "run-1"))
    Here(scene.folder / "samza").stages(first, bindings=runtime._systems)
    scene.views('{"member_id": 7, "country": "de", "dwell_ms": 2000}')
    return raised(lambda: runtime.prepare(RunRequest(APPLICATION, "run-2")))


@row("state", "Files that were read in another order before", PLAN)
def _(scene: Scene) -> str:
    _arriving(scene, "{}")
    scene.views()
    runtime = scene.runtime()
    first = runtime.prepare(RunRequest(APPLICATION, "run-1"))
    Here(scene.folder / "samza").stages(first, bindings=runtime._systems)
    runtime.close(first)
    _arriving(scene, '{"order": "name"}')
    return raised(lambda: scene.runtime().prepare(RunRequest(APPLICATION, "run-2")))


@row("state", "Both min_age and marker", PLAN)
def _(scene: Scene) -> str:
    _arriving(scene, '{"min_age": "5 minutes", "marker": "_SUCCESS"}')
    scene.views()
    return scene.prepare()


@row("state", "An invalid order of files", PLAN)
def _(scene: Scene) -> str:
    _arriving(scene, '{"order": "size"}')
    scene.views()
    return scene.prepare()


@row("state", "An invalid age", PLAN)
def _(scene: Scene) -> str:
    _arriving(scene, '{"min_age": "-5 minutes"}')
    scene.views()
    return scene.prepare()


@row("state", "A marker that names no file", PLAN)
def _(scene: Scene) -> str:
    _arriving(scene, '{"marker": "done/*"}')
    scene.views()
    return scene.prepare()


@row("state", "An invalid max_files", PLAN)
def _(scene: Scene) -> str:
    _arriving(scene, '{"max_files": 0}')
    scene.views()
    return scene.prepare()


@row("state", 'An option of slice="checkpoint" without it', PLAN)
def _(scene: Scene) -> str:
    scene.application(
        f'app.input_stream("views", system="lake", schema=View, options={{"min_age": "5 minutes"}}).send_to({OUT})'
    )
    scene.views()
    return scene.prepare()


@row("state", "A data interval before what the state has seen", PLAN)
def _(scene: Scene) -> str:
    scene.application(
        'views = app.input_stream("views", system="lake", schema="member_id bigint, at timestamp", partitions=1, '
        "bounded=False,",
        '    timestamp="at", slice="timestamp")',
        f"views.send_to({OUT})",
    )
    scene.views('{"member_id": 7, "at": "2026-01-02T00:00:00"}')
    runtime = scene.runtime()
    second = runtime.prepare(
        RunRequest(APPLICATION, "run-2", interval=DataInterval.from_iso("2026-01-02", "2026-01-03"))
    )
    Here(scene.folder / "samza").stages(second, bindings=runtime._systems)
    return raised(
        lambda: runtime.prepare(
            RunRequest(APPLICATION, "run-1", interval=DataInterval.from_iso("2026-01-01", "2026-01-02"))
        )
    )


@row("state", "A run that does not hold the state is given up", "by `airflow-samza state abandon`")
def _(scene: Scene) -> str:
    here = _runs(scene)
    here.whole(APPLICATION, "run-1")
    return raised(lambda: abandon(here.log.filesystem, StateHistory("page-views"), "run-2"))


@row("state", "A run whose state another run has taken over", STAGE)
def _(scene: Scene) -> str:
    here = _runs(scene)
    late = here.plan(APPLICATION, "run-1")
    write_once(here.log.filesystem, "runs/page-views/run-1/closed.json", RunEnd(False, 0.0))
    here.plan(APPLICATION, "run-2")
    return raised(lambda: here.stages(late))


@row("state", "A section of a shared stream that is not complete", PLAN)
def _(scene: Scene) -> str:
    here = _runs(scene, shared=True)
    here.plan(APPLICATION, "monday")
    _consumer(scene)
    return _plan(here, "of-monday", sections={"minutes": "monday"})


@row("state", "A section of the data interval, in a run without one", PLAN)
def _(scene: Scene) -> str:
    here = _runs(scene, shared=True)
    here.plan(APPLICATION, "monday")
    _consumer(scene)
    return _plan(here, "of-monday", sections={"minutes": "page-views@interval"})


@row("state", "A run to follow that nobody has planned", PLAN)
def _(scene: Scene) -> str:
    here = _runs(scene, shared=True)
    here.plan(APPLICATION, "monday")
    _consumer(scene)
    monday = DataInterval.from_iso("2026-01-05", "2026-01-06")
    named = {"sections": {"minutes": "page-view@interval"}, "interval": monday}
    return _plan(here, "of-monday", mode="pipelined", **named)


@row("state", "A run that is followed fails", "while the stage that follows it runs")
def _(scene: Scene) -> str:
    here = _runs(scene, shared=True)
    producer = here.plan(APPLICATION, "monday", mode="pipelined")
    _consumer(scene)
    plan = here.plan(APPLICATION, "of-monday", mode="pipelined", sections={"minutes": "page-views/monday"})
    here.runtime.close(producer, succeeded=False)
    return raised(lambda: here.stages(plan))


@row("state", "A shared stream that nobody has made yet", PLAN)
def _(scene: Scene) -> str:
    _consumer(scene)
    return _plan(Here(scene.folder / "samza"), "of-monday")


@row("state", "A section is named of a stream that is not shared", PLAN)
def _(scene: Scene) -> str:
    here = _runs(scene)
    return _plan(here, "run-1", sections={"views": "monday"})


@row("state", "A shared output in files", PLAN)
def _(scene: Scene) -> str:
    scene.application(
        'views = app.input_stream("views", system="lake", schema=View, partitions=2)',
        'views.send_to(app.output_stream("minutes", system="lake", shared=True))',
    )
    scene.views()
    return scene.prepare()


def _consumer(scene: Scene) -> None:
    scene.application(
        'minutes = app.shared_stream("minutes", system="log", schema="member_id bigint, country string", '
        'key="country", bounded=True)',
        f"minutes.send_to({OUT})",
    )


@row("state", "Two operators would continue from one state", PLAN)
def _(scene: Scene) -> str:
    here = _counted(scene, "views=count()", "per-member")
    _views(here, 2)
    here.whole(APPLICATION, "run-1")
    count = 'views.aggregate("member_id", views=count(), id="{0}", renamed_from="per-member")'
    send = '.send_to(app.output_stream("{0}", system="log"))'
    twice = [(count + send).format(name) for name in ("first", "second")]
    scene.application(GOING_ON, *twice)
    return _plan(here, "run-2")


@row("state", "The data interval of a topic of the log", PLAN)
def _(scene: Scene) -> str:
    views = f'app.input_stream("views", system="log", {SCHEMA[:-1]}, at timestamp", timestamp="at", slice="timestamp")'
    scene.application(f"{views}.send_to({OUT})")
    return _plan(Here(scene.folder / "samza"), "run-1", interval=DataInterval.from_iso("2026-01-01", "2026-01-02"))


@row("state", "A run without end of inputs that have one", PLAN)
def _(scene: Scene) -> str:
    scene.application(f'app.input_stream("views", system="log", {SCHEMA}, bounded=True).send_to({OUT})')
    return _plan(Here(scene.folder / "samza"), "run-1", config={"job.inputs.bounded": "false"})


@row("state", "A flush of inputs that have an end", PLAN)
def _(scene: Scene) -> str:
    scene.application(f'app.input_stream("views", system="log", {SCHEMA}).send_to({OUT})')
    return _plan(Here(scene.folder / "samza"), "run-1", config={"job.inputs.flush": "true"})
