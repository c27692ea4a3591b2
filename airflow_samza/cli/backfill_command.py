"""``airflow-samza backfill-preview``: what a backfill of a Dag would read, write and cost, before it is started."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_samza.cli.options import Json, looking_in_database
from airflow_samza.cli.terminal import columns, json_line
from airflow_samza.errors import ConfigError
from airflow_samza.figures import duration, size
from airflow_samza.launch.programs import variables_set
from airflow_samza.records import plain
from airflow_samza.runs.progress.later_writers import merged
from airflow_samza.runs.progress.run_costs import total

if TYPE_CHECKING:
    from airflow_samza.provider.backfill.preview import ApplicationPreview, BackfillPreview, SlicePreview
    from airflow_samza.provider.backfill.slices import Slice

_WARNINGS_ONLY = {"AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING"}
"""A variable for Airflow while it is loaded: in which folders it looks for Dags is not for the user."""

UNKNOWN = "?"
"""The text in place of an amount that is not known before the run."""


def backfill_preview(
    dag: Annotated[str, typer.Argument(metavar="DAG", help="The id of the Dag.", show_default=False)],
    first: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="DATE",
            help="The first logical date, or partition date, an ISO date or time, in UTC unless it has a zone.",
        ),
    ],
    last: Annotated[str, typer.Option("--to", metavar="DATE", help="The last of them, which is included.")],
    dag_file: Annotated[
        Path | None,
        typer.Option(
            "--dag-file", metavar="FILE", help="The file of the Dag. Default: it is searched in Airflow's Dag bundles."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what a backfill of a Dag would do: its runs, what each reads, what exists already, what it may cost.

    Nothing runs, and nothing is written. Needs Airflow, with the Dag's connections.
    """
    since, until = _moment("--from", first), _moment("--to", last)
    with _printing_to_stderr(), variables_set(_WARNINGS_ONLY), looking_in_database():
        try:
            from airflow_samza.provider.backfill.preview import preview_backfill
        except ImportError as error:
            raise ConfigError(
                f"A backfill is Airflow's, and Airflow cannot be loaded here: {error}.",
                hint="Run the command in the environment of Airflow: pip install apache-airflow.",
                key="DAG",
                value=dag,
            ) from None
        preview = preview_backfill(dag, since, until, dag_file)
    typer.echo(json_line(facts(preview)) if as_json else "\n".join(lines(preview)))
    for note in preview.notes:
        typer.echo(f"Note: {note}", err=True)


def facts(preview: BackfillPreview) -> dict[str, Any]:
    """Return a preview as ``--json`` has it."""
    return {
        "dag_id": preview.dag_id,
        "slices": [_of_slice(each) for each in preview.slices],
        "applications": [
            {
                "application": each.application,
                "task_id": each.task_id,
                "root": each.root,
                "former_runs": each.former,
                "unreadable_runs": each.unread,
                "slices": [_of_preview(slice_) for slice_ in each.slices],
            }
            for each in preview.applications
        ],
        "notes": list(preview.notes),
    }


def _of_slice(each: Slice) -> dict[str, Any]:
    moments = {name: getattr(each, name) for name in ("run_after", "logical_date", "start", "end", "partition_date")}
    times = {name: moment.isoformat() if moment is not None else None for name, moment in moments.items()}
    return {"run_id": each.run_id, **times, "partition_key": each.partition_key}


def _of_preview(each: SlicePreview) -> dict[str, Any]:
    return {
        **_of_slice(each.slice),
        "samza_run_id": each.run_id,
        "interval": list(each.interval) if each.interval is not None else None,
        "inputs": [plain(amount) for amount in each.inputs],
        "tables": [plain(table) for table in each.tables],
        "there": [plain(run) for run in each.there],
        "airflow_run": each.airflow_run,
        "estimate": plain(each.estimate) if each.estimate is not None else None,
        "problem": each.problem,
        "stages": dict(each.stages),
        "outputs": dict(each.outputs),
        "later": list(each.later.run_ids),
        "awaited": [plain(awaited) for awaited in each.awaited],
    }


def lines(preview: BackfillPreview) -> list[str]:
    """Return a preview for people: a table of slices for each application, and what they are together."""
    count = len(preview.slices)
    if not count:
        return [f"A backfill of {preview.dag_id} makes no runs: the schedule has no interval there that is over."]
    span = f"{preview.slices[0].text} … {preview.slices[-1].text}" if count > 1 else preview.slices[0].text
    head = f"A backfill of {preview.dag_id} makes {count} run{'s' if count > 1 else ''}: {span}. Nothing was run."
    return [head, *(line for each in preview.applications for line in ["", *_application_lines(each)])]


