"""Rows that a stage says while it runs: of callables, values, storage, topics, and of what Spark needs."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import StreamSpec, SystemBinding
from tests.e2e.bad_input.page import row
from tests.e2e.bad_input.scene import APPLICATION, OUT, VIEWS, Scene, raised
from tests.support.faulty_filesystem import FaultyFilesystem, failing_with

STAGE = "by the stage"
SUBMIT = "when a stage is submitted"


@row("stage", "A callable that raises", STAGE)
def _(scene: Scene) -> str:
    scene.application(
        "def faster(view: View) -> View:",
        "    return View(view.member_id, view.country, 1000 // (view.dwell_ms - 1500))",
        f'{VIEWS}.map(faster, id="faster").send_to({OUT})',
    )
    scene.views()
    return scene.run_and_drive()


@row("stage", "A callable that changes the key of an aggregation behind it", STAGE)
def _(scene: Scene) -> str:
    scene.application(
        "def lower(view: View) -> View:",
        "    return View(view.member_id, view.country.lower(), view.dwell_ms)",
        f'views = {VIEWS}.partition_by("country", id="by-country").map(lower, id="lower")',
        f'views.aggregate("country", views=count(), id="per-country").send_to({OUT})',
    )
    scene.views('{"member_id": 7, "country": "BE", "dwell_ms": 1500}')
    return scene.run()


@row("stage", "Files that do not lie by the key that their input declares", STAGE)
def _(scene: Scene) -> str:
    scene.application(
        'views = app.input_stream("views", system="lake", schema="country string", key="country", partitions=3)',
        f'views.aggregate("country", views=count(), id="per-country").send_to({OUT})',
    )
    for number, country in enumerate(("FR", "NL")):  # FR belongs to partition 1 of 3, NL to 0
        scene.write(f"data/views/{number}.jsonl", f'{{"country": "{country}"}}')
    return scene.run()


@row("stage", "A callable that moves the event time back", STAGE)
def _(scene: Scene) -> str:
    scene.application(
        'events = app.input_stream("events", system="lake", schema="at timestamp", timestamp="at", partitions=1)',
        'days = events.map(lambda event: {"at": event.at.replace(hour=0)}, schema="at timestamp", id="days")',
        f'days.window(tumbling("1 day"), id="per-day", views=count()).send_to({OUT})',
    )
    scene.write("data/events/1.jsonl", '{"at": "2013-01-01T07:00:00Z"}')
    return scene.run()


@row("stage", "A callable that ends the process", STAGE)
def _(scene: Scene) -> str:
    scene.application(
        "def known(view: View) -> bool:",
        "    import sys",
        '    return view.country == "BE" or sys.exit("no such country")',
        f"{VIEWS}.filter(known).send_to({OUT})",
    )
    scene.views()
    return scene.run_and_drive()


@row("stage", "A callable that returns a coroutine", STAGE)
def _(scene: Scene) -> str:
    scene.application(
        "async def known(view: View) -> bool:",
        "    return False",
        f"{VIEWS}.filter(lambda view: known(view)).send_to({OUT})",
    )
    scene.views()
    return scene.run_and_drive()


@row("stage", "A callable that returns another shape", STAGE)
def _(scene: Scene) -> str:
    scene.application(
        "def shorter(view: View) -> View:",
        '    return {"member_id": view.member_id}',
        f"{VIEWS}.map(shorter).send_to({OUT})",
    )
    scene.views()
    return scene.run_and_drive()


@row("stage", "A callable that returns a value of another type", STAGE)
def _(scene: Scene) -> str:
    scene.application(
        "def slower(view: View) -> View:",
        "    return View(view.member_id, view.country, view.dwell_ms / 2)",
        f"{VIEWS}.map(slower).send_to({OUT})",
    )
    scene.views('{"member_id": 7, "country": "NL", "dwell_ms": 15}')
    return scene.run_and_drive([{"member_id": 7, "country": "NL", "dwell_ms": 15}])


@row("stage", "A value of another type inside a value", STAGE)
def _(scene: Scene) -> str:
    scene.application(
        f'{VIEWS}.map(lambda view: {{"dwells": [1, view.dwell_ms / 2]}}, schema="dwells array<int>").send_to({OUT})'
    )
    scene.views('{"member_id": 7, "country": "NL", "dwell_ms": 15}')
    return scene.run_and_drive([{"member_id": 7, "country": "NL", "dwell_ms": 15}])


@row("stage", "A number for a timestamp", STAGE)
def _(scene: Scene) -> str:
    scene.application(f'{VIEWS}.map(lambda view: {{"at": 1_700_000_000.5}}, schema="at timestamp").send_to({OUT})')
    scene.views()
    return scene.run_and_drive()


@row("stage", "An event time in another unit", STAGE)
def _(scene: Scene) -> str:
    views = VIEWS.replace("partitions=2", 'partitions=2, timestamp="dwell_ms"')
    scene.application(f'{views}.window(tumbling("1 minute"), n=count(), id="w").send_to({OUT})')
    scene.views('{"member_id": 7, "country": "NL", "dwell_ms": 1700000000000000}')
    return scene.run_and_drive([{"member_id": 7, "country": "NL", "dwell_ms": 1_700_000_000_000_000}])


@row("stage", "A flat_map that returns no list", STAGE)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.flat_map(lambda view: view.member_id, schema=View).send_to({OUT})")
    scene.views()
    return scene.run_and_drive()


@row("stage", "SQL divides by zero", STAGE)
def _(scene: Scene) -> str:
    scene.application(f'{VIEWS}.select("member_id / (dwell_ms - 1500) AS speed").send_to({OUT})')
    scene.views()
    return scene.run_and_drive()


@row("stage", "SQL casts what cannot be cast", STAGE)
def _(scene: Scene) -> str:
    scene.application(f'{VIEWS}.select("CAST(country AS int) AS code").send_to({OUT})')
    scene.views()
    return scene.run_and_drive()


def _log_at(root: Path, *, full: bool = False) -> LogSystem:
    files = FaultyFilesystem(root, at=1, fault=failing_with(errno.ENOSPC), lasting=True) if full else None
    return LogSystem("log", SystemBinding("log", {"root": str(root)}), filesystem=files)


LOW_LEVEL = """\
from airflow_samza import task_application


