"""The progress of stages in the log of their task: changes of state at once, figures now and then.

Stage tasks that wait and triggers of deferred ones write it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from airflow_samza.errors import SamzaError
from airflow_samza.runs.progress.progress import ProgressReport, describe_progress
from airflow_samza.runs.stages.stage_state import QUEUED, StageHandle, StageStatus

FIRST_SECONDS = 5.0
"""The first figures come early, to show that the stage works."""

DEFAULT_INTERVAL = 30.0

QUIET_INTERVALS = 10
"""The intervals for which an unchanged stage is not logged again."""

Measure = Callable[[StageHandle, StageStatus], ProgressReport]


class ProgressLog:
    """Logs the progress of stages that are polled.

    :param tell: Gets the lines, one by one.
    :param measure: Makes a report of a stage; None: only states are told.
    :param interval: Seconds between two reports of a stage; the first comes after :data:`FIRST_SECONDS` at the latest.
    :param emit: Gets each report, for metrics.
    :param said: The states of stages that the log has already, by stage id; it is kept up to date.
    :param names: The names of stages in texts, by stage id; of others, the id.
    """

    def __init__(
        self,
        tell: Callable[[str], object],
        measure: Measure | None = None,
        interval: float = DEFAULT_INTERVAL,
        emit: Callable[[ProgressReport], None] = lambda report: None,
        clock: Callable[[], float] = time.monotonic,
        said: Mapping[str, str] | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self._tell = tell
        self._measure = measure
        self._interval = interval
        self._emit = emit
        self._clock = clock
        self.said: dict[str, str] = dict(said or {})
        self._names = names or {}
        self._due: dict[str, float] = {}
        self._reported: dict[str, tuple[object, int]] = {}
        self._problem = ""
        self._warned: set[str] = set()

    def name_of(self, stage_id: str) -> str:
        """Return the name of a stage in texts."""
        return self._names.get(stage_id, stage_id)

    def look(self, handle: StageHandle, status: StageStatus) -> None:
        """Record a stage's status; log what is new, or due."""
        stage_id = handle.stage_id
        waits = status.progress.waiting_for if status.progress is not None else None
        state = f"{status.state} (attempt {status.attempt})" + (
            f", waiting for the stage {self.name_of(waits)} to start" if waits else ""
        )
        if self.said.get(stage_id) != state:
            self.said[stage_id] = state
            self._tell(f"Stage {self.name_of(stage_id)}: {state}" + (f" on {status.runner}" if status.runner else ""))
        self._due.setdefault(stage_id, self._clock() + min(FIRST_SECONDS, self._interval))
        if status.state != QUEUED and not status.is_final and not waits and self._clock() >= self._due[stage_id]:
            self.report(handle, status)

    def report(self, handle: StageHandle, status: StageStatus, *, quietly: bool = False) -> None:
        """Measure a stage now; ``quietly`` for the metrics only.

        That figures cannot be had is no reason to fail a stage.
        """
        self._due[handle.stage_id] = self._clock() + self._interval
        if self._measure is None:
            return
        try:
            report = self._measure(handle, status)
        except (SamzaError, OSError) as error:
            if str(error) != self._problem:
                self._problem = str(error)
                self.tell_not_read(handle, str(error))
            return
        self._emit(report)
        if not report.tasks:  # it has not decided yet what to read
            self._due[handle.stage_id] = self._clock() + min(FIRST_SECONDS, self._interval)
        if not quietly and report.tasks and self._is_news(report):
            if handle.stage_id in self._warned:  # once is enough: only the counts of messages differ
                report = replace(report, warnings=())
            elif report.warnings:
                self._warned.add(handle.stage_id)
            for line in describe_progress(report, name=self.name_of(report.stage_id)):
                self._tell(line)

    def tell_not_read(self, handle: StageHandle, why: str) -> None:
        """Log that the progress of a stage cannot be shown."""
        self._tell(f"Stage {self.name_of(handle.stage_id)}: its progress cannot be read at present: {why}")

    def _is_news(self, report: ProgressReport) -> bool:
        """Return whether a report is due: something changed since the last one, or enough time has passed."""
        now = (
            report.epochs,
            report.tasks_done,
            report.read,
            report.lag,
            report.watermark,
            sum(partition.ends for partition in report.partitions),
        )
        before, times = self._reported.get(report.stage_id, (None, 0))
        is_unchanged = now == before and times < QUIET_INTERVALS
        self._reported[report.stage_id] = (now, times + 1 if is_unchanged else 0)
        return not is_unchanged
