"""Options of an Iceberg table that is written, checked without pyiceberg."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NamedTuple

from airflow_samza.errors import ConfigError
from airflow_samza.systems.iceberg.options import checked_options, identifier_of, table_name
from airflow_samza.systems.system import StreamSpec
from airflow_samza.systems.tables.output_options import BY_COMMA, OF_OUTPUT, TableOutputOptions, not_made
from airflow_samza.systems.tables.transforms import is_transform

SORT_BY = "sort_by"
"""The option of an output by which the files of a table that is made are sorted."""

_ORDERED = re.compile(
    r"(?P<what>.+?)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?", re.IGNORECASE
)
_PARTITION_FIELD = re.compile(r"(?P<transform>[a-z]+)\(\s*(?:(?P<width>\d+)\s*,\s*)?(?P<column>[^(),]+?)\s*\)")


class Ordered(NamedTuple):
    """Field by which the files of a table are sorted."""

    column: str
    transform: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class OutputOptions(TableOutputOptions):
    """Options of a table of a catalog that is written.

    The files of a table that is made are sorted by the fields ``sort_by``.
    """

    sort_by: tuple[Ordered, ...] = ()

    @property
    def identifier(self) -> tuple[str, ...]:
        """The table's name in parts."""
        return identifier_of(self.table)

    @classmethod
    def of(cls, stream: StreamSpec) -> OutputOptions:
        """Return the options of an output; an unknown name or an impossible value is a ``ConfigError``."""
        options = checked_options(stream, (*OF_OUTPUT, SORT_BY))
        checked = cls.checked(stream, options, table_name(stream, options), _partition_field)
        sort_by = options.get(SORT_BY) or ""
        if sort_by and not checked.create:
            raise not_made(stream.name, SORT_BY, sort_by)
        order = tuple(_ordered(stream, part.strip()) for part in BY_COMMA.split(sort_by) if part.strip())
        return replace(checked, sort_by=order)


def _ordered(stream: StreamSpec, text: str) -> Ordered:
    """Return a field of a sort order as SQL writes it: ``country``, ``at desc``, ``day(at) desc nulls first``."""
    match = _ORDERED.fullmatch(text)
    field = _field(match["what"]) if match is not None else None
    if match is None or field is None:
        raise ConfigError(
            f"The output {stream.name!r} is sorted by {text!r}, which is no field of a sort order.",
            hint='Write a column, or a transform of one, perhaps with its direction: "country", "at desc", '
            '"day(at) desc nulls first"; several with a comma between them.',
            key=SORT_BY,
            value=text,
        )
    descending = (match["direction"] or "").lower() == "desc"
    nulls = (match["nulls"] or "").lower()
    return Ordered(*field, descending, nulls == "first" if nulls else not descending)


def _field(text: str) -> tuple[str, str] | None:
    """Return the column and the transform of a field as SQL writes it: ``country``, ``day(at)``, ``bucket(16, id)``."""
    match = _PARTITION_FIELD.fullmatch(text)
    if match is None and "(" not in text:
        return text, "identity"
    if match is not None:
        transform = match["transform"].removesuffix("s") if match["width"] is None else match["transform"]
        if match["width"] is not None:
            transform = f"{transform}[{match['width']}]"
        if is_transform(transform):
            return match["column"], transform
    return None


def _partition_field(stream: StreamSpec, text: str) -> tuple[str, str]:
    """Return the column and the transform of a partition field."""
    field = _field(text)
    if field is not None:
        return field
    raise ConfigError(
        f"The output {stream.name!r} is partitioned by {text!r}, which is no partition field.",
        hint='Write a column, or a transform of one: "country", "day(at)" (also hour, month, year), "bucket(16, id)", '
        '"truncate(4, code)"; several with a comma between them.',
        key="partition_by",
        value=text,
    )
