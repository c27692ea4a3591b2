"""Checks of the columns that operators name, write or compare, when the schemas of their inputs are known.

Kinds of operators check by it, when a stage is compiled.
"""

from __future__ import annotations

from collections.abc import Iterable

from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.operator_specs import StreamJoinSpec
from airflow_samza.application.output_schemas import unwritable
from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import InvalidApplication, SchemaError, UnknownName
from airflow_samza.schema import Schema, key_type
from airflow_samza.task.messages.user_errors import file_and_line, located


def check_columns(operator: OperatorSpec, columns: Iterable[str | None], schema: Schema | None) -> None:
    """Reject a column that is not in the schema of an operator's input, where that is known."""
    for column in columns:
        if schema is not None and column is not None and column not in schema:
            raise unknown_column(operator, column, f"the key or columns of {operator.op}", schema)


def check_keys(operator: OperatorSpec, key: Iterable[str], schema: Schema) -> None:
    """Reject a key column of a type by which nothing is looked up."""
    for column in key:
        try:
            key_type(schema[column].type)
        except SchemaError as error:
            raise InvalidApplication(
                f"The key of {operator.title}{located(operator.location)} has the column {column!r} of type "
                f"{schema[column].type.ddl()}, which cannot be a key.",
                hint=error.hint,
                operator=operator.op_id,
                column=column,
            ) from None


def check_writable(operator: OperatorSpec, declared: Schema | None, schema: Schema | None, target: str) -> None:
    """Reject messages that do not fit the declared columns of what an operator writes."""
    problem = unwritable(declared, schema) if declared is not None and schema is not None else ""
    if problem:
        raise InvalidApplication(
            f"{operator.title}{located(operator.location)} cannot write to {target} as it is declared: {problem}.",
            hint="Bring the messages to the declared columns with select or map, or declare the schema that they have.",
            operator=operator.op_id,
        )


def unknown_column(operator: OperatorSpec, column: str, text: str, schema: Schema) -> UnknownName:
    """Return the error for a column that is not there; ``text`` is where the operator names it."""
    return UnknownName(
        f"There is no column {column!r} for {operator.title}: {text}{located(operator.location)}.",
        hint=f"{did_you_mean(column, schema.names)}The columns are {', '.join(schema.names)}.",
        name=column,
        column=column,
        operator=operator.op_id,
        **file_and_line(operator.location),
    )


def check_sides(join: StreamJoinSpec, left: Schema | None, right: Schema | None) -> None:
    """Reject a join of streams whose columns, event times or types of keys do not match."""
    for schema, key, time in ((left, join.left_key, join.left_time), (right, join.right_key, join.right_time)):
        check_columns(join, [*key, *([time] if time is not None else [])], schema)
    if (join.left_time is None) != (join.right_time is None):
        timed, lacking = ("left", "right") if join.right_time is None else ("right", "left")
        raise InvalidApplication(
            f"{join.title}{located(join.location)} knows the event time of its {timed} stream "
            f"({join.left_time or join.right_time!r}), and none of "
            f"its {lacking} stream.",
            hint=f"Declare timestamp= of the {lacking} stream's input and keep the column, or leave it out on both: "
            "then the time of arrival counts.",
            operator=join.op_id,
        )
    if left is not None and right is not None:
        for mine, theirs in zip(join.left_key, join.right_key, strict=True):
            if key_type(left[mine].type) != key_type(right[theirs].type):
                raise InvalidApplication(
                    f"{join.title}{located(join.location)} compares {mine!r}, of type {left[mine].type.ddl()}, with "
                    f"{theirs!r}, of type {right[theirs].type.ddl()}.",
                    hint="Cast one side before its partition_by, with select.",
                    operator=join.op_id,
                )
