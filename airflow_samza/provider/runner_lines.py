"""The last lines of a stage runner's log, in the log of the task whose stage has failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from airflow_samza.errors import SamzaError, StageCancelled


class KeepsLogs(Protocol):
    """The part of the hook that a failure needs."""

    @property
    def root(self) -> str:
        """The folder or URL of topics and run records."""
        ...

    def last_lines(self, log: str) -> Sequence[str]:
        """Return the last lines of a stage runner's log, by its path from the root."""
        ...


class TaskLog(Protocol):
    """The methods that the log of an Airflow task shares with a logger of the standard library."""

    def info(self, event: Any, /, *args: Any) -> Any:
        """Log an event, ``args`` formatted into it."""
        ...

    def warning(self, event: Any, /, *args: Any) -> Any:
        """Log a warning."""
        ...

    def error(self, event: Any, /, *args: Any) -> Any:
        """Log an error."""
        ...

    def exception(self, event: Any, /, *args: Any) -> Any:
        """Log an error with the exception that is being handled."""
        ...


def log_runner(service: KeepsLogs, log: TaskLog, error: SamzaError) -> None:
    """Write the last lines of a runner into a task's log, as a group that folds, where an error names the runner's log.

    Airflow's page shows the lines between ``::group::`` and ``::endgroup::`` when a reader opens them.
    """
    path = str(error.facts.get("log") or "")
    lines = service.last_lines(path) if path and not isinstance(error, StageCancelled) else ()
    if lines:
        log.info("::group::The last %d lines of the runner and its driver (%s, under the root)", len(lines), path)
        for line in lines:
            log.info("%s", line)
        log.info("::endgroup::")
