"""The last lines of a stage runner's log, in the log of the task whose stage has failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from airflow_samza.errors import SamzaError, StageCancelled


class KeepsLogs(Protocol):
    """The part of the hook that a failure needs."""

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

    def exception(self, event: Any, /, *args: Any) -> Any:
        """Log an error with the exception that is being handled."""
        ...


@contextmanager
def runner_logged(service: KeepsLogs, log: TaskLog) -> Iterator[None]:
    """Write the last lines of a runner into a task's log, as a group that folds, when the body fails because of it.

    The error names the log, if a runner has anything to do with it.
    """
    try:
        yield
    except SamzaError as error:
        path = str(error.facts.get("log") or "")
        lines = service.last_lines(path) if path and not isinstance(error, StageCancelled) else ()
        if lines:
            log.info("::group::The last %d lines of the runner and its driver (%s, under the root)", len(lines), path)
            for line in lines:
                log.info("%s", line)
            log.info("::endgroup::")
        raise
