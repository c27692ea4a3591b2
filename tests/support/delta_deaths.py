"""Publishers of a Delta table that die: ``python -m tests.support.delta_deaths FOLDER`` forks one per line."""

from __future__ import annotations

import os
import sys
from typing import Any

from airflow_samza.systems.delta import checkpoints, publishing, system
from airflow_samza.systems.delta.branches import Branch
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.output_slots import run_of
from airflow_samza.systems.system import Publication
from airflow_samza.systems.tables.staged_files import StagedFiles
from tests.support.delta_outputs import system_of
from tests.support.iceberg_deaths import fork_publishers, points_of_merges
from tests.support.table_outputs import output_stream

POINTS: dict[str, tuple[Any, str]] = {
    "look": (system, "find_log"),
    "state": (system, "newest_state"),
    "footers": (StagedFiles, "footers"),
    "write": (os, "fsync"),  # of the file that is to become the version
    "swap": (LocalFilesystem, "put_if_absent"),
    "checkpoint": (checkpoints, "_write"),
    "clean-up": (publishing, "keep_log_short"),
}

STEPS = [f"{when} {point}" for point in POINTS for when in ("before", "after")]
"""Steps at which a publisher dies."""

LANDED = STEPS[STEPS.index("after swap") :]
"""Those of them at which the commit is there."""


OF_BRANCHES = {**POINTS, "forget": (Branch, "forget")}
"""Points of the publication of a branch: behind the commit, what waited is deleted."""

STEPS_OF_BRANCHES = [f"{when} {point}" for point in OF_BRANCHES for when in ("before", "after")]

STEPS_OF_STAGING = [f"{when} {point}" for point in list(POINTS)[:-2] for when in ("before", "after")]
"""Steps at which a commit that is to wait dies: no log is written."""


def publish(folder: str, work: Publication, options: dict[str, str]) -> None:
    """Publish to a table in a folder; without anything staged, the branch of the run."""
    lake, spec = system_of(folder), output_stream(**options)
    if work.staged:
        lake.publish(spec, work)
    else:
        lake.publish_branch(spec, run_of(work.producer), ())


if __name__ == "__main__":
    fork_publishers(sys.argv[1], publish, {**OF_BRANCHES, **points_of_merges(publishing._Publisher)})
