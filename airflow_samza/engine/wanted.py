"""Attempts that are not wanted any more: cancelled, or superseded by a newer generation of their stage."""

from __future__ import annotations

from airflow_samza.engine.stage_context import Attempt
from airflow_samza.errors import StageCancelled
from airflow_samza.runs.stages.stage_state import cancelled, superseded_by
from airflow_samza.systems.filesystems.filesystem import Filesystem


def reject_unwanted(files: Filesystem, attempt: Attempt) -> None:
    """Stop an attempt that was cancelled, or whose stage has a newer generation."""
    handle = attempt.handle
    if attempt.cancel_asked():
        raise cancelled(handle)
    newest = handle.run.generations(files, handle.stage_id)[-1]
    if newest > handle.generation:
        raise StageCancelled(
            superseded_by(handle, newest),
            hint="Nothing is lost: the newer generation does the work.",
            stage=handle.stage_id,
            run=handle.run_id,
        )
