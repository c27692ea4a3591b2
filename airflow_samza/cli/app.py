"""The commands and their options; the modules beside this one carry them out.

A command is made, and what it imports is loaded, when it is asked for by its name: most take less time than all these
imports.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable
from pkgutil import resolve_name
from typing import Annotated, Any, NamedTuple

import typer

from airflow_samza.cli.options import (
    EVERYTHING,
    SYSTEMS,
    Application,
    DeployMode,
    Format,
    Interval,
    Json,
    Master,
    Names,
    PartitionKey,
    Place,
    RunnerPython,
    at_most_two,
    at_place,
    is_json,
    look_from_here,
)
from airflow_samza.cli.reporting import ReportingGroup
from airflow_samza.cli.terminal import json_line, say, say_in_place


class NamedCommand(NamedTuple):
    """A command or a group of them: the function here, or ``module:name`` beside this module; the panel of ``--help``.

    ``example`` are the words of a command's example; a group has none.
    """

    made_of: Callable[..., None] | str
    panel: str
    example: str | None = None

    def make(self, name: str) -> Any:
        """Return it as Typer makes it."""
        made_of: Any = self.made_of
        if isinstance(made_of, str):
            made_of = resolve_name(f"airflow_samza.cli.{made_of}")
        if self.example is None:
            made: Any = typer.main.get_group(made_of)
        else:
            alone = typer.Typer(add_completion=False)
            alone.command(name, epilog=f"Example: airflow-samza {name} {self.example}".rstrip())(made_of)
            made = typer.main.get_command(alone)
        made.name, made.rich_help_panel = name, self.panel
        return made


class CommandsByName(UserDict[str, Any]):
    """The commands by name, each made when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        if isinstance(self.data[name], NamedCommand):
            self.data[name] = self.data[name].make(name)
        return self.data[name]


class Commands(ReportingGroup):
    """The group of all commands, which makes those that are asked for."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = CommandsByName(COMMANDS)


app = typer.Typer(
    cls=Commands,
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
    partition_key: PartitionKey = None,
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
    unbounded: Annotated[
        bool,
        typer.Option(
            "--unbounded",
            help="Read what is new since the last run, of inputs that leave bounded= to the run. Short for "
            "--config job.inputs.bounded=false.",
        ),
    ] = False,
    flush: Annotated[
        bool,
        typer.Option(
            "--flush",
            help="Have windows, joins and aggregations behind unbounded inputs give what they hold at the end of the "
            "run. Short for --config job.inputs.flush=true.",
        ),
    ] = False,
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
            help="The run of another application whose part of a shared stream is read: its id, APPLICATION@interval "
            "or APPLICATION@latest. A pipelined run follows one that is still at work. Default: all new ones. Can "
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

    Progress goes to standard error (on a terminal a live line per stage), the summary to standard output.
    """
    from airflow_samza.cli import run_command
    from airflow_samza.cli.run_lines import lines_on_stderr
    from airflow_samza.prepare.run_request import RunRequest

    look_from_here()
    as_json = as_json or is_json(form)
    environment = place.environment
    request = RunRequest(
        application,
        run_command.name_of(run_id),
        config=run_command.with_ends(environment.config, unbounded=unbounded, flush=flush),
        interval=run_command.parse_interval(interval),
        partition_key=partition_key or None,
        mode=mode,
        state_from=state_from,
        sections=run_command.parse_named("--section", section or ()),
        tables=run_command.parse_named("--table", table or ()),
        input_versions=run_command.parse_named("--input-version", input_version or ()),
        reuse=not fresh,
    )
    with lines_on_stderr() as lines:
        done, results = run_command.run_application(
            request,
            environment,
            lines=lines,
            again=again,
            master=master,
            deploy_mode=deploy_mode,
            until=until,
            runner_python=runner_python,
        )
    if as_json:
        typer.echo(run_command.summary_json(done, results))
    else:
        say(run_command.summary(done, results))


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

    as_json = as_json or is_json(form)
    environment, named = place.environment, at_most_two(names, "status")
    not_planned = status_command.failed_plan(environment, named)
    if not_planned is not None and not_planned.is_only_record:
        say(status_command.plan_failure(not_planned, as_json=as_json))
        return
    run_status = status_command.RunStatus(environment, named)
    if run_status.note:
        say(f"Note: {run_status.note}", err=True)
    looks = [run_status.reports()] if watch is None else status_command.watched(run_status, watch)
    for number, reports in enumerate(looks):
        if as_json:
            typer.echo(run_status.json(reports))
            for sentence in run_status.unknown.values():
                say(f"Note: {sentence}", err=True)
            continue
        text = "\n".join(run_status.lines(reports, worst))
        if not_planned is not None:
            text += f"\n{status_command.plan_failure(not_planned)}"
        if watch is None:
            say(text)
        else:
            say_in_place(text, first=number == 0)


