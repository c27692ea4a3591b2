"""Durable records: JSON objects with a format version, one encoder and one decoder for all of them (decision 15).

A record is a dataclass that :func:`durable` has registered. Its JSON form has the fields' names as keys, and ``format``
beside them: the version of its form. A reader ignores keys that it does not know, and knows what records without a
later key mean, so the number rises only where an older reader would misunderstand what is written.

A record that was cut off, edited by hand, written by other code or by a later version is a
:class:`~airflow_samza.errors.RecordUnreadable` that names the file, what was expected and what to do; it never ends in
a KeyError, nor goes on as a value of the wrong type.

Used wherever something is kept under a root: plans, epochs, state, versions of tables, commits.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from airflow_samza.errors import RecordUnreadable
from airflow_samza.typed_values import converted

HINT = (
    "Restore the file, or have the run planned anew: in Airflow clear its plan task, on the command line use run … "
    "--again."
)

FORMAT = "format"
"""The key of a record's format version; a record without it has the oldest one, 1."""

Json = dict[str, Any]
T = TypeVar("T")
Kind = TypeVar("Kind", bound=type)


FORMS: dict[type, durable] = {}
"""The forms of all kinds of records whose modules are loaded."""


@dataclass(frozen=True)
class durable:  # noqa: N801 (a decorator reads as a word)
    """The form of one kind of record; as a decorator it registers a dataclass as a kind of durable record.

    ``title`` names the kind in a sentence, ``version`` is the format that is written, and ``upgrades`` make of the JSON
    object of format n that of format n + 1: every older format needs one, since what was written once is read for ever.
    ``later`` are the keys that were added without a new format, each with the value that a record without it has; any
    other key that is missing is an error. ``beside`` are fields of the value that are found elsewhere, and no part of
    its record. A record that only ``reports``, or whose presence is all that counts, may lack keys: its fields then
    have their defaults.
    """

    title: str
    version: int = 1
    hint: str = HINT
    later: Mapping[str, object] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    reports: bool = False
    upgrades: Mapping[int, Callable[[Json], Json]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that records of all formats can be read."""
        if sorted(self.upgrades) != list(range(1, self.version)):
            raise AssertionError(f"{self.title}: format {self.version} needs upgrades from each format before it")

    def __call__(self, kind: Kind) -> Kind:
        """Register a dataclass."""
        FORMS[kind] = self
        return kind


def encode(record: object) -> bytes:
    """Return a durable record as the bytes of its file."""
    return json.dumps({**_fields(record), FORMAT: FORMS[type(record)].version}, default=_json).encode()


def _fields(value: object) -> Json:
    form = FORMS.get(type(value))
    beside = form.beside if form is not None else ()
    return {name: field for name, field in _json(value).items() if name not in beside}


def _json(value: object) -> Any:
    """Return what JSON has no form for one level down, as something that has one."""
    if dataclasses.is_dataclass(value):
        return {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, frozenset):
        return sorted(value)
    raise TypeError(f"a {type(value).__name__} is no part of a record")


def decode(kind: type[T], data: bytes, location: str) -> T:
    """Return the record that a file holds; ``location`` is its place, as messages show it.

    Raises:
        RecordUnreadable: the file is damaged, or has a newer format than this version knows.
    """
    form = FORMS[kind]
    fields = parse_object(data, location, form.hint)
    fields = {**form.later, **_upgraded(fields, form, location)}
    for name in form.beside:
        fields.pop(name, None)
    if not form.reports:
        for key in dataclasses.fields(kind):  # type: ignore[arg-type]  # a durable kind is a dataclass
            if key.name not in fields and key.name not in form.beside:
                raise unreadable(location, f"it has no {key.name!r}", form.hint)
    return from_plain(kind, fields, location)


def parse_object(data: bytes, location: str, hint: str = HINT) -> Json:
    """Return the JSON object that a file holds, whatever its kind.

    Raises:
        RecordUnreadable: the file holds anything else.
    """
    try:
        fields = json.loads(data)
    except RecursionError:
        raise unreadable(location, "it is nested too deeply", hint) from None
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise unreadable(location, "it is empty" if not data else "it is not a JSON object", hint)
    return fields


def _upgraded(fields: Json, form: durable, location: str) -> Json:
    version = fields.pop(FORMAT, 1)
    if type(version) is not int or version < 1:
        raise unreadable(location, f"its {FORMAT!r} is {version!r}, which is no format version", form.hint)
    if version > form.version:
        raise RecordUnreadable(
            f"The record {location} is a {form.title} of format {version}, and this version of airflow-samza knows no "
            f"newer format than {form.version}.",
            hint="A later version has written it: upgrade airflow-samza here, or finish the run with that version.",
            path=location,
            why=f"format {version} is newer than {form.version}",
        )
    for older in range(version, form.version):
        with understood(location):
            fields = form.upgrades[older](fields)
    return fields


def plain(value: object) -> Json:
    """Return the JSON form of a dataclass as a dict, for what is no file of its own."""
    fields: Json = json.loads(json.dumps(_fields(value), default=_json))
    return fields


def from_plain(kind: type[T], data: Any, location: str | None = None) -> T:
    """Return the value that :func:`plain` described; of a ``kind`` that need not be durable.

    Raises:
        RecordUnreadable: a key is missing, or has a value of a wrong type.
    """
    import msgspec

    where = location or f"of {kind.__name__}"
    try:
        return converted(data, kind, str_keys=True)
    except msgspec.ValidationError as error:
        form = FORMS.get(kind)
        raise unreadable(where, _problem(str(error)), form.hint if form is not None else HINT) from None


_MISSING = re.compile(r"Object missing required field `(?P<name>.*)`$")


def _problem(text: str) -> str:
    """Return what msgspec says is wrong, as a half sentence about the record."""
    what, _, path = text.partition(" - at `")
    of_key = path.startswith("key` in `")
    place = path.removeprefix("key` in `").rstrip("`").removeprefix("$").removeprefix(".")
    missing = _MISSING.match(what)
    if missing:
        return f"it has no {missing['name']!r}" + (f" in {place!r}" if place else "")
    if not place:
        return f"it cannot be understood ({_shortened(what)})"
    return f"{'a key of ' if of_key else ''}its {place!r} is of a wrong type ({_shortened(what)})"


def unreadable(location: str, why: str, hint: str = HINT) -> RecordUnreadable:
    """Return the error for a record; ``why`` is a half sentence about it."""
    return RecordUnreadable(f"The record {location} is damaged: {why}.", hint=hint, path=location, why=why)


@contextmanager
def understood(location: str) -> Iterator[None]:
    """Turn what Python raises of a JSON value of another shape into a RecordUnreadable.

    For parts of records that have no type: what operators and choosers keep. ``location`` names the record in a
    sentence.
    """
    try:
        yield
    except KeyError as error:
        raise unreadable(location, f"it has no {error.args[0]!r}") from None
    except (TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise unreadable(location, f"it cannot be understood ({_shortened(error)})") from None


def _shortened(error: object) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 120 else f"{text[:119]}…"
