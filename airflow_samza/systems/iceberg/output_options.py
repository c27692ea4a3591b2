"""Options of an Iceberg table that is written, checked without pyiceberg."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from airflow_samza.errors import ConfigError
from airflow_samza.systems.iceberg.options import checked_options, identifier_of, table_name
from airflow_samza.systems.system import StreamSpec
from airflow_samza.systems.tables.output_options import OF_OUTPUT, TableOutputOptions
from airflow_samza.systems.tables.transforms import is_transform

BRANCH = "branch"
"""The option of an output by which it commits to a branch, which somebody publishes."""

MAIN = "main"
"""The branch that readers see."""

_PARTITION_FIELD = re.compile(r"(?P<transform>[a-z]+)\(\s*(?:(?P<width>\d+)\s*,\s*)?(?P<column>[^(),]+?)\s*\)")


@dataclass(frozen=True)
class OutputOptions(TableOutputOptions):
    """Options of a table of a catalog that is written: to ``branch``, until that is published."""

    branch: str = MAIN

    @property
    def identifier(self) -> tuple[str, ...]:
        """The table's name in parts."""
        return identifier_of(self.table)

    @classmethod
    def of(cls, stream: StreamSpec) -> OutputOptions:
        """Return the options of an output; an unknown name or an impossible value is a ``ConfigError``."""
        options = checked_options(stream, (*OF_OUTPUT, BRANCH))
        checked = cls.checked(stream, options, table_name(stream, options), _partition_field)
        branch = options.get(BRANCH)
        if branch == MAIN:
            raise ConfigError(
                f"The output {stream.name!r} has branch={MAIN!r}, which is what readers see.",
                hint='Leave it out, or name a branch of the run: branch="audit/{run_id}".',
                key=BRANCH,
                value=branch,
            )
        return replace(checked, branch=branch or MAIN)


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
