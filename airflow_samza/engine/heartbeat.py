"""A runner's signs of life: its own and Spark's; and what follows when one of them was missed.

Its own is written every second where that costs nothing, else as often as fits the storage. Spark gets a small question
every two seconds, on a thread of its own, which may wait for ever. Warm runners have the same words for a Spark that is
silent.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from contextlib import suppress
from datetime import datetime, timezone

import psutil

from airflow_samza.engine.runner_records import RepeatedFailures, RunnerRecords
from airflow_samza.engine.stage_engine import StageEngine
from airflow_samza.errors import SamzaError, StageLost, StorageFull
from airflow_samza.runs.records.folders import replace
from airflow_samza.runs.stages.disk_room import SILENT_SECONDS
from airflow_samza.runs.stages.stage_runners import Heartbeat, RunnerFolder
from airflow_samza.runs.stages.stage_state import FAILED
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.local_copies import carry

ASK_SECONDS = 2.0

SILENT_AFTER_SECONDS = 40.0
"""The seconds for which Spark may leave a small question open. Jobs, however large, do not keep it from answering."""

BUSY_AFTER_SECONDS = 300.0
"""The same while its process uses processor time.

A long garbage collection answers nothing either, and comes to an end.
"""

_IDLE_SHARE = 0.02
"""Of a core: what a frozen process does not use, and one that collects garbage does."""


class EngineLiveness:
    """The signs of life of an engine."""

    def __init__(self, engine: StageEngine) -> None:
        self._engine = engine
        self._answers = 0
        self._counted = 0
        self._silent = 0.0
        self._busy_at_answer: float | None = None
        self._ticked = time.monotonic()
        self.answered_at = time.time()
        """Time of Spark's last answer (seconds since 1970)."""
        threading.Thread(target=self._ask, name="liveness", daemon=True).start()

    def tick(self) -> None:
        """Count the silence; to be called every second or so.

        Time in which nobody calls counts little: this process was frozen, too.
        """
        now = time.monotonic()
        passed, self._ticked = min(now - self._ticked, 2.0), now
        if self._answers != self._counted:
            self._counted, self._silent = self._answers, 0.0
            self._busy_at_answer = self._engine.processor_seconds()
        else:
            self._silent += passed

    @property
    def is_lost(self) -> bool:
        """Return whether Spark has been silent for too long."""
        if self._silent < SILENT_AFTER_SECONDS:
            return False
        return self._silent >= BUSY_AFTER_SECONDS or not self._is_busy()

    def _is_busy(self) -> bool:
        used, before = self._engine.processor_seconds(), self._busy_at_answer
        return used is not None and before is not None and used - before > _IDLE_SHARE * self._silent

    def _ask(self) -> None:
        while True:
            if self._engine.answers():
                self._answers += 1
                self.answered_at = time.time()
            time.sleep(ASK_SECONDS)


RETRY_HINT = "Try again: another runner starts another one."


def silent(engine: StageEngine, answered_at: float, stage_id: str = "") -> StageLost:
    """Return the error for a Spark that has stopped to answer, while a stage ran or (without one) nothing did."""
    since = datetime.fromtimestamp(answered_at, timezone.utc)
    meanwhile = f", while the stage {stage_id} ran" if stage_id else ""
    return StageLost(
        f"{engine.place[0].upper()}{engine.place[1:]} has not answered since {since:%H:%M:%S} UTC{meanwhile}: "
        "it is frozen.",
        hint="Try again: another Spark takes its place.",
        stage=stage_id,
    )


log = logging.getLogger("airflow_samza.runner")

HEARTBEAT_SECONDS = 1.0

LOG_SECONDS = 5.0
"""Seconds between copies of the log to a root that is no folder of this machine."""

LEAVE_SECONDS = 10.0
"""Seconds that a runner's end waits for what still runs, and for statuses that are still to be written."""


