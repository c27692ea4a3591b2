"""The progress of a stage, read from the run's records and the latest offsets of its inputs.

Records tell of committed epochs only, so a report is what would be left if everything died now. The runtime, the page
and triggers ask it; the command line prints it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

from airflow_samza.control.end_of_stream import producing_task_count
from airflow_samza.errors import SamzaError, StorageUnavailable
from airflow_samza.grouping import grouped
from airflow_samza.runs.progress.progress import NOT_STARTED, PartitionProgress, ProgressReport, Rate
from airflow_samza.runs.progress.task_facts import TaskFacts, read_task_facts
from airflow_samza.runs.records.epoch_records import Commit, Intent, newest_commit, newest_intent, read_commit
from airflow_samza.runs.records.expectations import Results
from airflow_samza.runs.records.folders import StageFolder, read, read_report
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import CONTINUOUS, BoundStream, RunPlan
from airflow_samza.runs.records.spans import seconds_of
from airflow_samza.runs.records.stage_result import StageResult, key_warnings
from airflow_samza.runs.records.totals import GAUGES, Totals, counters, gauges, summed
from airflow_samza.runs.stages.newest_stages import newest_handle
from airflow_samza.runs.stages.running_times import spans_of
from airflow_samza.runs.stages.stage_state import (
    FAILED,
    RUNNING,
    SUCCEEDED,
    StageHandle,
    StageStatus,
    newest_attempt,
    rejected_by,
    restored_bytes,
    stage_status,
    written_by,
)
from airflow_samza.runs.tables.versions import number_read
from airflow_samza.systems.capabilities import WaitsForServers
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import System

ANSWER_SECONDS = 10.0
"""Seconds that a system has to answer a question about heads."""

RATE_SECONDS = 30.0
"""About how far back the present rate looks."""

Heads = Callable[[BoundStream], Sequence[int]]
"""A function from a stream to the heads of its partitions now; none, where they are not known."""

ReadTaskFacts = Callable[[Filesystem, Sequence[str]], "list[TaskFacts | None]"]

LATE = "late_messages"
DROPPED = "dropped_messages"
DEAD_LETTERS = "dead_letters"
"""Counters of tasks: these names, or these names with an operator's behind a dot."""


def heads_of(systems: Mapping[str, System], bound: BoundStream) -> Sequence[int]:
    """Return the heads of a stream as its system has them; none of one that is not among the systems."""
    system = systems.get(bound.system)
    metadata = system.metadata([bound.spec]).get(bound.spec.name) if system is not None else None
    return metadata.head if metadata is not None else ()


def heads_that_answer(
    systems: Mapping[str, System],
    unknown: dict[str, str],
    asking: Callable[[str], AbstractContextManager[object]] = nullcontext,
) -> Heads:
    """Return the function that asks these systems for heads, each within ``asking`` of its name.

    ``unknown`` gets a sentence on each that gives none, by its name. One whose servers are away is not asked again.
    """
    away = set[str]()

    def heads(bound: BoundStream) -> Sequence[int]:
        try:
            with asking(bound.system):
                return heads_of(systems, bound) if bound.system not in away else ()
        except SamzaError as error:
            unknown[bound.system] = unknown_lag(bound.system, error.sentence)
            away.update([bound.system] if isinstance(error, StorageUnavailable) else ())
            return ()

    return heads


def bound_answers(systems: Iterable[System], seconds: float | None = None) -> None:
    """Have systems wait for their servers no longer than a report on progress may, or for so many seconds."""
    for system in systems:
        if isinstance(system, WaitsForServers):
            system.wait_at_most(ANSWER_SECONDS if seconds is None else seconds)


def unknown_lag(name: str, why: object) -> str:
    """Return the sentence on a system that gave no heads."""
    return f"The lag behind streams of the system {name!r} is not known at present: {why}"


