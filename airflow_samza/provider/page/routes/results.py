"""Outputs, bad records, failures, logs, links."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query

from airflow_samza.errors import MessageError, SamzaError
from airflow_samza.planner.plan import Stage
from airflow_samza.planner.titles import stage_names
from airflow_samza.provider.disclosure import (
    NOT_SHOWN,
    TEXT_NOT_SHOWN,
    hint_of,
    masked_columns,
    may_quote_rows,
    shows_samples,
)
from airflow_samza.provider.page.airflow_records import Event, Records
from airflow_samza.provider.page.answers.results import (
    AssetEvent,
    Bad,
    BadRecords,
    DownstreamRun,
    Failure,
    Failures,
    Link,
    Links,
    Logs,
    Output,
    Outputs,
    RunnerLog,
    Sample,
    Samples,
    Waiting,
)
from airflow_samza.provider.page.looks import LOOKS
from airflow_samza.provider.page.opened_run import Opened, OpenedRun
from airflow_samza.provider.page.parallel import Result, of_each
from airflow_samza.provider.page.rights import OF_LOGS, OF_ROWS, OF_RUN, ReadableDags
from airflow_samza.provider.page.routes.addresses import OF_PLAN
from airflow_samza.quoting import printable
from airflow_samza.runs.progress.stage_progress import DEAD_LETTERS, DROPPED, LATE, newest_generation
from airflow_samza.runs.records.epoch_records import newest_intent, read_commit
from airflow_samza.runs.records.folders import read
from airflow_samza.runs.records.stage_result import OutputResult, StageResult
from airflow_samza.runs.stages.runner_log import log_end
from airflow_samza.runs.stages.spark_page import read_spark_page
from airflow_samza.runs.stages.stage_runners import RunnerFolder, all_runners
from airflow_samza.runs.stages.stage_state import CANCELLED, FAILED, LOST, StageHandle, stage_status, was_cancelled
from airflow_samza.runs.upkeep.waiting_output import is_worked_on, waiting_output
from airflow_samza.secrecy import without_passwords

router = APIRouter(tags=["results"], dependencies=OF_RUN)

FILES_SHOWN = 50

SAMPLES = "bad_records"
"""The fact of tasks that holds samples."""

RUNNERS_SHOWN = 5

_NAMES = ("operator", "exception", "stage", "table", "stream")
"""Facts that are names."""


@router.get(f"{OF_PLAN}/outputs", operation_id="outputs")
def outputs(opened: Opened, records: Records, may_read: ReadableDags) -> Outputs:
    """Return what the stages have written, and the runs of other Dags that it has started."""
    here, run, files = opened.planned, opened.run, opened.files
    systems, _ = opened.bound
    waiting = [] if is_worked_on(files, run) else waiting_output(files, systems, run)
    tasks = {opened.task_of(stage.stage_id) for stage in run.plan.stages} - {""}
    names = stage_names(run.plan)
    results = _of_stages(opened, lambda handle: read(files, handle.folder.result, StageResult))
    return Outputs(
        outputs=[
            _output(result, output, names[result.stage_id])
            for result in results
            if result is not None
            for output in result.outputs
        ],
        waiting=[Waiting(stage_id=output.stage_id, text=str(output)) for output in waiting],
        events=[_event(event, may_read) for event in records.events(here.dag_id, here.run_id, sorted(tasks))],
    )


@router.get(f"{OF_PLAN}/bad-records", operation_id="badRecords")
def bad_records(opened: Opened, records: Records) -> Bad:
    """Return how many messages got no further, by operator."""
    here = opened.planned
    marks = records.task_marks(here.dag_id, here.run_id, set(opened.note.tasks.values()), here.map_index)
    rows = []
    for stage in LOOKS.progress(opened, marks).progress.stages:
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
    facts = _of_stages(opened, lambda handle: (handle.stage_id, _facts(opened, handle)))
    for stage_id, noted in facts:
        for text in noted.get(SAMPLES) or ():
            place = str(text).partition(": ")[0]
            shown = place if masked else without_passwords(str(text))
            operator = place.partition(" (")[0]
            samples_shown.append(Sample(stage_id=stage_id, stage_name=names[stage_id], operator=operator, text=shown))
    note = "Messages are left out of the samples: columns are masked ([samza] page_masked_columns)." if masked else None
    return Samples(samples=samples_shown, note=note)


@router.get(f"{OF_PLAN}/failures", operation_id="failures", dependencies=OF_LOGS)
def failures(opened: Opened) -> Failures:
    """Return the newest failure of each stage, with the callable that raised."""
    failed = _of_stages(opened, lambda handle: _failure(opened, handle))
    return Failures(failures=[failure for failure in failed if failure is not None])


@router.get(f"{OF_PLAN}/logs", operation_id="logs", dependencies=OF_LOGS)
def logs(
    opened: Opened,
    kilobytes: Annotated[int, Query(ge=1, le=1024, description="The end of each log, of this length.")] = 64,
) -> Logs:
    """Return the ends of the logs of the run's stage runners."""
    runners = all_runners(opened.files, opened.folder)
    shown = sorted(runners, key=lambda runner: runner.heard_at(opened.files), reverse=True)[:RUNNERS_SHOWN]
    notes = []
    if not runners:
        notes.append("No stage runner has been started yet.")
    if len(runners) > len(shown):
        notes.append(f"{len(runners) - len(shown)} older runners are left out: airflow-samza logs shows all.")
    return Logs(logs=[_log(opened, runner, kilobytes * 1024) for runner in shown], note=" ".join(notes) or None)


