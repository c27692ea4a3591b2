"""``airflow-samza runs``, ``logs`` and ``cancel``: which runs there are, what their runners print, an end to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from airflow_samza.cli.environment import Environment
from airflow_samza.cli.options import ROOT, SYSTEMS, Json, Names, Place, at_most_two, at_place
from airflow_samza.cli.terminal import columns, json_line, say, say_json
from airflow_samza.errors import ConfigError, StageCancelled, UnknownName
from airflow_samza.planner.titles import stage_named, stage_names
from airflow_samza.runs.progress.run_list import newest_listed, plan_of
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_runners import all_runners, reject_worked_on
from airflow_samza.systems.filesystems.filesystem import Filesystem

if TYPE_CHECKING:
    from airflow_samza.runs.publication import GivenUp, Published

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
    files = place.environment.files
    listed = newest_listed(files, application or None, only_running)
    shown = list(islice(listed, limit or None))
    if as_json:
        say_json(shown)
        return
    keys = ("application", "run_id", "state", "mode", "interval", "at", "dag_id", "dag_run")
    for facts in shown:
        if facts["compares"]:
            facts["mode"] = f"{facts['mode']}, compared with {facts['compares'].partition('/')[2]}"
    rows = [[_cell(facts[key]) for key in keys] for facts in shown]
    say(
        columns(["APPLICATION", "RUN", "STATE", "MODE", "DATA INTERVAL (UTC)", "PLANNED (UTC)", "DAG", "DAG RUN"], rows)
        if rows
        else f"There are no {'running ' if only_running else ''}runs{f' of {application!r}' if application else ''} "
        f"under {files.location('')}."
    )
    if next(listed, None) is not None:
        say("Older runs are left out (-n 0 shows all).", err=True)


@runs.command(epilog="Example: airflow-samza runs finish page-views")
@at_place(SYSTEMS)
def finish(place: Place, names: Names = None) -> None:
    """Publish what a run has committed and not published, because its stage runner died before it could."""
    from airflow_samza.prepare.bound_systems import bind_systems, run_bindings
    from airflow_samza.runs.upkeep.waiting_output import publish_waiting

    environment = place.environment
    files, run = _named_run(environment, names, "runs finish")
    reject_worked_on(files, run, "publishes what is committed")
    published = publish_waiting(files, bind_systems(run_bindings(run.systems, environment.systems), files.root), run)
    for waiting in published:
        say(f"{waiting} waited, and are published.")
    if not published:
        say(f"Nothing of run {run.run_id} of {run.application} waits to be published.")


@at_place(SYSTEMS)
def publish(
    place: Place,
    names: Names = None,
    drop: Annotated[
        bool, typer.Option("--drop", help="Reject it: branches and waiting outputs are discarded.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Publish what a run keeps back, after it was audited: outputs that wait for approval, branches of tables."""
    from airflow_samza.prepare.bound_systems import bind_systems, run_bindings
    from airflow_samza.runs.publication import give_up_run, publish_run

    environment = place.environment
    files, run = _named_run(environment, names, "publish")
    systems = bind_systems(run_bindings(run.systems, environment.systems), files.root)
    outputs: Sequence[Published | GivenUp] = (give_up_run if drop else publish_run)(files, systems, run, who_asks())
    for one in outputs:
        typer.echo(json_line(one.told) if as_json else str(one))


@at_place(ROOT)
def logs(
    place: Place,
    names: Names = None,
    lines: Annotated[
        int, typer.Option("-n", metavar="N", help="The number of lines of each log; 0: all.", min=0)
    ] = 200,
    errors: Annotated[bool, typer.Option("--errors", help="Only why stages have failed, and what to do.")] = False,
) -> None:
    """Print the logs of a run's stage runners (the driver processes), with Spark's lines, oldest first.

    The last lines say why its stages, or its newest plan, have failed.
    """
    from airflow_samza.cli.status_command import (
        chosen_run,
        failed_plan,
        failure_lines,
        failures_of,
        plan_failure,
    )
    from airflow_samza.runs.stages.runner_log import log_lines

    environment = place.environment
    files = environment.files
    failure = failed_plan(environment, at_most_two(names, "logs"))
    if failure is not None and failure.is_only_record:
        say(plan_failure(failure))
        return
    run = chosen_run(files, names or ())
    plan = plan_of(files, run)
    printed = False
    for runner in [] if errors else all_runners(files, run.folder):
        text = log_lines(files, runner.log, lines)
        if text is not None:
            who = runner.who(files) or {}
            where = f" on {who['host']}" if who.get("host") else ""
            say(f"==> runner {runner.number}{where}: {files.location(runner.log)} <==", err=True)
            typer.echo(text)
            printed = True
    called, failed = stage_names(plan.plan), failures_of(files, plan)
    # The reason comes last: the others were cancelled because of it.
    for stage_id, error in sorted(failed.items(), key=lambda one: not isinstance(one[1], StageCancelled)):
        say("\n".join([f"Stage {called[stage_id]} has failed.", *(f"  {line}" for line in failure_lines(plan, error))]))
    if failure is not None:
        say(plan_failure(failure))
        return
    if errors and not failed:
        say(f"No stage of run {run.run_id} of {run.application} has failed.")
    if not printed and not failed and not errors:
        raise UnknownName(
            f"There is no log of the run {run.run_id!r} of {run.application!r} under {files.location('')}.",
            hint="A driver in a cluster logs there (yarn logs, kubectl logs); a run that never started has no log.",
            name=run.run_id,
        )


