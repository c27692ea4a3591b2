"""The progress of a stage, read from the run's records and the latest offsets of its inputs.

Records tell of committed epochs only, so a report is what would be left if everything died now.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_samza.control.end_of_stream import producing_task_count
from airflow_samza.runs.progress.progress import NOT_STARTED, PartitionProgress, ProgressReport, Rate
from airflow_samza.runs.progress.task_told import Reached, TaskTold, read_told
from airflow_samza.runs.records.epoch_records import Commit, Intent, newest_intent, read_commit
from airflow_samza.runs.records.folders import RunFolder, StageFolder, read
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import CONTINUOUS, RunPlan
from airflow_samza.runs.records.totals import GAUGES, Totals, counters, gauges
from airflow_samza.runs.stages.stage_state import (
    SUCCEEDED,
    StageHandle,
    StageStatus,
    newest_attempt,
    restored_bytes,
    stage_status,
    written_by,
)
from airflow_samza.runs.tables.versions import number_read
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import System

RATE_SECONDS = 30.0
"""About how far back the present rate looks."""

ReadTold = Callable[[Filesystem, Sequence[str]], "list[TaskTold | None]"]

LATE = "late_messages"
DROPPED = "dropped_messages"
DEAD_LETTERS = "dead_letters"
"""Counters of tasks: these names, or these names with an operator's behind a dot."""


def stage_progress(
    files: Filesystem,
    systems: Mapping[str, System],
    run: RunPlan,
    stage_id: str,
    generation: Generation | None = None,
    *,
    status: StageStatus | None = None,
    now: float | None = None,
    read_tasks: ReadTold = read_told,
) -> ProgressReport:
    """The progress of a stage: of its newest generation under this plan, unless one is named.

    ``systems`` give the heads of open inputs; the lag of those that they do not know is not known. ``status`` spares
    asking again. ``read_tasks`` may keep what manifests tell, which never changes.
    """
    at = time.time() if now is None else now
    handle = StageHandle(run.application, run.run_id, stage_id, generation or newest_generation(files, run, stage_id))
    found = stage_status(files, handle) if status is None else status
    if found.state == SUCCEEDED and not found.attempt:  # it keeps the result of a former generation
        written = written_by(files, handle.run, stage_id, handle.generation)
        handle = replace(handle, generation=written)
        found = replace(found, attempt=newest_attempt(files, handle.folder))
    folder = handle.folder
    intent = newest_intent(files, folder)
    if intent is None:
        state = found.state if found.attempt or found.state == SUCCEEDED else NOT_STARTED
        waits = found.progress.waiting_for if found.progress is not None else None
        return ProgressReport(stage_id, str(handle.generation), state, at, found.attempt, waiting_for=waits)
    committed = read_commit(files, folder, intent.epoch)
    if committed is None and intent.epoch > 0:
        committed = read_commit(files, folder, intent.epoch - 1)
    told = _told(files, folder, intent, committed, read_tasks)
    totals = committed.totals if committed is not None else _open_totals(intent, told)
    until = committed.committed_at if committed is not None and (found.is_final or intent.whole) else at
    return ProgressReport(
        stage_id=stage_id,
        generation=str(handle.generation),
        state=found.state,
        at=at,
        attempt=found.attempt,
        epochs=totals.epochs,
        tasks=intent.tasks,
        tasks_done=found.tasks_done,
        tasks_ended=len(committed.ended) if committed is not None else 0,
        began_at=totals.began_at,
        read=totals.messages,
        sent=sum(counts.get("messages", 0) for counts in totals.written.values()),
        late=counted(totals.facts, LATE),
        dropped=counted(totals.facts, DROPPED),
        dead_letters=counted(totals.facts, DEAD_LETTERS),
        now=None if found.is_final else _rate_of_late(files, folder, committed, at),
        overall=Rate.of(
            totals.messages, sum(c.get("messages", 0) for c in totals.written.values()), until - totals.began_at
        ),
        waiting_for=found.progress.waiting_for if found.progress is not None else None,
        partitions=_partitions(systems, run, stage_id, intent, told),
        several_epochs=not intent.whole,
        restored=restored_bytes(totals.facts),
        tables=_tables(files, run, intent),
        side_inputs=_side_inputs(systems, run, stage_id, _committed_intent(files, folder, intent, committed)),
        metrics={**counters(totals.facts), **gauges(totals.facts)},
        gauges=totals.facts.get(GAUGES, {}),
        bytes_read=sum(counts.get("bytes", 0) for counts in totals.read.values()),
        bytes_written=sum(counts.get("bytes", 0) for counts in totals.written.values()),
    )