class Copy:
    def process(self, envelope, collector, coordinator):
        collector.send("slow", envelope.message)

    def init(self, context):
        {init}


@task_application("copy")
def page_views(app):
    app.input_stream("views", schema="member_id bigint, country string, dwell_ms bigint")
    app.output_stream("out")
    app.task(Copy)
"""


@row("stage", "A low-level task sends to an unknown stream", STAGE)
def _(scene: Scene) -> str:
    scene.application(*LOW_LEVEL.format(init="pass").splitlines())
    return scene.drive()


@row("stage", "A low-level task asks for an unknown table", STAGE)
def _(scene: Scene) -> str:
    scene.application(*LOW_LEVEL.format(init='self.tiers = context.get_table("tiers")').splitlines())
    return scene.drive()


@row("stage", "A full disk, where a topic is written", STAGE)
def _(scene: Scene) -> str:
    log = _log_at(scene.folder / "samza")
    rows = pa.table({"n": [1]})
    log.append("views", rows, partitions=1)
    text = raised(lambda: _log_at(scene.folder / "samza", full=True).append("views", rows))
    assert log.metadata([StreamSpec("views")])["views"].head == (1,)
    return text


def _two_stages(scene: Scene) -> None:
    scene.application(
        f"views = {VIEWS}",
        'views.partition_by("country", id="by-country").aggregate("country", views=count(), '
        f'id="per-country").send_to({OUT})',
    )
    scene.views()


@row("stage", "A corrupt segment", STAGE)
def _(scene: Scene) -> str:
    _two_stages(scene)

    def damage() -> None:
        (segment,) = (scene.folder / "samza" / "topics").rglob("*.arrow")
        data = bytearray(segment.read_bytes())
        data[len(data) // 2] ^= 0xFF
        segment.write_bytes(data)

    return scene.run(before={"by-country": damage})


@row("stage", "A segment that is gone", STAGE)
def _(scene: Scene) -> str:
    _two_stages(scene)

    def lose() -> None:
        (segment,) = (scene.folder / "samza" / "topics").rglob("*.arrow")
        segment.unlink()

    return scene.run(before={"by-country": lose})


@row("stage", "A corrupt commit record", STAGE)
def _(scene: Scene) -> str:
    _two_stages(scene)

    def damage() -> None:
        for commit in (scene.folder / "samza" / "topics").rglob("commits/*.json"):
            commit.write_bytes(commit.read_bytes()[:-10])

    return scene.run(before={"by-country": damage})


def _with_another_plan(scene: Scene, change: Callable[[dict[str, Any]], object]) -> str:
    _two_stages(scene)

    def damage() -> None:
        (path,) = (scene.folder / "samza" / "runs").rglob("plan/*.json")
        plan = json.loads(path.read_text())
        change(plan)
        path.write_text(json.dumps(plan))

    return scene.run(before={"by-country": damage})


@row("stage", "A record of a run that lacks a key", STAGE)
def _(scene: Scene) -> str:
    return _with_another_plan(scene, lambda plan: plan.pop("streams"))


@row("stage", "A record that a later version has written", STAGE)
def _(scene: Scene) -> str:
    return _with_another_plan(scene, lambda plan: plan.update(format=2))


def _java_home(folder: Path, release: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (folder / "release").write_text(release)
    return folder


def _submitted(scene: Scene) -> str:
    """The error for whoever submits a stage; no runner is started."""
    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.views()
    runtime = scene.runtime()
    run = runtime.prepare(RunRequest(APPLICATION, "run-1"))
    text = raised(lambda: runtime.submit(run, "views"))
    assert runtime.live_runners(run) == []
    return text


@row("stage", "No Java", SUBMIT)
def _(scene: Scene) -> str:
    scene.monkeypatch.delenv("JAVA_HOME", raising=False)
    scene.monkeypatch.setenv("PATH", str(scene.folder))
    return _submitted(scene)


@row("stage", "JAVA_HOME without a Java", SUBMIT)
def _(scene: Scene) -> str:
    scene.monkeypatch.setenv("JAVA_HOME", str(scene.folder / "jdk"))
    return _submitted(scene)


@row("stage", "A Java that is too old", SUBMIT)
def _(scene: Scene) -> str:
    scene.monkeypatch.setenv("JAVA_HOME", str(_java_home(scene.folder / "jdk", 'JAVA_VERSION="11.0.21"\n')))
    return _submitted(scene)


@row("stage", "A Java without a module that Spark needs", SUBMIT)
def _(scene: Scene) -> str:
    home = _java_home(scene.folder / "jdk", 'JAVA_VERSION="17.0.1"\nMODULES="java.base java.sql"\n')
    scene.monkeypatch.setenv("JAVA_HOME", str(home))
    return _submitted(scene)


@row("stage", "A stage before its upstream", STAGE)
def _(scene: Scene) -> str:
    _two_stages(scene)
    return scene.run(only="by-country")
