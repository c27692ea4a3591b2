"""Columns that a user names: keys, timestamps, aggregated columns."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_samza.application.rejections import did_you_mean, listed, located, reject
from airflow_samza.errors import UnknownName
from airflow_samza.schema import Schema

Columns = str | Sequence[str]
"""One column, or several in order."""

_NOT_HASHED = ("array", "map", "struct")


def key_columns(key: object, schema: Schema | None, where: str) -> tuple[str, ...]:
    """Return the columns of a key that must not be empty, checked against the schema where it is known."""
    if callable(key):
        reject(
            f"The key of {where} is a column, not a callable",
            hint="Add the value as a column first (map or select), then name the column.",
            operator=where,
        )
    columns = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, list | tuple) else None
    if columns is None or not all(isinstance(column, str) for column in columns):
        reject(
            f"The key of {where} is {key!r}",
            hint='Name a column, "a", or several, ["a", "b"].',
            operator=where,
            value=repr(key),
        )
    if not columns or not all(column.strip() for column in columns):
        reject(
            f"The key of {where} is empty", hint='Name the column or columns, for example "member_id".', operator=where
        )
    if len(set(columns)) < len(columns):
        reject(
            f"The key of {where} names a column twice: {listed(columns)}", hint="Name each column once.", operator=where
        )
    for column in columns:
        check_column(column, schema, f"the key of {where}")
        if schema is not None and schema[column].type.name in _NOT_HASHED:
            reject(
                f"Column {column!r} in the key of {where} is of type {schema[column].type.ddl()}, by which nothing "
                "can be partitioned",
                hint="Make a key of plain values first, with select or map.",
                column=column,
            )
    return columns


def declared_columns(schema: object) -> Schema | None:
    """Return the columns that ``schema=`` declares, None for none; an error names the place of the call."""
    with located():
        return None if schema is None else Schema.of(schema)


def optional_columns(key: object, schema: Schema | None, where: str) -> tuple[str, ...]:
    """Like :func:`key_columns`, but None means: no key."""
    return () if key is None else key_columns(key, schema, where)


def check_column(column: str, schema: Schema | None, where: str) -> None:
    """Reject a column that the schema, where it is known, does not have."""
    if schema is None or column in schema:
        if schema is None and "," in column:
            reject(
                f"{column!r} in {where} is not one column",
                hint='Write several columns as a list: ["a", "b"].',
                column=column,
            )
        return
    reject(
        f"There is no column {column!r} for {where}",
        hint=f"{did_you_mean(column, schema.names)}The columns are {listed(schema.names)}.",
        kind=UnknownName,
        column=column,
    )
