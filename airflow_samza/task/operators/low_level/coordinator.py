"""Requests of a task to its run loop: commits and shutdowns."""

from __future__ import annotations

from airflow_samza.application.rejections import reject
from airflow_samza.application.task_api import RequestScope
from airflow_samza.errors import StageError


class Coordinator:
    """The requests of a task (``TaskCoordinator``); the run loop reads them after each call."""

    def __init__(self) -> None:
        self.commits = 0
        self.shut_down = False
        self.shuts_down_all = False

    @property
    def commit_asked(self) -> bool:
        """Return whether the epoch shall end as soon as possible."""
        return self.commits > 0

    def commit(self, scope: RequestScope = RequestScope.CURRENT_TASK) -> None:
        """Ask for a commit after this call; an epoch's commit covers all tasks, whatever the scope."""
        _checked(scope, "commit")
        self.commits += 1

    def shutdown(self, scope: RequestScope = RequestScope.CURRENT_TASK) -> None:
        """Ask the task to end after this call, or all tasks when the epoch is committed."""
        self.shuts_down_all = _checked(scope, "shutdown") is RequestScope.ALL_TASKS or self.shuts_down_all
        self.shut_down = True


def _checked(scope: object, word: str) -> RequestScope:
    if not isinstance(scope, RequestScope):
        reject(
            f"The task calls {word} with the scope {scope!r}",
            hint="It is RequestScope.CURRENT_TASK (as without one) or RequestScope.ALL_TASKS.",
            kind=StageError,
            value=repr(scope),
        )
    return scope
