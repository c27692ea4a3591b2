"""The place where a row of docs/reference/errors.md is provoked.

A folder with an application, its data and its root, and the ways in that a user has.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_samza.cli.app import app as command_line
from airflow_samza.engine.stage_run import run_stage
from airflow_samza.errors import SamzaError
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.bound_systems import run_bindings
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.system import SystemBinding
from airflow_samza.testing import TestDriver
from tests.support.local_engine import LocalEngine
from tests.support.stand_ins import Attempt

MODULE = "page_views"
APPLICATION = f"{MODULE}:page_views"

HEAD = """\
from dataclasses import dataclass

from airflow_samza import approx_count_distinct, count, max_, stream_application, sum_, tumbling


@dataclass(frozen=True)
class View:
    member_id: int
    country: str
    dwell_ms: int


@stream_application("page-views")
def page_views(app):
"""

VIEWS = 'app.input_stream("views", system="lake", schema=View, partitions=2)'
"""The input of most applications here: files under ``data/views``, of no key."""

OUT = 'app.output_stream("out", system="lake")'

A_VIEW = '{"member_id": 7, "country": "NL", "dwell_ms": 1500}'


@dataclass
class Scene:
    """A folder of one test: ``dags`` (on the path of Python), ``data`` (the system *lake*), ``samza`` (the root)."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    systems: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("dags", "data", "samza"):
            (self.folder / name).mkdir()
        self.systems.setdefault("lake", f"files:{self.folder / 'data'}")
        self.monkeypatch.setattr(sys, "dont_write_bytecode", True)
        self.monkeypatch.chdir(self.folder)

    def application(self, *lines: str) -> None:
        """Writes the application; ``lines`` are its description, unless the first is a line of a whole module."""
        whole = lines[0].startswith(("from ", "import "))
        self.write(f"dags/{MODULE}.py", *(lines if whole else (*HEAD.splitlines(), *(f"    {line}" for line in lines))))
        sys.modules.pop(MODULE, None)
        self.monkeypatch.syspath_prepend(str(self.folder / "dags"))

    def write(self, path: str, *lines: str) -> Path:
        """Writes a text file of these lines."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in lines))
        return file

    def views(self, *lines: str) -> None:
        """Puts JSON lines into the input; without any a view."""
        self.write("data/views/1.jsonl", *(lines or (A_VIEW,)))

    # -- ways in -------------------------------------------------------------------------------------------------------

    def command(self, name: str, *arguments: str) -> str:
        """Return the output of ``airflow-samza`` when it rejects."""
        options = [part for system, place in self.systems.items() for part in ("--system", f"{system}={place}")]
        done = CliRunner().invoke(command_line, [name, *arguments, "--root", str(self.folder / "samza"), *options])
        assert done.exit_code in (1, 2), done.output
        assert done.stderr.startswith("Error: "), done.output
        text, _, _ = done.stderr.removeprefix("Error: ").rpartition("\n  More: ")
        return text

    def plan(self, *arguments: str) -> str:
        """Return the output of ``airflow-samza plan`` for the application."""
        return self.command("plan", APPLICATION, *arguments)

    def prepare(self, **more: Any) -> str:
        """Return the error that the ``plan`` task of a Dag run raises."""
        return raised(lambda: self.runtime().prepare(RunRequest(APPLICATION, "run-1", **more)))

    def runtime(self, **more: Any) -> SparkRuntime:
        """The runtime that Airflow's tasks use."""
        bindings: dict[str, SystemBinding] = {}
        for name, place in self.systems.items():
            kind, _, root = place.partition(":")
            bindings[name] = SystemBinding(kind, {"root": root} if root else {})
        return SparkRuntime(str(self.folder / "samza"), bindings, **more)

    def run(self, *, before: Mapping[str, Callable[[], object]] | None = None, only: str | None = None) -> str:
        """Return the error that the stages raise, run one after the other as a runner runs them, in this process.

        ``before`` holds what happens just before a stage begins; ``only`` leaves the other stages out.
        """
        runtime = self.runtime()
        run = runtime.prepare(RunRequest(APPLICATION, "run-1"))
        files = open_filesystem(str(self.folder / "samza"))
        bindings = run_bindings(run.systems, runtime._systems)

        def stages() -> None:
            for stage in [stage for stage in run.plan.stages if only in (None, stage.stage_id)]:
                (before or {}).get(stage.stage_id, lambda: None)()
                handle = StageHandle(run.application, run.run_id, stage.stage_id, Generation(1, 1), 1)
                run_stage(LocalEngine(), files, bindings, Attempt(handle), {})

        return raised(stages)

    def drive(self, messages: list[Any] | None = None, *, stream: str = "views") -> str:
        """Return the error that the test driver raises over messages of an input."""
        given = messages or [{"member_id": 7, "country": "NL", "dwell_ms": 1500}]
        return raised(lambda: TestDriver(APPLICATION).pipe(stream, given).run())

    def run_and_drive(self, messages: list[Any] | None = None) -> str:
        """Return the error that the stages raise, after seeing that the test driver says the same."""
        text = self.run()
        assert self.drive(messages) == text
        return text


def raised(call: Callable[[], object]) -> str:
    """The text of the error that a call raises, as a log shows it."""
    with pytest.raises(SamzaError) as caught:
        call()
    return str(caught.value)
