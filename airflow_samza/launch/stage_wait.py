"""Waiting for the end of a stage, by looking at its status."""

from __future__ import annotations

import time
from collections.abc import Callable

from airflow_samza.errors import StageError
from airflow_samza.runs.stages.stage_state import StageHandle, StageStatus
from airflow_samza.systems.filesystems.pace import FREE, Looks, Pace

POLL_SECONDS = 0.05
"""The time between two looks at a status, which read a few small files.

No stage takes less time; a shorter wait is polled more often, so that polling adds a tenth to it at most.
"""


def wait_for_stage(
    status_of: Callable[[StageHandle], StageStatus],
    handle: StageHandle,
    timeout: float | None = None,
    on_progress: Callable[[StageStatus], None] | None = None,
    pace: Pace = FREE,
) -> StageStatus:
    """Return the final status of a stage.

    Args:
        status_of: returns the present status.
        handle: the stage.
        timeout: seconds until a StageError; None: no limit.
        on_progress: gets each status that differs from the one before.
        pace: the pace at which looks at the records are fitting.
    """
    began = time.monotonic()
    looks = Looks(pace)
    shown: str | None = None
    while True:
        status = status_of(handle)
        if str(status) != shown:
            shown = str(status)
            looks.news()
            if on_progress is not None:
                on_progress(status)
        if status.is_final:
            return status
        waited = time.monotonic() - began
        if timeout is not None and waited > timeout:
            raise StageError(
                f"The stage {handle.stage_id} is still {status} after {timeout} s.",
                hint="It still runs; wait longer, or cancel it.",
                stage=handle.stage_id,
                run=handle.run_id,
            )
        time.sleep(looks.pause(POLL_SECONDS if waited < POLL_SECONDS else min(POLL_SECONDS, waited / 10)))
