"""A folder into which files come, and runs of applications that read it (:mod:`tests.support.file_apps`)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.systems.system import SystemBinding
from tests.support.runs_here import Here, slice_of

NUMBERING = "tests.support.file_apps:numbering"
STOPPING = "tests.support.file_apps:stopping"
COPIES = "tests.support.file_apps:copies"
APPLICATION = "file-numbering"


class Lake:
    """A folder into which files come, and runs of applications that read it."""

    def __init__(self, folder: Path) -> None:
        self.here = Here(folder / "root")
        self.folder = folder / "lake" / "in"
        self.folder.mkdir(parents=True)
        self.bindings = {"lake": SystemBinding("files", {"root": str(folder / "lake")})}
        self.runtime = SparkRuntime(str(folder / "root"), self.bindings)
        self._time = 1_700_000_000

    def file(self, name: str, first: int, count: int = 3, *, at: int | None = None) -> Path:
        """Write a file of numbered views, later than all files before."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.with_name(f".{name.rpartition('/')[2]}.new")
        before.write_text("".join(json.dumps({"member": n % 3, "n": n}) + "\n" for n in range(first, first + count)))
        self._time += 1
        os.utime(before, (at or self._time,) * 2)
        before.rename(path)
        return path

    def plan(self, run: str, application: str = NUMBERING, **more: Any) -> RunPlan:
        return self.runtime.prepare(RunRequest(application, run, **more))

    def stages(self, plan: RunPlan, generation: int = 1) -> None:
        self.here.stages(plan, generation=generation, bindings=self.bindings)

    def whole(self, run: str, application: str = NUMBERING, **more: Any) -> list[str]:
        """A run from its plan to its end; the names of the files that it read."""
        plan = self.plan(run, application, **more)
        self.stages(plan)
        self.runtime.close(plan)
        return names(plan)

    def numbered(self) -> list[tuple[int, int]]:
        """Each view, and which of its member's it was."""
        return sorted((row["n"], row["number"]) for row in self.here.rows("numbered"))

    def copied(self) -> list[int]:
        return sorted(row["n"] for row in self.here.rows("copies"))


def names(plan: RunPlan) -> list[str]:
    return [Path(file["path"]).name for file in slice_of(plan, "views")["files"]]


def expected(count: int) -> list[tuple[int, int]]:
    return [(n, n // 3 + 1) for n in range(count)]
