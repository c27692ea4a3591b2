"""The commands and their options; the modules beside this one carry them out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from airflow_samza.cli.backfill_command import backfill_preview
from airflow_samza.cli.init_command import init
from airflow_samza.cli.options import (
    EVERYTHING,
    ROOT,
    SYSTEMS,
    Application,
    DeployMode,
    Format,
    Interval,
    Json,
    Master,
    Names,
    Place,
    RunnerPython,
    at_most_two,
    at_place,
    is_json,
    look_from_here,
)
from airflow_samza.cli.plan_commands import explain, plan
from airflow_samza.cli.reporting import ReportingGroup
from airflow_samza.cli.runs_commands import cancel, end_run, logs, publish, runs
from airflow_samza.cli.state_commands import state
from airflow_samza.cli.tables import json_line
from airflow_samza.cli.tables_commands import tables
from airflow_samza.cli.topics_commands import topics
from airflow_samza.cli.warm_commands import warm

app = typer.Typer(
    cls=ReportingGroup,
    help="Plan and run stream applications, and look after their runs, topics and tables.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(value: bool) -> None:
    if value:
        from airflow_samza import __version__

        typer.echo(f"airflow-samza {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where in the code an error arose; give it before the command.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Plan and run stream applications, and look after their runs, topics and tables."""


@at_place(EVERYTHING)
def run(
    place: Place,
    application: Application,
    interval: Interval = None,
    partition_key: Annotated[
        str | None,
        typer.Option(
            "--partition-key",
            metavar="KEY",
            help="The partition key of the data, as of a partitioned Dag run. A later run for the same key and "
            "interval replaces what this one writes.",
        ),
    ] = None,
    run_id: Annotated[
        str | None,
        typer.Option(
            "--run-id", metavar="ID", help="The name of the run; a known name resumes that run. Default: the time."
        ),
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Plan the run of this name anew. Stages that have not changed keep their results, the output of the "
            "others replaces the former one.",
        ),
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="With --again: run all stages, also those that have not changed.")
    ] = False,
    master: Master = None,
    deploy_mode: DeployMode = None,
    runner_python: RunnerPython = None,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode",
            "-m",
            metavar="MODE",
            help="staged: one stage after the other (default). pipelined: all at the same time. continuous: until it "
            "is drained or stopped.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--for", metavar="LENGTH", help='Stop a continuous run after a time: --for "10 minutes".'),
    ] = None,
    state_from: Annotated[
        str,
        typer.Option(
            "--state-from",
            metavar="RUN",
            help="The state to start from: previous (the run before), fresh (none), or the id of a run.",
        ),
    ] = "previous",
    section: Annotated[
        list[str] | None,
        typer.Option(
            "--section",
            metavar="STREAM=RUN",
            help="The run of another application whose part of a shared stream is read. Default: all new ones. Can "
            "be repeated.",
        ),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            metavar="TABLE=VERSION",
            help="The version of a pushed table to read: current (default), as_of_interval, or the id of a push. Can "
            "be repeated.",
        ),
    ] = None,
    input_version: Annotated[
        list[str] | None,
        typer.Option(
            "--input-version",
            metavar="STREAM=VERSION",
            help="The snapshot (Iceberg) or version (Delta) up to which an input is read. Default: the current one. "
            "Can be repeated.",
        ),
    ] = None,
    form: Format = "text",
    as_json: Json = False,
) -> None:
    """Plan an application and run its stages on Spark.

    Progress goes to standard error, the summary to standard output.
    """
    from airflow_samza.cli import run_command
    from airflow_samza.prepare.run_request import RunRequest

    look_from_here()
    as_json = as_json or is_json(form)
    environment = place.environment()
    request = RunRequest(
        application,
        run_command.name_of(run_id),
        config=environment.config,
        interval=run_command.parse_interval(interval),
        partition_key=partition_key or None,
        mode=mode,
        state_from=state_from,
        sections=run_command.parse_sections(section or ()),
        tables=run_command.parse_tables(table or ()),
        input_versions=run_command.parse_input_versions(input_version or ()),
        reuse=not fresh,
    )
    done, results = run_command.run_application(
        request,
        environment,
        tell=run_command.tell_on_stderr,
        again=again,
        master=master,
        deploy_mode=deploy_mode,
        until=until,
        runner_python=runner_python,
    )
    typer.echo(run_command.summary_json(done, results) if as_json else run_command.summary(done, results))


@at_place(SYSTEMS)
def status(
    place: Place,
    names: Names = None,
    watch: Annotated[
        float | None,
        typer.Option("--watch", "-w", metavar="SECONDS", help="Repeat every so many seconds, until the run is over."),
    ] = None,
    worst: Annotated[
        int,
        typer.Option(
            "--worst", metavar="N", help="The number of partitions of each input to show, furthest behind first.", min=0
        ),
    ] = 3,
    form: Format = "text",
    as_json: Json = False,
) -> None:
    """Show the progress of a run, stage by stage.

    Offsets, lag, watermarks, end-of-stream, rates, late and dropped messages.
    """
    from airflow_samza.cli import status_command

    look_from_here()
    as_json = as_json or is_json(form)
    run_status = status_command.RunStatus(place.environment(), at_most_two(names, "status"))
    if run_status.note:
        typer.echo(f"Note: {run_status.note}", err=True)
    looks = [run_status.reports()] if watch is None else status_command.watched(run_status, watch)
    for number, reports in enumerate(looks):
        if as_json:
            typer.echo(
                status_command.status_json(
                    run_status.state, run_status.run, reports, run_status.requests(), run_status.waiting()
                )
            )
            continue
        if number:
            typer.echo("")
        about = run_status.requests(), run_status.lenders(), run_status.waiting(), run_status.tables()
        typer.echo("\n".join(status_command.status_lines(run_status.state, run_status.run, reports, worst, *about)))


