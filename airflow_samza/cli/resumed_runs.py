"""Runs that are named a second time: they go on by the plan that they have, so options that say something else are rejected."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from airflow_samza.errors import ConfigError
from airflow_samza.runs.data_interval import DataInterval
from airflow_samza.runs.folders import RunFolder, read
from airflow_samza.runs.lease_holder import finished_stage
from airflow_samza.runs.run_plan import RunPlan
from airflow_samza.secrecy import HIDDEN, holds_secret
from airflow_samza.systems.filesystem import Filesystem


def planned_before(files: Filesystem, application: str, run_id: str) -> RunPlan | None:
    """Return the newest plan of a run; None: nobody has planned it."""
    folder = RunFolder(application, run_id)
    known = folder.plan_generations(files)
    record = read(files, folder.plan(known[-1])) if known else None
    return RunPlan.from_dict(record) if record is not None else None


def reject_other_options(run: RunPlan, config: Mapping[str, str], interval: DataInterval | None, mode: str | None) -> None:
    """Raise ConfigError when a run that was planned with other options is to go on.

    ``config`` are all keys of the environment; ``interval`` and ``mode`` None are not given, and taken from the plan.
    """
    for key in sorted({*run.config, *config}):
        if run.config.get(key) != config.get(key):
            raise _other(run, f"--config {key}", _shown(key, run.config.get(key)), _shown(key, config.get(key)), key)
    planned = DataInterval.from_iso(*run.interval) if run.interval is not None else None
    if interval is not None and interval != planned:
        raise _other(run, "--interval", str(planned) if planned is not None else "not set", str(interval), "--interval")
    if mode is not None and mode != run.mode:
        raise _other(run, "--mode", run.mode, mode, "--mode")


def tell_if_all_is_done(files: Filesystem, run: RunPlan, tell: Callable[[str], None]) -> None:
    """Say of a run whose stages have all succeeded that nothing is read or written now."""
    if all(finished_stage(files, run, stage.stage_id) is not None for stage in run.plan.stages):
        tell(
            f"Run {run.run_id} has succeeded before: nothing is read or written now; what follows is what it did then. "
            "Add --again to run it anew."
        )


def _other(run: RunPlan, option: str, planned: str, asked: str, key: str) -> ConfigError:
    return ConfigError(
        f"The run {run.run_id!r} of {run.application!r} was planned with other options: {option} was {planned}, and is {asked} now.",
        hint="To go on with it, give the options with which it was planned; to plan it anew, add --again; for another run, change "
        "--run-id.",
        key=key,
        value=run.run_id,
    )


def _shown(key: str, value: str | None) -> str:
    if value is None:
        return "not set"
    return HIDDEN if holds_secret(key, value) else repr(value if len(value) <= 100 else f"{value[:100]}…")
