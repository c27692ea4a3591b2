"""Changes of rows in their order: late and repeated ones left out, or the history of each row (SCD types 1 and 2)."""

from __future__ import annotations

from typing import Any

from airflow_samza.application.columns import Columns, check_column, key_columns
from airflow_samza.application.descriptors import ROW_DELETED
from airflow_samza.application.operator_checks import former_id, named, required_id
from airflow_samza.application.operator_specs import ApplyChangesSpec
from airflow_samza.application.operators.keyed_results import assumed_partitions
from airflow_samza.application.output_schemas import reject_twice
from airflow_samza.application.rejections import reject
from airflow_samza.application.stream import Stream
from airflow_samza.schema import DataType, Field, Schema

HISTORY = VALID_FROM, VALID_TO, IS_CURRENT = "valid_from", "valid_to", "is_current"
"""The columns of a history: from when and to when a row was as it is, and whether it still is."""

_UNORDERED = ("array", "map", "struct", "boolean", "binary", "float", "double")


def apply_changes(
    stream: Stream[Any],
    key: Columns,
    sequence_by: Columns,
    scd_type: object,
    id: str | None,
    renamed_from: str | None,
    assume_partitioned_by: Columns | None,
) -> ApplyChangesSpec:
    """Return what brings changes into order; parameters as :meth:`MessageStream.apply_changes`."""
    where = named("apply_changes", id)
    name = required_id(id, "apply_changes")
    columns = key_columns(key, stream.schema, where)
    sequence = _sequence(sequence_by, stream.schema, where)
    if scd_type not in (1, 2) or isinstance(scd_type, bool):
        reject(
            f"{where} has stored_as_scd_type={scd_type!r}",
            hint="It is 1 (the newest row of each key) or 2 (each row with the time for which it was valid).",
            operator=where,
            value=repr(scd_type),
        )
    both = next((column for column in sequence if column in columns), None)
    if both is not None:
        reject(
            f"{where} orders the changes of a key by {both!r}, which is a column of the key",
            hint="Name the column that grows from change to change, such as the position in the log of the database.",
            operator=where,
            column=both,
        )
    schema = stream.schema
    if schema is not None:
        _check(schema, sequence, where)
    return stream._graph.add(
        ApplyChangesSpec,
        name,
        inputs=(stream._operator,),
        schema=None if schema is None else applied_schema(schema, sequence[0], int(str(scd_type)), where),
        key=columns,
        sequence_by=sequence,
        scd_type=scd_type,
        renamed_from=former_id(renamed_from, name, "apply_changes"),
        assume_partitioned_by=assumed_partitions(assume_partitioned_by, columns, stream, where),
    )


def applied_schema(changes: Schema, sequence: str, scd_type: int, where: str) -> Schema:
    """Return the columns of what comes of changes: of type 2 the row with the time for which it was valid."""
    if scd_type == 1:
        return changes
    taken = next((name for name in HISTORY if name in changes), None)
    if taken is not None:
        reject_twice(taken, where, "Rename the column of the changes with select.")
    time = changes[sequence].type
    rows = tuple(field for field in changes.fields if field.name != ROW_DELETED)
    history = (
        Field(VALID_FROM, time, nullable=False),
        Field(VALID_TO, time),
        Field(IS_CURRENT, DataType("boolean"), nullable=False),
    )
    return Schema((*rows, *history))


def _sequence(sequence_by: object, schema: Schema | None, where: str) -> tuple[str, ...]:
    columns = (sequence_by,) if isinstance(sequence_by, str) else sequence_by
    if not isinstance(columns, list | tuple) or not columns or not all(isinstance(one, str) for one in columns):
        reject(
            f"{where} has sequence_by={sequence_by!r}",
            hint='Name the column that grows from change to change of a key, or several: sequence_by="lsn".',
            operator=where,
        )
    for column in columns:
        check_column(column, schema, f"sequence_by of {where}")
    return tuple(dict.fromkeys(columns))


def _check(schema: Schema, sequence: tuple[str, ...], where: str) -> None:
    for column in sequence:
        kind = schema[column].type
        if kind.name in _UNORDERED:
            reject(
                f"Column {column!r} in sequence_by of {where} is of type {kind.ddl()}, which orders no changes",
                hint="Order them by whole numbers, decimals, times or texts.",
                column=column,
            )
    if ROW_DELETED in schema and schema[ROW_DELETED].type.name != "boolean":
        reject(
            f"{where} takes {ROW_DELETED!r} as the mark of rows that are gone, and it is of type "
            f"{schema[ROW_DELETED].type.ddl()}",
            hint="Make it a boolean with select.",
            column=ROW_DELETED,
        )
