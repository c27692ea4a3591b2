"""Runs that are named a second time.

They go on by the plan that they have, so options that say something else are rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from airflow_samza.errors import ConfigError
from airflow_samza.prepare.run_request import RunRequest, option_fields
from airflow_samza.runs.lineage.lease_holder import finished_stage
from airflow_samza.runs.records.folders import RunFolder, read
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.secrecy import HIDDEN, holds_secret
from airflow_samza.systems.filesystems.filesystem import Filesystem


def planned_before(files: Filesystem, application: str, run_id: str) -> RunPlan | None:
    """Return the newest plan of a run; None when it has not been planned."""
    folder = RunFolder(application, run_id)
    known = folder.plan_generations(files)
    return read(files, folder.plan(known[-1]), RunPlan) if known else None


def reject_other_options(run: RunPlan, asked: RunRequest) -> None:
    """Raise ConfigError when a run that was planned with other options is to go on.

    An option that has its default is not given, and keeps what the plan has; ``--config`` is always given, as a whole.
    """
    now = asked.options()
    defaults = RunRequest(asked.application, asked.run_id).options()
    for option in option_fields():
        flag, whole = option.metadata["flag"], option.metadata["whole"]
        given, planned = now[option.name], run.options.get(option.name)
        if not isinstance(given, Mapping):
            if given not in (defaults[option.name], planned):
                raise _other(run, flag, planned or "not set", given, flag)
            continue
        before = planned or {}
        for key in sorted({*given, *(before if whole else ())}):
            if before.get(key) != given.get(key):
                former, new = (_shown(key, values.get(key), quoted=whole) for values in (before, given))
                raise _other(run, f"{flag} {key}", former, new, key if whole else flag)


def tell_if_all_is_done(files: Filesystem, run: RunPlan, tell: Callable[[str], None]) -> None:
    """Report that a run whose stages have all succeeded reads and writes nothing now."""
    if all(finished_stage(files, run, stage.stage_id) is not None for stage in run.plan.stages):
        tell(
            f"Run {run.run_id} has succeeded before: nothing is read or written now; what follows is what it did then. "
            "Add --again to run it anew."
        )


def _other(run: RunPlan, option: str, planned: str, asked: str, key: str) -> ConfigError:
    return ConfigError(
        f"The run {run.run_id!r} of {run.application!r} was planned with other options: {option} was {planned}, and "
        f"is {asked} now.",
        hint="To resume it, give the options with which it was planned; to run it again from the start, add --again; "
        "for another run, change --run-id.",
        key=key,
        value=run.run_id,
    )


def _shown(key: str, value: str | None, *, quoted: bool) -> str:
    if value is None:
        return "not set"
    if holds_secret(key, value):
        return HIDDEN
    value = value if len(value) <= 100 else f"{value[:100]}…"
    return repr(value) if quoted else value
