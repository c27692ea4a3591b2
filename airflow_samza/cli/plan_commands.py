"""``airflow-samza plan``: the plan as every other face shows it, and how it differs from an earlier one."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer

from airflow_samza.application.loader import load_application
from airflow_samza.cli.environment import Environment, parse_setting
from airflow_samza.cli.options import (
    EVERYTHING,
    Application,
    Interval,
    Json,
    PartitionKey,
    Place,
    at_place,
    check_format,
    look_from_here,
)
from airflow_samza.cli.terminal import say, width_of
from airflow_samza.errors import ConfigError, SamzaError, UnknownName
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.run_plan import RunPlan

FORMATS = ("text", "json", "mermaid", "dot")


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
    from airflow_samza.cli.run_command import parse_interval

    look_from_here()
    form = "json" if as_json else form
    check_format(form, FORMATS)
    named = place.environment if place.is_named or shuffles else None
    keys = named.config if named is not None else dict(parse_setting(option) for option in place.config or ())
    preview = preview_of(application, named, parse_interval(interval), keys, partition_key or None)
    if shuffles and named is not None:
        preview = with_shuffles(preview, application, named)
    if diff is None:
        text = render(preview, form, width_of(sys.stdout) if output is None else None)
    elif form != "text":
        raise ConfigError(
            f"--diff has no form {form!r}.", hint="Leave --format out with --diff.", key="--format", value=form
        )
    else:
        environment = named or place.environment
        text = describe_difference(*earlier_plan(diff, preview.plan.application, environment), preview.plan)
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


@dataclass(frozen=True)
class Preview:
    """A plan of which nothing was stored.

    ``engines``: where each operator runs and why, by operator id; ``notes`` are sentences.

    ``flows`` are, per stage and stream, what less than the whole is read or sent.
    """

    plan: ExecutionPlan
    engines: Mapping[str, str]
    notes: tuple[str, ...] = ()
    flows: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def preview_of(
    reference: str,
    environment: Environment | None,
    interval: DataInterval | None,
    config: Mapping[str, str],
    partition_key: str | None = None,
) -> Preview:
    """Return the plan that a run would get.

    Without an environment no system is asked: the application's own declarations count.
    """
    from airflow_samza.planner.planner import ExecutionPlanner

    spec = load_application(reference).spec(config)
    if environment is None:
        plan = ExecutionPlanner({}, {}).plan(spec)
        return Preview(
            plan,
            {},
            (
                "No system was asked (no --env, --root or --system): the counts are "
                "those that the application declares.",
            ),
        )
    from airflow_samza.prepare.plan_step import preview_run
    from airflow_samza.prepare.run_request import RunRequest

    request = RunRequest(reference, "preview", interval=interval, config=config, partition_key=partition_key)
    run = preview_run(environment.files, environment.systems, environment.default_system, request)
    return Preview(run.plan, run.engine_texts, (), run.notes)


def with_shuffles(preview: Preview, reference: str, environment: Environment) -> Preview:
    """Return the plan with the shuffles of its ``from_dataframe`` functions, which Spark plans and does not run."""
    from airflow_samza.spark.shuffles import planned_shuffles

    named = planned_shuffles(load_application(reference).spec(environment.config), environment.spark_conf)
    flows = {stage.stage_id: dict(preview.flows.get(stage.stage_id, {})) for stage in preview.plan.stages}
    for stage in preview.plan.stages:
        for stream_id in stage.inputs:
            if named.get(stream_id):
                flow_texts = [flows[stage.stage_id][stream_id]] if stream_id in flows[stage.stage_id] else []
                flows[stage.stage_id][stream_id] = "; ".join([*flow_texts, *named[stream_id]])
    return replace(preview, flows=flows)


def render(preview: Preview, form: str, width: int | None = None) -> str:
    """Return the plan in one of :data:`FORMATS`; a text for a terminal of that ``width``."""
    if form == "json":
        asked = {"engines": dict(preview.engines), "flows": dict(preview.flows)} if preview.engines else {}
        return json.dumps({**json.loads(preview.plan.to_json()), **asked}, indent=2, sort_keys=True)
    if form == "text":
        from airflow_samza.planner.explain import explain

        return explain(preview.plan, preview.engines, preview.flows, width=width).rstrip("\n")
    from airflow_samza.planner import pictures

    return {"mermaid": pictures.mermaid, "dot": pictures.dot}[form](preview.plan).rstrip("\n")


def earlier_plan(reference: str, application: str, environment: Environment) -> tuple[ExecutionPlan, str]:
    """Return the plan that ``--diff`` names, and a name for it.

    ``last`` is the newest plan of a run under the root, else a file.
    """
    if reference != "last":
        return _plan_in_file(Path(reference)), reference
    from airflow_samza.runs.records.folders import RunFolder, must_read
    from airflow_samza.runs.records.names import safe

    files = environment.files
    stored = [
        (files.modified(path), run, path)
        for run in files.list(f"runs/{safe(application)}")
        for folder in [RunFolder(application, run)]
        for generation in folder.plan_generations(files)
        for path in [folder.plan(generation)]
    ]
    if not stored:
        raise UnknownName(
            f"There is no earlier plan of {application!r} under {environment.root}.",
            hint="Name another root or environment, or a file that was written with --format json --output.",
            name="last",
        )
    _, run, path = max(stored)
    return must_read(files, path, RunPlan).plan, f"the plan of run {run}"


def _plan_in_file(file: Path) -> ExecutionPlan:
    try:
        return ExecutionPlan.from_json(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be read: {error.strerror}.",
            hint="--diff takes `last`, or a file that was written with --format json --output.",
            key="--diff",
            value=str(file),
        ) from None
    except (ValueError, SamzaError):
        raise ConfigError(
            f"{file} does not hold a plan.",
            hint="Write one: airflow-samza plan APP --format json --output FILE.",
            key="--diff",
            value=str(file),
        ) from None


def describe_difference(former: ExecutionPlan, name: str, plan: ExecutionPlan) -> str:
    """Return the changes since an earlier plan, a sentence a line."""
    from airflow_samza.planner.difference import difference

    changes = difference(former, plan)
    if not changes:
        return f"No difference to {name} (plan {former.fingerprint})."
    heading = f"Different from {name} (plan {former.fingerprint}, now {plan.fingerprint}):"
    return "\n".join([heading, *(f"  {change}" for change in changes)])
