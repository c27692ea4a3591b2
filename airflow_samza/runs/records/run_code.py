"""The code of a run: what its stages are run with until a retry or a clear brings newer code.

The submission ships it, and notes what a retry brings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_samza.records import durable
from airflow_samza.runs.records.folders import RunFolder, read_report, replace
from airflow_samza.systems.filesystems.filesystem import Filesystem


@durable("code of a run", reports=True)
@dataclass(frozen=True)
class RunCode:
    """The shipped code with which stages of a plan run.

    ``plan`` is the plan's generation, ``path`` the zip under the root, ``origin`` the folder that it was packed from,
    ``reference`` (``module:attribute``) loads the application from it. ``digests`` are those of the callables of each
    stage, by stage id (``planner/stage_code.py``).
    """

    plan: int = 0
    path: str = ""
    origin: str = ""
    reference: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)


def code_in_use(files: Filesystem, folder: RunFolder, plan: int) -> RunCode | None:
    """Return the code with which stages of a plan run; None where none is noted, or it is gone."""
    noted = read_report(files, folder.code_in_use, RunCode)
    return noted if noted is not None and noted.plan == plan and files.exists(noted.path) else None


def use_code(files: Filesystem, folder: RunFolder, code: RunCode) -> None:
    """Have stages that are submitted for the first time run with this code from now on."""
    if read_report(files, folder.code_in_use, RunCode) != code:
        replace(files, folder.code_in_use, code)
