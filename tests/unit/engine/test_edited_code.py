"""Code that is edited between two plans, two attempts, or two days: what comes out equals a run from scratch."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.application.loader import load_application
from airflow_samza.engine.stage_run import run_stage as run_attempt
from airflow_samza.errors import SamzaError
from airflow_samza.launch.run_code import code_for
from airflow_samza.planner.planner import plan_shape
from airflow_samza.planner.stage_code import NOTHING_SHIPPED, stage_digests
from airflow_samza.prepare.bound_systems import run_bindings
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.folders import write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_runners import StageRequest
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.systems.filesystems.opening import open_filesystem
from tests.support.interval_apps import Lake
from tests.support.local_engine import LocalEngine
from tests.support.stand_ins import Attempt

MODULES = {
    "samza_edited/__init__.py": "",
    "samza_edited/rates.txt": "1",
    "samza_edited/more.py": "def scaled(value):\n    return value * 2\n",
    "samza_edited/app.py": """
from __future__ import annotations

import json
import os
from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum
from functools import singledispatch
from pathlib import Path
from typing import NamedTuple

from airflow_samza import count, stream_application, sum_

from samza_edited.more import scaled

@dataclass
class View:
    page: str
    dwell: int | None
    weight: float

    @property
    def is_long(self):
        return self.weight > 12


class Rates(NamedTuple):
    low: float

    def of(self, view):
        return self.low + 1


class Kind(Enum):
    PLAIN = 1

    def weight(self):
        return 2


RATES, KIND = Rates(1.0), Kind.PLAIN


@singledispatch
def price(value):
    return 0


@price.register
def _(value: float):
    return 3


price.rate = 4


def step(value):
    return value + 5


STEPS = OrderedDict(step=step)


class Plain:
    by = 6


@dataclass
class Money(Plain):
    more: int = 7


def timed(function):
    return lambda view: function(view) + 8


@timed
def weight(view):
    made = RATES.of(view) + KIND.weight() + price(view.weight) + price.rate + STEPS["step"](view.weight)
    return scaled(made) + Money().by + Money().more + int((Path(__file__).parent / "rates.txt").read_text())


def weighed(view):
    if view.page == os.environ.get("SAMZA_STOPS_AT"):  # a fault that no edit removes
        raise ValueError("stops here")
    return View(view.page, view.dwell, float(weight(view)))


class Lines:
    def to_bytes(self, message):
        return json.dumps({"page": message.page, "views": message.views + 9}).encode()

    def from_bytes(self, data):
        return json.loads(data)


def views(app, **more):
    options = {"allow_missing_path": True}
    return app.input_stream("views", system="lake", schema=View, path="in/{ds}", partitions=2, options=options, **more)


def totals(stream):
    return stream.partition_by("page", id="by-page").aggregate(
        key="page", id="per-page", views=count(), weight=sum_("weight")
    )


def output(app, name):
    return app.output_stream(name, system="lake", path=f"{name}/{{run_id}}", format="parquet")


@stream_application("edited")
def edited(app):
    totals(views(app).map(weighed, id="weighed", schema=View)).send_to(output(app, "out"))


@stream_application("edited-days")
def days(app):
    totals(views(app, intervals=3).map(weighed, id="weighed", schema=View)).send_to(output(app, "out"))


@stream_application("edited-served")
def served(app):
    lines = app.output_stream("lines", system="log", serde=Lines)
    totals(views(app)).send_to(lines)


@stream_application("edited-long")
def long(app):
    views(app).filter(lambda view: view.is_long).send_to(output(app, "out"))


@stream_application("edited-copy")
def copied(app):
    views(app).map(weighed, id="weighed", schema=View).send_to(output(app, "out"))
""",
}
APP = "samza_edited/app.py"
EDITS = {
    "a method of a NamedTuple whose instance is a global": (APP, "self.low + 1", "self.low + 10"),
    "a method of an Enum whose member is a global": (APP, "return 2\n", "return 20\n"),
    "an overload of singledispatch": (APP, "return 3\n", "return 30\n"),
    "an attribute of a function": (APP, "price.rate = 4", "price.rate = 40"),
    "a function in an OrderedDict": (APP, "value + 5", "value + 50"),
    "the default of a dataclass": (APP, "more: int = 7", "more: int = 70"),
    "a decorator": (APP, "function(view) + 8", "function(view) + 80"),
    "a base class": (APP, "by = 6", "by = 60"),
    "another module": ("samza_edited/more.py", "value * 2", "value * 3"),
    "a data file": ("samza_edited/rates.txt", "1", "100"),
}


DAY = DataInterval.from_iso("2026-01-04", "2026-01-05")


class Edited:
    """A project in a folder, which is imported as it was written last."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.files = dict(MODULES)
        self.lake = Lake(folder)
        for day in (1, 2, 3, 4):
            self.lake.write(day, "a", [("home", 1, 1.0), ("day", day, float(day))])
            self.lake.write(day, "b", [("jobs", 2, 2.0), ("home", 3, 3.0)])
        self.write("samza_edited/rates.txt", "1", "1")

    def write(self, name: str, before: str, after: str) -> None:
        """Edit a file, and have everything imported anew."""
        assert before in self.files[name]
        self.files[name] = self.files[name].replace(before, after)
        for path, text in self.files.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(text)
        for module in [each for each in sys.modules if each.partition(".")[0] == "samza_edited"]:
            del sys.modules[module]
        sys.path_importer_cache.clear()

    def from_scratch(self, application: str, **more: Any) -> list[dict[str, Any]]:
        """Return what a run under a root of its own writes."""
        run = self.lake.run(4, application, self.lake.root("scratch"), **more)
        rows = self.lake.rows(run)
        shutil.rmtree(self.lake.folder / "scratch", ignore_errors=True)
        return rows

    def attempt(self, run: RunPlan, stage: str, number: int) -> None:
        """Run an attempt at a stage with the code that a submission gives it."""
        here = self.lake.here
        files = open_filesystem(str(here.root))
        code = code_for(files, run, (), "", is_first=number == 1)
        handle = StageHandle(run.application, run.run_id, stage, Generation(run.generation, 1), number)
        files.make_dirs(handle.folder.attempts)
        attempt = Attempt(handle)
        attempt.request = StageRequest(stage, str(handle.generation), number, code=code.digests[stage])
        write_once(files, handle.folder.attempt(number, "request"), attempt.request)
        run_attempt(LocalEngine(), files, run_bindings(run.systems, here.bindings), attempt, {})


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Edited:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(str(tmp_path / "project"))
    return Edited(tmp_path)


