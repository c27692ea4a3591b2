"""Failures of stages, logs of their runners, links to Spark."""

from __future__ import annotations

import math
from typing import Annotated, Any

from fastapi import APIRouter, Query

from airflow_samza.errors import MessageError, SamzaError
from airflow_samza.planner.titles import stage_names
from airflow_samza.provider.disclosure import (
    TEXT_NOT_SHOWN,
    hint_of,
    may_quote_rows,
    shown_record,
)
from airflow_samza.provider.page.airflow_records import Records
from airflow_samza.provider.page.answer import Answer, OfStage
from airflow_samza.provider.page.opened_run import Opened, OpenedRun, of_stages
from airflow_samza.provider.page.rights import OF_LOGS, OF_PLAN, OF_RUN
from airflow_samza.quoting import printable
from airflow_samza.runs.progress.stage_failures import StageFailure, stage_failures
from airflow_samza.runs.stages.runner_log import log_end
from airflow_samza.runs.stages.spark_page import read_spark_page
from airflow_samza.runs.stages.stage_runners import RunnerFolder, all_runners
from airflow_samza.runs.stages.stage_state import CANCELLED, StageHandle, StageStatus, stage_status
from airflow_samza.secrecy import without_passwords

router = APIRouter(tags=["results"], dependencies=OF_RUN)

RUNNERS_SHOWN = 5

_NAMES = ("operator", "exception", "stage", "table", "stream")
"""Facts that are names."""


class Failure(OfStage):
    """The failure of an attempt at a stage."""

    generation: str
    attempt: int
    state: str
    kind: str
    sentence: str
    hint: str | None
    entry: str
    """The address of the entry of its kind in the documentation."""
    callable: str | None
    """The user's function that raised, by file and line."""
    file: str | None
    """The file of data that could not be read."""
    line: int | None
    """The line of that file, from 1, in which a bad record begins."""
    record: str | None
    """The beginning of the bad record, without masked columns; None where there is none, or rows are not shown."""
    facts: list[str]
    at: float | None
    another_try: str
    """The likely end of another try of the task: ``may succeed`` …"""


class Failures(Answer):
    """The newest failure of each stage that has one, the first first; those of cancelled stages come last."""

    failures: list[Failure]


class RunnerLog(Answer):
    """The end of a stage runner's log."""

    runner: int
    host: str | None
    place: str
    """The place of the log."""
    bytes: int | None
    from_byte: int
    text: str
    lives: bool | None
    note: str | None
    """The reason for which there is no text, or not all of it."""


class Logs(Answer):
    """The logs of a run's stage runners, newest runner first."""

    logs: list[RunnerLog]
    note: str | None


class Link(Answer):
    """A link of a run: to Spark's page, an output, a log."""

    name: str
    url: str
    stage_id: str | None
    note: str | None


class Links(Answer):
    """The links of a run."""

    links: list[Link]


@router.get(f"{OF_PLAN}/failures", operation_id="failures", dependencies=OF_LOGS)
def failures(opened: Opened, records: Records) -> Failures:
    """Return the newest failure of each stage, with the callable that raised.

    Stages whose tasks have never begun are not looked at under the root.
    """
    marks = opened.task_marks(records)

    def look(handle: StageHandle) -> tuple[StageHandle, StageStatus] | None:
        mark = marks.get(opened.task_of(handle.stage_id))
        return None if mark is not None and mark.never_begun else (handle, stage_status(opened.files, handle))

    looked = [one for one in of_stages(opened, look) if one is not None]
    failed = [_failure(opened, failure) for failure in stage_failures(opened.files, opened.run, looked)]
    return Failures(failures=sorted(failed, key=_order))


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
            note = "The driver has ended, and its page with it." if is_over and page and not page.history else None
            spark_links.append(Link(name=f"Spark of runner {runner.number}", url=address, stage_id=None, note=note))
    return Links(links=spark_links)


def _failure(opened: OpenedRun, failure: StageFailure) -> Failure:
    """Return the failure of a stage as the page shows it."""
    handle, status, error = failure
    facts = {str(name): str(value) for name, value in error.facts.items() if value is not None}
    place, record = _place(facts), facts.pop("record", None)
    sentence, hint = error.sentence, hint_of(error)
    if facts.get("reason", "").rstrip(".") in sentence:
        facts.pop("reason", None)
    if may_quote_rows(error):
        facts = {name: value for name, value in facts.items() if name in _NAMES}
        sentence = f"The stage {handle.stage_id!r} has failed. {TEXT_NOT_SHOWN}"
    return Failure(
        stage_id=handle.stage_id,
        stage_name=stage_names(opened.run.plan)[handle.stage_id],
        generation=str(handle.generation),
        attempt=status.attempt,
        state=status.state,
        kind=str((status.error or {}).get("type") or status.state),
        sentence=without_passwords(sentence),
        hint=without_passwords(hint) or None,
        entry=error.entry,
        record=shown_record(record),
        facts=[without_passwords(f"{name}: {value}") for name, value in facts.items()],
        at=status.updated_at,
        another_try=_another_try(error),
        **place,
    )


def _place(facts: dict[str, str]) -> dict[str, Any]:
    """Take the place of a failure from its facts: in the user's code, or in a file of data, which has no operator."""
    file, line = facts.pop("file", None), facts.pop("line", None)
    if file is not None and "operator" in facts:
        return {"callable": f"{file}:{line}" if line else file, "file": None, "line": None}
    number = int(line) if line is not None and line.isdecimal() else None
    return {"callable": None, "file": None if file is None else without_passwords(file), "line": number}


def _order(failure: Failure) -> tuple[bool, float]:
    return failure.state == CANCELLED, failure.at if failure.at is not None else math.inf


def _another_try(error: SamzaError) -> str:
    if not error.retryable or error.facts.get("condition"):  # SQL has the same answer for the same row
        return "fails in the same way"
    if isinstance(error, MessageError):
        return "fails in the same way, unless the function asks something besides its message"
    return "may succeed"


def _log(opened: OpenedRun, runner: RunnerFolder, most: int) -> RunnerLog:
    who = runner.who(opened.files) or {}
    host = str(who.get("host") or "") or None
    place, end, note = without_passwords(opened.files.location(runner.log)), None, None
    try:
        end = log_end(opened.files, runner.log, opened.hook.secrets(), most)
    except (SamzaError, OSError) as error:
        why = str(getattr(error, "sentence", None) or error).rstrip(".")
        note = without_passwords(f"The log could not be read: {why}.")
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