class RunnerHeartbeat:
    """The heartbeat of one runner, with which it writes every status that could not be written before."""

    def __init__(self, files: Filesystem, folder: RunnerFolder, records: RunnerRecords, output: str) -> None:
        self._files = files
        self._folder = folder
        self._records = records
        self._output = output
        self._spark: StageEngine | None = None
        self._liveness: EngineLiveness | None = None
        self._frozen_seconds = 0.0
        self._carried, self._carried_at = -1, -math.inf
        self._bringing = threading.Lock()
        self._beaten_at = self._looked_at = -math.inf
        self._heard_at = time.monotonic()
        """The time that the last sign of life has which others can read."""
        self.is_there = True
        """Result of the last look at this runner's place: is it still under the root?"""
        self.lost: StageLost | None = None
        """Reason why Spark was given up."""

    def start(self) -> None:
        """Beat until the process ends."""
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def listen_to(self, spark: StageEngine) -> None:
        """Look after Spark, too, from now on."""
        self._spark, self._liveness = spark, EngineLiveness(spark)

    def _beat(self) -> None:
        failures = RepeatedFailures(log, "writing the heartbeat")
        full: StorageFull | None = None
        while True:
            # Also where there is room again by now: whoever waits has seen this silence.
            if full is not None and time.monotonic() - self._heard_at >= SILENT_SECONDS - HEARTBEAT_SECONDS:
                self._give_up_attempts(full)
            try:
                self._write()
                failures.over()
                full = None
            except (SamzaError, OSError) as error:
                failures.met(error)
                full = error if isinstance(error, StorageFull) else full
            self._look_after_spark()
            time.sleep(HEARTBEAT_SECONDS)

    def _give_up_attempts(self, full: StorageFull) -> None:
        """End what runs: whoever waits for it has seen the full disk, and tries again when there is room."""
        for attempt in self._records.attempts():
            if not attempt.is_over:
                log.error("%s: %s", attempt.group, full)
                attempt.write_status(FAILED, full)
                attempt.cancelled.set()
                if self._spark is not None:
                    with suppress(Exception):  # a Spark that is gone has nothing left to cancel
                        self._spark.cancel(attempt.group)

    def bring_log(self) -> None:
        """Copy the log to the root now, where it lies elsewhere: somebody is about to look there for a reason."""
        with suppress(SamzaError, OSError):
            self._bring_log()

    def _bring_log(self) -> None:
        """Copy what the log has now; one thread at a time, since a slow one would put its older copy in place last."""
        with self._bringing:
            self._carried = carry(self._files, self._output, self._folder.log, self._carried)
            self._carried_at = time.monotonic()

    def _write(self) -> None:
        """Write what is due by now."""
        now, pace = time.monotonic(), self._files.pace
        if now - self._carried_at > 3 * pace.seldom(LOG_SECONDS / 3):
            self._bring_log()
        # Who has beaten in time has been taken for dead by nobody: then a look now and then is enough.
        looks = now - self._looked_at >= 6 * pace.seldom(0.0) or now - self._beaten_at > 2 * pace.beats(0.0)
        if looks:
            self.is_there, self._looked_at = self._files.exists(self._folder.claim), now
        if not self.is_there:
            return
        if now - self._beaten_at >= pace.beats(0.0):
            self._records.write_statuses()  # first: who hears a sign of life knows what came before
            at = time.monotonic()
            heard = self._liveness.answered_at if self._liveness is not None else None
            replace(self._files, self._folder.heartbeat, Heartbeat(time.time(), heard))
            self._beaten_at, self._heard_at = now, at
        if looks:
            self._records.look_who_took_over()

    def _look_after_spark(self) -> None:
        """Give up a Spark that has stopped to answer: its attempts fail, and a retry starts another runner."""
        spark, liveness = self._spark, self._liveness
        if spark is None or not spark.is_up:
            self._look_after_start()
        if spark is None or liveness is None:
            return
        liveness.tick()
        if self.lost is not None or not liveness.is_lost:
            return
        at_work = [attempt for attempt in self._records.attempts() if not attempt.is_over]
        lost = silent(spark, liveness.answered_at)
        self._records.close("Spark does not answer", lost)
        for attempt in at_work:
            error = silent(spark, liveness.answered_at, attempt.handle.stage_id)
            log.error("%s: %s", attempt.group, error)
            attempt.write_status(FAILED, error)
        self.lost = lost
        spark.kill()
        threading.Thread(target=self._leave, name="leave", daemon=True).start()

    def _look_after_start(self) -> None:
        """End a Java that is frozen before it has become a Spark that could be asked; the wait for it then fails."""
        java = next((child for child in _children() if _is_frozen(child)), None)
        self._frozen_seconds = self._frozen_seconds + HEARTBEAT_SECONDS if java is not None else 0.0
        if java is None or self.lost is not None or self._frozen_seconds < SILENT_AFTER_SECONDS:
            return
        self.lost = StageLost(
            f"Java was frozen for {self._frozen_seconds:.0f} s before Spark was up (process {java.pid}).",
            hint=RETRY_HINT,
        )
        log.error("%s", self.lost)
        with suppress(SamzaError, OSError):
            self._records.reject_all(self.lost, "Java is frozen")
        with suppress(psutil.Error):
            java.kill()

    def _leave(self) -> None:
        """End this process also while a thread waits for an answer of Spark that never comes."""
        time.sleep(LEAVE_SECONDS)
        while not self._records.are_written():
            time.sleep(HEARTBEAT_SECONDS)
        with suppress(SamzaError, OSError):
            carry(self._files, self._output, self._folder.log)
        os._exit(1)


def _children() -> list[psutil.Process]:
    try:
        return psutil.Process().children(recursive=True)
    except psutil.Error:
        return []


def _is_frozen(process: psutil.Process) -> bool:
    """Return whether a process is a Java that is stopped or waits for a disk, as one that starts does not for long."""
    try:
        return process.name() == "java" and process.status() in (
            psutil.STATUS_STOPPED,
            psutil.STATUS_TRACING_STOP,
            psutil.STATUS_DISK_SLEEP,
        )
    except psutil.Error:
        return False
