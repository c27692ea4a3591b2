"""The liveness of Spark: a small question every two seconds, on a thread of its own, which may wait for ever.

The heartbeat of a stage runner asks it, and warm runners watch their Spark by it.
"""

from __future__ import annotations

import threading
import time
from datetime import datetime, timezone

from airflow_samza.engine.stage_engine import StageEngine
from airflow_samza.errors import StageLost

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
