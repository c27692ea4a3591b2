"""The code of a run: shipped with its plan, and kept until a retry or a clear brings newer code (rule P14)."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import replace

from airflow_samza.application.loader import load_application
from airflow_samza.launch.code_shipping import code_of, data_digest, more_code, ship_code
from airflow_samza.planner.stage_code import stage_digests
from airflow_samza.prepare.unchanged import reject_changed
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.records.run_code import RunCode, code_in_use, use_code
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_state import code_run
from airflow_samza.systems.filesystems.filesystem import Filesystem

log = logging.getLogger(__name__)


def data_beside(reference: str, py_modules: Sequence[str] = ()) -> str:
    """Return the digest of the files that travel with an application's code and are none."""
    load_application(reference)
    _, entries = code_of(sys.modules[reference.partition(":")[0]])
    return data_digest([*entries, *more_code(py_modules)])


def ship(files: Filesystem, folder: RunFolder, reference: str, py_modules: Sequence[str] = ()) -> tuple[RunCode, str]:
    """Pack the code of an application into a run's folder.

    Returns it without ``digests`` and ``plan``, and the digest of the files in it that are no code.
    """
    load_application(reference)
    shipped = ship_code(files, folder, sys.modules[reference.partition(":")[0]], py_modules)
    return RunCode(0, shipped.path, shipped.origin, reference), shipped.data


def bring_code(files: Filesystem, run: RunPlan, py_modules: Sequence[str] = ()) -> RunCode:
    """Ship the present code of a run's application, and have stages run it that are submitted from now on.

    A warning names stages that have run other bodies of their callables.
    """
    folder = RunFolder(run.application, run.run_id)
    code, data = ship(files, folder, run.reference, py_modules)
    spec = load_application(run.reference).spec(run.config)
    digests = stage_digests(spec, run.plan, data)
    code = replace(code, plan=run.generation, digests=digests)
    for stage_id, digest in digests.items():
        if code_run(files, folder, stage_id, run.generation) not in ("", digest):
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
