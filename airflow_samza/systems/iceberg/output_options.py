"""Options of a table that is written, checked without pyiceberg."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_samza.application.rejections import unknown_mode
from airflow_samza.errors import ConfigError
from airflow_samza.systems.iceberg.options import checked_options, identifier_of, table_name
from airflow_samza.systems.iceberg.transforms import is_transform
from airflow_samza.systems.output_slots import APPEND, MODE, REPLACE
from airflow_samza.systems.system import StreamSpec

MAIN = "main"
"""The branch that readers see."""

RECORDS = SLOT_RECORD, PRODUCER_RECORD = "samza.slot.", "samza.producer."
"""Beginnings of the names of properties in which a table has the records of commits to it."""

REPLACE_PARTITIONS, REPLACE_TABLE = "replace partitions", "replace table"
"""Modes of an output beside those of all systems: the partitions to which a run writes, or the table, hold its rows."""

OUTPUT_MODES = (REPLACE, APPEND, REPLACE_PARTITIONS, REPLACE_TABLE)

_OF_OUTPUT = ("table", MODE, "create", "partition_by")
_PARTITION_FIELD = re.compile(r"(?P<transform>[a-z]+)\(\s*(?:(?P<width>\d+)\s*,\s*)?(?P<column>[^(),]+?)\s*\)")
_BY_COMMA = re.compile(r",(?![^(]*\))")


@dataclass(frozen=True)
class OutputOptions:
    """Options of a table that is written.

    With ``create`` it is made when it is missing, partitioned by ``partition_by``, pairs of (column, transform), and
    with ``properties``, the options that have a dot in their names.
    """

    table: str
    mode: str = REPLACE
    create: bool = False
    partition_by: tuple[tuple[str, str], ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def identifier(self) -> tuple[str, ...]:
        """The table's name in parts."""
        return identifier_of(self.table)

    @classmethod
    def of(cls, stream: StreamSpec) -> OutputOptions:
        """Return the options of an output; an unknown name or an impossible value is a ``ConfigError``."""
        options = checked_options(stream, _OF_OUTPUT)
        mode = options.get(MODE) or REPLACE
        if mode not in OUTPUT_MODES:
            raise unknown_mode(f"The output {stream.name!r}", mode, OUTPUT_MODES, stream=stream.name)
        create = (options.get("create") or "false").lower()
        if create not in ("true", "false"):
            raise ConfigError(
                f"The output {stream.name!r} has create={create!r}.",
                hint='Write create="true" to have a missing table made.',
                key="create",
                value=create,
            )
        properties = {name: value for name, value in options.items() if "." in name}
        ours = next((name for name in properties if name.startswith(RECORDS)), None)
        if ours is not None:
            raise ConfigError(
                f"The output {stream.name!r} sets the property {ours}, and those are the records of commits.",
                hint="Leave it out.",
                key=ours,
                value=options[ours],
            )
        said = [*properties, *(["partition_by"] if options.get("partition_by") else [])]
        if said and create == "false":
            raise ConfigError(
                f"The output {stream.name!r} has the option {said[0]}, and does not make its table.",
                hint='Set create="true" with it, or change the table itself and leave the option out.',
                key=said[0],
                value=options[said[0]],
            )
        parts = [part for part in _BY_COMMA.split(options.get("partition_by") or "") if part.strip()]
        fields = tuple(_partition_field(stream, part.strip()) for part in parts)
        return cls(table_name(stream, options), mode, create == "true", fields, properties)


def _partition_field(stream: StreamSpec, text: str) -> tuple[str, str]:
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
    raise ConfigError(
        f"The output {stream.name!r} is partitioned by {text!r}, which is no partition field.",
        hint='Write a column, or a transform of one: "country", "day(at)" (also hour, month, year), "bucket(16, id)", '
        '"truncate(4, code)"; several with a comma between them.',
        key="partition_by",
        value=text,
    )