def stage_progress(
    files: Filesystem,
    heads: Heads,
    run: RunPlan,
    stage_id: str,
    generation: Generation | None = None,
    *,
    status: StageStatus | None = None,
    now: float | None = None,
    read_tasks: ReadTaskFacts = read_task_facts,
) -> ProgressReport:
    """The progress of a stage: of its newest generation under this plan, unless one is named.

    ``heads`` gives those of open inputs; the lag of one of which they are not known is not known. ``status`` spares
    asking again. ``read_tasks`` may keep what manifests tell, which never changes.
    """
    at = time.time() if now is None else now
    handle = newest_handle(files, run, stage_id)
    handle = handle if generation is None else replace(handle, generation=generation)
    status = status or stage_status(files, handle)
    if status.state == SUCCEEDED and not status.attempt:  # it keeps the result of a former generation
        handle = replace(handle, generation=written_by(files, handle))
        status = replace(status, attempt=newest_attempt(files, handle.folder))
    folder = handle.folder
    intent = newest_intent(files, folder)
    if intent is None:
        state = status.state if status.attempt or status.state == SUCCEEDED else NOT_STARTED
        return ProgressReport(
            stage_id, str(handle.generation), state, at, status.attempt, waiting_for=_waiting_for(status)
        )
    committed = newest_commit(files, folder, intent)
    task_facts = _standing_facts(files, folder, intent, committed, read_tasks)
    did = ((task.read, task.written, task.facts, task.seconds) for task in task_facts)
    totals = committed.totals if committed is not None else Totals(began_at=intent.decided_at).plus(did)
    result = read_report(files, folder.result, StageResult) if status.state == SUCCEEDED else None
    if result is not None:
        report = ended_report(run, result, status.attempt, totals.began_at, at)
    else:
        seconds = _seconds(files, handle, status, totals, at)
        late = _of_late(files, folder, committed, seconds) if status.state == RUNNING else None
        report = ProgressReport(
            stage_id=stage_id,
            generation=str(handle.generation),
            state=status.state,
            at=at,
            attempt=status.attempt,
            epochs=totals.epochs,
            tasks=intent.tasks,
            tasks_done=_tasks_done(intent, committed, task_facts, status),
            tasks_ended=len(committed.ended) if committed is not None else sum(task.ended for task in task_facts),
            began_at=totals.began_at,
            now=Rate.of(late.messages, late.sent, late.seconds) if late is not None else None,
            at_work=round(late.task_seconds / late.seconds, 2) if late is not None and late.seconds else None,
            publishing=_publishing(intent, committed, late, at) if late is not None and committed is not None else None,
            waiting_for=_waiting_for(status),
            several_epochs=not intent.whole,
            bytes_written=summed(totals.written, "bytes"),
            **_of_messages(run, stage_id, totals.read, totals.sent, seconds),
            **_of_facts(totals.facts),
            warnings=tuple(key_warnings(run.plan, stage_id, totals.facts)),
            expectations=_expectations(files, folder, committed, status),
        )
    return replace(
        report,
        partitions=tuple(_partitions(heads, run, stage_id, intent, task_facts)),
        tables=_tables(files, run, intent),
        side_inputs=tuple(_side_inputs(heads, run, stage_id, _committed_intent(files, folder, intent, committed))),
    )


def ended_report(run: RunPlan, result: StageResult, attempt: int, began_at: float | None, at: float) -> ProgressReport:
    """The progress of a stage that has succeeded, by its result: no record of its partitions is looked at."""
    counts = {read.stream_id: {"messages": read.messages, "bytes": read.bytes} for read in result.inputs}
    return ProgressReport(
        stage_id=result.stage_id,
        generation=result.generation,
        state=SUCCEEDED,
        at=at,
        attempt=attempt,
        epochs=result.epochs,
        tasks=result.tasks,
        tasks_done=result.tasks,
        tasks_ended=result.tasks,
        began_at=began_at,
        several_epochs=run.runs_epochs(result.stage_id),
        bytes_written=sum(output.bytes for output in result.outputs),
        expectations=result.expectations,
        **_of_messages(run, result.stage_id, counts, result.sent, result.seconds),
        **_of_facts(result.task_facts),
        warnings=result.warnings,
    )


def _of_messages(
    run: RunPlan, stage_id: str, read: Mapping[str, Mapping[str, int]], sent: int, seconds: float | None
) -> dict[str, Any]:
    """Return the figures of what a stage has read of its inputs and sent in so many seconds."""
    stage = run.plan.stage(stage_id)
    read_of = {stream_id: read.get(stream_id, {}).get("messages", 0) for stream_id in stage.inputs}
    messages = sum(read_of.values())
    return {
        "read": messages,
        "read_of": read_of,
        "sent": sent,
        "units": (_unit(run, stage.inputs), _unit(run, stage.outputs)),
        "seconds": seconds,
        "overall": Rate.of(messages, sent, seconds),
        "bytes_read": sum(read.get(stream_id, {}).get("bytes", 0) for stream_id in stage.inputs),
    }


