"""Records of a stage runner, of its attempts and its own end, written again and again until they are written.

The runner and its heartbeat write them; an attempt's status is one of them.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from contextlib import suppress

from airflow_samza.errors import SamzaError, TopicError
from airflow_samza.runs.records.folders import RunFolder, read, replace, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.spans import Stopwatch
from airflow_samza.runs.stages.running_times import spans_before
from airflow_samza.runs.stages.stage_runners import RunnerEnd, RunnerFolder, StageRequest
from airflow_samza.runs.stages.stage_state import FAILED, FINAL, QUEUED, StageHandle, StageProgress, StatusRecord
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.object_store import requests

log = logging.getLogger("airflow_samza.runner")

LOOK_SECONDS = 0.05

LOG_SECONDS = 60.0
"""Seconds between two lines of the log about failures that pass by themselves."""


REPORT_SECONDS = 0.25
"""The least time between two statuses for ends of epochs: writing one costs some ms of the disk."""


class RepeatedFailures:
    """The failures of one thing that is tried again and again: the first is logged, then one a minute, and their end.

    The log may lie on the very disk that is full, so little is logged.
    """

    def __init__(self, log: logging.Logger, doing: str) -> None:
        self._log = log
        self._doing = doing
        self._count = 0
        self._began = self._said = 0.0

    def met(self, error: BaseException) -> None:
        """Note a failure."""
        now = time.monotonic()
        if not self._count:
            self._began = now
        self._count += 1
        if self._count == 1 or now - self._said >= LOG_SECONDS:
            self._said = now
            self._log.warning("%s failed, and is tried again (%d times so far): %s", self._doing, self._count, error)

    def over(self) -> None:
        """Note that it works, and log that if it did not before."""
        if self._count:
            self._log.info("%s works again, after %.0f s and %d failures", self._doing, self.seconds, self._count)
        self._count = 0

    @property
    def seconds(self) -> float:
        """For how long it has failed; 0.0: it works."""
        return time.monotonic() - self._began if self._count else 0.0


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


class RunnerRecords:
    """The records of one runner, as far as it writes them itself."""

    def __init__(self, files: Filesystem, folder: RunnerFolder) -> None:
        self._files = files
        self._folder = folder
        self._attempts: dict[str, AttemptState] = {}
        self._damaged: set[str] = set()
        self._ending: RunnerEnd | None = None
        """The record of this runner's end, once it has to be written."""
        self._is_closed = False
        self._closing = threading.Lock()
        self._failures = RepeatedFailures(log, "writing that this runner ends")
        self.is_replaced = threading.Event()
        """Set when this runner was regarded as dead: it takes no more requests."""

    def attempts(self) -> list[AttemptState]:
        """Return all attempts that this runner was asked for."""
        return list(self._attempts.values())

    def take(self, name: str) -> AttemptState | None:
        """Return the attempt of a request in the queue.

        None when it is known already, or damaged: then its status is that it failed.
        """
        if name in self._attempts or name in self._damaged:
            return None
        try:
            request = read(self._files, f"{self._folder.queue}/{name}", StageRequest)
        except TopicError as error:
            if "errno" in error.facts:  # the storage does not answer, and the request is asked for again
                raise
            self._reject_damaged(name, error)
            return None
        if request is None:
            return None
        attempt = self._attempts[name] = AttemptState(self._files, self._folder.run, request)
        return attempt

    def close(self, why: str, error: SamzaError | None = None) -> bool:
        """Write that this runner takes no more requests; return whether it is written.

        What could not be is tried again by :meth:`write_statuses`.
        """
        with self._closing:
            failure = error.to_dict() if error is not None else None
            self._ending = self._ending or RunnerEnd(why, time.time(), failure, requests.take())
            if not self._is_closed:
                try:
                    write_once(self._files, self._folder.closed, self._ending)
                except (SamzaError, OSError) as error:
                    self._failures.met(error)
                else:
                    self._is_closed = True
                    self._failures.over()
            return self._is_closed

    def reject_all(self, error: SamzaError, why: str) -> None:
        """Close, and answer every request that came meanwhile with the error."""
        self.close(why, error)
        for name in self._files.list(self._folder.queue):
            attempt = self.take(name)
            if attempt is not None:
                attempt.write_status(FAILED, error)

    def write_statuses(self) -> None:
        """Write the status of what runs, and of every end whose status could not be written so far."""
        if self._ending is not None and not self._is_closed:
            self.close(self._ending.why)
        for attempt in self.attempts():
            if not attempt.is_settled and attempt.has_news:
                attempt.write_status()

    def are_written(self) -> bool:
        """Return whether everybody can know of every end that attempts have come to, and of this runner's own."""
        return all(attempt.is_settled for attempt in self.attempts() if attempt.is_over) and (
            self._ending is None or self._is_closed
        )

    def wait_until_written(self, seconds: float) -> None:
        """Wait until :meth:`are_written`, which a heartbeat brings about, for ``seconds`` at most."""
        deadline = time.monotonic() + seconds
        while not self.are_written() and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)

    def look_who_took_over(self) -> None:
        """Notice that this runner was regarded as dead, because it or its storage was frozen.

        What others took over it lets go of.
        """
        if self._ending is None and self._files.exists(self._folder.closed):
            self.is_replaced.set()
        for attempt in self.attempts():
            if not attempt.is_over and not attempt.cancelled.is_set() and attempt.is_replaced():
                log.warning("%s: a later attempt has taken its place", attempt.group)
                attempt.cancelled.set()

    def _reject_damaged(self, name: str, error: TopicError) -> None:
        self._damaged.add(name)
        log.error("%s", error)
        words = name.removesuffix(".json").rsplit("@", 2)
        if len(words) == 3 and words[2].isdigit():
            request = StageRequest(words[0], words[1], int(words[2]))
            attempt = self._attempts[name] = AttemptState(self._files, self._folder.run, request)
            attempt.write_status(FAILED, error)
