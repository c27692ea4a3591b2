"""``airflow-samza run``.

Plans an application and runs its stages one after the other, by the code that Airflow's tasks use.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_samza.cli.environment import Environment
from airflow_samza.cli.remedies import PLAN_ANEW, on_the_command_line
from airflow_samza.cli.reporting import Terminated
from airflow_samza.cli.run_lines import PlainLines, Tell
from airflow_samza.config import INPUTS_BOUNDED, INPUTS_FLUSH
from airflow_samza.errors import ConfigError, InvalidApplication, SamzaError
from airflow_samza.figures import duration, size
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.records import plain
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.folders import RunFolder, read
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import STAGED, RunPlan
from airflow_samza.runs.records.stage_result import StageResult, new_results, run_seconds
from airflow_samza.runs.stages.newest_stages import is_finished
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.systems.filesystems.filesystem import Filesystem

if TYPE_CHECKING:
    from airflow_samza.launch.runtime import SparkRuntime

# Until a cancelled stage has really stopped; a Spark task looks for its end several times a second.
CANCEL_SECONDS = 20.0


def run_application(
    request: RunRequest,
    environment: Environment,
    *,
    lines: PlainLines,
    again: bool = False,
    master: str | None = None,
    deploy_mode: str | None = None,
    until: str | None = None,
    runner_python: str | None = None,
    runtime: SparkRuntime | None = None,
    resumed_by: str = "",
) -> tuple[RunPlan, list[StageResult]]:
    """Plan a run and run its stages; ``lines`` get the plan and the progress.

    What is interrupted is cancelled, and resumed by running it again.

    A run that was planned before continues by its plan, unless ``again``: other options than then are rejected. Without
    ``master`` and ``deploy_mode`` those of the environment's Spark settings count, by Spark's own keys. ``until`` is
    the length of time after which an unbounded run stops. ``runner_python`` comes before the environment's. With a
    ``runtime`` that is taken. ``resumed_by`` is the command that resumes the run ("": ``airflow-samza run``).
    """
    from airflow_samza.application.loader import load_application
    from airflow_samza.planner.explain import explain
    from airflow_samza.prepare.plan_step import leave_why_not_planned
    from airflow_samza.runs.progress.run_list import note_origin

    reference, name = request.application, request.run_id
    application = load_application(reference)
    files = environment.files
    spec = application.spec(request.config)
    folder = RunFolder(spec.name, name)
    generations = folder.plan_generations(files)
    before = read(files, folder.plan(generations[-1]), RunPlan) if generations else None
    resumed = before is not None and not again
    if before is not None:
        request = replace(request, generation=before.generation + (1 if again else 0))
    runtime = runtime or runtime_of(environment, master, deploy_mode, runner_python)
    seconds = parse_length(until, (before.mode if before is not None and resumed else request.mode) or STAGED)
    tell = lines.tell
    lines.waits(f"Planning {spec.name}")
    try:
        run = runtime.prepare(request, on_wait=lambda why: tell(f"Waiting: {why}"))
    except SamzaError as error:
        leave_why_not_planned(files, reference, name, request.config, error)
        raise
    note_origin(files, folder, {})
    tell(f"Run {name} of {reference}; records and topics under {environment.root}.")
    tell(explain(run.plan, run.engine_texts, run.notes, run.reuse_texts, lines.width))
    if resumed and is_finished(files, run):
        tell(
            f"Run {run.run_id} has succeeded before: nothing is read or written now; what follows is what it did then. "
            "Add --again to run it anew."
        )
    lines.planned(run, lambda stage_id, status: runtime.progress(_handle(run, stage_id), status))
    failure: BaseException | None = None
    try:
        if seconds is not None:
            runtime.stop(run, at=time.time() + seconds)
        results = runtime.run_stages(run, on_submit=lines.submitting, on_progress=lines.progress, on_result=lines.done)
    except BaseException as error:
        failure = error
        if isinstance(error, KeyboardInterrupt | Terminated):
            tell(f"Run {name} is cancelled; waiting up to {CANCEL_SECONDS:.0f} s for its end (again: leave at once).")
        raise
    finally:
        lines.waits("Ending the run")
        _close(runtime, run, failure is None, tell)
        if failure is not None:
            _tell_what_stays(files, run, tell)
            if resumed_by:
                tell(f"To resume it: {resumed_by} (with the same options).")
            else:
                tell(_way_on(f"airflow-samza run {reference} --run-id {name}", failure))
    from airflow_samza.cli.warm_commands import lenders

    for lender in lenders(files, run):
        tell(f"Served by the warm runner {lender}.")
    runtime.upkeep.sweep_after(run.application, environment.keep, tell)
    return run, results


def with_ends(config: Mapping[str, str], *, unbounded: bool, flush: bool) -> dict[str, str]:
    """Return the configuration of a run with the keys for which ``--unbounded`` and ``--flush`` stand."""
    return {**config, **({INPUTS_BOUNDED: "false"} if unbounded else {}), **({INPUTS_FLUSH: "true"} if flush else {})}


def name_of(run_id: str | None) -> str:
    """Return the id of a run: that of ``--run-id``, else one by the clock."""
    if run_id is not None and not run_id.strip():
        raise ConfigError(
            "--run-id is empty.",
            hint="Name the run (is a shell variable empty?), or leave --run-id out: then "
            "the run is named after the time.",
            key="--run-id",
            value=run_id,
        )
    return run_id or named_by_clock("cli")


def named_by_clock(prefix: str) -> str:
    """Return an id of a run or a push, by the time."""
    return f"{prefix}-{datetime.now(timezone.utc):%Y-%m-%dT%H-%M-%S-%f}"


def _close(runtime: SparkRuntime, run: RunPlan, succeeded: bool, tell: Tell) -> None:
    """End the run's runners; a failure here does not hide the error that ended the run."""
    try:
        runtime.close(run, succeeded=succeeded, wait_seconds=CANCEL_SECONDS)
    except (SamzaError, OSError) as error:
        if succeeded:
            raise
        tell(f"The run could not be closed: {error}")
    except (KeyboardInterrupt, Terminated):
        if succeeded:
            raise


