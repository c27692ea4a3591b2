"""An attempt at a stage as its runner knows it; its status is written until that succeeds."""

from __future__ import annotations

import logging
import math
import threading
import time
from contextlib import suppress

from airflow_samza.engine.repeated_failures import RepeatedFailures
from airflow_samza.errors import SamzaError
from airflow_samza.runs.records.folders import RunFolder, replace
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.spans import Stopwatch
from airflow_samza.runs.stages.running_times import spans_before
from airflow_samza.runs.stages.stage_runners import StageRequest
from airflow_samza.runs.stages.stage_state import (
    FINAL,
    QUEUED,
    StageHandle,
    StageProgress,
    StatusRecord,
)
from airflow_samza.systems.filesystems.filesystem import Filesystem

log = logging.getLogger("airflow_samza.runner")

REPORT_SECONDS = 0.25
"""The least time between two statuses for ends of epochs: writing one costs some ms of the disk."""


class AttemptState:
    """One attempt that a runner was asked for: its records, and whether it was cancelled.

    No status decides anything, so writing one never fails: the next heartbeat writes what could not be written.
    """

    def __init__(self, files: Filesystem, run: RunFolder, request: StageRequest) -> None:
        self.request = request
        self.handle = StageHandle(
            run.application,
            run.run_id,
            request.stage,
            Generation.parse(request.generation),
            request.attempt,
        )
        self.group = f"{request.stage}@{request.generation}@{request.attempt}"
        self.cancelled = threading.Event()
        self.watch = Stopwatch(request.attempt)
        """Measures for how long this attempt, and those before it, have run the stage."""
        self.state = QUEUED
        self._files = files
        self._error: SamzaError | None = None
        self._progress: StageProgress | None = None
        self._written_at = 0.0
        self._looked_at = -math.inf
        self._is_written = True
        self._shown: tuple[StageProgress | None, bool] = (None, False)
        self._ended_at: float | None = None
        self._knows_former = request.attempt <= 1
        self._lock = threading.Lock()
        self._failures = RepeatedFailures(log, f"{self.group}: writing the status")

    def write_status(self, state: str | None = None, error: SamzaError | None = None) -> None:
        """Replace the attempt's status; without arguments only its time is new.

        The first end that it comes to stands.
        """
        with self._lock:
            if state is not None and not self.is_over:
                self.state, self._error = state, error
                if state in FINAL:
                    self.watch.stop()
                    self._ended_at = time.time()
            self._written_at = time.monotonic()
            self._shown = self._news
            self._know_former()
            record = StatusRecord(
                self.state,
                self._error.to_dict() if self._error else None,
                self._progress,
                time.time() if self._ended_at is None else self._ended_at,
                self.watch.spans,
            )
            try:
                replace(self._files, self.handle.folder.attempt(self.handle.attempt, "status"), record)
            except (SamzaError, OSError) as failure:
                self._is_written = False
                self._failures.met(failure)
            else:
                self._is_written = True
                self._failures.over()

    def report(self, progress: StageProgress) -> None:
        """Note progress; the status shows it after a fraction of a second at the latest, and with every heartbeat."""
        news = self._progress is None or progress.waiting_for != self._progress.waiting_for
        self._progress = progress
        if news or time.monotonic() - self._written_at > self._files.pace.beats(REPORT_SECONDS):
            self.write_status()

    def _know_former(self) -> None:
        """Find how long the attempts before have run the stage; where that cannot be read, the next status has it."""
        if not self._knows_former:
            with suppress(SamzaError, OSError):
                self.watch.former = spans_before(self._files, self.handle, self.handle.attempt)
                self._knows_former = True

    @property
    def _news(self) -> tuple[StageProgress | None, bool]:
        """The part of a status beside the state: the progress, and whether the first epoch has begun."""
        return self._progress, self.watch.has_begun

    @property
    def has_news(self) -> bool:
        """Return whether the status that others see is not what it should be; one that costs nothing always is."""
        return self._files.pace.is_free or not self._is_written or self._shown != self._news

    @property
    def is_over(self) -> bool:
        """Return whether it has ended, one way or another."""
        return self.state in FINAL

    @property
    def is_settled(self) -> bool:
        """Return whether it has ended, and everybody can know."""
        return self.is_over and self._is_written

    def cancel_requested(self) -> bool:
        """Return whether somebody asked to cancel it, or a later attempt has taken its place."""
        if self.cancelled.is_set():
            return True
        now = time.monotonic()
        if now - self._looked_at < self._files.pace.first:  # somebody has just looked
            return False
        self._looked_at = now
        return self._files.exists(self.handle.folder.attempt(self.handle.attempt, "cancel"))

    def is_replaced(self) -> bool:
        """Return whether a later attempt has taken its place: its runner was regarded as dead."""
        return self._files.exists(self.handle.folder.attempt(self.handle.attempt + 1, "request"))
