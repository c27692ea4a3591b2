"""Rows of low-level tasks and of callables that wait: what is said at the call, and what the stage says."""

from __future__ import annotations

from tests.e2e.bad_input.page import row
from tests.e2e.bad_input.rows_stage import STAGE
from tests.e2e.bad_input.rows_wrong_use import CALL
from tests.e2e.bad_input.scene import OUT, VIEWS, Scene

TASK = """\
from datetime import datetime

from airflow_samza import task_application


class Count:
    def init(self, context):
        self.context = context

    def process(self, envelope, collector, coordinator):
        {process}

    def on_timer(self, key, time, collector, coordinator):
        pass
{more}

@task_application("count"{config})
def page_views(app):
    app.input_stream("views", schema="member_id bigint, country string, dwell_ms bigint")
    app.store("counts", key={key}, value="bigint")
    app.task(Count)
"""


def _task(scene: Scene, process: str = "pass", *, key: str = '"string"', more: str = "", config: str = "") -> None:
    scene.application(*TASK.format(process=process, key=key, more=more, config=config).splitlines())


@row("call", "A store with keys of a type that is not allowed", CALL)
def _(scene: Scene) -> str:
    _task(scene, key='"double"')
    return scene.plan()


@row("call", "A backend of stores that does not exist", CALL)
def _(scene: Scene) -> str:
    _task(scene, key='"string", backend="disk"')
    return scene.plan()


@row("call", "A coroutine function where a plain one belongs", CALL)
def _(scene: Scene) -> str:
    scene.application("async def faster(view):", "    return view", f"{VIEWS}.map(faster)")
    return scene.plan()


@row("call", "A plain function where a coroutine function belongs", CALL)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.map_async(lambda view: view)")
    return scene.plan()


@row("call", "concurrency= of 0", CALL)
def _(scene: Scene) -> str:
    scene.application("async def faster(view):", "    return view", f"{VIEWS}.map_async(faster, concurrency=0)")
    return scene.plan()


@row("stage", "A low-level task asks for an unknown store", STAGE)
def _(scene: Scene) -> str:
    _task(scene, 'self.context.get_store("count")')
    return scene.drive()


@row("stage", "A low-level task puts a value of another type", STAGE)
def _(scene: Scene) -> str:
    _task(scene, 'self.context.get_store("counts").put(envelope.message.country, "one")')
    return scene.drive()


@row("stage", "A low-level task looks up a key of another type", STAGE)
def _(scene: Scene) -> str:
    _task(scene, 'self.context.get_store("counts").get(envelope.message.member_id)')
    return scene.drive()


PUT = 'self.context.get_store("counts").put(envelope.message.country, envelope.message.dwell_ms)'
LIMITS = ', config={{"stores.counts.factory": "{factory}", "stores.counts.max.{what}.bytes": "{most}"}}'


@row("stage", "A store whose configured backend does not exist", STAGE)
def _(scene: Scene) -> str:
    _task(scene, PUT, config=LIMITS.format(factory="org.example.CassandraFactory", what="value", most=4))
    return scene.drive()


@row("stage", "A value that is too large for a store", STAGE)
def _(scene: Scene) -> str:
    _task(scene, PUT, config=LIMITS.format(factory="rocksdb", what="value", most=4))
    return scene.drive()


@row("stage", "A key that is too large for a store", STAGE)
def _(scene: Scene) -> str:
    _task(scene, PUT, config=LIMITS.format(factory="rocksdb", what="key", most=1))
    return scene.drive()


@row("stage", "A store that has grown too large", STAGE)
def _(scene: Scene) -> str:
    config = ', config={"stores.counts.factory": "rocksdb", "stores.counts.max.bytes": "5"}'
    _task(scene, PUT, config=config)
    return scene.drive()


@row("stage", "A timer of a kind that does not exist", STAGE)
def _(scene: Scene) -> str:
    _task(scene, 'self.context.timers.set("tick", 1_767_225_600_000, kind="wall")')
    return scene.drive()


@row("stage", "A timer for a negative time", STAGE)
def _(scene: Scene) -> str:
    _task(scene, 'self.context.timers.set("tick", -60_000)')
    return scene.drive()


@row("stage", "A timer for a time without a zone", STAGE)
def _(scene: Scene) -> str:
    _task(scene, 'self.context.timers.set("tick", datetime(2026, 1, 1))')
    return scene.drive()


WINDOW = """
    def window(self, collector, coordinator):
        pass
"""


@row("stage", "A task with window(), without task.window.ms", STAGE)
def _(scene: Scene) -> str:
    _task(scene, more=WINDOW)
    return scene.drive()


@row("stage", "task.window.ms of 0", STAGE)
def _(scene: Scene) -> str:
    _task(scene, more=WINDOW, config=', config={"task.window.ms": "0"}')
    return scene.drive()


@row("stage", "A call of map_async that takes too long", STAGE)
def _(scene: Scene) -> str:
    scene.application(
        "async def slow(view: View) -> View:",
        "    import asyncio",
        "    await asyncio.sleep(60)",
        "    return view",
        f'{VIEWS}.map_async(slow, id="slow", timeout=20).send_to({OUT})',
    )
    return scene.drive()
