"""Outputs, and bad records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from fastapi import APIRouter

from airflow_samza.errors import SamzaError
from airflow_samza.launch.code_shipping import within_folder
from airflow_samza.planner.titles import stage_names
from airflow_samza.provider.disclosure import (
    NOT_SHOWN,
    masked_columns,
    shows_samples,
)
from airflow_samza.provider.page.airflow_records import DownstreamRun, Event, Records
from airflow_samza.provider.page.answer import Answer, OfStage
from airflow_samza.provider.page.looks import LOOKS
from airflow_samza.provider.page.opened_run import Opened, OpenedRun, of_stages
from airflow_samza.provider.page.rights import OF_PLAN, OF_ROWS, OF_RUN, ReadableDags
from airflow_samza.runs.progress.stage_progress import DEAD_LETTERS, DROPPED, LATE
from airflow_samza.runs.records.comparison import Comparison
from airflow_samza.runs.records.epoch_records import newest_commit, newest_intent
from airflow_samza.runs.records.expectations import ExpectationResult
from airflow_samza.runs.records.folders import RunFolder, read, read_report
from airflow_samza.runs.records.stage_result import OutputResult, StageResult
from airflow_samza.runs.stages.stage_runners import is_worked_on
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.runs.tables.versions import by_number
from airflow_samza.runs.upkeep.waiting_output import waiting_output
from airflow_samza.secrecy import without_passwords

router = APIRouter(tags=["results"], dependencies=OF_RUN)

FILES_SHOWN = 50

SAMPLES = "bad_records"
"""The fact of tasks that holds samples."""


class Output(OfStage):
    """An output: what a stage has written to a stream."""

    stream_id: str
    system: str
    place: str
    own: bool
    """True for a topic of the run itself, between two stages."""
    messages: int
    unit: str
    """``messages`` or ``partial results``."""
    bytes: int
    partitions: int
    files: int | None
    """The number of files; None where the system has none."""
    file_names: list[str]
    """The first of them."""
    seconds: float
    generation: str


class AssetEvent(Answer):
    """An event of an asset that this Dag run has sent."""

    task_id: str | None
    uri: str
    name: str
    at: float
    messages: int | None
    runs: list[DownstreamRun]
    hidden_runs: int
    """Runs of Dags that the user may not read."""


class Waiting(Answer):
    """Messages that are committed, and neither published nor worked on."""

    stage_id: str
    text: str


class ComparedOutput(Answer):
    """The differences of the rows of an output from those that another run has written."""

    stream_id: str
    key: list[str]
    """The columns by which rows are found again; none: whole rows are compared."""
    equal: bool
    same: int
    added: int
    gone: int
    different: int
    columns: str
    """The columns in which rows differ, with their numbers, or that one run alone has, for people."""
    only_in: str
    """The run that alone has the output; empty: both."""


class Compared(Answer):
    """The comparison of the run with another one."""

    application: str
    """The application of the other run."""
    run_id: str
    equal: bool
    outputs: list[ComparedOutput]
    notes: list[str]


class Expected(OfStage):
    """The result of an expectation of an output, of an input, or of a pushed table that the run reads."""

    stream_id: str
    expectation: str
    outcome: str
    """``passed``, ``warned``, ``dropped``, ``dead letters`` or ``failed``."""
    rows: int
    """The rows that were looked at."""
    failed: int
    """Those that do not meet it; 1 where it is about all rows together."""
    found: str
    """The finding as a half sentence; empty where it is met. It quotes no rows."""


class Outputs(Answer):
    """The outputs of a run."""

    outputs: list[Output]
    expectations: list[Expected]
    """Those of stages that have ended, and of what others have published so far; a rejected stage has its reason."""
    waiting: list[Waiting]
    events: list[AssetEvent]
    compared: Compared | None
    """The comparison with another run, where the run was made for that and has ended."""


class BadRecords(OfStage):
    """The number of messages of an operator that got no further."""

    operator: str
    """Empty where the count is that of the whole stage."""
    kind: str
    """``late``, ``dropped``, ``dead_letters`` …"""
    count: int


class Bad(Answer):
    """The bad records of a run; samples have a route of their own."""

    records: list[BadRecords]
    samples_note: str | None
    """The reason for which no samples are shown, where that is so."""


class Sample(OfStage):
    """A message that failed, as the task has noted it, with the error."""

    operator: str
    text: str


class Samples(Answer):
    """Samples of bad records."""

    samples: list[Sample]
    note: str | None


@router.get(f"{OF_PLAN}/outputs", operation_id="outputs")
def outputs(opened: Opened, records: Records, may_read: ReadableDags) -> Outputs:
    """Return what the stages have written, and the runs of other Dags that it has started."""
    here, run, files = opened.planned, opened.run, opened.files
    systems, _ = opened.bound
    waiting = [] if is_worked_on(files, run) else waiting_output(files, systems, run)
    tasks = {opened.task_of(stage.stage_id) for stage in run.plan.stages} - {""}
    names = stage_names(run.plan)
    results = of_stages(opened, lambda handle: read(files, handle.folder.result, StageResult))
    looked = LOOKS.progress(opened, opened.task_marks(records)).progress
    return Outputs(
        outputs=[
            _output(result, output, names[result.stage_id])
            for result in results
            if result is not None
            for output in result.outputs
        ],
        expectations=[
            *(
                _expected(stage.stage_id, stage.stage_name, stream_id, each)
                for stage in looked.stages
                for stream_id, some in stage._expectations.items()
                for each in some
            ),
            *_of_tables(opened),
        ],
        waiting=[Waiting(stage_id=output.stage_id, text=str(output)) for output in waiting],
        events=[_event(event, may_read) for event in records.events(here.dag_id, here.run_id, sorted(tasks))],
        compared=_compared(read_report(files, RunFolder(run.application, run.run_id).comparison, Comparison)),
    )


def _of_tables(opened: OpenedRun) -> Iterator[Expected]:
    """Yield what was expected of the pushed tables that a run reads, with a stage that reads each, and its version."""
    run = opened.run
    for table_id, pinned in sorted(run.tables.items()):
        bound, number = run.side_input(str(pinned["stream_id"])), int(pinned["number"])
        with suppress(SamzaError):  # it has expired
            results = by_number(opened.files, bound.system, bound.spec.name, number).expectations
            readers = set(run.plan.table(table_id).readers)
            stage_id = next((stage.stage_id for stage in run.plan.stages if readers & set(stage.operators)), "")
            for each in results:
                yield _expected(stage_id, f"push of version {number}", table_id, each)


def _expected(stage_id: str, stage_name: str, stream_id: str, found: ExpectationResult) -> Expected:
    return Expected(
        stage_id=stage_id,
        stage_name=stage_name,
        stream_id=stream_id,
        expectation=found.expectation,
        outcome=found.outcome,
        rows=found.rows,
        failed=found.failed,
        found=found.found,
    )


def _compared(comparison: Comparison | None) -> Compared | None:
    """Return the comparison of a run as the page shows it: without keys of rows."""
    if comparison is None:
        return None
    return Compared(
        application=comparison.with_application,
        run_id=comparison.with_run,
        equal=comparison.is_equal,
        outputs=[
            ComparedOutput(
                stream_id=output.stream_id,
                key=list(output.key),
                equal=output.is_equal,
                same=output.same,
                added=output.added,
                gone=output.gone,
                different=output.different,
                columns="; ".join(output.column_texts),
                only_in=output.only_in,
            )
            for output in comparison.outputs
        ],
        notes=list(comparison.notes),
    )


@router.get(f"{OF_PLAN}/bad-records", operation_id="badRecords")
def bad_records(opened: Opened, records: Records) -> Bad:
    """Return how many messages got no further, by operator."""
    rows = []
    for stage in LOOKS.progress(opened, opened.task_marks(records)).progress.stages:
        for metric in stage.metrics:
            kind, _, operator = metric.name.partition(".")
            if kind in (LATE, DROPPED, DEAD_LETTERS) and metric.value:
                kind = kind.removesuffix("_messages")
                rows.append(
                    BadRecords(
                        stage_id=stage.stage_id,
                        stage_name=stage.stage_name,
                        operator=operator,
                        kind=kind,
                        count=int(metric.value),
                    )
                )
    return Bad(records=rows, samples_note=None if shows_samples() else NOT_SHOWN)


@router.get(f"{OF_PLAN}/bad-records/samples", operation_id="samples", dependencies=OF_ROWS)
def samples(opened: Opened) -> Samples:
    """Return samples of bad records.

    They are texts, in which columns cannot be told apart: where columns are masked, the place alone is shown.
    """
    if not shows_samples():
        return Samples(samples=[], note=NOT_SHOWN)
    masked, names = bool(masked_columns()), stage_names(opened.run.plan)
    samples_shown = []
    facts = of_stages(opened, lambda handle: (handle.stage_id, _facts(opened, handle)))
    for stage_id, noted in facts:
        for sample in noted.get(SAMPLES) or ():
            text = within_folder(str(sample))
            place = text.partition(": ")[0]
            shown = place if masked else without_passwords(text)
            operator = place.partition(" (")[0]
            samples_shown.append(Sample(stage_id=stage_id, stage_name=names[stage_id], operator=operator, text=shown))
    note = "Messages are left out of the samples: columns are masked ([samza] page_masked_columns)." if masked else None
    return Samples(samples=samples_shown, note=note)


def _facts(opened: OpenedRun, handle: StageHandle) -> Mapping[str, Any]:
    """Return the facts of a stage's tasks: of its result, or of its last commit."""
    result = read(opened.files, handle.folder.result, StageResult)
    if result is not None:
        return result.task_facts
    intent = newest_intent(opened.files, handle.folder)
    committed = newest_commit(opened.files, handle.folder, intent) if intent is not None else None
    return committed.totals.facts if committed is not None else {}


def _output(result: StageResult, output: OutputResult, name: str) -> Output:
    names = output.facts.get("files")
    files = [str(name) for name in names] if isinstance(names, list | tuple) else None
    return Output(
        stage_id=result.stage_id,
        stage_name=name,
        stream_id=output.stream_id,
        system=output.system,
        place=without_passwords(output.place),
        own=output.own,
        messages=output.messages,
        unit=output.unit,
        bytes=output.bytes,
        partitions=output.partitions,
        files=None if files is None else len(files),
        file_names=(files or [])[:FILES_SHOWN],
        seconds=result.seconds,
        generation=result.generation,
    )


def _event(event: Event, may_read: ReadableDags) -> AssetEvent:
    rows = event.extra.get("rows")
    readable = [run for run in event.runs if may_read(run.dag_id)]
    return AssetEvent(
        task_id=event.task_id,
        uri=without_passwords(event.uri),
        name=event.name,
        at=event.at,
        messages=rows if isinstance(rows, int) else None,
        runs=readable,
        hidden_runs=len(event.runs) - len(readable),
    )
