"""The command that shows a plan, and runs nothing."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from airflow_samza.cli.environment import parse_setting
from airflow_samza.cli.options import (
    EVERYTHING,
    Application,
    Interval,
    Json,
    PartitionKey,
    Place,
    at_place,
    look_from_here,
)
from airflow_samza.cli.terminal import say, width_of
from airflow_samza.errors import ConfigError


@at_place(EVERYTHING)
def plan(
    place: Place,
    application: Application,
    interval: Interval = None,
    partition_key: PartitionKey = None,
    diff: Annotated[
        str | None,
        typer.Option(
            "--diff",
            metavar="last|FILE",
            help="Show the differences from an earlier plan: that of the last run, or one in a file.",
        ),
    ] = None,
    form: Annotated[
        str,
        typer.Option("--format", "-f", metavar="FORMAT", help="The format: text, mermaid, dot, or json, as --json."),
    ] = "text",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file instead of printing.")
    ] = None,
    shuffles: Annotated[
        bool,
        typer.Option("--shuffles", help="Start Spark, make the DataFrames of from_dataframe, and list their shuffles."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the plan: stages, streams, tables, and why each partition count is what it is. Nothing is run.

    With --env, --root or --system the systems are asked, and each operator has the engine that runs it, and why: Arrow,
    or Catalyst in Spark.
    """
    from airflow_samza.cli import planning
    from airflow_samza.cli.run_command import parse_interval

    look_from_here()
    form = "json" if as_json else form
    planning.checked_format(form)
    named = place.environment() if place.is_named or shuffles else None
    keys = named.config if named is not None else dict(parse_setting(option) for option in place.config or ())
    preview = planning.preview(application, named, parse_interval(interval), keys, partition_key or None)
    if shuffles and named is not None:
        preview = planning.with_shuffles(preview, application, named)
    if diff is None:
        text = planning.render(preview, form, width_of(sys.stdout) if output is None else None)
    elif form != "text":
        raise ConfigError(
            f"--diff has no form {form!r}.", hint="Leave --format out with --diff.", key="--format", value=form
        )
    else:
        environment = named or place.environment()
        text = planning.describe_difference(
            *planning.earlier_plan(diff, preview.plan.application, environment), preview.plan
        )
    for note in preview.notes:
        say(f"Note: {note}", err=True)
    _print(text, form, output)


def _print(text: str, form: str, output: Path | None) -> None:
    if output is None:
        (say if form == "text" else typer.echo)(text)
        return
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        partial = output.with_name(f".{output.name}.partial")
        partial.write_text(text + "\n", encoding="utf-8")
        os.replace(partial, output)
    except OSError as error:
        raise ConfigError(
            f"{output} cannot be written: {error.strerror}.",
            hint="Name another file with --output.",
            key="--output",
            value=str(output),
        ) from None
    typer.echo(f"Written to {output}.", err=True)
