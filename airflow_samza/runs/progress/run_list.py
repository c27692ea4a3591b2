"""The runs that are on record under a root: which there are, which is the newest, which are still on.

The command line, the page and upkeep list runs by it; the plan step finds the one before.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import islice
from typing import Any

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import SamzaError, UnknownName
from airflow_samza.records import durable
from airflow_samza.runs.records.folders import RunFolder, must_read, read, read_report, replace, write_once
from airflow_samza.runs.records.names import safe
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.newest_stages import is_over
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.runs.stages.stage_runners import Claim, all_runners
from airflow_samza.systems.filesystems.filesystem import Filesystem


@durable("origin of a run", reports=True)
@dataclass(frozen=True)
class Origin:
    """The Airflow task that has planned a run, and when (seconds since 1970); empty where a run is from elsewhere."""

    dag_id: str = ""
    run_id: str = ""
    task_id: str = ""
    at: float | None = None


@durable("reason why a run could not be planned", reports=True)
@dataclass(frozen=True)
class NotPlanned:
    """The failure of a run's newest attempt at a plan.

    ``reference`` is the application as ``module:attribute``, ``generation`` the number that the plan would have had,
    ``error`` the JSON form of the error, ``at`` in seconds since 1970, ``origin`` the Airflow task that has tried.
    """

    application: str
    run_id: str
    reference: str
    generation: int
    error: Mapping[str, Any]
    at: float
    origin: Origin = field(default_factory=lambda: Origin())

    @property
    def is_only_record(self) -> bool:
        """True if the run has never had a plan, so that there is no other record of it."""
        return self.generation == 1


@dataclass(frozen=True)
class RunEntry:
    """A run, by its newest plan.

    ``at`` is when it was planned, or its first stage runner started (seconds since 1970; 0: not known).

    ``origin`` says where it comes from, where it does from Airflow: ``dag_id``, ``run_id``, ``task_id``.
    """

    application: str
    run_id: str
    generation: int
    at: float
    closed: bool
    origin: Origin = field(default_factory=lambda: Origin())

    @property
    def folder(self) -> RunFolder:
        """Its records."""
        return RunFolder(self.application, self.run_id)

    def is_asked_for(self, run_id: str | None, dag_id: str | None) -> bool:
        """Return whether it is the run of an id, its own or Airflow's, which a Dag has planned; None: of any."""
        names = (self.run_id, self.origin.run_id)
        is_named = run_id is None or run_id in names or safe(run_id) in names
        return is_named and dag_id in (None, self.origin.dag_id)


def newest_runs(files: Filesystem, application: str | None = None, run_id: str | None = None) -> Iterator[RunEntry]:
    """Yield the runs of an application (its name), or all, newest first; with ``run_id`` only those of this id.

    Of each run one record is read for the order; the rest only of those that are asked for.
    """
    for run in _newest_attempts(files, application, run_id):
        if isinstance(run, RunEntry):
            yield run


