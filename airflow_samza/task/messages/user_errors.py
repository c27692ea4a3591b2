"""Errors for what a user's callable did wrong; each names message, operator, file and line.

The run loop and all that calls a user's Python raise them.
"""

from __future__ import annotations

import inspect
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from airflow_samza.application.callables import name_of
from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.rejections import let_interrupts_through
from airflow_samza.application.source_location import SourceLocation
from airflow_samza.errors import MessageError, SamzaError
from airflow_samza.quoting import error_text, quoted

_PACKAGE = str(Path(__file__).resolve().parents[2])
_LIBRARIES = tuple(
    {_PACKAGE, *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))}
)
HANDLE = "Handle such a message in the callable, or leave it out before with filter or where."
GO_ON = (
    "Handle such a message in the callable, leave it out before with filter or where, or go on without it: "
    'on_error="drop", or a dead letter.'
)

_MOST = 2000
"""Characters of a user's exception that are shown."""


def located(location: SourceLocation | None) -> str:
    """Return a place in the user's code as errors have it behind what stands there: in parentheses, or nothing."""
    return f" ({location})" if location is not None else ""


def file_and_line(location: SourceLocation | None) -> dict[str, Any]:
    """Return a place in the user's code as facts of an error."""
    return {
        "file": location.file if location is not None else None,
        "line": location.line if location is not None else None,
    }


def user_location(function: object, traceback: TracebackType | None) -> SourceLocation | None:
    """The innermost frame of the user's own code, else where the callable was defined."""
    own = SourceLocation.of_callable(function)
    location: SourceLocation | None = None
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if (own is not None and file == own.file) or not (file.startswith(_LIBRARIES) or file.startswith("<")):
            location = SourceLocation(file, traceback.tb_lineno)
        traceback = traceback.tb_next
    return location or own


def callable_failed(
    spec: OperatorSpec, function: object, message: object, error: BaseException, *, may_go_on: bool = True
) -> SamzaError:
    """The error for a callable that raised; an error of ours that the callable raised on purpose passes through.

    ``may_go_on``: ``on_error`` could leave out what it was called with.
    """
    if isinstance(error, SamzaError):
        return error
    let_interrupts_through(error)
    location = user_location(function, error.__traceback__)
    what = error_text(error, _MOST)
    failure = _message_error(
        f"{name_of(function)} in {spec.title} failed with {what}, on the message {quoted(message)}",
        location,
        GO_ON if may_go_on else HANDLE,
        spec,
        message=quoted(message),
        exception=type(error).__name__,
    )
    failure.__cause__ = error
    return failure


def wrong_shape(
    spec: OperatorSpec, function: object, result: object, expected: str, *, message: object = ..., why: str = ""
) -> SamzaError:
    """The error for a callable whose result does not fit the operator's schema. ``expected`` lists the columns."""
    facts: dict[str, Any] = {} if message is ... else {"message": quoted(message)}
    on = "" if message is ... else f", on the message {quoted(message)}"
    because = f" ({why})" if why else ""
    return _message_error(
        f"{name_of(function)} in {spec.title} returned {quoted(result)}{because}{on}; expected: {expected}",
        SourceLocation.of_callable(function),
        "Return the declared shape, or declare the new one with a return annotation or schema=.",
        spec,
        **facts,
    )


class Awaited(TypeError):
    """Error for a plain callable that returned an awaitable, which is never awaited."""


def reject_awaitable(result: object) -> None:
    """Reject the result of a coroutine function that a decorator or a lambda hides.

    As a condition it is always true.
    """
    if inspect.isawaitable(result) or inspect.isasyncgen(result):
        if inspect.iscoroutine(result):
            result.close()
        kind = type(result).__name__.replace("_", " ")
        article = "an" if kind[0] in "aeiou" else "a"
        raise Awaited(f"it returned {article} {kind}, which is never awaited (map_async takes coroutine functions)")


def reject_awaitables(
    spec: OperatorSpec, function: object, results: Sequence[object], messages: Sequence[object]
) -> None:
    """As :func:`reject_awaitable`, for the results on some messages, one for one."""
    if not any(hasattr(kind, "__await__") or hasattr(kind, "__anext__") for kind in set(map(type, results))):
        return
    for result, message in zip(results, messages, strict=True):
        try:
            reject_awaitable(result)
        except Awaited as error:
            raise callable_failed(spec, function, message, error) from None


def _message_error(
    sentence: str, location: SourceLocation | None, hint: str, spec: OperatorSpec, **facts: object
) -> MessageError:
    where: dict[str, Any] = {**file_and_line(location), **facts}
    return MessageError(f"{sentence}{located(location)}.", hint=hint, operator=spec.op_id, **where)
