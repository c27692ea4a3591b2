"""Durable records: JSON objects that know where they lie, and decoders that answer damage with one sentence.

A record that was cut off, edited by hand or written by other code must never end in a KeyError from the depths, nor go
on as a value of the wrong type. Reading a key that is not there, and building a value of fields of other types than
declared, is a :class:`~airflow_samza.errors.RecordUnreadable` that names the file and what was expected.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
import types
import typing
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from airflow_samza.errors import RecordUnreadable

HINT = (
    "Restore the file, or have the run planned anew: in Airflow clear its plan task, on the command line say run … "
    "--again."
)

Made = TypeVar("Made")


class Record(dict[str, Any]):
    """A JSON object of a file: a dict in which a key that is missing is an error with the file's place."""

    __slots__ = ("location",)

    def __init__(
        self, data: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), location: str = "a copy of one"
    ) -> None:
        super().__init__(data)
        self.location = location

    def __missing__(self, key: str) -> Any:
        raise unreadable(self.location, f"it has no {key!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, (dict(self), self.location)


def parse_record(data: bytes, location: str) -> Record:
    """Return the JSON object that a file holds; ``location`` is its place, as messages show it.

    Raises:
        RecordUnreadable: the file holds anything else.
    """
    try:
        record = json.loads(data, object_hook=lambda found: Record(found, location))
    except RecursionError:
        raise unreadable(location, "it is nested too deeply") from None
    except ValueError:
        record = None
    if not isinstance(record, Record):
        raise unreadable(location, "it is empty" if not data else "it is not a JSON object")
    return record


def unreadable(location: str, why: str) -> RecordUnreadable:
    """Return the error for a record; ``why`` is a half sentence about it."""
    return RecordUnreadable(f"The record {location} is damaged: {why}.", hint=HINT, path=location, why=why)


def decoder(decode: Callable[..., Made]) -> Callable[..., Made]:
    """Make a ``from_dict`` answer damage with a RecordUnreadable; to be put below ``@classmethod``.

    The first argument after the class is the JSON object. The fields of the dataclass that is made must have the types
    that they declare.
    """

    @functools.wraps(decode)
    def decoded(cls: Any, data: Any, *more: Any) -> Made:
        location = getattr(data, "location", f"of {cls.__name__}")
        with understood(location):
            made = decode(cls, data, *more)
        for name, problem in _ill_typed(made):
            raise unreadable(location, f"its {name!r} is of a wrong type ({problem})")
        return made

    return decoded


@contextmanager
def understood(location: str) -> Iterator[None]:
    """Turn what Python raises of a JSON value of another shape into a RecordUnreadable.

    ``location`` names the record in a sentence.
    """
    try:
        yield
    except KeyError as error:
        raise unreadable(location, f"it has no {error.args[0]!r}") from None
    except (TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise unreadable(location, f"it cannot be understood ({_shortened(error)})") from None


def _shortened(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 120 else f"{text[:119]}…"


def _ill_typed(made: Any) -> Iterator[tuple[str, str]]:
    import msgspec

    for name, hint in _field_types(cast(Hashable, type(made))):
        try:
            msgspec.convert(getattr(made, name), hint)
        except msgspec.ValidationError as error:
            yield name, _shortened(error)


@functools.cache
def _field_types(kind: Any) -> tuple[tuple[str, Any], ...]:
    """The fields of a dataclass that hold JSON's own types; values of other classes have decoders of their own."""
    found = []
    for field in dataclasses.fields(kind):
        space = vars(sys.modules[kind.__module__])
        try:
            hint = typing.get_type_hints(type("_", (), {"__annotations__": {field.name: field.type}}), globalns=space)[
                field.name
            ]
        except NameError:  # a type that is imported for the type checker only
            continue
        if _is_json(hint):
            found.append((field.name, hint))
    return tuple(found)


def _is_json(hint: Any) -> bool:
    if hint is Ellipsis:
        return True
    of = typing.get_origin(hint)
    if of is None:
        return hint in (int, float, str, bool, type(None), Any, object)
    return (of in (typing.Union, types.UnionType) or issubclass(of, Mapping | tuple | list)) and all(
        map(_is_json, typing.get_args(hint))
    )
