"""The code of a run: shipped with its plan, and kept until a retry or a clear brings newer code (rule P14)."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from airflow_samza.application.loader import load_application
from airflow_samza.launch.code_shipping import UserCode, code_of, ship_code
from airflow_samza.planner.stage_code import stage_digests
from airflow_samza.prepare.unchanged import reject_changed
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.records.run_code import RunCode, code_in_use, use_code
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.newest_stages import code_run
from airflow_samza.systems.filesystems.filesystem import Filesystem

log = logging.getLogger(__name__)


def present_code(reference: str, py_modules: Sequence[str] = ()) -> UserCode:
    """Return the files of an application's code, as they are now."""
    load_application(reference)
    return code_of(sys.modules[reference.partition(":")[0]], py_modules)


def bring_code(
    files: Filesystem, run: RunPlan, py_modules: Sequence[str] = (), user_code: UserCode | None = None
) -> RunCode:
    """Ship the present code of a run's application, and have stages run it that are submitted from now on.

    A warning names stages that have run other bodies of their callables. ``user_code`` spares looking at its files once
    more, where they were looked at just now.
    """
    folder = RunFolder(run.application, run.run_id)
    # A plan may wait for long before it ships the code.
    if (
        user_code is None
        or user_code.module.__name__ != run.reference.partition(":")[0]
        or time.monotonic() - user_code.at > 2.0
    ):
        user_code = present_code(run.reference, py_modules)
    shipped = ship_code(files, folder, user_code)
    spec = load_application(run.reference).spec(run.config)
    digests = stage_digests(run.reference, spec, run.plan, user_code.digests)
    code = replace(shipped, plan=run.generation, reference=run.reference, digests=digests)
    for stage_id, digest in digests.items():
        if code_run(files, run, stage_id) not in ("", digest):
            log.warning(
                "The callables of the stage %s have changed since it ran: run it again, too, if its results are to be "
                "of the new ones.",
                stage_id,
            )
    use_code(files, folder, code)
    return code


def code_for(files: Filesystem, run: RunPlan, py_modules: Sequence[str], hint: str, *, is_first: bool) -> RunCode:
    """Return the code that an attempt at a stage runs.

    A stage that is submitted for the first time runs the code of its run (``is_first``). A retry and a clear bring the
    present code, which may have other bodies of callables and nothing else: stages that follow run it, too.
    """
    folder = RunFolder(run.application, run.run_id)
    noted = code_in_use(files, folder, run.generation) if is_first else None
    if noted is not None:
        return noted
    reject_changed(run, load_application(run.reference).spec(run.config), hint)
    return bring_code(files, run, py_modules)
