"""``airflow-samza runs``, ``logs`` and ``cancel``: which runs there are, what their runners print, an end to them."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated

import typer

from airflow_samza.cli.environment import Environment
from airflow_samza.cli.options import ROOT, SYSTEMS, Json, Names, Place, at_most_two, at_place, look_from_here
from airflow_samza.cli.status_command import chosen_run
from airflow_samza.cli.tables import columns, json_line
from airflow_samza.errors import ConfigError, UnknownName
from airflow_samza.planner.titles import stage_named, stage_names
from airflow_samza.prepare.bound_systems import bind_systems, run_bindings
from airflow_samza.private_folder import user_name
from airflow_samza.runs.branch_publication import DroppedBranch, PublishedBranch, drop_branches, publish_branches
from airflow_samza.runs.progress.run_list import facts_of, newest_runs, plan_of
from airflow_samza.runs.progress.stage_progress import newest_generation
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.run_ends import ask_to_drain, ask_to_stop
from airflow_samza.runs.stages.runner_log import log_lines
from airflow_samza.runs.stages.stage_runners import all_runners, reject_worked_on
from airflow_samza.runs.stages.stage_state import StageHandle, ask_to_cancel, stage_status
from airflow_samza.runs.upkeep.waiting_output import publish_waiting
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.opening import open_filesystem

runs = typer.Typer(help="List runs, and finish those that died.", no_args_is_help=True)

Stage = Annotated[
    str | None, typer.Option("--stage", metavar="STAGE", help="Only this stage. Default: all stages of the run.")
]


@runs.command("list", epilog="Example: airflow-samza runs list page-views --running")
@at_place(ROOT)
def list_command(
    place: Place,
    application: Annotated[str, typer.Argument(metavar="[APP]", help="Only runs of this application; its name.")] = "",
    limit: Annotated[int, typer.Option("-n", metavar="N", help="The number of runs to list; 0: all.", min=0)] = 20,
    only_running: Annotated[bool, typer.Option("--running", help="Only runs that have not ended.")] = False,
    as_json: Json = False,
) -> None:
    """List runs, newest first: state, mode, data interval, time of the plan, and the Dag run."""
    files = open_filesystem(place.environment().root)
    listed = (run for run in newest_runs(files, application or None) if not (only_running and run.closed))
    shown = [facts_of(files, run) for run in islice(listed, limit or None)]
    if as_json:
        for facts in shown:
            typer.echo(json_line(facts))
        return
    keys = ("application", "run_id", "state", "mode", "interval", "at", "dag_id", "dag_run")
    rows = [[_cell(facts[key]) for key in keys] for facts in shown]
    typer.echo(
        columns(["APPLICATION", "RUN", "STATE", "MODE", "DATA INTERVAL (UTC)", "PLANNED (UTC)", "DAG", "DAG RUN"], rows)
        if rows
        else f"There are no {'running ' if only_running else ''}runs{f' of {application!r}' if application else ''} "
        f"under {files.location('')}."
    )
    if next(listed, None) is not None:
        typer.echo("Older runs are left out (-n 0 shows all).", err=True)


@runs.command(epilog="Example: airflow-samza runs finish page-views")
@at_place(SYSTEMS)
def finish(place: Place, names: Names = None) -> None:
    """Publish what a run has committed and not published, because its stage runner died before it could."""
    look_from_here()
    environment = place.environment()
    files = open_filesystem(environment.root)
    run = plan_of(files, chosen_run(files, at_most_two(names, "runs finish")))
    reject_worked_on(files, run, "publishes what is committed")
    published = publish_waiting(files, bind_systems(run_bindings(run.systems, environment.systems), files.root), run)
    for waiting in published:
        typer.echo(f"{waiting} waited, and are published.")
    if not published:
        typer.echo(f"Nothing of run {run.run_id} of {run.application} waits to be published.")


@at_place(SYSTEMS)
def publish(
    place: Place,
    names: Names = None,
    drop: Annotated[bool, typer.Option("--drop", help="Drop the branches: the run is given up.")] = False,
    as_json: Json = False,
) -> None:
    """Publish what a run has committed to branches of tables (branch= of outputs), after it was audited."""
    environment = place.environment()
    files = open_filesystem(environment.root)
    run = plan_of(files, chosen_run(files, at_most_two(names, "publish")))
    systems = bind_systems(run_bindings(run.systems, environment.systems), files.root)
    branches: Sequence[PublishedBranch | DroppedBranch] = (drop_branches if drop else publish_branches)(
        files, systems, run
    )
    for branch in branches:
        typer.echo(json_line(branch.facts) if as_json else str(branch))


@at_place(ROOT)
def logs(
    place: Place,
    names: Names = None,
    lines: Annotated[
        int, typer.Option("-n", metavar="N", help="The number of lines of each log; 0: all.", min=0)
    ] = 200,
) -> None:
    """Print the logs of a run's stage runners (the driver processes), with Spark's lines, oldest first."""
    look_from_here()
    files = open_filesystem(place.environment().root)
    run = chosen_run(files, at_most_two(names, "logs"))
    printed = False
    for runner in all_runners(files, run.folder):
        text = log_lines(files, runner.log, lines)
        if text is not None:
            who = runner.who(files) or {}
            where = f" on {who['host']}" if who.get("host") else ""
            typer.echo(f"==> runner {runner.number}{where}: {files.location(runner.log)} <==", err=True)
            typer.echo(text)
            printed = True
    if not printed:
        raise UnknownName(
            f"There is no log of the run {run.run_id!r} of {run.application!r} under {files.location('')}.",
            hint="A driver in a cluster logs there (yarn logs, kubectl logs); a run that never started has no log.",
            name=run.run_id,
        )


@at_place(ROOT)
def cancel(place: Place, names: Names = None, stage: Stage = None) -> None:
    """Cancel a run, or one of its stages. What was committed stays; the task in Airflow fails."""
    look_from_here()
    files = open_filesystem(place.environment().root)
    run = plan_of(files, chosen_run(files, at_most_two(names, "cancel")))
    if stage is not None:
        stage = stage_named(run.plan, stage).stage_id
    called = stage_names(run.plan)
    cancelled = list(cancel_stages(files, run, stage))
    for stage_id in cancelled:
        typer.echo(f"Stage {called[stage_id]} of run {run.run_id} is cancelled; what it has committed stays.")
    if not cancelled:
        typer.echo(f"Nothing of run {run.run_id} of {run.application} is running.")


def cancel_stages(files: Filesystem, run: RunPlan, only: str | None = None) -> Iterator[str]:
    """Leave the request to cancel each stage that has begun and not ended; yield their ids."""
    for stage in run.plan.stages:
        if only in (None, stage.stage_id):
            generation = newest_generation(files, run, stage.stage_id)
            handle = StageHandle(run.application, run.run_id, stage.stage_id, generation)
            begun = generation in RunFolder(run.application, run.run_id).generations(files, stage.stage_id)
            if begun and not stage_status(files, handle).is_final:
                ask_to_cancel(files, handle)
                yield stage.stage_id


def _cell(fact: str | tuple[str, str] | None) -> str:
    """Return a fact as text; the data interval as ``--interval`` takes it."""
    if isinstance(fact, tuple):
        return "/".join(moment.removesuffix("+00:00").removesuffix(":00") for moment in fact)
    return fact or ""


def end_run(environment: Environment, names: Sequence[str], *, drains: bool) -> str:
    """Leave the request in the run's folder, where its stages see it within a fraction of a second.

    What was done, as a sentence.
    """
    files = open_filesystem(environment.root)
    word = "drain" if drains else "stop"
    run = plan_of(files, chosen_run(files, at_most_two(names, word)))
    if not run.stages_run_concurrently:
        raise ConfigError(
            f"The run {run.run_id!r} of {run.application!r} is {run.mode}, and ends by itself.",
            hint="Only pipelined and continuous runs can be drained or stopped; cancel the command that runs it.",
            key="mode",
            value=run.mode,
        )
    ask = ask_to_drain if drains else ask_to_stop
    who = f"{user_name() or os.geteuid()} on {platform.node()}"
    ask(files, RunFolder(run.application, run.run_id), run.generation, who)
    what = "ends when what has arrived is processed" if drains else "stops where it is, and keeps its state"
    return f"Run {run.run_id} of {run.application} {what}; airflow-samza status shows how far it is."