def _tell_what_stays(files: Filesystem, run: RunPlan, tell: Tell) -> None:
    """Report processes that still run after a run that did not succeed."""
    from airflow_samza.runs.stages.stage_runners import existing_processes

    with suppress(SamzaError, OSError):
        for host, process in existing_processes(files, RunFolder(run.application, run.run_id)):
            tell(f"Its stage runner is still ending (host {host}, process {process}). To end it now: kill -9 {process}")


def _way_on(command: str, failure: BaseException) -> str:
    """Return how the run goes on after ``failure``: as the hint of an error says, where that asks for a new plan."""
    if isinstance(failure, SamzaError):
        if PLAN_ANEW in on_the_command_line(failure.hint):
            return f"To run it again: {command} {PLAN_ANEW} (with the same options)."
        change = "a change of its input files or of what it declares"
        return f"To resume it: {command} (with the same options, and {PLAN_ANEW} only after {change})."
    return f"To resume it: {command} (with the same options, without {PLAN_ANEW})."


def runtime_of(
    environment: Environment,
    master: str | None = None,
    deploy_mode: str | None = None,
    runner_python: str | None = None,
    plan_anew: str = "",
) -> SparkRuntime:
    """Return the runtime of an environment; its Spark settings are the default of ``master`` and ``deploy_mode``.

    ``plan_anew`` is the hint for a run whose application has changed since it was planned ("": ``--again``).
    """
    from airflow_samza.launch.masters import DEFAULT_MASTER, DEPLOY_MODE_KEY, MASTER_KEY, SubmitOptions
    from airflow_samza.launch.runner_python import checked_path
    from airflow_samza.launch.runtime import SparkRuntime

    conf = dict(environment.spark_conf)
    named_master, named_mode = conf.pop(MASTER_KEY, DEFAULT_MASTER), conf.pop(DEPLOY_MODE_KEY, "client")
    return SparkRuntime(
        environment.root,
        environment.systems,
        default_system=environment.default_system,
        spark_conf=conf,
        master=master or named_master,
        submit=SubmitOptions(deploy_mode or named_mode),
        access=environment.access,
        plan_anew=plan_anew
        or "Add --again: the run is planned anew, and stages that have not changed keep their results.",
        runner_python=checked_path(runner_python, Path.cwd()) if runner_python else environment.runner_python,
    )