def _of_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures that tasks have counted beside their messages."""
    return {
        "late": counted(facts, LATE),
        "dropped": counted(facts, DROPPED),
        "dead_letters": counted(facts, DEAD_LETTERS),
        "restored": restored_bytes(facts),
        "metrics": {**counters(facts), **gauges(facts)},
        "gauges": facts.get(GAUGES, {}),
    }


def _expectations(files: Filesystem, folder: StageFolder, committed: Commit | None, status: StageStatus) -> Results:
    """Return what is known of the expectations of a stage that has not succeeded."""
    rejection = rejected_by(files, folder) if status.state == FAILED else None
    if rejection is not None:
        return rejection.results
    return committed.expectations if committed is not None else {}


def _unit(run: RunPlan, streams: Iterable[str]) -> str:
    return " and ".join(sorted({run.unit(stream_id) for stream_id in streams})) or "messages"


def _waiting_for(status: StageStatus) -> str | None:
    """Return the stage that has to start first; what has ended waits for nobody."""
    return None if status.progress is None or status.is_final else status.progress.waiting_for


def _seconds(files: Filesystem, handle: StageHandle, status: StageStatus, totals: Totals, at: float) -> float | None:
    """Return for how long attempts have run a stage; None where none has told it."""
    spans = spans_of(files, replace(handle, attempt=status.attempt), status, at)
    if spans or status.state != RUNNING:
        return seconds_of(spans) if spans else None
    return max(at - totals.began_at, 0.0)  # its runner tells it with the next sign of life


def _tasks_done(intent: Intent, committed: Commit | None, tasks: Sequence[TaskFacts], status: StageStatus) -> int:
    """Return how many tasks have nothing left to do in the open epoch."""
    if committed is not None and committed.epoch == intent.epoch:
        return intent.tasks
    if committed is None:
        return intent.tasks - len(intent.running) + len(tasks)
    return min(max(status.tasks_done, intent.tasks - len(intent.running)), intent.tasks)


def open_systems(run: RunPlan, stage_id: str) -> set[str]:
    """Return the names of the systems that a report on a stage asks for heads while it runs."""
    stage = run.plan.stage(stage_id)
    open_ = {run.stream(name).system for name in stage.inputs if run.is_own(name) or not run.plan.stream(name).bounded}
    return open_ | {run.side_input(name).system for name in stage.side_inputs if run.mode == CONTINUOUS}


def counted(facts: Mapping[str, Any], name: str) -> int:
    """Return the counts of tasks under a name, or under names that begin with it and a dot (one per operator)."""
    values = [value for key, value in facts.items() if key == name or key.startswith(f"{name}.")]
    return sum(int(value) for value in values if isinstance(value, int | float))


def _standing_facts(
    files: Filesystem, folder: StageFolder, intent: Intent, committed: Commit | None, read_tasks: ReadTaskFacts
) -> list[TaskFacts]:
    """Return what the newest manifest of each task tells that counts; of the open epoch where there is no other."""
    if committed is not None:
        standing = committed.standing
    else:  # one listing, instead of a failed read for each task that is at work
        manifests = set(files.list(folder.manifests(intent.epoch)))
        standing = {task: intent.epoch for task in intent.running if f"{task}.json" in manifests}
    paths = [folder.manifest(epoch, task) for task, epoch in standing.items()]
    return [facts for facts in read_tasks(files, paths) if facts is not None]


def _tables(files: Filesystem, run: RunPlan, intent: Intent) -> dict[str, int]:
    """The version that each pushed table of an epoch holds, by table; none that is not known any more."""
    tables = {}
    for table_id, pinned in run.tables.items():
        read_intent = intent.side_inputs.get(pinned["stream_id"])
        if read_intent is not None:
            bound = run.side_input(pinned["stream_id"])
            tables[table_id] = number_read(files, bound.system, bound.spec.name, read_intent.slice)
    return {table_id: number for table_id, number in tables.items() if number}


def _committed_intent(
    files: Filesystem, folder: StageFolder, intent: Intent, committed: Commit | None
) -> Intent | None:
    """The intent of the last committed epoch; None where there is none, or nobody has kept it."""
    if committed is None or committed.epoch == intent.epoch:
        return intent if committed is not None else None
    return read(files, folder.intent(committed.epoch), Intent)


def _side_inputs(heads: Heads, run: RunPlan, stage_id: str, intent: Intent | None) -> Iterator[PartitionProgress]:
    """Yield the partitions of the side inputs that a run follows, but those of pushed tables, which have versions."""
    for stream_id in run.plan.stage(stage_id).side_inputs if run.mode == CONTINUOUS else ():
        bound = run.side_input(stream_id)
        read_now = intent.side_inputs.get(stream_id) if intent is not None else None
        slice_ = bound.slice if read_now is None else read_now.slice
        ranges = (slice_ or {}).get("offsets")
        if ranges is None or "sections" in (slice_ or {}):
            continue
        now = heads(bound)
        for partition, (begin, end) in enumerate(ranges):
            head = max(int(now[partition] or 0), int(end)) if partition < len(now) else None
            held = int(begin) if intent is None else int(end)
            yield PartitionProgress(stream_id, partition, held, head, int(begin))


class _OfLate(NamedTuple):
    """The messages that a stage has read and sent of late, and the work of its tasks, in so many seconds and epochs."""

    messages: int
    sent: int
    task_seconds: float
    seconds: float
    epochs: int


def _of_late(files: Filesystem, folder: StageFolder, committed: Commit | None, seconds: float | None) -> _OfLate | None:
    """The work since a commit that was made about :data:`RATE_SECONDS` of the stage's ``seconds`` ago.

    Looks at few of the commits, however many there are.
    """
    if committed is None or committed.epoch == 0 or seconds is None:
        return None
    back, base, passed = 1, None, 0.0
    while back <= committed.epoch and passed < RATE_SECONDS:
        before = read_commit(files, folder, committed.epoch - back)
        if before is None or before.totals.seconds is None:
            break
        base, passed = before.totals, seconds - before.totals.seconds
        back *= 2
    if base is None:
        return None
    did = committed.totals
    work = did.task_seconds - base.task_seconds
    return _OfLate(did.messages - base.messages, did.sent - base.sent, work, passed, did.epochs - base.epochs)


def _publishing(intent: Intent, committed: Commit, late: _OfLate, at: float) -> float | None:
    """Return the share of an epoch's time in which the newest was published; None where no time has passed.

    A stage that has messages before it decides about its next epoch as soon as the one before is published.
    """
    if late.seconds <= 0 or late.epochs < 1:
        return None
    until = intent.decided_at if intent.epoch > committed.epoch else at
    return round(min(max(until - committed.committed_at, 0.0) * late.epochs / late.seconds, 1.0), 2)


# -- partitions --------------------------------------------------------------------------------------------------------


def _partitions(
    heads: Heads, run: RunPlan, stage_id: str, intent: Intent, tasks: Iterable[TaskFacts]
) -> Iterator[PartitionProgress]:
    reached = grouped(((one.stream_id, one.partition), one) for task in tasks for one in task.reached)
    for stream_id in run.plan.stage(stage_id).inputs:
        expected = ends_expected(run, stream_id)
        begins = [int(begin) for begin, _ in (intent.inputs[stream_id].slice or {}).get("offsets") or ()]
        ends, firsts = _ends(heads, run, intent, stream_id), _firsts(run, stream_id)
        for partition in range(run.plan.stream(stream_id).partitions):
            begin = begins[partition] if partition < len(begins) else 0
            head = ends[partition] if partition < len(ends) else None
            # What has ended is at its head, and what no task has read yet is where the run begins. Of a broadcast every
            # task reads all, and the slowest counts.
            read_to = reached.get((stream_id, partition), ())
            offset = min((one.offset for one in read_to), default=begin)
            ended = bool(read_to) and all(one.ended for one in read_to)
            watermarks = [one.watermark for one in read_to if one.watermark is not None]
            yield PartitionProgress(
                stream_id=stream_id,
                partition=partition,
                offset=None if head is None else head if ended else min(offset, head),
                head=head,
                begin=firsts[partition] if partition < len(firsts) else begin,
                watermark=min(watermarks, default=None) if len(watermarks) == len(read_to) else None,
                ends=expected if ended else min((one.ends for one in read_to), default=0),
                ends_expected=expected,
                ended=ended,
            )


def ends_expected(run: RunPlan, stream_id: str) -> int:
    """Return how many producers end a partition: the tasks that write a topic of the run, one for a source."""
    if not run.is_own(stream_id):
        return 1
    return max(producing_task_count(run.plan, run.writer_stage(stream_id), stream_id), 1)


def _ends(heads: Heads, run: RunPlan, intent: Intent, stream_id: str) -> Sequence[int]:
    """Return where the partitions of an input end for this run: the end of its slice, or the latest offsets now.

    Nothing, where nobody can say it now: the end of what the last epoch has read is no end of the input.
    """
    read_intent = intent.inputs[stream_id]
    if "chunks" in (read_intent.slice or {}):
        return []  # offsets of files count no messages
    bounds = [int(end) for _, end in (read_intent.slice or {}).get("offsets") or ()]
    if not run.is_own(stream_id) and (
        intent.whole or read_intent.end is not None or run.plan.stream(stream_id).bounded
    ):
        return bounds
    bound = run.stream(stream_id)
    if run.is_own(stream_id) and read_intent.writer is not None:
        bound = run.intermediate(stream_id, Generation.parse(read_intent.writer))
    return heads(bound)


def _firsts(run: RunPlan, stream_id: str) -> list[int]:
    """Return the offsets at which the run began with the partitions; an epoch's own slice may begin later."""
    if run.is_own(stream_id):
        return [0] * run.plan.stream(stream_id).partitions
    return [int(begin) for begin, _ in (run.stream(stream_id).slice or {}).get("offsets") or ()]
