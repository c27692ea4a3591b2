"""The progress of a run, and the partitions of an input."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Response

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import UnknownName
from airflow_samza.provider.page.airflow_records import Records
from airflow_samza.provider.page.looks import LOOKS
from airflow_samza.provider.page.opened_run import Opened
from airflow_samza.provider.page.rights import OF_RUN
from airflow_samza.provider.page.routes.addresses import OF_PLAN, Limit, Offset, StageId, StreamId
from airflow_samza.provider.page.stage_answers import Partitions, Progress, partition_answer
from airflow_samza.provider.page.stage_history import StageHistory, stage_history
from airflow_samza.runs.progress.progress import PartitionProgress

router = APIRouter(tags=["progress"], dependencies=OF_RUN)


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
    return stage_history(opened, records, stage)


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
