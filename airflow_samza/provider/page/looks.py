"""Looks at runs, shared by all who watch: what cannot have changed is not read again.

Airflow's database says which tasks have moved, for all stages in one query. A stage whose task has not begun is not
looked at under the root; one that has ended is not looked at again until its task is. What is left are the stages that
are at work; of them, manifests never change. So a look costs about as much as the work that is going on. It says why a
stage has not begun, and for which one the run waits longest.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from cachetools import TTLCache

from airflow_samza.application.rejections import listed
from airflow_samza.planner.titles import stage_names
from airflow_samza.provider.page.airflow_records import TaskMark
from airflow_samza.provider.page.opened_run import OpenedRun, of_each
from airflow_samza.provider.page.stage_answers import Count, HeldTable, Progress, Stage, ended_stage, stage_answer
from airflow_samza.runs.progress.progress import NOT_STARTED, ProgressReport
from airflow_samza.runs.progress.run_costs import run_requests
from airflow_samza.runs.progress.run_list import run_state
from airflow_samza.runs.progress.stage_progress import stage_progress
from airflow_samza.runs.progress.task_facts import TaskFacts, read_task_facts
from airflow_samza.runs.records.epoch_records import read_commit
from airflow_samza.runs.records.folders import read
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.stage_result import StageResult
from airflow_samza.runs.stages.newest_stages import newest_handle
from airflow_samza.runs.stages.stage_state import CANCELLED, FAILED, QUEUED, RUNNING, SUCCEEDED, newest_attempt
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.versions import version_of_run
from airflow_samza.runs.tables.versions import newest
from airflow_samza.systems.filesystems.filesystem import Filesystem

SHARED_SECONDS = 1.0
"""For how long an answer serves everybody who asks."""

LOOK_SECONDS = 3.0
"""The pause between two looks of a page, on a storage where they cost nothing."""

OPENED_SECONDS = 300.0
"""For how long a root, its systems and the versions of tables are kept open: connections may change."""

RUNS_KEPT = 32

TASKS_KEPT = 16_384
"""Tasks of which a run's looks keep what their manifests tell: those of eight stages of 2,048 tasks."""


class Looked(NamedTuple):
    """An answer and its mark."""

    progress: Progress
    etag: str


@dataclass
class _RunRecords:
    """The records of one run, as they are known."""

    opened: OpenedRun
    lock: threading.Lock = field(default_factory=threading.Lock)
    looked: Looked | None = None
    at: float = 0.0
    marks: Mapping[str, TaskMark] = field(default_factory=dict)
    stages: dict[str, tuple[TaskMark | None, Stage]] = field(default_factory=dict)
    tasks: OrderedDict[str, TaskFacts] = field(default_factory=OrderedDict)
    tables: dict[str, HeldTable] | None = None
    names: dict[str, str] = field(default_factory=dict)

    def read_tasks(self, files: Filesystem, paths: Sequence[str]) -> list[TaskFacts | None]:
        """Return what manifests tell, which never change."""
        unknown = [path for path in paths if path not in self.tasks]
        read = of_each(files, lambda path: read_task_facts(files, [path])[0], unknown)
        for path, task in zip(unknown, read, strict=True):
            if task is not None:
                self.tasks[path] = task
        tasks = [self.tasks.get(path) for path in paths]
        while len(self.tasks) > TASKS_KEPT:
            self.tasks.popitem(last=False)
        return tasks