def _handle(run: RunPlan, stage_id: str) -> StageHandle:
    return StageHandle(run.application, run.run_id, stage_id, Generation(run.generation, 1))


def parse_length(text: str | None, mode: str) -> float | None:
    """Return the seconds of ``--for``, an option of runs whose stages run at the same time."""
    from airflow_samza.application.times import duration_ms

    if text is None:
        return None
    if mode == STAGED:
        raise ConfigError(
            "--for limits a run on unbounded inputs; a staged run ends by itself.",
            hint="Add --mode continuous, or leave --for out.",
            key="--for",
            value=text,
        )
    try:
        return duration_ms(text) / 1000
    except InvalidApplication as error:  # no line of an application is to blame
        hint = 'Write one such as --for "30 seconds", "5 minutes" or "1 hour".'
        raise ConfigError(
            f"--for {text!r} is not a positive length of time.", hint=hint, key="--for", value=text
        ) from error


_OF_NAMES = {
    "--section": (
        "whose section is read",
        "Write --section STREAM=RUN, with a shared stream of the application and the run that wrote it.",
    ),
    "--table": (
        "which version of which table is read",
        "Write --table TABLE=VERSION, with a pushed table and current, as_of_interval or the id of a push "
        "(airflow-samza tables versions).",
    ),
    "--input-version": (
        "up to which version which input is read",
        "Write --input-version STREAM=VERSION, with an input that is a table of a lake, and the id of a snapshot "
        "(Iceberg) or the number of a version (Delta).",
    ),
}
"""Options of the form ``name=value``: what one without a name or a value does not say, and how it is written."""


def parse_named(key: str, options: Iterable[str]) -> dict[str, str]:
    """Return the values that an option of the form ``name=value`` gives, by name.

    >>> parse_named("--section", ["per-minute=monday"])
    {'per-minute': 'monday'}
    """
    what, hint = _OF_NAMES[key]
    values: dict[str, str] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not (name and equals and value):
            raise ConfigError(f"{key} {option!r} does not say {what}.", hint=hint, key=key, value=option)
        if values.setdefault(name, value) != value:
            raise ConfigError(
                f"{key} says both {name}={values[name]} and {name}={value}.",
                hint="Give it once for each name.",
                key=key,
                value=value,
            )
    return values


def parse_interval(text: str | None) -> DataInterval | None:
    """Return the data interval of ``START/END``, both as ISO texts; without a zone they are UTC."""
    if text is None:
        return None
    start, slash, end = text.partition("/")
    if not (start and slash and end):
        raise ConfigError(
            f"--interval {text!r} is not an interval.",
            hint="Write it as start/end: --interval 2026-01-01T05:00/2026-01-01T06:00 (without a zone: UTC).",
            key="--interval",
            value=text,
        )
    return DataInterval.from_iso(start, end)


def summary(run: RunPlan, results: list[StageResult]) -> str:
    """Return the results of a run for people."""
    lines = [f"Run {run.run_id} of {run.application} succeeded in {duration(run_seconds(run, new_results(results)))}."]
    for output in (output for result in results for output in result.outputs if not output.own):
        place = output.facts.get("path") or f"{output.system}.{output.stream}"
        lines.append(f"  {output.stream_id}: {output.messages:,} {output.unit}, {size(output.bytes)}, in {place}")
    return "\n".join(lines)


def summary_json(run: RunPlan, results: list[StageResult]) -> str:
    """Return the results of a run for programs."""
    return json.dumps(
        {
            "application": run.application,
            "run_id": run.run_id,
            "generation": run.generation,
            "fingerprint": run.plan.fingerprint,
            "seconds": run_seconds(run, new_results(results)),
            "stages": [plain(result) for result in results],
        },
        indent=2,
    )
