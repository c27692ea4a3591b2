"""Options of streams that are tables, read or written, as far as all kinds of tables have them alike.

The plan step reads them, both lake formats, and sweeps of outputs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TypeVar

from airflow_samza.application.rejections import did_you_mean, unknown_mode
from airflow_samza.errors import ConfigError
from airflow_samza.systems.output_slots import APPEND, MODE, REPLACE, UPSERT
from airflow_samza.systems.system import StreamSpec
from airflow_samza.systems.tables.commits import RECORDS
from airflow_samza.systems.tables.folded_records import FOLDED
from airflow_samza.systems.topic_rejections import unknown_value

REJECT, SKIP = "reject", "skip"
"""The rules for versions that have taken rows away from an input that is read by what is appended."""

WAITING = "waiting"
"""The option of an input that names a run, of which the rows are read that wait for their publication."""

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


def check_options(stream: StreamSpec, names: Sequence[str], *, what: str) -> dict[str, str]:
    """Return the options of a stream; an unknown one, and what tables do not have, are rejected.

    ``what`` is the kind of table, with its article.
    """
    options = dict(stream.options)
    unknown = next((name for name in options if name not in names and not (stream.written and "." in name)), None)
    if unknown is not None:
        raise ConfigError(
            f"Stream {stream.name!r} is a table, and {'tables that are written' if stream.written else 'tables'} have "
            f"no option {unknown!r}.",
            hint=did_you_mean(unknown, names).rstrip() or f"Options of tables are {', '.join(names)}.",
            key=unknown,
            value=options[unknown],
        )
    for name in ("path", "format"):
        if getattr(stream, name) is not None:
            raise ConfigError(
                f"Stream {stream.name!r} has {name}=, and {what} has a name.",
                hint='Write table="namespace.name" in its place.',
                key=name,
                value=getattr(stream, name),
            )
    return options


def check_one_version(stream: StreamSpec, options: Mapping[str, str], names: Sequence[str], *, reads: str) -> None:
    """Reject two options of which each says which version is read; ``reads`` is what a run reads."""
    said = [name for name in names if options.get(name)]
    if len(said) > 1:
        raise ConfigError(
            f"Stream {stream.name!r} has the options {' and '.join(said)}, and a run reads {reads}.",
            hint="Leave one of them out.",
            key=said[1],
            value=options[said[1]],
        )


def version_number(stream: StreamSpec, text: str, key: str, digits: int, write: str) -> int:
    """Return the id of a snapshot, or the number of a version, that a text names; ``write`` is the hint."""
    if not text.isdecimal() or len(text) > digits:
        raise ConfigError(
            f"Stream {stream.name!r} has the {key} {text!r}, which is no {'id' if key == 'snapshot' else 'number'}.",
            hint=write,
            key=key,
            value=text,
        )
    return int(text)


def bad_name(stream: StreamSpec, table: str, hint: str) -> ConfigError:
    """Return the error for a name that no table can have."""
    return ConfigError(f"Stream {stream.name!r} has the table name {table!r}.", hint=hint, key="table", value=table)


def point_in_time(stream: StreamSpec, text: str | None) -> datetime | None:
    """Return the time that the option ``as_of`` names, if it does."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise ConfigError(
            f"Stream {stream.name!r} has as_of={text!r}, which is no point in time.",
            hint='Write it in ISO form (default: UTC): "2026-11-01T00:00Z", or "{data_interval_end}".',
            key="as_of",
            value=text,
        ) from None
    return at if at.tzinfo is not None else at.replace(tzinfo=timezone.utc)


def checked_overwrites(stream: StreamSpec, options: Mapping[str, str]) -> str:
    """Return the rule for versions that have taken rows away."""
    overwrites = options.get("overwrites") or REJECT
    if overwrites not in (REJECT, SKIP):
        raise unknown_value(stream.name, "overwrites", overwrites, f"Choose {REJECT} or {SKIP}.")
    return overwrites


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
