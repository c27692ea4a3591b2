"""Rejection of calls that do not fit a method: by a parameter that it does not have, or by one that is missing.

Python says so with a ``TypeError`` that names neither the user's line nor what was meant.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from airflow_samza.application.rejections import did_you_mean, listed, reject

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
        except TypeError:
            misfit = _misfit(function, args, named)
            if misfit is None:  # it was raised inside
                raise
        reject(misfit.sentence, hint=misfit.hint, value=misfit.name)

    return call  # type: ignore[return-value]  # it takes and returns what the function does


def reject_unknown(word: str, parameters: Iterable[str], where: str) -> None:
    """Reject a parameter that does not exist, with the one that was meant."""
    misfit = _unknown(word, list(parameters), where)
    reject(misfit.sentence, hint=misfit.hint, value=word)


class _Misfit(NamedTuple):
    name: str
    sentence: str
    hint: str


def _unknown(word: str, parameters: Sequence[str], where: str) -> _Misfit:
    hint = did_you_mean(word, parameters).rstrip() or f"Its parameters are {listed(sorted(parameters))}."
    return _Misfit(word, f"{where} has no parameter {word!r}", hint)


def _misfit(function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> _Misfit | None:
    """Return in what a call does not fit a function; None where it does."""
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
                return _unknown(word, names, where)
    if len(args) > len(places) and not any(p.kind is p.VAR_POSITIONAL for p in parameters.values()):
        least = len([name for name in places if name != "self"])
        more = len(args) - len(places)
        others = [name for name in names if name not in places]
        return _Misfit(
            "",
            f"{where} takes {least or 'no'} {'argument' if least == 1 else 'arguments'} without a name, and got "
            f"{least + more}",
            f"Name the others: {listed(f'{name}=' for name in others)}." if others else "Leave the others out.",
        )
    for word in named:
        if word in bound:
            return _Misfit(word, f"{where} got {word} twice", f"Write it once: {word}=….")
    for name in names:
        if name not in bound and name not in named and parameters[name].default is inspect.Parameter.empty:
            return _Misfit(name, f"{where} needs {name}", f"Write {function.__name__}(…, {name}=…).")
    return None
