"""The parameters and the declared result of a user's callable, read without calling it.

Declarations check callables by it, plans describe them by it, and tasks know by it how to call them.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, NoReturn, TypeGuard

from airflow_samza.application.columns import declared_columns
from airflow_samza.application.rejections import reject
from airflow_samza.application.source_location import SourceLocation
from airflow_samza.application.times import duration_ms
from airflow_samza.row import Row
from airflow_samza.schema import Schema

_CACHED = type(functools.lru_cache(len))
_SHAPELESS: tuple[object, ...] = (Any, object, Row, dict, Mapping, collections.abc.Mapping)
"""Return annotations that contain no columns."""

_ITERABLES = (
    list,
    tuple,
    collections.abc.Iterator,
    collections.abc.Iterable,
    collections.abc.Generator,
    collections.abc.Sequence,
    collections.abc.Collection,
)


def check_callable(function: object, where: str, takes: int, *, hint: str, generator: bool = False) -> None:
    """Reject what cannot be called with ``takes`` values: other things, coroutines, too few or too many parameters.

    ``hint`` is what to do when it is no callable at all; a generator function is rejected unless ``generator``.
    """
    if not callable(function):
        reject(
            f"{where} takes a Python callable, not {_shown(function)}", hint=hint, operator=where, value=repr(function)
        )
    reject_async(function, where)
    if inspect.isgeneratorfunction(innermost(function)) and not generator:
        reject_yielding(function, where, "Use flat_map for a callable that yields messages, or return one value.")
    takes_values(function, where, takes)


def reject_yielding(function: object, where: str, hint: str) -> NoReturn:
    """Reject a callable that yields where it is to return one message."""
    reject(
        f"{where} got {name_of(function)}, which yields: its result would be a generator, never a message",
        hint=hint,
        operator=where,
    )


def reject_async(function: object, where: str) -> None:
    """Reject a coroutine function, and an async generator, where a plain one belongs.

    Nobody would await what it returns.
    """
    if is_async(function):
        reject(
            f"{where} got {name_of(function)}, which is async",
            hint="Give a plain function; map_async takes a coroutine function, "
            "and a low-level task may be an AsyncStreamTask.",
        )


def reject_async_methods(owner: object, where: str, *methods: str) -> None:
    """Reject a class, or an object, of which one of these methods is async.

    Those that it does not have are passed over.
    """
    for method in methods:
        function = getattr(owner, method, None)
        if callable(function):
            reject_async(function, where)


def is_async(function: object) -> bool:
    """Return whether it is an ``async def``, behind partials, caches and methods, or the ``__call__`` of an object.

    A decorator's own function may await what it wraps, so that only its results show it.
    """
    told = (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    return any(is_one(each) for each in (innermost(function), function) for is_one in told)


def takes_values(function: Any, where: str, takes: int) -> None:
    """Reject a callable that cannot be called with ``takes`` values."""
    if not _accepts(function, takes):
        reject(
            f"{where} calls {name_of(function)} with {takes} value{'s' if takes != 1 else ''}, "
            "which it does not accept",
            hint=f"Define it with {takes} parameter{'s' if takes != 1 else ''}{_defined_at(function)}.",
            operator=where,
        )


def name_of(function: object) -> str:
    """Return the name of a callable for people, never an address.

    >>> name_of(len), name_of(functools.partial(len))
    ('len', 'len')
    """
    if isinstance(function, functools.partial):
        return name_of(function.func)
    name = getattr(function, "__qualname__", None)
    return (name if isinstance(name, str) else type(function).__qualname__).replace("<locals>.", "")


def callable_name(function: Any) -> str | None:
    """Return module and name of a callable, without the places inside functions and never an address.

    >>> callable_name(len), callable_name(functools.partial(len)), callable_name(None)
    ('len', 'partial len', None)
    """
    if function is None:
        return None
    if isinstance(function, functools.partial):
        return f"partial {callable_name(function.func)}"
    module = getattr(function, "__module__", None) or type(function).__module__
    plain = name_of(function)
    return plain if module in ("builtins", "__main__") else f"{module}.{plain}"


def _shown(value: object) -> str:
    return f"the text {value!r}" if isinstance(value, str) else f"{value!r}"


def _defined_at(function: object) -> str:
    location = SourceLocation.of_callable(function)
    return f" ({location})" if location is not None else ""


def _call_method(function: object) -> object:
    return getattr(type(function), "__call__", None)  # noqa: B004 (an instance's own code, not whether it is callable)


def _is_class(annotation: object) -> TypeGuard[type]:
    # On Python 3.10 list[int] is a type, too.
    return isinstance(annotation, type) and typing.get_origin(annotation) is None


def innermost(function: object) -> Any:
    """Return the function whose code runs: behind partials and methods, and the ``__call__`` of an object."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, types.MethodType):
            function = function.__func__
        elif isinstance(function, _CACHED):
            function = function.__wrapped__
        elif isinstance(function, types.MethodWrapperType) and function.__name__ == "__call__":
            function = function.__self__
        elif not isinstance(function, types.FunctionType | type) and isinstance(
            _call_method(function), types.FunctionType
        ):
            return _call_method(function)
        else:
            return function


def _accepts(function: Any, takes: int) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # not every builtin has one, nor has every proxy
        return True
    try:
        signature.bind(*(None,) * takes)
    except TypeError:
        return False
    return True


_UNSAID = object()


def _return_annotation(function: Any, where: str) -> object:
    try:
        return _resolved_annotation(innermost(function))
    except Exception as error:
        reject(
            f"The return annotation of {name_of(function)} in {where} cannot be resolved: {error}",
            hint="Define its class at the top of the module, or say the shape with schema=.",
            operator=where,
        )


