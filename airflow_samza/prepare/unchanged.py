"""The rule that what runs is what was planned (rule P12): the application is compared with the plan of its run.

All ways to a stage pass here: the plan step, the submission, and the stage runner. Two applications of one name on one
root are told apart: at a run on record, and at a state that the other one has written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.loader import names_the_same
from airflow_samza.errors import ConfigError, PlanChanged, RecordUnreadable
from airflow_samza.planner.declaration import are_alike, declaration, declared_differences, first_of
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.planner.planner import plan_shape
from airflow_samza.prepare.run_request import RunRequest, option_fields
from airflow_samza.runs.records.folders import RunFolder, read
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.versions import Version, is_reset
from airflow_samza.secrecy import HIDDEN, holds_secret
from airflow_samza.systems.filesystems.filesystem import Filesystem

PLAN_ANEW = (
    "Have the run planned anew: in Airflow clear its plan task with the downstream tasks, on the command line add "
    "--again, in Python plan the next generation. Stages that have not changed keep their results."
)
"""The remedy where it is not known who asks."""


def differences(run: RunPlan, spec: ApplicationSpec) -> tuple[str, ...]:
    """Return what an application declares otherwise than the plan of a run; bodies of callables play no part."""
    if run.declared:
        return declared_differences(run.declared, declaration(spec), run.plan)
    if are_alike(run.plan, plan_shape(spec)):  # planned by a version that kept no declaration
        return ()
    return ("its operators, streams or tables differ",)


def reject_changed(run: RunPlan, spec: ApplicationSpec, hint: str = PLAN_ANEW) -> None:
    """Reject to run an application that is not the one that was planned."""
    reasons = differences(run, spec)
    if reasons:
        raise changed(run, reasons, hint)


def changed(run: RunPlan, reasons: tuple[str, ...], hint: str) -> PlanChanged:
    """Return the error for a run whose plan its application no longer fits."""
    return PlanChanged(
        f"The application {run.application!r} is not the one of which the run {run.run_id!r} was planned: "
        f"{first_of(reasons)}.",
        hint=hint,
        application=run.application,
        run=run.run_id,
        generation=run.generation,
        differences=list(reasons),
    )


def reject_other_options(run: RunPlan, request: RunRequest) -> None:
    """Raise ConfigError when a run that was planned with other options is to go on."""
    for option, planned, now in islice(other_options(run, request), 1):
        flag, _, key = option.partition(" ")
        raise ConfigError(
            f"The run {run.run_id!r} of {run.application!r} was planned with other options: {option} was {planned}, "
            f"and is {now} now.",
            hint="To resume it, give the options with which it was planned; to run it again from the start, add "
            "--again; for another run, change --run-id.",
            key=key if key and flag == "--config" else flag,
            value=run.run_id,
        )


def reject_other_config(run: RunPlan, config: Mapping[str, str], hint: str = PLAN_ANEW) -> None:
    """Reject to run a stage with other configuration keys than those with which its run was planned."""
    for key in sorted({*config, *run.config}):
        if config.get(key) != run.config.get(key):
            then, now = (_shown(key, values.get(key), quoted=True) for values in (run.config, config))
            raise changed(run, (f"{key} was {then} and is {now}",), hint)


def other_options(run: RunPlan, request: RunRequest) -> Iterator[tuple[str, str, str]]:
    """Yield the options in which a request differs from that of the plan: flag, text then, and text now.

    An option that has its default is not given, and keeps what the plan has; ``--config`` is always given, as a whole.
    """
    now = request.options()
    defaults = RunRequest(request.application, request.run_id).options()
    for option in option_fields():
        flag, whole = option.metadata["flag"], option.metadata["whole"]
        requested, planned = now[option.name], run.options.get(option.name)
        if not isinstance(requested, Mapping):
            if requested not in (defaults[option.name], planned):
                yield flag, str(planned or "not set"), str(requested)
            continue
        before = planned or {}
        for key in sorted({*requested, *(before if whole else ())}):
            if before.get(key) != requested.get(key):
                former, new = (_shown(key, values.get(key), quoted=whole) for values in (before, requested))
                yield f"{flag} {key}", former, new


def _shown(key: str, value: str | None, *, quoted: bool) -> str:
    if value is None:
        return "not set"
    if holds_secret(key, value):
        return HIDDEN
    value = value if len(value) <= 100 else f"{value[:100]}…"
    return repr(value) if quoted else value


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
