"""Times for which attempts have run a stage, by what their runners have reported and when they were last heard of.

The stage runner and the finish of a stage note them, and progress shows them.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_samza.runs.records.folders import read_report
from airflow_samza.runs.records.liveness import FROZEN_AFTER_SECONDS
from airflow_samza.runs.records.spans import Span, prolonged
from airflow_samza.runs.stages.stage_state import (
    FINAL,
    LOST,
    RUNNING,
    UNFINISHED,
    StageHandle,
    StageStatus,
    StatusRecord,
    runner_of,
)
from airflow_samza.systems.filesystems.filesystem import Filesystem


def spans_of(files: Filesystem, handle: StageHandle, status: StageStatus, now: float) -> tuple[Span, ...]:
    """Return the times for which attempts have run a stage until ``now`` (seconds since 1970), by its status.

    Of an attempt whose runner is gone, until its last sign of life.
    """
    if status.updated_at is None:  # nobody has taken it up: those before it count
        return spans_before(files, handle, status.attempt)
    if status.state == RUNNING:
        return _lived(files, status.ran, status.attempt, now - status.updated_at)
    if status.state in (LOST, UNFINISHED):
        return _until_lost(files, handle, status.attempt, status.ran, status.updated_at)
    return status.ran


def spans_before(files: Filesystem, handle: StageHandle, attempt: int) -> tuple[Span, ...]:
    """Return the times for which the attempts before one have run the stage, as the last of them has told them."""
    for number in range(attempt - 1, 0, -1):
        status = read_report(files, handle.folder.attempt(number, "status"), StatusRecord)
        if status is not None and status.at is not None:
            return status.ran if status.state in FINAL else _until_lost(files, handle, number, status.ran, status.at)
    return ()


def _until_lost(
    files: Filesystem, handle: StageHandle, attempt: int, ran: Sequence[Span], reported_at: float
) -> tuple[Span, ...]:
    runner = runner_of(files, handle, attempt)
    return tuple(ran) if runner is None else _lived(files, ran, attempt, runner.heard_at(files) - reported_at)


def _lived(files: Filesystem, ran: Sequence[Span], attempt: int, seconds: float) -> tuple[Span, ...]:
    """Return spans that go on for some seconds since they were told.

    Where statuses are written with every sign of life it cannot be longer than until a runner counts as dead: the
    clocks differ then, or have jumped.
    """
    clocks_differ = files.pace.is_free and seconds > FROZEN_AFTER_SECONDS
    return prolonged(ran, attempt, 0.0 if clocks_differ else seconds)
