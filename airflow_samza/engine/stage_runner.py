"""The stage runner (the driver process): a detached process that holds one engine and runs the stages of one run.

It claims its place under the run, watches its queue, and ends when the run is closed, or when nothing came for the idle
time. Everything that it reports is in files under the root, so any process on any host can ask (decision 8). Spark's
driver program runs it, and so does the process that a warm runner forks.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from airflow_samza.engine.heartbeat import LEAVE_SECONDS, RunnerHeartbeat
from airflow_samza.engine.push import is_push, run_push
from airflow_samza.engine.runner_records import AttemptState, RepeatedFailures, RunnerRecords
from airflow_samza.engine.stage_engine import StageEngine
from airflow_samza.engine.stage_run import run_stage
from airflow_samza.errors import SamzaError, StageCancelled, StageFailed, StageLost
from airflow_samza.launch.bindings import bindings_from_json, take_root_access
from airflow_samza.launch.java.installed_java import why_spark_does_not_start
from airflow_samza.launch.log_lines import details_in
from airflow_samza.launch.own_scratch import leave_scratch
from airflow_samza.launch.runner_settings import DEFAULT_IDLE_SECONDS, GAVE_WAY, POLL_SECONDS, engine_name
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.stages.spark_page import SparkPage, note_spark_page
from airflow_samza.runs.stages.stage_runners import DID_NOT_START, RunnerFolder, claim_runner
from airflow_samza.runs.stages.stage_state import CANCELLED, FAILED, RUNNING, SUCCEEDED
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.local_copies import carry, local_copy
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.filesystems.pace import Looks

log = logging.getLogger("airflow_samza.runner")

# Around the beginning and the end of a stage: a short one ends soon, and the next one of the run comes at once.
EAGER_POLL_SECONDS = 0.005
EAGER_SECONDS = 2.0

PATIENCE_SECONDS = 300.0
"""For how long a root that cannot be read is looked at again: a shared filesystem comes back, or the runner ends."""


OpenEngine = Callable[[str, Mapping[str, Any], Filesystem], StageEngine]
"""A function from a name for the engine to show, the runner's settings and the root's files to an engine."""


class StageRunner:
    """Serves the queue of one runner folder until the run is closed or the runner has been idle for long enough."""

    def __init__(
        self, files: Filesystem, folder: RunnerFolder, settings: Mapping[str, Any], open_engine: OpenEngine
    ) -> None:
        self._files = files
        self._folder = folder
        self._settings = settings
        self._bindings = bindings_from_json(settings["bindings"])
        self._idle_seconds = float(settings.get("idle_seconds", DEFAULT_IDLE_SECONDS))
        self._records = RunnerRecords(files, folder)
        self._threads: list[threading.Thread] = []
        self._stop = threading.Event()
        self._engine: StageEngine
        self._open_engine = open_engine
        self._heartbeat = RunnerHeartbeat(files, folder, self._records, settings.get("output", ""))
        self._lost: SamzaError | None = None
        self._failures = RepeatedFailures(log, "looking at the queue")
        self._looks = Looks(files.pace)
        self._taken_at = self._next_look_at = -math.inf
        self._page_is_noted = False

    def serve(self) -> None:
        """Run until it is time to end; attempts that still run then are cancelled."""
        self._heartbeat.start()
        signal.signal(signal.SIGTERM, lambda *_: self._stop.set())
        try:
            self._start_engine()
        except SamzaError as error:
            self._reject_all(error, DID_NOT_START)
            return
        self._heartbeat.listen_to(self._engine)
        last_busy = last_change = time.monotonic()
        was_busy = False
        while not self._stop.is_set():
            try:
                self._note_page()  # before a request is taken: who sees that one running looks for the page
                looks = self._looks_now()
                busy = (looks and self._take_requests()) or self._busy()
                self._pass_on_cancels()
                over = looks and self._run_is_over()
                self._failures.over()
            except (SamzaError, OSError) as error:
                self._failures.met(error)
                busy, over = self._busy(), self._failures.seconds > PATIENCE_SECONDS
            last_busy = time.monotonic() if busy else last_busy
            if busy != was_busy:
                last_change = time.monotonic()
                self._looks.news()
            was_busy = busy
            if over:
                break
            self._lost = self._lost or self._heartbeat.lost
            if self._lost is not None:
                self._drain()
                self._reject_all(self._lost, "Spark is gone")
                break
            if self._records.is_replaced.is_set():
                log.warning("this runner was taken for dead, and takes no more requests")
                self._drain()
                break
            if not busy and time.monotonic() - last_busy > self._idle_seconds:
                # Closed first, then one last look: a request that came before the close is seen, one after it goes
                # elsewhere.
                if not self._records.close("idle") or self._take_last_requests():
                    self._drain()
                break
            own = EAGER_POLL_SECONDS if time.monotonic() - last_change < EAGER_SECONDS else POLL_SECONDS
            self._wait(self._looks.pause(own))
        self._end()

    def _take_last_requests(self) -> bool:
        """Return whether a request has come just before the close; if nobody takes it, who asked sees that, too."""
        try:
            return self._take_requests()
        except (SamzaError, OSError) as error:
            log.warning("the last look for requests failed: %s", error)
            return self._busy()

    def _wait(self, seconds: float) -> None:
        """Wait for the next look, or for what ends this runner or the last of its attempts."""
        until = time.monotonic() + seconds
        at_work = any(thread.is_alive() for thread in self._threads)
        while (left := until - time.monotonic()) > 0 and not self._stop.wait(min(left, POLL_SECONDS)):
            if self._heartbeat.lost is not None or (at_work and not self._busy()):
                return

    def _start_engine(self) -> None:
        try:
            name, settings = engine_name(self._folder.run.application), {**self._settings, "log": self._folder.log}
            self._engine = self._open_engine(name, settings, self._files)
        except SamzaError:
            raise
        except Exception as error:
            raise start_failure(error, self._files, self._folder.log, self._settings.get("output", "")) from error

    def _note_page(self) -> None:
        """Note the page of Spark once it is up."""
        if self._page_is_noted or not self._engine.is_up:
            return
        self._page_is_noted = True
        try:
            note_spark_page(self._files, self._folder, self._engine.page() or SparkPage())
        except Exception:  # no link is worth a run
            log.warning("where Spark shows its jobs cannot be noted", exc_info=True)

    def _take_requests(self) -> bool:
        any_taken = False
        for name in self._files.list(self._folder.queue):
            attempt = self._records.take(name)
            if attempt is None:
                continue
            any_taken = True
            self._taken_at = time.monotonic()
            thread = threading.Thread(target=self._run, args=(attempt,), name=attempt.group, daemon=True)
            self._threads.append(thread)
            thread.start()
        return any_taken

    def _run(self, attempt: AttemptState) -> None:
        log.info("%s: started", attempt.group)
        started = time.monotonic()
        try:
            if attempt.cancel_requested():
                attempt.cancelled.set()
            else:
                attempt.write_status(RUNNING)
                work = run_push if is_push(self._files, attempt.handle) else run_stage
                work(self._engine, self._files, self._bindings, attempt, self._settings)
                attempt.write_status(SUCCEEDED)
        except StageCancelled as error:  # cancelled, or superseded by a newer generation
            log.info("%s: %s", attempt.group, error.sentence)
            attempt.cancelled.set()
        except SamzaError as error:
            self._ended_badly(attempt, error)
        except BaseException as error:  # whatever it is, the status of the attempt must show it
            log.exception("%s: failed unexpectedly", attempt.group)
            self._ended_badly(
                attempt,
                StageFailed(
                    f"The stage {attempt.handle.stage_id} failed: {type(error).__name__}: {error}",
                    hint=details_in(self._files.location(self._folder.log)),
                    stage=attempt.handle.stage_id,
                    run=attempt.handle.run_id,
                ),
            )
        if attempt.cancelled.is_set() and attempt.state != SUCCEEDED:
            attempt.write_status(CANCELLED)
        log.info("%s: %s after %.2f s", attempt.group, attempt.state, time.monotonic() - started)

    def _ended_badly(self, attempt: AttemptState, error: SamzaError) -> None:
        if isinstance(error, StageLost):  # closed before the status, so that a retry at once starts a runner of its own
            self._records.close("Spark is gone", error)
            self._lost = error
        if not attempt.cancelled.is_set():
            log.error("%s: %s", attempt.group, error)
            self._heartbeat.bring_log()  # before the status: whoever reads that looks into the log next
            attempt.write_status(FAILED, error)

    def _busy(self) -> bool:
        return any(thread.is_alive() for thread in self._threads) or not self._records.are_written()

    def _pass_on_cancels(self) -> None:
        for attempt in self._records.attempts():
            if not attempt.is_over and (attempt.cancelled.is_set() or attempt.cancel_requested()):
                self._cancel(attempt)

    def _cancel(self, attempt: AttemptState) -> None:
        # Again and again until it is over: a job that was just about to start is not in its group yet.
        if not attempt.cancelled.is_set():
            log.info("%s: cancelled", attempt.group)
            attempt.cancelled.set()
        try:
            self._engine.cancel(attempt.group)
        except Exception:  # a Spark that is gone has nothing left to cancel
            log.warning("%s: Spark does not answer", attempt.group, exc_info=True)

    def _run_is_over(self) -> bool:
        # The folder can be gone altogether (a test's folder, a wiped root): nobody will ever come back then.
        if self._files.pace.is_free:
            return self._files.exists(self._folder.run.closed) or not self._files.exists(self._folder.claim)
        return self._files.exists(self._folder.run.closed) or not self._heartbeat.is_there

    def _looks_now(self) -> bool:
        """Return whether to look at queue and run; while a stage runs, news of either is rare."""
        now, beat = time.monotonic(), self._files.pace.beat
        if self._busy() and now < self._next_look_at:
            return False
        self._next_look_at = now + beat if now - self._taken_at > 2 * beat else now
        return True

    def _drain(self) -> None:
        for thread in self._threads:
            while thread.is_alive() and not self._stop.is_set():
                with suppress(SamzaError, OSError):  # asked again in a moment
                    self._pass_on_cancels()
                thread.join(self._looks.pause(POLL_SECONDS))

    def _end(self) -> None:
        for attempt in self._records.attempts():
            if not attempt.is_over:
                self._cancel(attempt)
        deadline = time.monotonic() + LEAVE_SECONDS  # a task that ignores its kill must not keep the runner alive
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        with suppress(SamzaError, OSError):
            if self._files.exists(self._folder.claim):
                self._records.close("over")
                self._records.wait_until_written(deadline - time.monotonic())
        if self._lost is None:
            self._engine.stop(in_a_hurry=self._stop.is_set())  # by a signal: somebody wants this machine empty

    def _reject_all(self, error: SamzaError, why: str) -> None:
        """Close, and answer every request that came meanwhile with the error."""
        log.error("%s", error)
        self._records.reject_all(error, why)
        self._records.wait_until_written(LEAVE_SECONDS)


def start_failure(error: Exception, files: Filesystem, log_path: str, output: str) -> SamzaError:
    """Return the error of a Spark that does not come up; the runner's log, or ``output``, says why Java has ended."""
    why = why_spark_does_not_start(error, files.local_path(log_path) or output)
    log.error("Spark does not start", exc_info=error)
    return StageFailed(f"Spark does not start: {why}", hint=details_in(files.location(log_path)), log=log_path)


def run_process(arguments: list[str], open_engine: OpenEngine, settings: dict[str, Any]) -> int:
    """Be the process: claim the runner's place, or give way to one that lives; return the exit code.

    ``arguments`` are ROOT APPLICATION RUN KEY. What must not lie in files (bindings with secrets) is in the settings.
    """
    root, application, run_id, key = arguments
    starting_log, output = settings.pop("starting_log"), settings.get("output", "")
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    take_root_access(root, settings["bindings"])
    files = open_filesystem(root)
    run = RunFolder(application, run_id)
    folder = claim_runner(files, run, key, settings.get("warm", ""))
    here = files.local_path(starting_log) is not None
    if folder is None:
        files.delete(starting_log)
        return 0 if settings.get("in_cluster") else GAVE_WAY
    if here:
        files.rename(starting_log, folder.log)
    sys.path[:0] = [local_copy(files, path) for path in settings["code"]]
    StageRunner(files, folder, settings, open_engine).serve()
    if not here:
        logging.shutdown()
        carry(files, output, folder.log)
        os.unlink(output)
    return 0


def end_process(code: int) -> None:
    """End this process at once: a thread that hangs in a dead engine must not keep it."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    leave_scratch()
    os._exit(code)
