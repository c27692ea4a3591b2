"""Rejection of wrong use: at the call, with file and line of the user's code in the sentence (decision 18).

Used wherever a user's mistake is found: from the call to the plan, the bindings of systems, and the tasks. Failures of
the user's own code are put into sentences with their place. Calls that do not fit a method, by a parameter that it does
not have or by one that is missing, are rejected, too: of those Python's ``TypeError`` names neither the user's line nor
what was meant.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pkgutil import resolve_name
from typing import Any, NoReturn, TypeVar

from airflow_samza.application.source_location import SourceLocation
from airflow_samza.errors import ConfigError, InvalidApplication, SamzaError


def reject(sentence: str, *, hint: str, kind: type[SamzaError] = InvalidApplication, **facts: object) -> NoReturn:
    """Raise ``kind`` with the sentence (given without its full stop), the place in the user's code, and the hint.

    The place is also a fact: ``error.facts["location"]``.
    """
    location = SourceLocation.of_caller()
    where = f" ({location})" if location is not None else ""
    raise kind(f"{sentence}{where}.", hint=hint, location=location, **facts)


class located:  # noqa: N801 (a context manager reads as a word)
    """Errors raised inside that know no place get that of the caller (a schema is read by values that know none)."""

    def __enter__(self) -> None:
        """A class and no generator, so that the frames are all ours and the nearest other one is the user's."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Raise the error again, with the place in its sentence."""
        if isinstance(error, SamzaError) and "location" not in error.facts:
            try:
                reject(error.sentence.removesuffix("."), hint=error.hint, kind=type(error), **error.facts)
            except SamzaError as placed:
                raise placed from error.__cause__


def raised_in_user_code(error: BaseException) -> str:
    """Return an exception of the user's own code in a sentence: type, text and place."""
    let_interrupts_through(error)
    text = " ".join(str(error).split())
    place = SourceLocation.of_traceback(error.__traceback__)
    if isinstance(error, SyntaxError) and error.filename is not None:
        text, place = error.msg, SourceLocation(error.filename, error.lineno or 0)
    return type(error).__name__ + (f": {text}" if text else "") + (f" ({place})" if place is not None else "")


def imported(name: str, what: str, kind: type[SamzaError] = ConfigError, **facts: object) -> Any:
    """Return the object of the user's code that ``what`` names: ``package.module:attribute``.

    Raises ``kind`` where it cannot be imported.
    """
    try:
        return resolve_name(name)
    except USER_ERRORS as error:
        raise kind(
            f"{what} is {name!r}, which cannot be imported: {raised_in_user_code(error)}.",
            hint='Correct the name ("package.module:attribute"), or put its folder on the Python path. '
            "Modules that only stages lack are named in py_modules.",
            value=name,
            **facts,
        ) from error


def did_you_mean(name: str, names: Iterable[str], what: str = "") -> str:
    """Return a question that names what was meant, with a space behind it; nothing when nothing is alike.

    >>> did_you_mean("Country", ["country", "at"])
    "Did you mean 'country'? "
    >>> did_you_mean("log", ["logs"], "the system ")
    "Did you mean the system 'logs'? "
    """
    near = nearest(name, names)
    return "" if near is None else f"Did you mean {what}{near!r}? "


def nearest(name: str, names: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the name that is most like another, in any letter case; None where none is so much alike (0 to 1)."""
    import difflib

    by_lower = {other.lower(): other for other in names}
    near = difflib.get_close_matches(name.lower(), by_lower, 1, likeness)
    return by_lower[near[0]] if near else None


def unknown_mode(what: str, mode: str, modes: Sequence[str], **facts: object) -> ConfigError:
    """Return the error for a mode that ``what`` does not have."""
    return ConfigError(
        f"{what} has mode={mode!r}, which is not known.",
        hint=f"{did_you_mean(str(mode), modes)}The modes are {', '.join(modes)}.",
        key="mode",
        value=mode,
        **facts,
    )


def listed(names: Iterable[object], most: int | None = None) -> str:
    """Return names as a person lists them, the first ``most`` of them (None: all); ``none`` when there are none.

    >>> listed(["a", "b"]), listed("abcde", 3)
    ('a, b', 'a, b, c and 2 more')
    """
    texts = [str(name) for name in names]
    more = f" and {len(texts) - most} more" if most is not None and len(texts) > most else ""
    return (", ".join(texts[:most]) or "none") + more


USER_ERRORS = (Exception, SystemExit, KeyboardInterrupt, GeneratorExit)
"""The exceptions to catch around a call of the user's code.

The last three would else end the process, or an iteration, without a word. Pass a caught one through
:func:`let_interrupts_through` before it is reported.
"""


def let_interrupts_through(error: BaseException) -> None:
    """Raise a person's Ctrl-C again, which comes in the middle of any code.

    One that a ``raise`` made is a failure as any other.
    """
    if type(error) is KeyboardInterrupt and not _comes_from_raise(error):
        raise error


def _comes_from_raise(error: BaseException) -> bool:
    import dis

    trace = error.__traceback__
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"]


Kind = TypeVar("Kind", bound=type)
Function = TypeVar("Function", bound=Callable[..., Any])


def checked_calls(kind: Kind) -> Kind:
    """Have the public methods of a class reject calls that do not fit them."""
    for name, member in list(vars(kind).items()):
        if inspect.isfunction(member) and not name.startswith("_"):
            setattr(kind, name, checked_call(member))
    return kind


def checked_call(function: Function) -> Function:
    """Have a function, or a method, reject calls that do not fit it."""

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except TypeError as error:
            raised = error
        _reject_misfit(function, args, named)
        raise raised  # it was raised inside

    return call  # type: ignore[return-value]  # it takes and returns what the function does


def reject_unknown(word: str, parameters: Iterable[str], where: str) -> NoReturn:
    """Reject a parameter that does not exist, with the one that was meant."""
    names = list(parameters)
    hint = did_you_mean(word, names).rstrip() or f"Its parameters are {listed(sorted(names))}."
    reject(f"{where} has no parameter {word!r}", hint=hint, value=word)


def _reject_misfit(function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Reject a call that does not fit a function."""
    parameters = dict(inspect.signature(function).parameters)
    places = [name for name, p in parameters.items() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    bound = dict(zip(places, args, strict=False))
    various = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    names = [name for name, parameter in parameters.items() if parameter.kind not in various and name != "self"]
    called = {**bound, **named}.get("id")
    where = f"{function.__name__} {called!r}" if isinstance(called, str) and called else function.__name__
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        for word in named:
            if word not in names:
                reject_unknown(word, names, where)
    if len(args) > len(places) and not any(p.kind is p.VAR_POSITIONAL for p in parameters.values()):
        least = len([name for name in places if name != "self"])
        more = len(args) - len(places)
        others = [name for name in names if name not in places]
        reject(
            f"{where} takes {least or 'no'} {'argument' if least == 1 else 'arguments'} without a name, and got "
            f"{least + more}",
            hint=f"Name the others: {listed(f'{name}=' for name in others)}." if others else "Leave the others out.",
            value="",
        )
    for word in named:
        if word in bound:
            reject(f"{where} got {word} twice", hint=f"Write it once: {word}=….", value=word)
    for name in names:
        if name not in bound and name not in named and parameters[name].default is inspect.Parameter.empty:
            reject(f"{where} needs {name}", hint=f"Write {function.__name__}(…, {name}=…).", value=name)