@at_place(ROOT)
def cancel(place: Place, names: Names = None, stage: Stage = None) -> None:
    """Cancel a run, or one of its stages. What was committed stays; the task in Airflow fails."""
    files, run = _named_run(place.environment, names, "cancel")
    if stage is not None:
        stage = stage_named(run.plan, stage).stage_id
    called = stage_names(run.plan)
    cancelled = list(cancel_stages(files, run, stage))
    for stage_id in cancelled:
        say(f"Stage {called[stage_id]} of run {run.run_id} is cancelled; what it has committed stays.")
    if not cancelled:
        say(f"Nothing of run {run.run_id} of {run.application} is running.")


def cancel_stages(files: Filesystem, run: RunPlan, only: str | None = None) -> Iterator[str]:
    """Leave the request to cancel each stage that has begun and not ended; yield their ids."""
    from airflow_samza.runs.stages.newest_stages import newest_handle
    from airflow_samza.runs.stages.stage_state import ask_to_cancel, stage_status

    for stage in run.plan.stages:
        if only in (None, stage.stage_id):
            handle = newest_handle(files, run, stage.stage_id)
            begun = handle.generation in run.generations(files, stage.stage_id)
            if begun and not stage_status(files, handle).is_final:
                ask_to_cancel(files, handle)
                yield stage.stage_id


def _named_run(environment: Environment, names: Sequence[str] | None, command: str) -> tuple[Filesystem, RunPlan]:
    """Return the run that a command's arguments name, and the files of its root."""
    from airflow_samza.cli.status_command import chosen_run

    files = environment.files
    return files, plan_of(files, chosen_run(files, at_most_two(names, command)))


def who_asks() -> str:
    """Return who uses the command line, for records: the user and the host."""
    import os
    import platform

    from airflow_samza.private_folder import user_name

    return f"{user_name() or os.geteuid()} on {platform.node()}"


def _cell(fact: str | tuple[str, str] | None) -> str:
    """Return a fact as text; the data interval as ``--interval`` takes it."""
    if isinstance(fact, tuple):
        return "/".join(moment.removesuffix("+00:00").removesuffix(":00") for moment in fact)
    return fact or ""


@at_place(ROOT)
def drain(place: Place, names: Names = None) -> None:
    """End a continuous or pipelined run for good: process what has arrived, and flush windows and joins."""
    _end_run(place.environment, names, drains=True)


@at_place(ROOT)
def stop(place: Place, names: Names = None) -> None:
    """Stop a continuous or pipelined run for now: flush nothing, and keep the state for the next run."""
    _end_run(place.environment, names, drains=False)


def _end_run(environment: Environment, names: Sequence[str] | None, *, drains: bool) -> None:
    """Leave the request in the run's folder, where its stages see it within a fraction of a second; say so."""
    from airflow_samza.runs.stages.run_ends import ask_to_drain, ask_to_stop

    files, run = _named_run(environment, names, "drain" if drains else "stop")
    if not run.stages_run_concurrently:
        raise ConfigError(
            f"The run {run.run_id!r} of {run.application!r} is {run.mode}, and ends by itself.",
            hint="Only pipelined and continuous runs can be drained or stopped; cancel the command that runs it.",
            key="mode",
            value=run.mode,
        )
    ask = ask_to_drain if drains else ask_to_stop
    ask(files, RunFolder(run.application, run.run_id), run.generation, who_asks())
    what = "ends when what has arrived is processed" if drains else "stops where it is, and keeps its state"
    typer.echo(f"Run {run.run_id} of {run.application} {what}; airflow-samza status shows how far it is.")
