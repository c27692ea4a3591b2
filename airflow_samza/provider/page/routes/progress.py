"""The progress of a run, the partitions of an input, and the figures of the last runs of a stage."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Response

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import UnknownName
from airflow_samza.figures import duration
from airflow_samza.provider.page.airflow_records import Planned, Records
from airflow_samza.provider.page.answer import Answer
from airflow_samza.provider.page.looks import LOOKS
from airflow_samza.provider.page.opened_run import Opened, OpenedRun, of_each
from airflow_samza.provider.page.rights import OF_PLAN, OF_RUN, Limit, Offset, StageId, StreamId
from airflow_samza.provider.page.stage_answers import Partitions, Progress, Stage, partition_answer
from airflow_samza.runs.progress.progress import PartitionProgress
from airflow_samza.runs.progress.run_list import Origin
from airflow_samza.runs.records.folders import RunFolder, read
from airflow_samza.runs.records.stage_result import StageResult

router = APIRouter(tags=["progress"], dependencies=OF_RUN)


RUNS_SHOWN = 30

_LOOKED_AT = 60
"""Plans whose runs are looked at for that: some have failed, and have no result."""

_USUAL = 3
"""Other runs from which on there is something usual."""

_SLOW, _SLOW_SECONDS = 2.0, 1.0
"""The ratio to the usual time, and the difference, from which on a run is called slow."""


class StageRun(Answer):
    """A run of the Dag in which the stage has succeeded."""

    dag_run_id: str
    planned_at: float
    rows: int
    """Messages read of all inputs."""
    seconds: float
    bytes: int
    """Bytes in the systems that were written to, as far as these report them."""
    is_this: bool


class StageHistory(Answer):
    """The last runs of a stage, oldest first, and a sentence where the present one is slow."""

    stage_id: str
    runs: list[StageRun]
    note: str | None


@router.get(
    f"{OF_PLAN}/progress",
    operation_id="progress",
    response_model=Progress,
    responses={304: {"description": "Nothing has changed since."}},
)
def progress(
    opened: Opened,
    records: Records,
    if_none_match: Annotated[str | None, Header(description="The ETag of the answer before.")] = None,
) -> Any:
    """Return the progress of every stage."""
    looked = LOOKS.progress(opened, opened.task_marks(records))
    headers = {"ETag": looked.etag, "Cache-Control": "private, no-cache"}
    if if_none_match is not None and looked.etag in if_none_match:
        return Response(status_code=304, headers=headers)
    return Response(looked.progress.model_dump_json(), media_type="application/json", headers=headers)


@router.get(f"{OF_PLAN}/stages/{{stage_id}}/history", operation_id="stageHistory")
def history(opened: Opened, records: Records, stage_id: StageId) -> StageHistory:
    """Return rows, seconds and bytes of the last runs of a stage."""
    opened.run.plan.stage(stage_id)
    looked = LOOKS.progress(opened, opened.task_marks(records))
    (stage,) = (one for one in looked.progress.stages if one.stage_id == stage_id)
    here = opened.planned
    plans = [
        planned
        for planned in records.planned_by(here.dag_id, here.task_id, _LOOKED_AT)
        if planned.map_index == here.map_index
        and (planned.note.conn_id, planned.note.application) == (here.note.conn_id, here.note.application)
    ]
    found = of_each(opened.files, lambda planned: _run_of(opened, planned, stage.stage_id), plans)
    runs = [run for run in found if run is not None][:RUNS_SHOWN][::-1]
    return StageHistory(stage_id=stage.stage_id, runs=runs, note=slow_note(stage, runs))


_ORDERS: dict[str, Any] = {
    "partition": lambda progress: progress.partition,
    "lag": lambda progress: (-(progress.lag or 0), progress.partition),
    "size": lambda progress: (-(progress.offsets or 0), progress.partition),
}


@router.get(f"{OF_PLAN}/stages/{{stage_id}}/inputs/{{stream_id}}/partitions", operation_id="partitions")
def partitions(
    opened: Opened,
    stage_id: StageId,
    stream_id: StreamId,
    order: Annotated[Literal["partition", "lag", "size"], Query(description="Greatest first, but for numbers.")] = (
        "partition"
    ),
    limit: Limit = 100,
    offset: Offset = 0,
) -> Partitions:
    """Return the partitions of an input."""
    stage = opened.run.plan.stage(stage_id)
    names = (*stage.inputs, *stage.side_inputs)
    if stream_id not in names:
        hint = f"{did_you_mean(stream_id, names)}It reads {', '.join(names)}."
        raise UnknownName(f"The stage {stage_id!r} does not read {stream_id!r}.", hint=hint, name=stream_id)
    report = LOOKS.report(opened, stage_id)
    parts: list[PartitionProgress] = list(report.of(stream_id))
    parts = parts or [part for part in report.side_inputs if part.stream_id == stream_id]
    shown = sorted(parts, key=_ORDERS[order])[offset : offset + limit]
    return Partitions(
        stage_id=stage_id, stream_id=stream_id, total=len(parts), partitions=[partition_answer(part) for part in shown]
    )


def _run_of(opened: OpenedRun, planned: Planned, stage_id: str) -> StageRun | None:
    """Return what a run's result of a stage says; None where there is none, or its records are of another Dag run."""
    files, folder = opened.files, RunFolder(planned.note.application, planned.note.run_id)
    origin = read(files, f"{folder.path}/origin.json", Origin)
    if origin is None or (origin.dag_id, origin.run_id) != (planned.dag_id, planned.run_id):
        return None
    generations = folder.generations(files, stage_id)
    result = read(files, folder.stage(stage_id, generations[-1]).result, StageResult) if generations else None
    if result is None:
        return None
    return StageRun(
        dag_run_id=planned.run_id,
        planned_at=planned.note.planned_at,
        rows=result.read,
        seconds=result.seconds,
        bytes=sum(output.bytes for output in result.outputs),
        is_this=planned.run_id == opened.planned.run_id,
    )


def slow_note(stage: Stage, runs: Sequence[StageRun]) -> str | None:
    """Return a sentence on a stage that is slower than usual; None of any other, and where nothing is usual yet."""
    others = [run for run in runs if not run.is_this]
    if stage.seconds is None or len(others) < _USUAL:
        return None
    usual = median(run.seconds for run in others)
    if stage.seconds < _SLOW * usual or stage.seconds - usual < _SLOW_SECONDS:
        return None
    times = f"{stage.seconds / usual:,.1f} times slower than usual" if usual else "Slower than usual"
    rows = median(run.rows for run in others)
    beside = f", for {stage.read / rows:,.1f} times the rows" if rows else ""
    return f"{times}: {duration(stage.seconds)} instead of {duration(usual)}, the median of {len(others)} runs{beside}."