class Looks:
    """The looks of this process; by run, the last ones are kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: TTLCache[tuple[object, ...], _RunRecords] = TTLCache(
            RUNS_KEPT, OPENED_SECONDS, timer=lambda: time.monotonic()
        )

    def progress(self, opened: OpenedRun, marks: Mapping[str, TaskMark]) -> Looked:
        """Return the progress of a run whose tasks are as ``marks`` say."""
        records = self._of(opened)
        with records.lock:
            fresh = time.monotonic() - records.at < max(SHARED_SECONDS, records.opened.files.pace.first)
            if records.looked is None or not fresh or marks != records.marks:
                progress = _look(records, marks)
                records.looked = Looked(progress, _etag(progress))
                records.at, records.marks = time.monotonic(), dict(marks)
            return records.looked

    def report(self, opened: OpenedRun, stage_id: str) -> ProgressReport:
        """Return the report of one stage with all its partitions, read now."""
        records = self._of(opened)
        with records.lock:
            opened = records.opened
            return stage_progress(opened.files, opened.heads({}), opened.run, stage_id, read_tasks=records.read_tasks)

    def _of(self, opened: OpenedRun) -> _RunRecords:
        key = (opened.planned.dag_id, opened.planned.run_id, opened.planned.task_id, opened.planned.map_index)
        with self._lock:
            records = self._runs.get(key)
            if (
                records is None
                or records.opened.note != opened.note
                or (records.looked is not None and not records.opened.is_there())
            ):
                records = _RunRecords(opened)
                self._runs[key] = records
            return records


def _look(records: _RunRecords, marks: Mapping[str, TaskMark]) -> Progress:
    opened = records.opened
    run, files, note = opened.run, opened.files, opened.note
    unknown: dict[str, str] = {}
    heads = opened.heads(unknown)
    if records.tables is None:
        records.tables, records.names = _tables(opened), stage_names(run.plan)
    tasks = {stage.stage_id: opened.task_of(stage.stage_id) for stage in run.plan.stages}
    begun = []
    for stage_id, task_id in tasks.items():
        mark = marks.get(task_id)
        before = records.stages.get(stage_id)
        if before is not None and before[0] == mark and before[1].state in (SUCCEEDED, FAILED, CANCELLED):
            continue
        if mark is not None and mark.never_begun:
            report = ProgressReport(stage_id, f"{run.generation}.1", NOT_STARTED, 0.0)
            records.stages[stage_id] = (mark, stage_answer(run, report, records.names[stage_id], task_id, {}))
        else:
            begun.append(stage_id)
    ended = dict(
        zip(begun, of_each(files, lambda stage_id: _ended(records, stage_id, tasks[stage_id]), begun), strict=True)
    )
    for stage_id, answer in ended.items():
        if answer is None:
            report = stage_progress(files, heads, run, stage_id, read_tasks=records.read_tasks)
            answer = stage_answer(run, report, records.names[stage_id], tasks[stage_id], records.tables)
        records.stages[stage_id] = (marks.get(tasks[stage_id]), answer)
    found = {stage_id: records.stages[stage_id][1] for stage_id in tasks}
    waits = {
        stage.stage_id: why_not_begun(found[stage.stage_id], marks.get(tasks[stage.stage_id]), stage.upstream, found)
        for stage in run.plan.stages
    }
    stages = [
        answer if waits[stage_id] is None else answer.model_copy(update={"waits": waits[stage_id]})
        for stage_id, answer in found.items()
    ]
    state = run_state(files, opened.folder)
    # Adding up those of a run that goes on would send as many again.
    requests = {} if state == RUNNING else run_requests(files, run)
    notes = [*unknown.values(), *(warning for stage in stages for warning in stage._warnings)]
    return Progress(
        application=run.application,
        run=run.run_id,
        generation=run.generation,
        mode=note.mode,
        state=state,
        stages=stages,
        requests=[Count(name=kind, value=number, unit="") for kind, number in sorted(requests.items())],
        bottleneck=bottleneck_of(stages),
        state_version=_state_version(opened, stages),
        next_look=0.0 if state != RUNNING else files.pace.seldom(LOOK_SECONDS),
        note=" ".join(notes) or None,
    )


def _ended(records: _RunRecords, stage_id: str, task_id: str) -> Stage | None:
    """Return a stage that has its result; None of any other."""
    opened = records.opened
    run, files = opened.run, opened.files
    handle = newest_handle(files, run, stage_id)
    result = read(files, handle.folder.result, StageResult)
    if result is None:
        return None
    handle = replace(handle, generation=Generation.parse(result.generation))  # a former one, if its result is kept
    committed = read_commit(files, handle.folder, result.epochs - 1)
    began_at = committed.totals.began_at if committed is not None else None
    return ended_stage(run, result, records.names[stage_id], task_id, newest_attempt(files, handle.folder), began_at)


def _tables(opened: OpenedRun) -> dict[str, HeldTable]:
    """Return the pushed tables of a run with their current versions."""
    tables = {}
    for table_id, pinned in opened.run.tables.items():
        bound = opened.run.side_input(str(pinned["stream_id"]))
        current = newest(opened.files, bound.system, bound.spec.name)
        tables[table_id] = HeldTable(
            table_id=table_id,
            version=int(pinned["number"]),
            newest=current.number if current is not None else None,
            current_from=current.current_from if current is not None else None,
        )
    return tables


def _state_version(opened: OpenedRun, stages: list[Stage]) -> int | None:
    run = opened.run
    if run.state is None or any(stage.state != SUCCEEDED for stage in stages):
        return None
    left = version_of_run(opened.files, StateHistory(run.application, run.app_id), run.run_id)
    return None if left is None else left.number


def _etag(progress: Progress) -> str:
    return f'"{hashlib.sha256(progress.model_dump_json().encode()).hexdigest()[:24]}"'


LOOKS = Looks()
"""The looks of the API server's process."""


