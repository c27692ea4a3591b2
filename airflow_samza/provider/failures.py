"""Mapping of our errors to Airflow's, in this one place: not retryable means no retry."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from typing import Any

from airflow_samza.errors import PlanErrors, SamzaError
from airflow_samza.provider.airflow_versions import AirflowException, AirflowFailException
from airflow_samza.provider.disclosure import text_of
from airflow_samza.secrecy import without_passwords

AT_A_ROOT = (
    ("plan", "explain", "run", "status", "logs", "stop", "drain", "cancel", "publish", "fsck", "gc"),
    ("runs", "state", "tables", "topics"),
)
"""The commands of the command line that take ``--root``: single ones, and groups."""

COMMAND = re.compile(
    rf"\bairflow-samza (?:(?:{'|'.join(AT_A_ROOT[0])})\b|(?:{'|'.join(AT_A_ROOT[1])}) [a-z]+\b)"
    r"[^;,)'\n]*?(?=[;,)'\n]|\.\s|\.?$)"
)
"""A command in a hint; its arguments end at a punctuation mark."""


class SamzaTaskFailed(AirflowException):
    """Error for a stage that failed and may succeed on retry; ``error`` is ours.

    Its text goes to notifiers and lineage, so it quotes no message where those are hidden; the task's log has it.
    """

    def __init__(self, error: SamzaError) -> None:
        super().__init__(text_of(error))
        self.error = error


class SamzaTaskRejected(AirflowFailException):
    """Error that no retry can help: the task fails at once, whatever its retries; ``error`` is ours."""

    def __init__(self, error: SamzaError) -> None:
        super().__init__(text_of(error))
        self.error = error


@contextmanager
def mapped_failures(
    tell: Callable[[str], object] | None = None, root: Callable[[], str] | None = None
) -> Iterator[None]:
    """Turn a :class:`SamzaError` of the body into Airflow's exception.

    ``tell`` gets the sentence for the task's log first. Commands in its hint get the ``root``, so that they work
    wherever they are pasted.
    """
    try:
        yield
    except SamzaError as error:
        if root is not None and "airflow-samza " in str(error):
            with suppress(SamzaError):  # a connection without a root is an error by itself, and said as one
                error.hint = with_root(error.hint, root())
                if isinstance(error, PlanErrors):  # its sentence has the hint of each conflict
                    error.sentence = with_root(error.sentence, root())
        log_without_frames()
        if tell is not None:
            tell(str(error))
        # Without the chain: the log shows a whole traceback per exception of it, and the sentence says it all.
        raise (SamzaTaskFailed(error) if error.retryable else SamzaTaskRejected(error)) from None


def with_root(hint: str, root: str) -> str:
    """Return a hint whose commands name the root: a task's log is read where no ``samza.toml`` is.

    >>> with_root("Undo it: airflow-samza state reset views --to 1; then clear it.", "/data/samza")
    'Undo it: airflow-samza state reset views --to 1 --root /data/samza; then clear it.'
    """
    return COMMAND.sub(lambda match: f"{match[0]} --root {shlex.quote(without_passwords(root))}", hint)


def log_without_frames() -> None:
    """Have Airflow log our exceptions without their stack frames.

    The sentence stands above already, and ten frames below it read like a crash. Exceptions of other kinds keep their
    frames.
    """
    import structlog  # comes with Airflow, whose task process logs by it

    processors = structlog.get_config()["processors"]
    if isinstance(processors, list) and _drop_frames not in processors:
        processors.insert(0, _drop_frames)  # in place: loggers that were made before hold the same list


def _drop_frames(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    raised = event.get("exc_info")
    error = raised if isinstance(raised, BaseException) else sys.exc_info()[1] if raised else None
    if isinstance(error, SamzaTaskFailed | SamzaTaskRejected):
        event.pop("exc_info")
    return event