def _resolved_annotation(inner: Any) -> object:
    inner = inspect.unwrap(inner) if hasattr(inner, "__wrapped__") else inner
    if isinstance(inner, type):
        return inner  # a class makes instances of itself
    annotations = getattr(inner, "__annotations__", None)
    if not annotations or "return" not in annotations:
        return _UNSAID
    annotation = annotations["return"]
    if _is_class(annotation):
        return annotation
    holder = types.SimpleNamespace(__annotations__={"return": annotation})
    return typing.get_type_hints(
        holder, getattr(inner, "__globals__", {}), _names_in_sight(inner), include_extras=True
    )["return"]


def _names_in_sight(function: Any) -> dict[str, Any]:
    # An annotation that is text (from __future__ import annotations) may name a class of the function around: what the
    # closure holds, or what the caller's frames know.
    names: dict[str, Any] = {}
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_globals is getattr(function, "__globals__", None):
            names = {**frame.f_locals, **names}
        frame = frame.f_back
    if isinstance(function, types.FunctionType):
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            with suppress(ValueError):  # what comes further down is not there yet
                names[name] = cell.cell_contents
    return names


def declared_schema(function: object, schema: object, where: str, *, many: bool = False) -> Schema | None:
    """Return the output schema that ``schema=`` or else the return annotation states; None when neither does.

    ``many`` reads the annotation of a callable that returns an iterable of messages (``list[X]``, ``Iterator[X]``, …).
    """
    if schema is not None:
        return declared_columns(schema)
    annotation = _return_annotation(function, where)
    if annotation is _UNSAID:
        return None
    if many:
        return _schema_of_message(_element(annotation, function, where), function, where)
    origin = typing.get_origin(annotation)
    if origin in _ITERABLES or (_is_class(annotation) and annotation in _ITERABLES):
        reject(
            f"{where} got {name_of(function)}, which returns {_type_name(annotation)}: many messages for one",
            hint="Use flat_map for a callable that returns an iterable of messages.",
            operator=where,
        )
    return _schema_of_message(annotation, function, where)


def _element(annotation: object, function: object, where: str) -> object:
    if typing.get_origin(annotation) in _ITERABLES:
        return typing.get_args(annotation)[0]
    if annotation in _SHAPELESS or annotation in _ITERABLES:
        return Any
    reject(
        f"{where} got {name_of(function)}, which returns {_type_name(annotation)}, not an iterable of messages",
        hint="Return a list or yield the messages (-> Iterator[X]), or use map for one message each.",
        operator=where,
    )


def _schema_of_message(annotation: object, function: object, where: str) -> Schema | None:
    if (
        annotation in _SHAPELESS
        or typing.get_origin(annotation) in _SHAPELESS
        or isinstance(annotation, typing.TypeVar)
    ):
        return None
    if _is_class(annotation) and dataclasses.is_dataclass(annotation):
        return declared_columns(annotation)
    if typing.get_origin(annotation) in (typing.Union, types.UnionType) and type(None) in typing.get_args(annotation):
        reject(
            f"{where} got {name_of(function)}, which may return None instead of a message",
            hint="Drop messages with filter or where, or with flat_map and an empty list.",
            operator=where,
        )
    reject(
        f"{where} got {name_of(function)}, which returns {_type_name(annotation)}: a message is a row",
        hint="Return a dataclass; or return a Row or dict and say its columns with schema=.",
        operator=where,
    )


def _type_name(annotation: object) -> str:
    return annotation.__name__ if _is_class(annotation) else str(annotation).replace("typing.", "")


def check_predicate(function: object, where: str) -> None:
    """Reject a filter's callable whose annotation says that it returns a message: such a filter keeps everything."""
    try:
        annotation = _resolved_annotation(innermost(function))
    except Exception:  # what it names may exist for type checkers only, and nothing hangs on it here
        return
    if _is_class(annotation) and dataclasses.is_dataclass(annotation):
        reject(
            f"{where} got {name_of(function)}, which returns a {annotation.__name__}: that is always true",
            hint="Return True or False; a callable that makes new messages goes to map.",
            operator=where,
        )


def check_coroutine_function(function: object, where: str, takes: int) -> None:
    """Reject what is no ``async def`` (function, or object with such a ``__call__``) of ``takes`` values."""
    hint = f"{where} takes a coroutine function: async def enrich(message): …; plain ones go to map."
    if not callable(function):
        reject(
            f"{where} takes a coroutine function, not {_shown(function)}",
            hint=hint,
            operator=where,
            value=repr(function),
        )
    inner = innermost(function)
    if inspect.isasyncgenfunction(inner):
        reject_yielding(function, where, "Return one message; many messages for one go to flat_map, behind it.")
    if not inspect.iscoroutinefunction(inner):
        reject(
            f"{where} got {name_of(function)}, which is not async: it would block all other calls",
            hint=hint,
            operator=where,
        )
    takes_values(function, where, takes)


def async_options(concurrency: object, ordered: object, timeout: str | int | timedelta | None) -> dict[str, Any]:
    """Return the fields of a MapAsyncSpec for the calls of its function."""
    if not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 1:
        reject(
            f"map_async has concurrency={concurrency!r}",
            hint="Give the number of calls that may be in flight at a time, from 1.",
        )
    if not isinstance(ordered, bool):
        reject(
            f"map_async has ordered={ordered!r}",
            hint="Write True (the order of the messages) or False (as the calls end).",
        )
    timeout_ms = None if timeout is None else duration_ms(timeout)
    return {"concurrency": concurrency, "ordered": ordered, "timeout_ms": timeout_ms}
