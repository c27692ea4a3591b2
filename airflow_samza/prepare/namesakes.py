"""Two applications of one name on one root: of a run on record, and of a state that the other one has written."""

from __future__ import annotations

import dataclasses
from contextlib import suppress

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.loader import names_the_same
from airflow_samza.errors import ConfigError, RecordUnreadable
from airflow_samza.planner.declaration import are_alike
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.planner.planner import plan_shape
from airflow_samza.runs.records.folders import RunFolder, read
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.versions import Version, is_reset
from airflow_samza.systems.filesystems.filesystem import Filesystem


def continued_by(run: RunPlan, spec: ApplicationSpec, reference: str) -> RunPlan:
    """Return a stored plan for the application that is named now: its stages load that one.

    An application that has moved to another module goes on there. Another application of the same name is rejected.
    """
    reject_namesake(run, spec, reference)
    return dataclasses.replace(run, reference=reference)


def reject_namesake(run: RunPlan, spec: ApplicationSpec, reference: str) -> None:
    """Reject to continue a run of another application that has the same name."""
    reject_other_copy(run, spec)
    if names_the_same(run.reference, reference) or are_alike(run.plan, plan_shape(spec)):
        return
    raise ConfigError(
        f"The run {run.run_id!r} of {run.application!r} belongs to {run.reference}, and {reference} is another "
        "application of this name: its plan differs.",
        hint=f"Give the run another id (--run-id). If {run.reference} has become {reference}, clear the plan task "
        "with its downstream. Two applications need two names, an app_id= each, or two roots.",
        key="run_id",
        value=run.run_id,
        planned=run.reference,
        found=reference,
    )


def reject_other_copy(run: RunPlan, spec: ApplicationSpec) -> None:
    """Reject the id of a run that another copy of the application (``app_id``) has: their runs share a folder."""
    if run.app_id != spec.app_id:
        raise ConfigError(
            f"The run {run.run_id!r} of {spec.name!r} belongs to its copy with the id {run.app_id!r}, not to the one "
            f"with {spec.app_id!r}.",
            hint="Give the run of each copy an id of its own (--run-id).",
            key="run_id",
            value=run.run_id,
        )


def with_writer_of_state(
    files: Filesystem, plan: ExecutionPlan, version: Version | None, reference: str
) -> ExecutionPlan:
    """Return the plan, with a warning if it continues from a state that was written from another module."""
    writer = _writer(files, version) if version is not None else None
    if version is None or writer is None or names_the_same(writer.reference, reference):
        return plan
    warning = (
        f"The state (version {version.number}) was written by the run {writer.run_id} of {writer.reference}, and "
        f"{reference} continues from it. Unless the one has become the other, give one of them another name, an "
        "app_id=, or a root of its own."
    )
    return dataclasses.replace(plan, warnings=(*plan.warnings, warning))


def _writer(files: Filesystem, version: Version) -> RunPlan | None:
    """Return the plan of the run that left a version, or the version that a reset has brought back; None: unknown."""
    history = StateHistory(version.plan.application, version.plan.app_id)
    with suppress(RecordUnreadable):  # fsck names it; it is needed for a warning alone
        if is_reset(version):
            version = read(files, history.version(version.copy_of), Version) or version
        return read(files, RunFolder(version.plan.application, version.run).plan(version.plan_generation), RunPlan)
    return None