def systems_asked(run: RunPlan, stage_id: str) -> set[str]:
    """Return the names of the systems that a report on a stage asks for heads while it runs."""
    stage = run.plan.stage(stage_id)
    open_ = {run.stream(name).system for name in stage.inputs if run.is_own(name) or not run.plan.stream(name).bounded}
    return open_ | {run.side_input(name).system for name in stage.side_inputs if run.mode == CONTINUOUS}


def newest_generation(files: Filesystem, run: RunPlan, stage_id: str) -> Generation:
    """The newest generation of a stage that was submitted under this plan; its first one where none was."""
    known = [g for g in RunFolder(run.application, run.run_id).generations(files, stage_id) if g.plan == run.generation]
    return known[-1] if known else Generation(run.generation, 1)


def counted(facts: Mapping[str, Any], name: str) -> int:
    """Return the counts of tasks under a name, or under names that begin with it and a dot (one per operator)."""
    found = [value for key, value in facts.items() if key == name or key.startswith(f"{name}.")]
    return sum(int(value) for value in found if isinstance(value, int | float))


def _told(
    files: Filesystem, folder: StageFolder, intent: Intent, committed: Commit | None, read_tasks: ReadTold
) -> list[TaskTold]:
    """Return what the newest manifest of each task tells that counts; of the open epoch where there is no other."""
    if committed is not None:
        standing = committed.standing
    else:  # one listing, instead of a failed read for each task that is at work
        there = set(files.list(folder.manifests(intent.epoch)))
        standing = {task: intent.epoch for task in intent.running if f"{task}.json" in there}
    paths = [folder.manifest(epoch, task) for task, epoch in standing.items()]
    return [told for told in read_tasks(files, paths) if told is not None]


def _open_totals(intent: Intent, tasks: Iterable[TaskTold]) -> Totals:
    """Return the sums of those tasks of a first epoch that have finished already."""
    did = ((told.read, told.written, told.facts, told.seconds) for told in tasks)
    return Totals(began_at=intent.decided_at).plus(did)


def _tables(files: Filesystem, run: RunPlan, intent: Intent) -> dict[str, int]:
    """The version that each pushed table of an epoch holds, by table; none that is not known any more."""
    found = {}
    for table_id, pinned in run.tables.items():
        read_intent = intent.side_inputs.get(pinned["stream_id"])
        if read_intent is not None:
            bound = run.side_input(pinned["stream_id"])
            found[table_id] = number_read(files, bound.system, bound.spec.name, read_intent.slice)
    return {table_id: number for table_id, number in found.items() if number}


def _committed_intent(
    files: Filesystem, folder: StageFolder, intent: Intent, committed: Commit | None
) -> Intent | None:
    """The intent of the last committed epoch; None where there is none, or nobody has kept it."""
    if committed is None or committed.epoch == intent.epoch:
        return intent if committed is not None else None
    return read(files, folder.intent(committed.epoch), Intent)


def _side_inputs(
    systems: Mapping[str, System], run: RunPlan, stage_id: str, intent: Intent | None
) -> tuple[PartitionProgress, ...]:
    """The partitions of the side inputs that a run follows; of pushed tables versions are told instead."""
    found = []
    for stream_id in run.plan.stage(stage_id).side_inputs if run.mode == CONTINUOUS else ():
        bound = run.side_input(stream_id)
        slice_ = (
            bound.slice
            if intent is None or stream_id not in intent.side_inputs
            else intent.side_inputs[stream_id].slice
        )
        ranges = (slice_ or {}).get("offsets")
        if ranges is None or "sections" in (slice_ or {}):
            continue
        system = systems.get(bound.system)
        metadata = system.admin.metadata([bound.spec]).get(bound.spec.name) if system is not None else None
        heads = metadata.head if metadata is not None else ()
        for partition, (begin, end) in enumerate(ranges):
            head = max(int(heads[partition] or 0), int(end)) if partition < len(heads) else None
            held = int(begin) if intent is None else int(end)
            found.append(PartitionProgress(stream_id, partition, held, head, int(begin)))
    return tuple(found)


def _rate_of_late(files: Filesystem, folder: StageFolder, committed: Commit | None, at: float) -> Rate | None:
    """The rate since a commit that is about :data:`RATE_SECONDS` old.

    Looks at few of the commits, however many there are.
    """
    if committed is None or committed.epoch == 0:
        return None
    back, base, since = 1, None, at
    while back <= committed.epoch:
        before = read_commit(files, folder, committed.epoch - back)
        if before is None:
            break
        base, since = before.totals, before.committed_at
        if at - since >= RATE_SECONDS:
            break
        back *= 2
    if base is None:
        return None
    sent = _messages(committed.totals.written) - _messages(base.written)
    return Rate.of(committed.totals.messages - base.messages, sent, at - since)


