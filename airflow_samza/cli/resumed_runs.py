"""Runs that are named a second time.

They go on by the plan that they have, so options that say something else are rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from airflow_samza.errors import ConfigError
from airflow_samza.prepare.carried_state import FRESH
from airflow_samza.runs.lineage.lease_holder import finished_stage
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.folders import RunFolder, read
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.run_state import LINEAGE
from airflow_samza.secrecy import HIDDEN, holds_secret
from airflow_samza.systems.filesystems.filesystem import Filesystem


def planned_before(files: Filesystem, application: str, run_id: str) -> RunPlan | None:
    """Return the newest plan of a run; None when it has not been planned."""
    folder = RunFolder(application, run_id)
    known = folder.plan_generations(files)
    return read(files, folder.plan(known[-1]), RunPlan) if known else None


def reject_other_options(
    run: RunPlan,
    config: Mapping[str, str],
    interval: DataInterval | None,
    mode: str | None,
    state: str = LINEAGE,
    sections: Mapping[str, str] | None = None,
    tables: Mapping[str, str] | None = None,
) -> None:
    """Raise ConfigError when a run that was planned with other options is to go on.

    ``config`` are all keys of the environment; ``interval`` and ``mode`` None, ``state`` as it is by default, and
    streams and tables that ``sections`` and ``tables`` do not name are not given, and taken from the plan.
    """
    for key in sorted({*run.config, *config}):
        if run.config.get(key) != config.get(key):
            raise _other(run, f"--config {key}", _shown(key, run.config.get(key)), _shown(key, config.get(key)), key)
    planned = DataInterval.from_iso(*run.interval) if run.interval is not None else None
    if interval is not None and interval != planned:
        raise _other(run, "--interval", str(planned) if planned is not None else "not set", str(interval), "--interval")
    if mode is not None and mode != run.mode:
        raise _other(run, "--mode", run.mode, mode, "--mode")
    if state not in (LINEAGE, _state_of(run)):
        raise _other(run, "--state-from", _state_of(run), state, "--state-from")
    for stream_id, asked in (sections or {}).items():
        bound = run.streams.get(stream_id)
        read = [named["run"] for named in (bound.slice or {}).get("sections", ())] if bound is not None else []
        if read != [asked]:
            raise _other(run, f"--section {stream_id}", ", ".join(read) or "not set", asked, "--section")
    for table, asked in (tables or {}).items():
        known = run.tables[table]["asked"] if table in run.tables else "not set"
        if known != asked:
            raise _other(run, f"--table {table}", known, asked, "--table")


def tell_if_all_is_done(files: Filesystem, run: RunPlan, tell: Callable[[str], None]) -> None:
    """Report that a run whose stages have all succeeded reads and writes nothing now."""
    if all(finished_stage(files, run, stage.stage_id) is not None for stage in run.plan.stages):
        tell(
            f"Run {run.run_id} has succeeded before: nothing is read or written now; what follows is what it did then. "
            "Add --again to run it anew."
        )


def _state_of(run: RunPlan) -> str:
    """Return the ``--state-from`` with which a run was planned."""
    if run.state is None or run.state.kind == LINEAGE:
        return LINEAGE
    return run.state.source or FRESH


def _other(run: RunPlan, option: str, planned: str, asked: str, key: str) -> ConfigError:
    return ConfigError(
        f"The run {run.run_id!r} of {run.application!r} was planned with other options: {option} was {planned}, and "
        f"is {asked} now.",
        hint="To go on with it, give the options with which it was planned; to plan it anew, add --again; for another "
        "run, change "
        "--run-id.",
        key=key,
        value=run.run_id,
    )


def _shown(key: str, value: str | None) -> str:
    if value is None:
        return "not set"
    return HIDDEN if holds_secret(key, value) else repr(value if len(value) <= 100 else f"{value[:100]}…")
