"""Table that an output writes, as the plan has found it: what tasks need of it, so that they need no catalog.

The plan step keeps it in the plan; Delta and Iceberg make it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from airflow_samza.application.descriptors import ROW_DELETED
from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.errors import ConfigError, SchemaError, TopicError
from airflow_samza.schema import DataType, Schema
from airflow_samza.schema.data_type import quoted
from airflow_samza.systems.tables.columns import TableField, columns_of, data_type, fields_of, inner_fields
from airflow_samza.systems.tables.options import TableOutputOptions
from airflow_samza.systems.tables.transforms import PartitionField, SortField

FILE_BYTES = 512 * 2**20
"""Size from which on a data file is closed, where its table does not say otherwise."""

OF_A_PLAN = ("run", "snapshots", "manifests")
"""Facts that a plan fixes of a table's output and that say nothing of what is written: the next plan finds others."""

CODECS = ("snappy", "zstd", "gzip", "lz4", "brotli")
"""Compressions of data files that a table may name."""


@dataclass(frozen=True)
class OutputTarget:
    """Table of an output. ``data`` is the folder of its data files, as paths in its metadata begin ("": they do not).

    ``spec`` is the id of its partitioning, and ``run`` names the run that writes, among all runs of all roots.
    ``in_files`` is False where data files lack the columns by which the table is partitioned. ``run_column`` is the
    column, of texts, that tells rows of runs apart ("": none); no message has it. Each data file is in the order
    ``sort``, which the table knows by the id ``sort_id``. By ``key`` rows are replaced; (): they are not.
    """

    run: str
    table: str
    uuid: str
    data: str
    spec: int
    columns: tuple[TableField, ...]
    partition: tuple[PartitionField, ...]
    compression: str
    file_bytes: int
    in_files: bool = True
    run_column: str = ""
    sort: tuple[SortField, ...] = ()
    sort_id: int = 0
    key: tuple[str, ...] = ()

    @cached_property
    def sort_columns(self) -> list[tuple[SortField, TableField, int]]:
        """The fields of the sort order, each with its column and the place of that in data files."""
        places = {column.id: place for place, column in enumerate(self.columns_of_files)}
        return [(field, self.columns_of_files[places[field.source]], places[field.source]) for field in self.sort]

    @cached_property
    def partition_columns(self) -> list[tuple[PartitionField, TableField]]:
        """The fields of the partition spec, each with its column."""
        by_id = {column.id: column for column in self.columns}
        return [(field, by_id[field.source]) for field in self.partition]

    @cached_property
    def columns_of_files(self) -> list[TableField]:
        """The columns that data files have."""
        left_out = () if self.in_files else {field.source for field in self.partition}
        return [column for column in self.columns if column.id not in left_out]

    @cached_property
    def declared(self) -> Schema:
        """The columns as those of a stream."""
        return Schema(fields_of(self.columns, self.table))

    @classmethod
    def of(cls, fixed: Mapping[str, Any]) -> OutputTarget:
        """Return the table from the JSON that the plan has of it."""
        return cls(
            str(fixed["run"]),
            str(fixed["table"]),
            str(fixed["uuid"]),
            str(fixed["data"]),
            int(fixed["spec_id"]),
            columns_of(fixed["columns"]),
            tuple(PartitionField(*field) for field in fixed["partition"]),
            str(fixed["compression"]),
            int(fixed["file_bytes"]),
            bool(fixed.get("in_files", True)),
            str(fixed.get("run_column", "")),
            tuple(SortField(*field) for field in fixed.get("sort", ())),
            int(fixed.get("sort_id", 0)),
            tuple(fixed.get("key", ())),
        )


def check_messages(target: OutputTarget, messages: Schema, stream: str) -> None:
    """Reject messages that do not fit the columns of a table, by name, at every depth.

    Numbers may widen; what may be null may lack.
    """
    if target.run_column and target.run_column in messages.names:
        raise _filled(target.table, stream, target.run_column)
    if target.key:
        messages = Schema(tuple(field for field in messages.fields if field.name != ROW_DELETED))
    _check_fields(
        DataType("struct", children=tuple(field.type for field in messages.fields), names=tuple(messages.names)),
        [one for one, name in zip(target.columns, target.declared.names, strict=True) if name != target.run_column],
        target.table,
        stream,
    )


def _check_fields(messages: DataType, columns: Sequence[TableField], table: str, stream: str, within: str = "") -> None:
    """Reject the fields of a struct, list or map that do not fit those of a table; ``within`` is the way to them."""
    by_name = {field.name: field for field in columns}
    kinds = dict(zip(messages.names or by_name, messages.children, strict=False))
    for name in (one for one in kinds if one not in by_name):
        raise SchemaError(
            f"The table {table} has no column {within + name!r}, and the messages of the output {stream!r} have one of "
            "this name.",
            hint=f"{did_you_mean(name, by_name.keys() - kinds.keys())}Add the column to the table, or leave it out "
            f"with select. The table's columns are {listed(within + one for one in by_name)}.",
            table=table,
            stream=stream,
            column=within + name,
        )
    for field in columns:
        path = within + field.name
        if field.name in kinds:
            kind, its_type = kinds[field.name], data_type(field.type)
            if kind.name == its_type.name and kind.children:
                _check_fields(kind, field.type.fields, table, stream, f"{path}.")
            elif not kind.reads_as(its_type) or (kind.is_integer and _narrower(its_type.name, kind.name)):
                raise SchemaError(
                    f"Column {path!r} of the output {stream!r} is {kind.ddl()}, and in the table {table} it is "
                    f"{field.type.word} ({its_type.ddl()}).",
                    hint=f"Give it that type where {within.partition('.')[0]!r} is made."
                    if within
                    else f"Cast it with select: cast({path} as {its_type.ddl()}) as {path}.",
                    table=table,
                    stream=stream,
                    column=path,
                )
        elif field.required:
            raise SchemaError(
                f"The table {table} requires the column {path!r}, and the messages of the output {stream!r} have none "
                "of this name.",
                hint=f"Name a column so with select; their columns are {listed(kinds)}.",
                table=table,
                stream=stream,
                column=path,
            )