def by_page(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["page"], row["weight"]))


def kept(run: RunPlan) -> list[bool]:
    return [run.kept_generation(stage.stage_id) is not None for stage in run.plan.stages]


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.few(2)
def test_a_stage_of_edited_code_is_not_kept(edited: Edited, edit: str) -> None:
    application, here = "samza_edited.app:edited", edited.lake.here
    run = here.plan(application, "run", interval=DAY)
    for stage in run.plan.stages:
        edited.attempt(run, stage.stage_id, 1)
    assert kept(here.plan(application, "run", interval=DAY, generation=2)) == [True, True]
    edited.write(*EDITS[edit])
    again = here.plan(application, "run", interval=DAY, generation=3)
    assert kept(again) == [False, False]
    for stage in again.plan.stages:
        edited.attempt(again, stage.stage_id, 1)
    assert by_page(edited.lake.rows(again)) == by_page(edited.from_scratch(application))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("def step(value):", "# adds\n\n\ndef step(value):", id="a comment"),
        pytest.param("views + 9", "views + 90", id="the serde of another application"),
    ],
)
def test_a_stage_is_kept_after_an_edit_that_does_not_concern_it(edited: Edited, before: str, after: str) -> None:
    application, here = "samza_edited.app:edited", edited.lake.here
    run = here.plan(application, "run", interval=DAY)
    for stage in run.plan.stages:
        edited.attempt(run, stage.stage_id, 1)
    edited.write(APP, before, after)
    assert kept(here.plan(application, "run", interval=DAY, generation=2)) == [True, True]


def test_a_stage_is_of_its_serdes(edited: Edited) -> None:
    def code() -> list[str]:
        spec = load_application("samza_edited.app:served").spec({})
        return list(stage_digests("samza_edited.app:served", spec, plan_shape(spec), NOTHING_SHIPPED).values())

    before = code()
    edited.write(APP, "def step(value):", "# adds\n\n\ndef step(value):")
    assert code() == before
    edited.write(APP, "views + 9", "views + 90")
    assert code() != before


def test_a_stage_is_of_the_dataclasses_whose_methods_its_callables_may_call(edited: Edited) -> None:
    application, here = "samza_edited.app:long", edited.lake.here
    run = here.plan(application, "run", interval=DAY)
    edited.attempt(run, run.plan.stages[0].stage_id, 1)
    edited.write(APP, "def step(value):", "# adds\n\n\ndef step(value):")
    assert kept(here.plan(application, "run", interval=DAY, generation=2)) == [True]
    edited.write(APP, "weight > 12", "weight > 1")
    assert kept(here.plan(application, "run", interval=DAY, generation=3)) == [False]


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.few(2)
def test_a_day_of_edited_code_is_computed_again(edited: Edited, edit: str) -> None:
    application = "samza_edited.app:days"
    edited.lake.run(4, application)
    kept = edited.lake.run(4, application)
    assert edited.lake.read(kept)[2] == 0
    edited.write(*EDITS[edit])
    run = edited.lake.run(4, application)
    assert edited.lake.read(run)[1] == 0
    assert by_page(edited.lake.rows(run)) == by_page(edited.from_scratch(application))


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.few(2)
def test_a_retry_after_an_edit_mixes_no_code(edited: Edited, edit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    application = "samza_edited.app:copied"
    monkeypatch.setenv("SAMZA_STOPS_AT", "jobs")
    run = edited.lake.here.plan(application, "run", interval=DAY)
    stage = run.plan.stages[0].stage_id
    with pytest.raises(SamzaError):
        edited.attempt(run, stage, 1)
    folder = StageHandle("edited-copy", "run", stage, Generation(1, 1)).folder
    files = open_filesystem(str(edited.lake.here.root))
    assert files.list(folder.manifests(0)), "a task has staged its output before the other one failed"
    monkeypatch.delenv("SAMZA_STOPS_AT")
    edited.write(*EDITS[edit])
    edited.attempt(run, stage, 2)
    assert by_page(edited.lake.rows(run)) == by_page(edited.from_scratch(application))
