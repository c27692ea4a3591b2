"""Publishers of a Delta table that die: ``python -m tests.support.delta_deaths FOLDER`` forks one per line."""

from __future__ import annotations

import sys
from typing import Any

from airflow_samza.systems.delta import checkpoints, publishing, system
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.system import Publication, SystemBinding
from airflow_samza.systems.tables.staged_files import StagedFiles
from tests.support.iceberg_deaths import fork_publishers
from tests.support.iceberg_outputs import output_stream

POINTS: dict[str, tuple[Any, str]] = {
    "look": (system, "find_log"),
    "state": (system, "newest_state"),
    "footers": (StagedFiles, "footers"),
    "write": (LocalFilesystem, "_write_temporary"),
    "swap": (LocalFilesystem, "put_if_absent"),
    "checkpoint": (checkpoints, "_write"),
    "clean-up": (publishing, "keep_log_short"),
}

STEPS = [f"{when} {point}" for point in POINTS for when in ("before", "after")]
"""Steps at which a publisher dies."""

LANDED = STEPS[STEPS.index("after swap") :]
"""Those of them at which the commit is there."""


def publish(folder: str, work: Publication, options: dict[str, str]) -> None:
    """Publish to a table in a folder."""
    lake = system.DeltaSystem("lake", SystemBinding("delta", {"root": folder}))
    lake.publish(output_stream(**options), work)


if __name__ == "__main__":
    fork_publishers(sys.argv[1], publish, POINTS)