def _application_lines(preview: ApplicationPreview) -> list[str]:
    amounts: dict[str, Callable[[SlicePreview], str]] = {
        "FILES": lambda each: _number(total(each.inputs, "files")),
        "BYTES": lambda each: _size(total(each.inputs, "bytes")),
        "OFFSETS": lambda each: _number(total(each.inputs, "offsets")),
        "TABLES": lambda each: ", ".join(f"{table.table_id} {table.number}" for table in each.tables) or UNKNOWN,
    }
    cells = {name: [text(each) for each in preview.slices] for name, text in amounts.items()}
    shown_cells = {name: column for name, column in cells.items() if set(column) != {UNKNOWN}}
    rows = [
        [each.slice.text, *(column[place] for column in shown_cells.values()), _existing_runs(each), _cost(each)]
        for place, each in enumerate(preview.slices)
    ]
    text = columns(["SLICE", *shown_cells, "THERE", "ESTIMATE"], rows)
    lines = [f"{preview.application}, planned by {preview.task_id}:", *text.splitlines()]
    lines += [f"  ! {each.slice.text}: {each.problem}" for each in preview.slices if each.problem]
    lines += [
        f"  {each.slice.text}, {stream_id}: {text}"
        for each in preview.slices
        for stream_id, text in each.outputs.items()
    ]
    lines += merged(*(each.later for each in preview.slices)).sentences
    by = dict.fromkeys((awaited.stream_id, awaited.task_id) for each in preview.slices for awaited in each.awaited)
    lines += [f"{stream_id!r} is written by task {task_id}, unknown until then." for stream_id, task_id in by]
    return [*lines, *_summary(preview)]


def _summary(preview: ApplicationPreview) -> list[str]:
    estimates = [each.estimate for each in preview.slices if each.estimate is not None]
    on_record = [each.slice.text for each in preview.slices if each.airflow_run]
    notes = []
    if estimates:
        by = {"run": "their typical cost"}.get(estimates[0].by, f"their cost per {estimates[0].by.rstrip('s')}")
        part = "" if len(estimates) == len(preview.slices) else f"of {len(estimates)} of {len(preview.slices)} slices, "
        notes.append(
            f"Estimate {part}by {estimates[0].runs} of {preview.former} former runs ({by}): "
            f"{duration(sum(each.seconds for each in estimates))} of stages one run after the other, "
            f"{duration(sum(each.task_seconds for each in estimates))} of work in tasks, "
            f"{sum(each.rows for each in estimates):,} rows. Airflow's own time comes on top."
        )
    elif any(each.problem is None for each in preview.slices):
        notes.append(f"No estimate: under {preview.root} no former run of {preview.application} has succeeded.")
    if on_record:
        notes.append(
            f"{len(on_record)} of {len(preview.slices)} dates have a run of this Dag: a backfill leaves them out, "
            "unless --reprocess-behavior is failed or completed."
        )
    if preview.unread:
        notes.append(f"The records of {preview.unread} former runs cannot be read: airflow-samza fsck has details.")
    return notes


def _existing_runs(each: SlicePreview) -> str:
    """Return what exists already: Airflow's run of the date, and runs of the application over the interval."""
    notes = [f"Dag run {each.airflow_run}"] if each.airflow_run else []
    for run in each.there[:1]:
        rows = ", ".join(f"{count:,} rows of {stream_id}" for stream_id, count in sorted(run.rows.items()))
        notes.append(
            f"{run.state}{f', {rows}' if rows else ''}" + (f" ({len(each.there)} runs)" if each.there[1:] else "")
        )
    if each.stages:
        kept = sum(text.startswith("kept") for text in each.stages.values())
        notes.append(f"a new plan keeps {kept} of {len(each.stages)} stages")
    return "; ".join(notes) or "-"


def _cost(each: SlicePreview) -> str:
    if each.problem:
        return "cannot be planned"
    if each.awaited:
        return f"unknown until {', '.join(dict.fromkeys(awaited.task_id for awaited in each.awaited))} has run"
    return duration(each.estimate.seconds) if each.estimate is not None else UNKNOWN


def _number(count: int | None) -> str:
    return UNKNOWN if count is None else f"{count:,}"


def _size(count: int | None) -> str:
    return UNKNOWN if count is None else size(count)


@contextmanager
def _printing_to_stderr() -> Iterator[None]:
    """Have what Airflow logs and Dag files print go to standard error: standard output is the preview's."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _moment(option: str, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise ConfigError(
            f"{option} {text!r} is no date.",
            hint=f"Write it in ISO form: {option} 2013-01-01, or 2013-01-01T06:00.",
            key=option,
            value=text,
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