_NAMED = 3
"""Stages that a sentence names; the others are counted."""


def why_not_begun(
    answer: Stage, mark: TaskMark | None, upstream: Sequence[str], stages: Mapping[str, Stage]
) -> str | None:
    """Return a sentence on a stage that has not begun, after those ``upstream`` of it; None of any other.

    ``stages`` are all of the run, by id.
    """
    if answer.waiting_for:
        return f"The stage {answer.waiting_for} has to start first."
    if answer.state == QUEUED:
        return "Its stage runner starts Spark, or works on another stage."
    if answer.state != NOT_STARTED or mark is None:
        return None
    if mark.state == "upstream_failed":
        failed = [stage_id for stage_id in upstream if stages[stage_id].state not in (SUCCEEDED, NOT_STARTED)]
        return f"The {_named(failed)} failed." if failed else "A task before its own failed."
    if mark.state is None:
        before = [stage_id for stage_id in upstream if stages[stage_id].state != SUCCEEDED]
        return f"Waits for the {_named(before)}." if before else _BY_STATE[None]
    if mark.state == "scheduled" and mark.pool:
        return f"Waits for a slot (pool {mark.pool})."
    return _BY_STATE.get(mark.state)


_BY_STATE: Mapping[str | None, str] = {
    None: "Waits for Airflow to schedule its task.",
    "scheduled": "Waits for a slot.",
    "queued": "Waits for a worker of Airflow's executor.",
    "restarting": "Its task is being started again.",
    "running": "A stage runner and its Spark start.",
    "deferred": "A stage runner and its Spark start.",
    "up_for_retry": "Its task has failed before the stage began, and waits for its next try.",
    "up_for_reschedule": "Its task waits for its next look.",
    "failed": "Its task failed before the stage began: its log says why.",
    "skipped": "Its task was skipped.",
    "removed": "Its task is not in the Dag any more.",
    "success": "Its task was marked as successful without running the stage.",
}


def _named(stage_ids: Sequence[str]) -> str:
    """Return stages for a sentence, without an article.

    >>> _named(["a"]), _named(["a", "b"]), _named(["a", "b", "c", "d", "e"])
    ('stage a', 'stages a, b', 'stages a, b, c and 2 more')
    """
    return f"stage{'' if len(stage_ids) == 1 else 's'} {listed(stage_ids, _NAMED)}"


def bottleneck_of(stages: Sequence[Stage]) -> str | None:
    """Return the stage that takes longest to read what lies before it; None unless several run, one of them behind."""
    if sum(stage.state == RUNNING for stage in stages) < 2:
        return None
    behind = [(stage.seconds_left, stage.stage_id) for stage in stages if stage.seconds_left is not None]
    return max(behind)[1] if behind else None
