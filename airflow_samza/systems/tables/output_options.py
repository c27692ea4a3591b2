"""Options of tables that are written, as far as all kinds of tables have them alike.

Delta and Iceberg read them, and sweeps of outputs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from airflow_samza.application.rejections import unknown_mode
from airflow_samza.errors import ConfigError
from airflow_samza.systems.output_slots import APPEND, MODE, REPLACE, UPSERT
from airflow_samza.systems.system import StreamSpec
from airflow_samza.systems.tables.commits import RECORDS
from airflow_samza.systems.tables.folded_records import FOLDED

REPLACE_PARTITIONS, REPLACE_TABLE = "replace partitions", "replace table"
"""Modes of an output beside those of all systems: the partitions to which a run writes, or the table, hold its rows."""

OUTPUT_MODES = (REPLACE, APPEND, UPSERT, REPLACE_PARTITIONS, REPLACE_TABLE)

RUN_COLUMN = "run_column"
"""The option of an output that names the column of a table which tells the rows of runs apart."""

BRANCH = "branch"
"""The option of an output by which it commits to a branch, which somebody publishes."""

MAIN = "main"
"""The branch that readers see."""

MADE = "samza.made"
"""Property of the tables that outputs have made: who commits to them merges small files."""

OF_OUTPUT = ("table", MODE, "create", "partition_by", RUN_COLUMN, BRANCH)
"""Names of the options of an output; others have a dot, and are properties of a table that is made."""

BY_COMMA = re.compile(r",(?![^(]*\))")
"""Commas between fields, and not those within one, such as ``bucket(16, id)``."""

_Options = TypeVar("_Options", bound="TableOutputOptions")


@dataclass(frozen=True)
class TableOutputOptions:
    """Options of a table that is written.

    With ``create`` it is made when it is missing, partitioned by ``partition_by``, pairs of (column, transform), and
    with ``properties``, the options that have a dot in their names. ``run_column`` is the column that tells rows of
    runs apart ("": none), and ``branch`` that to which it commits until somebody publishes it.
    """

    table: str
    mode: str = REPLACE
    create: bool = False
    partition_by: tuple[tuple[str, str], ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    run_column: str = ""
    branch: str = MAIN

    @classmethod
    def checked(
        cls: type[_Options],
        stream: StreamSpec,
        options: Mapping[str, str],
        table: str,
        partition_field: Callable[[StreamSpec, str], tuple[str, str]],
    ) -> _Options:
        """Return the options of an output whose names are known; an impossible value is a ``ConfigError``.

        ``partition_field`` gives the column and the transform that a text of ``partition_by`` means.
        """
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
        ours = next((name for name in properties if name.startswith((*RECORDS, FOLDED))), None)
        if ours is not None:
            raise ConfigError(
                f"The output {stream.name!r} sets the property {ours}, and those are the records of commits.",
                hint="Leave it out.",
                key=ours,
                value=options[ours],
            )
        branch = options.get(BRANCH)
        if branch == MAIN:
            raise ConfigError(
                f"The output {stream.name!r} has branch={MAIN!r}, which is what readers see.",
                hint='Leave it out, or name a branch of the run: branch="audit/{run_id}".',
                key=BRANCH,
                value=branch,
            )
        said = [*properties, *(["partition_by"] if options.get("partition_by") else [])]
        if said and create == "false":
            raise not_made(stream.name, said[0], options[said[0]])
        parts = [part for part in BY_COMMA.split(options.get("partition_by") or "") if part.strip()]
        fields = tuple(partition_field(stream, part.strip()) for part in parts)
        run_column = options.get(RUN_COLUMN) or ""
        return cls(table, mode, create == "true", fields, properties, run_column, branch or MAIN)


def not_made(stream: str, option: str, value: str) -> ConfigError:
    """Return the error of an option that is for tables that are made."""
    return ConfigError(
        f"The output {stream!r} has the option {option}, and does not make its table.",
        hint='Set create="true" with it, or change the table itself and leave the option out.',
        key=option,
        value=value,
    )
