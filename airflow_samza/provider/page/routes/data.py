"""Topics with their messages, tables, state, and the preview of a clear."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timezone
from typing import Annotated, Literal

from fastapi import APIRouter, Query

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import UnknownName
from airflow_samza.planner.plan import PlannedTable
from airflow_samza.planner.titles import stage_names
from airflow_samza.provider.disclosure import NOT_SHOWN, shows_samples
from airflow_samza.provider.page.airflow_records import AirflowRecords, Records
from airflow_samza.provider.page.answer import Answer, OfStage
from airflow_samza.provider.page.backfill import HIDDEN_RUN, Backfill, backfill_answer, shown_run
from airflow_samza.provider.page.messages import Messages, read_messages
from airflow_samza.provider.page.opened_run import Opened, OpenedRun
from airflow_samza.provider.page.rights import OF_PLAN, OF_ROWS, OF_RUN, ReadableDags, StreamId
from airflow_samza.provider.page.topics import TopicDetail, Topics, find_topic, run_topics, topic_answer, topic_detail
from airflow_samza.runs.progress.clear_preview import clear_preview
from airflow_samza.runs.progress.run_list import origin_of
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.state_upkeep import report_state
from airflow_samza.runs.state_history.versions import Version, is_reset, state_bytes
from airflow_samza.runs.tables.folder import TableFolder
from airflow_samza.runs.tables.retention import readers_of
from airflow_samza.runs.tables.versions import expired_numbers, newest, versions

router = APIRouter(tags=["data"], dependencies=OF_RUN)


VERSIONS_SHOWN = 20


class TableReader(Answer):
    """A run that is on and reads a version of a table."""

    application: str
    run: str
    version: int
    dag_id: str
    dag_run_id: str


class TableVersion(Answer):
    """A version of a pushed table."""

    number: int
    kind: str
    rows: int | None
    deletes: int | None
    bytes: int | None
    current_from: str
    push_id: str
    current: bool
    expired: bool
    readers: list[TableReader]


class Table(Answer):
    """A table of the run; only pushed ones have versions."""

    table_id: str
    kind: str
    system: str | None
    topic: str | None
    reads: int | None
    """The version that the run was planned with."""
    current: int | None
    versions: list[TableVersion]
    hidden_readers: int
    """Readers in runs of Dags that the user may not read."""
    note: str | None


class Tables(Answer):
    """The tables of a run."""

    tables: list[Table]


class StateVersion(Answer):
    """A version of an application's state."""

    version: int
    parent: int | None
    run: str | None
    reset_to: int | None
    at: float
    interval: list[str] | None
    offsets: int
    """The next offsets to read, all inputs and partitions added up: they grow by one with each message or marker."""
    files: int
    bytes: int


class Lease(Answer):
    """The run that holds the state, and how it stands."""

    run: str
    fence: int
    standing: str


class State(Answer):
    """The state that the runs of an application hand on; ``note`` says where they hand on none."""

    application: str
    app_id: str
    carried: bool
    versions: list[StateVersion]
    lease: Lease | None
    apart: list[str]
    """Runs with a state of their own."""
    note: str | None


class ClearedStage(OfStage):
    """A stage in the preview of a clear."""

    task_id: str
    effect: Literal["runs again", "stays", "must run again"]
    """``must run again``: it reads what a cleared stage writes, and has to be cleared, too."""
    why: str
    seconds: float | None
    """Seconds that it took the last time."""
    messages: int | None


class Consumer(Answer):
    """A reader of an output, outside of the run, that has taken what is written again."""

    kind: Literal["dag", "application"]
    name: str
    run: str | None
    stream_id: str
    why: str


class ClearPreview(Answer):
    """The effects of clearing a task; nothing is changed."""

    task_id: str
    stages: list[ClearedStage]
    consumers: list[Consumer]
    sentences: list[str]


@router.get(f"{OF_PLAN}/topics", operation_id="topics")
def topics(opened: Opened) -> Topics:
    """Return the topics of the run: those between its stages, and those that it reads and writes."""
    return Topics(topics=[topic_answer(topic) for topic in run_topics(opened)])


@router.get(f"{OF_PLAN}/topics/{{stream_id}}", operation_id="topic")
def topic(opened: Opened, stream_id: StreamId) -> TopicDetail:
    """Return one topic: schema, offsets, commits."""
    return topic_detail(find_topic(opened, stream_id))