@at_place(ROOT)
def drain(place: Place, names: Names = None) -> None:
    """End a continuous or pipelined run for good: process what has arrived, and flush windows and joins."""
    look_from_here()
    typer.echo(end_run(place.environment(), names or (), drains=True))


@at_place(ROOT)
def stop(place: Place, names: Names = None) -> None:
    """Stop a continuous or pipelined run for now: flush nothing, and keep the state for the next run."""
    look_from_here()
    typer.echo(end_run(place.environment(), names or (), drains=False))


@at_place(SYSTEMS)
def fsck(place: Place, as_json: Json = False) -> None:
    """Check all topics, runs, states and written files of a root, and report damage. Changes nothing.

    The exit code is 1 if something is damaged.
    """
    from airflow_samza.cli import fsck_command

    environment = place.environment()
    looks = []
    for look in fsck_command.fsck(environment):
        looks.append(look)
        if as_json:
            typer.echo(json_line(fsck_command.look_facts(look)))
        elif look.findings:
            typer.echo("\n".join(fsck_command.look_lines(look)))
    damaged = sum(not look.sound for look in looks)
    if not as_json:
        typer.echo(
            f"{len(looks)} topics, runs, states, tables and outputs under {environment.root}: {damaged} damaged."
        )
    if damaged:
        raise typer.Exit(1)


@at_place(SYSTEMS)
def gc(
    place: Place,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Delete nothing; show what would be deleted, and why old runs stay.")
    ] = False,
    keep_runs: Annotated[
        int | None,
        typer.Option(
            "--keep-runs",
            metavar="N",
            help="The number of runs of each application to keep. Default: as configured, otherwise 100.",
        ),
    ] = None,
    keep_runs_days: Annotated[
        float | None,
        typer.Option(
            "--keep-runs-days",
            metavar="DAYS",
            help="The number of days for which runs are kept. Default: as configured, otherwise 30.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Delete what has expired under the root: topics, old runs, and leftovers of dead processes.

    Runs and topics that are still needed stay.
    """
    from airflow_samza.cli import gc_command

    environment = place.environment()
    keep = gc_command.keep_of(environment, keep_runs, keep_runs_days)
    swept = gc_command.collect(environment, keep, dry=dry_run)
    if as_json:
        typer.echo(json_line(gc_command.swept_facts(swept, dry=dry_run)))
        return
    typer.echo("\n".join(gc_command.swept_lines(swept, dry=dry_run)))


def show_versions() -> None:
    """Show the versions of this package, Python, Airflow, PySpark, pyarrow and sqlglot."""
    import platform
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    from airflow_samza import __version__

    typer.echo(f"airflow-samza {__version__}")
    typer.echo(f"python {platform.python_version()}")
    for name in ("apache-airflow", "pyspark", "pyarrow", "sqlglot"):
        try:
            typer.echo(f"{name} {version_of(name)}")
        except PackageNotFoundError:
            typer.echo(f"{name} is not installed")


# In the order of --help and of the reference, each with an example.
_COMMANDS: tuple[tuple[str, dict[str, tuple[Callable[..., None], str]]], ...] = (
    (
        "Applications",
        {
            "init": (init, "first"),
            "plan": (plan, "page_views:page_views --env dev"),
            "explain": (explain, "page_views:page_views"),
            "run": (run, "page_views:page_views --interval 2026-01-01/2026-01-02"),
            "backfill-preview": (backfill_preview, "page_views --from 2026-01-01 --to 2026-01-31"),
        },
    ),
    (
        "Runs",
        {
            "status": (status, "page-views --watch 2"),
            "logs": (logs, "page-views -n 50"),
            "publish": (publish, "page-views"),
            "stop": (stop, "page-views"),
            "drain": (drain, "page-views"),
            "cancel": (cancel, "page-views --stage by-country"),
        },
    ),
    ("The root", {"fsck": (fsck, "--root /data/samza"), "gc": (gc, "--dry-run")}),
    ("This installation", {"version": (show_versions, "")}),
)
for _panel, _commands in _COMMANDS:
    for _name, (_command, _words) in _commands.items():
        _example = f"Example: airflow-samza {_name} {_words}".rstrip()
        app.command(_name, rich_help_panel=_panel, epilog=_example)(_command)
for _group, _name, _panel in (
    (runs, "runs", "Runs"),
    (state, "state", "The root"),
    (tables, "tables", "The root"),
    (topics, "topics", "The root"),
    (warm, "warm", "This installation"),
):
    app.add_typer(_group, name=_name, rich_help_panel=_panel)
