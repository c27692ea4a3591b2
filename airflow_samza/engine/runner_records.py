"""Records of a stage runner, of its attempts and its own end, written again and again until they are written."""

from __future__ import annotations

import logging
import threading
import time

from airflow_samza.engine.attempt_state import AttemptState
from airflow_samza.engine.repeated_failures import RepeatedFailures
from airflow_samza.errors import SamzaError, TopicError
from airflow_samza.runs.records.folders import read, write_once
from airflow_samza.runs.stages.stage_runners import RunnerEnd, RunnerFolder, StageRequest
from airflow_samza.runs.stages.stage_state import FAILED
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.object_store import requests

log = logging.getLogger("airflow_samza.runner")

LOOK_SECONDS = 0.05


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