@router.get(f"{OF_PLAN}/topics/{{stream_id}}/messages", operation_id="messages", dependencies=OF_ROWS)
def messages(
    opened: Opened,
    stream_id: StreamId,
    partition: Annotated[int, Query(ge=0)] = 0,
    from_offset: Annotated[int | None, Query(ge=0, description="The first offset; without it the last messages.")] = (
        None
    ),
    limit: Annotated[int, Query(ge=1, le=200, description="How many messages, at most.")] = 50,
    control: Annotated[bool, Query(description="Control messages, too.")] = True,
) -> Messages:
    """Return messages of one partition; nothing is consumed or committed."""
    topic = find_topic(opened, stream_id)
    if not shows_samples():
        return Messages(
            stream_id=stream_id,
            partition=partition,
            oldest=0,
            head=0,
            next_offset=0,
            messages=[],
            masked=[],
            note=NOT_SHOWN,
        )
    return read_messages(topic, partition, from_offset, limit, control)


@router.get(f"{OF_PLAN}/tables", operation_id="tables")
def tables(opened: Opened, may_read: ReadableDags) -> Tables:
    """Return the tables of the run, with the versions of pushed ones and their readers."""
    return Tables(tables=[table_answer(opened, planned, may_read) for planned in opened.run.plan.tables])


@router.get(f"{OF_PLAN}/state", operation_id="state")
def state(opened: Opened, may_read: ReadableDags) -> State:
    """Return the versions of the application's state, and the run that holds it."""
    run = opened.run
    report = report_state(opened.files, StateHistory(run.application, run.app_id))
    lease = None
    if report.holder is not None and report.standing is not None:
        lease = Lease(
            run=shown_run(opened, run.application, report.holder.run, may_read),
            fence=report.holder.fence,
            standing=report.standing.why,
        )
    return State(
        application=run.application,
        app_id=run.app_id,
        carried=run.keeps_state,
        versions=[_version(opened, version, may_read) for version in reversed(report.versions)],
        lease=lease,
        apart=[shown_run(opened, run.application, run_id, may_read) for run_id in report.apart],
        note=None if run.keeps_state else "The runs of this application carry no state: each begins anew.",
    )


@router.get(f"{OF_PLAN}/clear", operation_id="clearPreview")
def preview_of_clear(
    opened: Opened,
    records: Records,
    may_read: ReadableDags,
    task_id: Annotated[str, Query(description="The task to clear: of a stage, of `plan`, or the one that runs all.")],
    downstream: Annotated[bool, Query(description="Clear the tasks after it, too.")] = True,
) -> ClearPreview:
    """Return what a clear of a task would make run again, and who has read what is written again."""
    run = opened.run
    tasks = opened.note.tasks or {stage.stage_id: stage.stage_id for stage in run.plan.stages}
    cleared = [stage_id for stage_id, task in tasks.items() if task == task_id]
    # A task that plans and runs all stages plans anew; one of several that share a plan adopts it again.
    is_plan = task_id == opened.planned.task_id and len(cleared) in (0, len(run.plan.stages))
    if not cleared and not is_plan:
        task_ids = ", ".join(dict.fromkeys([opened.planned.task_id, *tasks.values()]))
        raise UnknownName(
            f"The task {task_id!r} runs no stage of this plan.",
            hint=f"{did_you_mean(task_id, [opened.planned.task_id, *tasks.values()])}Its tasks are {task_ids}.",
            name=task_id,
        )
    systems, _ = opened.bound
    preview = clear_preview(opened.files, systems, run, cleared, plan=is_plan, downstream=downstream)
    rerun = {stage.stage_id for stage in preview.stages if stage.effect == "runs again"}
    consumers = [
        Consumer(
            kind="application",
            name="hidden" if run_id == HIDDEN_RUN else reader.application,
            run=run_id,
            stream_id=reader.stream_id,
            why="Its state holds what was written before; its next plan is rejected "
            "until the run that read it is cleared.",
        )
        for reader in preview.readers
        for run_id in [shown_run(opened, reader.application, reader.run_id, may_read)]
    ]
    names = stage_names(run.plan)
    stages = [
        ClearedStage(
            stage_id=stage.stage_id,
            stage_name=names[stage.stage_id],
            task_id=tasks.get(stage.stage_id, ""),
            effect=stage.effect,
            why=stage.why,
            seconds=stage.seconds,
            messages=stage.messages,
        )
        for stage in preview.stages
    ]
    started = _started(opened, records, {tasks.get(stage_id, "") for stage_id in rerun}, may_read)
    return ClearPreview(
        task_id=task_id, stages=stages, consumers=[*consumers, *started], sentences=list(preview.sentences)
    )