def newest_listed(
    files: Filesystem, application: str | None = None, only_running: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield the runs, newest first, as ``runs list --json`` has them; runs that could not be planned are among them."""
    for run in _newest_attempts(files, application):
        if only_running and (isinstance(run, NotPlanned) or run.closed):
            continue
        yield facts_of(files, run)


def _newest_attempts(
    files: Filesystem, application: str | None, run_id: str | None = None
) -> Iterator[RunEntry | NotPlanned]:
    """Yield the runs that have a plan, and why others have none, newest first."""
    for at, folder, origin in _runs_begun(files, application, run_id):
        generations = folder.plan_generations(files)
        if generations:
            yield RunEntry(folder.application, folder.run_id, generations[-1], at, files.exists(folder.closed), origin)
        elif (failure := why_not_planned(files, folder)) is not None:
            yield failure


def find_run(files: Filesystem, application: str | None = None, run_id: str | None = None) -> RunEntry:
    """A run by its id; without one the newest.

    ``application`` may be left out where only one application has such a run.
    """
    matches = list(islice(newest_runs(files, application, run_id), None if run_id is not None else 1))
    if not matches:
        runs = list(newest_runs(files, application))
        what = f"a run {run_id!r}" if run_id is not None else "any run"
        whose = f" of {application!r}" if application is not None else ""
        close = ", ".join(run.run_id for run in runs[:3])
        raise UnknownName(
            f"There is no record of {what}{whose} under {files.location('')}.",
            hint=f"{did_you_mean(run_id or '', [run.run_id for run in runs])}The newest are: {close}."
            if close
            else "Is this the root (--root, --env) of the environment in which it ran?",
            name=run_id or application or "",
        )
    if run_id is not None and len({run.application for run in matches}) > 1:
        whose = ", ".join(sorted(run.application for run in matches))
        raise UnknownName(
            f"Several applications have a run {run_id!r}.",
            hint=f"Name the application, too, one of {whose}.",
            name=run_id,
        )
    return matches[0]


def note_not_planned(
    files: Filesystem, folder: RunFolder, reference: str, error: SamzaError, origin: Mapping[str, str] | None = None
) -> None:
    """Keep why a run could not be planned, where somebody at a terminal finds it; a later plan makes it void."""
    generation, now = next(reversed(folder.plan_generations(files)), 0) + 1, time.time()
    failure = NotPlanned(
        folder.application,
        folder.run_id,
        reference,
        generation,
        error.to_dict(),
        now,
        Origin(**(origin or {}), at=now),
    )
    replace(files, folder.not_planned, failure)


def why_not_planned(files: Filesystem, folder: RunFolder) -> NotPlanned | None:
    """Return why the newest attempt to plan a run has failed; None where it has not."""
    failure = read_report(files, folder.not_planned, NotPlanned)
    return failure if failure is not None and failure.generation not in folder.plan_generations(files) else None


def newest_not_planned(
    files: Filesystem, application: str | None = None, run_id: str | None = None
) -> NotPlanned | None:
    """Return why the newest plan of a run has failed, without ``run_id`` that of the newest run; None: it has not."""
    for _, folder, _ in _runs_begun(files, application, run_id):
        failure = why_not_planned(files, folder)
        if failure is not None or folder.plan_generations(files):
            return failure
    return None


def runs_on(
    files: Filesystem, application: str, run_id: str | None = None, dag_id: str | None = None
) -> Iterator[RunPlan]:
    """Yield the runs of an application that are on, newest first.

    ``run_id`` (the run's own, or Airflow's) and ``dag_id`` narrow the choice.
    """
    for run in newest_runs(files, application):
        if not run.closed and run.is_asked_for(run_id, dag_id):
            plan = plan_of(files, run)
            if not is_over(files, plan):
                yield plan


def active_runs(
    files: Filesystem, application: str, run_id: str | None = None, dag_id: str | None = None
) -> list[RunPlan]:
    """The runs of an application that are on and whose stages run at the same time, newest first."""
    return [run for run in runs_on(files, application, run_id, dag_id) if run.stages_run_concurrently]


def note_origin(files: Filesystem, folder: RunFolder, origin: Mapping[str, str]) -> None:
    """Keep with a run when it was planned, and where it comes from: Airflow's Dag, run and task, or nothing.

    The first note stands. Lists of runs read it alone, where it is there.
    """
    write_once(files, f"{folder.path}/origin.json", Origin(**origin, at=time.time()))


def origin_of(files: Filesystem, application: str, run_id: str) -> Origin:
    """Return where a run comes from; an empty origin of one that is not from Airflow, or whose note cannot be read."""
    return read_report(files, f"{RunFolder(application, run_id).path}/origin.json", Origin) or Origin()


def plan_of(files: Filesystem, run: RunEntry) -> RunPlan:
    """The newest plan of a run."""
    return must_read(files, run.folder.plan(run.generation), RunPlan)


def _runs_begun(
    files: Filesystem, application: str | None, run_id: str | None
) -> list[tuple[float, RunFolder, Origin]]:
    """Return the folders of runs, newest first, with when each began and where it comes from."""
    begun = [
        _begun(files, RunFolder(name, each))
        for name in ([safe(application)] if application is not None else files.list("runs"))
        for each in (files.list(f"runs/{name}") if run_id is None else [safe(run_id)])
    ]
    return sorted(begun, key=lambda run: (-run[0], run[1].application, run[1].run_id))


def _begun(files: Filesystem, folder: RunFolder) -> tuple[float, RunFolder, Origin]:
    """Return when a run began (0: not known), its folder, and where it comes from."""
    origin = read(files, f"{folder.path}/origin.json", Origin) or Origin()
    if origin.at:
        return origin.at, folder, origin
    claims = [read(files, runner.claim, Claim) for runner in all_runners(files, folder)]
    times = [claim.claimed_at for claim in claims if claim is not None and claim.claimed_at]
    if not times:
        failure = read_report(files, folder.not_planned, NotPlanned)
        times = [failure.at] if failure is not None else []
    return min(times, default=0.0), folder, origin


RUNNING, SUCCEEDED, FAILED, PLAN_FAILED = "running", "succeeded", "failed", "plan failed"


def run_state(files: Filesystem, folder: RunFolder) -> str:
    """Return whether a run is running, as one that has not ended is, or how it has ended."""
    end = read_report(files, folder.closed, RunEnd)
    if end is None:
        return FAILED if files.exists(folder.closed) else RUNNING
    return SUCCEEDED if end.succeeded else FAILED


def facts_of(files: Filesystem, run: RunEntry | NotPlanned) -> dict[str, Any]:
    """Return a run as ``runs list --json`` has it; what its plan says is None where the plan cannot be read.

    ``interval`` are start and end of the data interval (ISO texts, UTC), None for a run without one;
    ``bundle_version`` is that of the Dag bundle whose code planned it; ``error`` says why its newest plan has failed.
    ``compares`` are the application and the run with which it is compared.
    """
    plan: RunPlan | None = None
    failure: NotPlanned | None
    if isinstance(run, NotPlanned):
        failure, state = run, PLAN_FAILED
    else:
        failure = why_not_planned(files, run.folder)
        state = PLAN_FAILED if failure is not None else run_state(files, run.folder)
        with suppress(SamzaError):
            plan = plan_of(files, run)
    return {
        "application": run.application,
        "run_id": run.run_id,
        "state": state,
        "mode": plan.mode if plan is not None else None,
        "compares": "/".join(plan.compares) if plan is not None and plan.compares is not None else None,
        "interval": plan.interval if plan is not None else None,
        "partition_key": plan.partition_key if plan is not None else None,
        "at": f"{datetime.fromtimestamp(run.at, timezone.utc):%Y-%m-%dT%H:%M:%SZ}" if run.at else None,
        "generation": run.generation,
        "dag_id": run.origin.dag_id or None,
        "dag_run": run.origin.run_id or None,
        "bundle_version": plan.bundle.get("version") if plan is not None else None,
        "error": failure.error["sentence"] if failure is not None else None,
    }
