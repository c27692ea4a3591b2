"""Mapping of our errors to Airflow's, in this one place: not retryable means no retry.

Every operator and sensor runs what it does within it.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow_samza.columns import folded
from airflow_samza.errors import PlanErrors, SamzaError, StageCancelled
from airflow_samza.provider.airflow_versions import AirflowException, AirflowFailException
from airflow_samza.provider.disclosure import text_of
from airflow_samza.secrecy import without_passwords

if TYPE_CHECKING:
    import logging

    from structlog.typing import FilteringBoundLogger

    from airflow_samza.provider.hooks.root import RootHook

    TaskLog: TypeAlias = logging.Logger | FilteringBoundLogger

AT_A_ROOT = (
    ("plan", "run", "status", "logs", "stop", "drain", "cancel", "publish", "compare", "fsck", "gc"),
    ("runs", "state", "tables", "topics"),
)
"""The commands of the command line that take ``--root``: single ones, and groups."""

COMMAND = re.compile(
    rf"\bairflow-samza (?:(?:{'|'.join(AT_A_ROOT[0])})\b|(?:{'|'.join(AT_A_ROOT[1])}) [a-z]+\b)"
    r"[^;,)'\n]*?(?=[;,)'\n]|\.\s|\.?$)"
)
"""A command in a hint; its arguments end at a punctuation mark."""


LINE = 100
"""Characters of a line in a task's log: as wide as Airflow's page shows them in a window of 1,440 pixels, without
scrolling."""

AIRFLOWS_LINE = "Task failed with exception"
"""The line with which Airflow logs the exception of a task: below a sentence and what to do it says nothing more."""


class _OfOurs(Exception):
    def __init__(self, error: SamzaError, *, is_logged: bool = False) -> None:
        super().__init__(text_of(error))
        self.error = error
        self.is_logged = is_logged


class SamzaTaskFailed(_OfOurs, AirflowException):
    """Error for a stage that failed and may succeed on retry; ``error`` is ours; ``is_logged``: the log has it already.

    Its text goes to notifiers and lineage, so it quotes no message where those are hidden; the task's log has it.
    """


class SamzaTaskRejected(_OfOurs, AirflowFailException):
    """Error that no retry can help: the task fails at once, whatever its retries; its attributes are as above."""


@contextmanager
def mapped_failures(log: TaskLog | None = None, hook: Callable[[], RootHook] | None = None) -> Iterator[None]:
    """Turn a :class:`SamzaError` of the body into Airflow's exception; the task's log ends with its sentence and hint.

    ``log`` is the task's. It gets the sentence with the address of its entry in the documentation, and above it, as a
    group that folds, the last lines of the stage runner's log, Java's stack among them, where the error names that log.
    ``hook`` returns the hook that reads it, and knows the root, which the commands in the hint name, so that they work
    wherever they are pasted.
    """
    try:
        yield
    except SamzaError as error:
        if hook is not None and "airflow-samza " in str(error):
            with suppress(SamzaError):  # a connection without a root is an error by itself, and said as one
                root = hook().root
                error.hint = with_root(error.hint, root)
                if isinstance(error, PlanErrors):  # its sentence has the hint of each conflict
                    error.sentence = with_root(error.sentence, root)
        log_without_frames()
        if log is not None:
            if hook is not None and error.facts.get("log"):
                with suppress(SamzaError):
                    log_runner(hook(), log, error)
            log.error(folded(f"{error}\n  More: {error.entry}", LINE))
        # Without the chain: the log shows a whole traceback per exception of it, and the sentence says it all.
        raise (SamzaTaskFailed if error.retryable else SamzaTaskRejected)(error, is_logged=log is not None) from None


def log_runner(hook: RootHook, log: TaskLog, error: SamzaError) -> None:
    """Write the last lines of a runner into a task's log, as a group that folds, where an error names the runner's log.

    Airflow's page shows the lines between ``::group::`` and ``::endgroup::`` when a reader opens them.
    """
    path = str(error.facts.get("log") or "")
    lines = hook.last_lines(path) if path and not isinstance(error, StageCancelled) else ()
    if lines:
        log.info("::group::The last %d lines of the runner and its driver (%s, under the root)", len(lines), path)
        for line in lines:
            log.info("%s", line)
        log.info("::endgroup::")


def with_root(hint: str, root: str) -> str:
    """Return a hint whose commands name the root: a task's log is read where no ``samza.toml`` is.

    >>> with_root("Undo it: airflow-samza state reset views --to 1; then clear it.", "/data/samza")
    'Undo it: airflow-samza state reset views --to 1 --root /data/samza; then clear it.'
    """
    return COMMAND.sub(lambda match: f"{match[0]} --root {shlex.quote(without_passwords(root))}", hint)


def log_without_frames() -> None:
    """Have Airflow log our exceptions without their stack frames, and no more of those that the log has already.

    The sentence stands there, and ten frames below it read like a crash. Exceptions of other kinds keep their frames.
    """
    import structlog  # comes with Airflow, whose task process logs by it

    processors = structlog.get_config()["processors"]
    if isinstance(processors, list) and _leave_out not in processors:
        processors.insert(0, _leave_out)  # in place: loggers that were made before hold the same list


def _leave_out(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    raised = event.get("exc_info")
    error = raised if isinstance(raised, BaseException) else sys.exc_info()[1] if raised else None
    if isinstance(error, SamzaTaskFailed | SamzaTaskRejected):
        event.pop("exc_info")
        if error.is_logged and event.get("event") == AIRFLOWS_LINE:
            from structlog import DropEvent

            raise DropEvent
    return event