@router.get(f"{OF_PLAN}/links", operation_id="links")
def links(opened: Opened) -> Links:
    """Return links to Spark's page and the like."""
    spark_links = []
    for runner in all_runners(opened.files, opened.folder):
        page = read_spark_page(opened.files, runner)
        is_over = not runner.is_alive(opened.files)
        address = page.link(is_over=is_over) if page is not None else ""
        if address:
            gone = "The driver has ended, and its page with it." if is_over and page and not page.history else None
            spark_links.append(Link(name=f"Spark of runner {runner.number}", url=address, stage_id=None, note=gone))
    return Links(links=spark_links)


def _of_stages(opened: OpenedRun, work: Callable[[StageHandle], Result]) -> list[Result]:
    """Return a result of each stage, from records of its newest generation; the plan is read before."""
    run, files = opened.run, opened.files

    def of_stage(stage: Stage) -> Result:
        return work(
            StageHandle(run.application, run.run_id, stage.stage_id, newest_generation(files, run, stage.stage_id))
        )

    return of_each(files, of_stage, run.plan.stages)


def _facts(opened: OpenedRun, handle: StageHandle) -> Mapping[str, Any]:
    """Return the facts of a stage's tasks: of its result, or of its last commit."""
    folder = handle.folder
    result = read(opened.files, folder.result, StageResult)
    if result is not None:
        return result.task_facts
    intent = newest_intent(opened.files, folder)
    for epoch in (intent.epoch, intent.epoch - 1) if intent is not None else ():
        committed = read_commit(opened.files, folder, epoch) if epoch >= 0 else None
        if committed is not None:
            return committed.totals.facts
    return {}


def _output(result: StageResult, output: OutputResult, name: str) -> Output:
    names = output.facts.get("files")
    files = [str(name) for name in names] if isinstance(names, list | tuple) else None
    return Output(
        stage_id=result.stage_id,
        stage_name=name,
        stream_id=output.stream_id,
        system=output.system,
        place=without_passwords(str(output.facts.get("path") or output.stream)),
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
        runs=[DownstreamRun(dag_id=run.dag_id, run_id=run.run_id, state=run.state) for run in readable],
        hidden_runs=len(event.runs) - len(readable),
    )


def _failure(opened: OpenedRun, handle: StageHandle) -> Failure | None:
    """Return the failure of a stage's newest attempt; None where it has not failed."""
    status = stage_status(opened.files, handle)
    if not status.attempt or status.state not in (FAILED, CANCELLED, LOST):
        return None
    record: Mapping[str, Any] = status.error or {}
    error = SamzaError.from_dict(dict(record)) if record else SamzaError(_without_error(status.state, handle.stage_id))
    facts = {str(name): str(value) for name, value in error.facts.items() if value is not None}
    file, line = facts.pop("file", None), facts.pop("line", None)
    sentence, hint = error.sentence, hint_of(error)
    if may_quote_rows(error):
        facts = {name: value for name, value in facts.items() if name in _NAMES}
        sentence = f"The stage {handle.stage_id!r} has failed. {TEXT_NOT_SHOWN}"
    return Failure(
        stage_id=handle.stage_id,
        stage_name=stage_names(opened.run.plan)[handle.stage_id],
        generation=str(handle.generation),
        attempt=status.attempt,
        state=status.state,
        kind=str(record.get("type") or status.state),
        sentence=without_passwords(sentence),
        hint=without_passwords(hint) or None,
        callable=f"{file}:{line}" if file and line else file,
        facts=[without_passwords(f"{name}: {value}") for name, value in facts.items()],
        at=status.updated_at,
        another_try=_another_try(error),
    )


def _another_try(error: SamzaError) -> str:
    if not error.retryable or error.facts.get("condition"):  # SQL has the same answer for the same row
        return "fails in the same way"
    if isinstance(error, MessageError):
        return "fails in the same way, unless the function asks something besides its message"
    return "may succeed"


def _without_error(state: str, stage_id: str) -> str:
    if state == LOST:
        return f"The runner of the stage {stage_id!r} gives no sign of life."
    return was_cancelled(stage_id)


def _log(opened: OpenedRun, runner: RunnerFolder, most: int) -> RunnerLog:
    who = runner.who(opened.files) or {}
    host = str(who.get("host") or "") or None
    place, end, note = without_passwords(opened.files.location(runner.log)), None, None
    try:
        end = log_end(opened.files, runner.log, opened.hook.secrets(), most)
    except (SamzaError, OSError) as error:
        note = without_passwords(f"The log could not be read: {getattr(error, 'sentence', None) or error}.")
    if end is None and note is None:
        note = "This runner keeps no log under the root: it prints where its driver runs (yarn logs, kubectl logs)."
    elif end is not None and end.from_byte:
        note = f"Its last {end.bytes - end.from_byte:,} of {end.bytes:,} bytes."
    return RunnerLog(
        runner=runner.number,
        host=host,
        place=place,
        bytes=end.bytes if end is not None else None,
        from_byte=end.from_byte if end is not None else 0,
        text="\n".join(map(printable, end.text.splitlines())) if end is not None else "",
        lives=runner.is_alive(opened.files),
        note=note,
    )