@router.get(f"{OF_PLAN}/backfill", operation_id="backfill")
def preview_of_backfill(
    opened: Opened,
    records: Records,
    may_read: ReadableDags,
    first: Annotated[date, Query(description="The first day, in UTC.")],
    last: Annotated[date, Query(description="The last day, in UTC.")],
) -> Backfill:
    """Return the runs that a backfill of the Dag would make; nothing is made."""
    begin, end = (datetime.combine(day, time.min, timezone.utc) for day in (first, last))
    return backfill_answer(opened, records, begin, end, may_read)


def _started(
    opened: OpenedRun, records: AirflowRecords, task_ids: set[str], may_read: Callable[[str], bool]
) -> list[Consumer]:
    """Return the runs of Dags that assets of cleared tasks have started."""
    here = opened.planned
    return [
        Consumer(
            kind="dag",
            name=run.dag_id if may_read(run.dag_id) else "hidden",
            run=run.run_id if may_read(run.dag_id) else HIDDEN_RUN,
            stream_id=event.name,
            why="An event of this asset has started it; the cleared task sends another event, and so starts it anew.",
        )
        for event in records.events(here.dag_id, here.run_id, sorted(task_ids))
        for run in event.runs
    ]


def _version(opened: OpenedRun, version: Version, may_read: Callable[[str], bool]) -> StateVersion:
    return StateVersion(
        version=version.number,
        parent=version.parent or None,
        run=None if is_reset(version) else shown_run(opened, opened.run.application, version.run, may_read),
        reset_to=version.copy_of if is_reset(version) else None,
        at=version.at,
        interval=list(version.interval) if version.interval is not None else None,
        offsets=sum(sum(offsets) for offsets in version.offsets.values()),
        files=sum(int(arrived["files"]) for arrived in version.arrived.values()),
        bytes=state_bytes(version.stages),
    )


def table_answer(opened: OpenedRun, planned: PlannedTable, may_read: Callable[[str], bool]) -> Table:
    """Return a table; a pushed one with its newest versions and those of their readers that the user may see."""
    pinned = opened.run.tables.get(planned.table_id)
    if pinned is None:
        return Table(
            table_id=planned.table_id,
            kind=planned.word,
            system=None,
            topic=None,
            reads=None,
            current=None,
            versions=[],
            hidden_readers=0,
            note="Nothing was pushed when it was planned."
            if planned.is_pushed
            else "Only pushed tables have versions.",
        )
    files, bound = opened.files, opened.run.side_input(str(pinned["stream_id"]))
    folder = TableFolder(bound.system, bound.spec.name)
    current = newest(files, folder.system, folder.topic)
    expired = expired_numbers(files, folder.system, folder.topic)
    shown, hidden = [], 0
    for version in reversed(versions(files, folder.system, folder.topic)[-VERSIONS_SHOWN:]):
        readers = []
        for application, run_id in readers_of(files, folder, version.number) if version.number not in expired else ():
            origin = origin_of(files, application, run_id)
            if not may_read(origin.dag_id):
                hidden += 1
                continue
            readers.append(
                TableReader(
                    application=application,
                    run=run_id,
                    version=version.number,
                    dag_id=origin.dag_id,
                    dag_run_id=origin.run_id,
                )
            )
        shown.append(
            TableVersion(
                number=version.number,
                kind=version.kind,
                rows=version.rows,
                deletes=version.deletes,
                bytes=version.bytes,
                current_from=version.current_from,
                push_id=version.push_id,
                current=version == current,
                expired=version.number in expired,
                readers=readers,
            )
        )
    return Table(
        table_id=planned.table_id,
        kind=planned.word,
        system=folder.system,
        topic=folder.topic,
        reads=int(pinned["number"]),
        current=None if current is None else current.number,
        versions=shown,
        hidden_readers=hidden,
        note=None,
    )