def changes(
    described: Mapping[str, Any], identity: str, partitioning: int, columns: Iterable[TableField], *, by_ids: bool
) -> Iterator[str]:
    """Yield what of a table has changed since a task has described it, so that its files do not fit any more.

    ``by_ids``: columns are found in files by ids, so they may have been dropped or widened. Former versions have not
    described fields within columns (``inner``), or names beside keys.
    """
    if described["table"] != identity:
        yield "was dropped and made anew" if by_ids else "was made anew"
    if described["spec"] != partitioning:
        yield "has other partitions now"
    written = {key: (*about, True) for key, *about in (*described["columns"], *described.get("inner", ()))}
    now = {key: (path, field) for key, path, field in inner_fields(columns)}
    for key, (path, field) in now.items():
        if key in written:
            word, required, *_ = written[key]
            if word != field.type.word and not (by_ids and _is_widened(word, field.type.word)):
                yield f"has the column {path!r} as {field.type.word} now, which was {word}"
            if field.required and not required:
                yield f"requires the column {path!r} now"
        elif field.required and ("inner" in described or path == field.name):
            yield f"has the new required column {path!r}"
    anew = {path for key, (path, field) in now.items() if key not in written and path == field.name}
    for key, (_, _, *names, _) in written.items():
        name = names[0] if names else key
        if key not in now and (name in anew or not by_ids):
            yield (
                f"has another column {name!r} now: the one of this name was dropped"
                if by_ids
                else f"has no column {name!r} any more"
            )


_WIDER = {("int", "long"), ("float", "double")}


def _is_widened(written: str, now: str) -> bool:
    """Return whether a column that was written as one type is read as another one that it has now."""
    if written.startswith("decimal") and now.startswith("decimal"):
        return written.rpartition(",")[2] == now.rpartition(",")[2]
    return (written, now) in _WIDER


_INTEGERS: Sequence[str] = ("tinyint", "smallint", "int", "bigint")


def _narrower(name: str, than: str) -> bool:
    return name in _INTEGERS and _INTEGERS.index(name) < _INTEGERS.index(than)


def _filled(table: str, stream: str, column: str) -> SchemaError:
    return SchemaError(
        f"The messages of the output {stream!r} have the column {column!r}, which is filled with a name of the run "
        f"(run_column={column!r}).",
        hint="Leave it out with select, or name another run_column.",
        table=table,
        stream=stream,
        column=column,
    )


def fix_run_column(fixed: Mapping[str, Any], options: TableOutputOptions, stream: str) -> dict[str, Any]:
    """Return what the plan has of a table with the column that tells rows of runs apart: it is there, and of texts."""
    name = options.run_column
    if not name:
        return dict(fixed)
    kind = next((column["type"] for column in fixed["columns"] if column["name"] == name), None)
    if kind != "string":
        raise TopicError(
            f"The output {stream!r} has run_column={name!r}, and the table {fixed['table']} has "
            f"{'no such column' if kind is None else f'it as {_word(kind)}'}.",
            hint=f"Add the column {name!r} to the table as a text (string), or leave run_column out.",
            table=fixed["table"],
            stream=stream,
            column=name,
        )
    return {**fixed, "run_column": name}


def _word(kind: Any) -> str:
    return str(kind["type"]) if isinstance(kind, Mapping) else str(kind)


def with_run_column(columns: Schema, options: TableOutputOptions, stream: str) -> Schema:
    """Return the columns of a table that is made for messages, with that which tells rows of runs apart."""
    name = options.run_column
    if name in columns:
        raise _filled(options.table, stream, name)
    return Schema.of(f"{columns.ddl()}, {quoted(name)} string") if name else columns


def columns_unknown(options: TableOutputOptions, stream: str) -> SchemaError:
    """Return the error for a table that is to be made, of which nobody knows the columns before the run."""
    return SchemaError(
        f"The table {options.table} of the output {stream!r} is to be made, and the columns of its messages are not "
        "known before the run.",
        hint="Declare them: schema= of the output stream.",
        table=options.table,
        stream=stream,
    )


def check_known(names: Iterable[str], columns: Schema, stream: str, what: str, key: str) -> None:
    """Reject a column that is not there, by which the option ``key`` has an output partitioned, or sorted: ``what``."""
    for name in names:
        if name not in columns:
            raise ConfigError(
                f"The output {stream!r} is {what} by the column {name!r}, which its messages do not have.",
                hint=f"{did_you_mean(name, columns.names)}Their columns are {listed(columns.names)}.",
                key=key,
                value=name,
            )