@at_place(SYSTEMS)
def fsck(place: Place, as_json: Json = False) -> None:
    """Check all topics, runs, states and written files of a root, and report damage. Changes nothing.

    The exit code is 1 if something is damaged.
    """
    from airflow_samza.cli import fsck_command

    environment = place.environment
    looks = []
    for look in fsck_command.fsck(environment):
        looks.append(look)
        if as_json:
            typer.echo(json_line(fsck_command.look_facts(look)))
        elif look.findings:
            say("\n".join(fsck_command.look_lines(look)))
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
    kept: Annotated[
        bool, typer.Option("--kept", help="List each old run that is kept, and not only their numbers and reasons.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Delete what has expired under the root: topics, old runs, and leftovers of dead processes.

    Runs and topics that are still needed stay.
    """
    from airflow_samza.cli import gc_command

    environment = place.environment
    keep = gc_command.keep_of(environment, keep_runs, keep_runs_days)
    swept = gc_command.collect(environment, keep, dry=dry_run)
    if as_json:
        typer.echo(json_line(gc_command.swept_facts(swept, dry=dry_run)))
        return
    say("\n".join(gc_command.swept_lines(swept, dry=dry_run, kept=kept)))


def show_versions() -> None:
    """Show the versions of this package, Python, Airflow, PySpark, pyarrow and sqlglot."""
    import platform
    from importlib.metadata import PackageNotFoundError, version as version_of

    from airflow_samza import __version__

    typer.echo(f"airflow-samza {__version__}")
    typer.echo(f"python {platform.python_version()}")
    for name in ("apache-airflow", "pyspark", "pyarrow", "sqlglot"):
        try:
            typer.echo(f"{name} {version_of(name)}")
        except PackageNotFoundError:
            typer.echo(f"{name} is not installed")


# In the order of --help and of the reference.
COMMANDS = {
    "init": NamedCommand("init_command:init", "Applications", "first"),
    "plan": NamedCommand("plan_commands:plan", "Applications", "page_views:page_views --env dev"),
    "run": NamedCommand(run, "Applications", "page_views:page_views --interval 2026-01-01/2026-01-02"),
    "compare": NamedCommand("compare_command:compare", "Applications", "page_views:page_views --as-of monday"),
    "backfill-preview": NamedCommand(
        "backfill_command:backfill_preview", "Applications", "page_views --from 2026-01-01 --to 2026-01-31"
    ),
    "status": NamedCommand(status, "Runs", "page-views --watch 2"),
    "logs": NamedCommand("runs_commands:logs", "Runs", "page-views -n 50"),
    "publish": NamedCommand("runs_commands:publish", "Runs", "page-views"),
    "stop": NamedCommand("runs_commands:stop", "Runs", "page-views"),
    "drain": NamedCommand("runs_commands:drain", "Runs", "page-views"),
    "cancel": NamedCommand("runs_commands:cancel", "Runs", "page-views --stage by-country"),
    "fsck": NamedCommand(fsck, "The root", "--root /data/samza"),
    "gc": NamedCommand(gc, "The root", "--dry-run"),
    "version": NamedCommand(show_versions, "This installation", ""),
    "runs": NamedCommand("runs_commands:runs", "Runs"),
    "state": NamedCommand("state_commands:state", "The root"),
    "tables": NamedCommand("tables_commands:tables", "The root"),
    "topics": NamedCommand("topics_commands:topics", "The root"),
    "warm": NamedCommand("warm_commands:warm", "This installation"),
}
