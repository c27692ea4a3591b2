"""``airflow-samza compare``: runs an edited application over what a run has read, and says how its outputs differ."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from airflow_samza.cli.options import (
    EVERYTHING,
    Application,
    DeployMode,
    Json,
    Master,
    Place,
    RunnerPython,
    at_place,
    look_from_here,
)
from airflow_samza.cli.terminal import json_line, say
from airflow_samza.errors import ConfigError

DIFFERENT = 1
"""The exit code where outputs differ, as that of ``diff``."""


@at_place(EVERYTHING)
def compare(
    place: Place,
    application: Application,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            metavar="RUN",
            help="The run to compare with: its input ranges are read. Default: the last one that has succeeded.",
        ),
    ] = None,
    other: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="OTHER",
            help="Another application with whose run to compare, by its name or as package.module:attribute.",
        ),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode",
            "-m",
            metavar="MODE",
            help="The mode: staged, pipelined or continuous. Default: that of the other run.",
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            metavar="OUTPUT=COLUMN[,COLUMN]",
            help="The columns by which rows of an output are found again. Default: the key of the output, or the "
            "columns that it expects to be unique; else whole rows are compared. Can be repeated.",
        ),
    ] = None,
    samples: Annotated[
        int, typer.Option("--samples", metavar="N", help="The number of rows of each kind to show.", min=0)
    ] = 5,
    show_keys: Annotated[bool, typer.Option("--show-keys", help="Show keys as they are, and not masked.")] = False,
    run_id: Annotated[
        str | None,
        typer.Option(
            "--run-id",
            metavar="ID",
            help="The name of the run that is made; a known name goes on with that run. Default: the time.",
        ),
    ] = None,
    master: Master = None,
    deploy_mode: DeployMode = None,
    runner_python: RunnerPython = None,
    as_json: Json = False,
) -> None:
    """Run an application over the input ranges of a run, and show how its outputs differ. Readers see none of them.

    The exit code is 0 if all rows are equal, and 1 if not. To publish the outputs in place of the other run's: publish.
    """
    from airflow_samza.cli import run_command
    from airflow_samza.cli.run_lines import lines_on_stderr
    from airflow_samza.prepare.run_request import RunRequest
    from airflow_samza.runs.records.comparison import comparison_lines

    look_from_here()
    environment = place.environment
    keys = parse_keys(key or ())
    made = run_command.name_of(run_id) if run_id is not None else run_command.named_by_clock("compare")
    another = "Leave --run-id out: then the application is compared as it is now, by a run of its own."
    runtime = run_command.runtime_of(environment, master, deploy_mode, runner_python, plan_anew=another)
    asked = RunRequest(application, made, config=environment.config, mode=mode)
    request = runtime.request_to_compare(asked, as_of, other)
    with lines_on_stderr() as lines:
        run, _ = run_command.run_application(
            request,
            environment,
            lines=lines,
            runtime=runtime,
            resumed_by=f"airflow-samza compare {application} --run-id {made}",
        )
        lines.waits("Comparing rows")
        comparison = runtime.compare(run, keys, samples=samples, shows=show_keys)
    if as_json:
        typer.echo(json_line(comparison.told))
    else:
        say("\n".join(comparison_lines(comparison)))
    if not comparison.is_equal:
        raise typer.Exit(DIFFERENT)


def parse_keys(options: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the columns that ``--key output=column,column`` names, by output.

    >>> parse_keys(["per-member=member,day"])
    {'per-member': ('member', 'day')}
    """
    keys = {}
    for option in options:
        name, equals, text = option.partition("=")
        columns = tuple(column.strip() for column in text.split(","))
        if not (name and equals and all(columns)):
            raise ConfigError(
                f"--key {option!r} does not say which columns are the key of which output.",
                hint="Write --key OUTPUT=COLUMN, or --key OUTPUT=COLUMN,COLUMN.",
                key="--key",
                value=option,
            )
        keys[name] = columns
    return keys