def _messages(counts: Mapping[str, Mapping[str, int]]) -> int:
    return sum(found.get("messages", 0) for found in counts.values())


# -- partitions --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Known:
    """The knowledge of one partition that the tasks that read it have.

    Of a broadcast every task reads all, and the slowest counts.
    """

    offset: int
    ended: bool
    ends: int | None = None
    watermark: int | None = None
    is_idle: bool = False
    """A task knows no watermark."""

    def learn(self, reached: Reached, *, in_epochs: bool) -> None:
        self.offset = min(self.offset, reached.offset)
        self.ended = self.ended and reached.ended
        if not in_epochs:
            return
        self.ends = reached.ends if self.ends is None else min(self.ends, reached.ends)
        if reached.watermark is None:
            self.is_idle = True
        elif self.watermark is None or reached.watermark < self.watermark:
            self.watermark = reached.watermark


def _partitions(
    systems: Mapping[str, System],
    run: RunPlan,
    stage_id: str,
    intent: Intent,
    tasks: Iterable[TaskTold],
) -> tuple[PartitionProgress, ...]:
    known: dict[tuple[str, int], _Known] = {}
    for told in tasks:
        for reached in told.reached:
            place = (reached.stream_id, reached.partition)
            if place not in known:
                known[place] = _Known(reached.offset, reached.ended)
            known[place].learn(reached, in_epochs=told.in_epochs)
    found = []
    for stream_id in run.plan.stage(stage_id).inputs:
        expected = ends_expected(run, stream_id)
        begins = [int(begin) for begin, _ in (intent.inputs[stream_id].slice or {}).get("offsets") or ()]
        heads = _heads(systems, run, intent, stream_id)
        for partition in range(run.plan.stream(stream_id).partitions):
            begin = begins[partition] if partition < len(begins) else 0
            head = heads[partition] if partition < len(heads) else None
            # What has ended is at its head, and what no task has read yet is where the run begins.
            knows = known.get((stream_id, partition)) or _Known(begin, ended=False)
            found.append(
                PartitionProgress(
                    stream_id=stream_id,
                    partition=partition,
                    offset=None if head is None else head if knows.ended else min(knows.offset, head),
                    head=head,
                    begin=_first(run, stream_id, partition, begin),
                    watermark=None if knows.is_idle else knows.watermark,
                    ends=expected if knows.ended else knows.ends or 0,
                    ends_expected=expected,
                    ended=knows.ended,
                )
            )
    return tuple(found)


def ends_expected(run: RunPlan, stream_id: str) -> int:
    """Return how many producers end a partition: the tasks that write a topic of the run, one for a source."""
    if not run.is_own(stream_id):
        return 1
    return max(producing_task_count(run.plan, run.writer_stage(stream_id), stream_id), 1)


def _heads(systems: Mapping[str, System], run: RunPlan, intent: Intent, stream_id: str) -> list[int | None]:
    """Return where the partitions of an input end for this run: the end of its slice, or the latest offsets now.

    Nothing, where nobody can say it now: the end of what the last epoch has read is no end of the input.
    """
    read_intent = intent.inputs[stream_id]
    if "chunks" in (read_intent.slice or {}):
        return []  # offsets of files count no messages
    bounds: list[int | None] = [int(end) for _, end in (read_intent.slice or {}).get("offsets") or ()]
    if not run.is_own(stream_id) and (
        intent.whole or read_intent.end is not None or run.plan.stream(stream_id).bounded
    ):
        return bounds
    bound = run.stream(stream_id)
    system = systems.get(bound.system)
    if system is None:
        return []
    if run.is_own(stream_id) and read_intent.writer is not None:
        bound = run.intermediate(stream_id, Generation.parse(read_intent.writer))
    metadata = system.admin.metadata([bound.spec]).get(bound.spec.name)
    return list(metadata.head) if metadata is not None else []


def _first(run: RunPlan, stream_id: str, partition: int, begin: int) -> int:
    """The offset at which the run began with a partition; an epoch's own slice may begin later."""
    if run.is_own(stream_id):
        return 0
    ranges = (run.stream(stream_id).slice or {}).get("offsets") or ()
    return int(ranges[partition][0]) if partition < len(ranges) else begin
