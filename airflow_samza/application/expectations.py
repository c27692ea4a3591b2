"""Expectations: what must be true of the messages of a stream before anybody reads them; ``expect=``.

Some are about each row (``not_null``, ``foreign_key``, a condition in SQL), others about all that a run writes
(``unique``, ``rows``, ``fresh``). ``on_error`` sets what becomes of rows, or of the run, that do not meet one.
Declarations and pushes check them; tasks evaluate them, and the judgement of an epoch reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from airflow_samza.application.bad_records import DeadLetter, error_policy
from airflow_samza.application.columns import Columns, check_column, key_columns
from airflow_samza.application.descriptors import Expectation, StreamDescriptor, TableDescriptor, TableKind
from airflow_samza.application.graph_builder import GraphBuilder
from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.operator_specs import ForeignKeySpec, InputOperatorSpec, SendToSpec, TaskSpec
from airflow_samza.application.rejections import checked_call, listed, reject
from airflow_samza.application.stream import Stream, Table
from airflow_samza.application.times import duration_ms, duration_text
from airflow_samza.schema import Schema

UNIQUE, NOT_NULL, CONDITION, ROWS, FRESH = "unique", "not_null", "condition", "rows", "fresh"
FOREIGN_KEY = "foreign_key"

OF_ROWS = (NOT_NULL, CONDITION, FOREIGN_KEY)
"""The kinds that are about each row; the others are about all rows together."""

_NOT_COMPARED = ("array", "map", "struct", "float", "double")
_TIMES = ("timestamp", "timestamp_ntz", "date", "bigint")
_HINT = (
    'Write for example expect=[unique("id"), not_null("member"), "amount >= 0", rows(change=0.5), '
    'fresh("at", "2 hours")].'
)


@checked_call
def unique(columns: Columns, *, on_error: object = "fail") -> Expectation:
    """Return the expectation that no two rows have equal values of a key; for ``expect=``.

    It is about all rows that a run writes to the output, in a stage that runs epochs about those of an epoch. As in
    SQL, rows with a null in the key are not compared.

    ```python
    app.output_stream("orders", expect=[unique("order_id")])
    ```

    :param columns: The column, or a list of columns.
    :param on_error: ``"fail"`` (nothing is published) or ``"warn"``.
    """
    key = key_columns(columns, None, "unique")
    return Expectation(UNIQUE, f"unique({listed(key)})", key, on_error=on_error)


@checked_call
def not_null(column: str, *, on_error: object = "fail") -> Expectation:
    """Return the expectation that no row has a null in a column; for ``expect=``.

    ```python
    app.output_stream("orders", expect=[not_null("member", on_error="drop")])
    ```

    :param column: The column.
    :param on_error: ``"fail"`` (nothing is published), ``"warn"``, ``"drop"`` (such rows are left out), or
        ``dead_letter(app.output_stream("bad"))``.
    """
    key = key_columns(column, None, "not_null")
    return Expectation(NOT_NULL, f"not_null({listed(key)})", key, on_error=on_error)


@checked_call
def foreign_key(columns: Columns, table: Table[Any], *, on_error: object = "fail") -> Expectation:
    """Return the expectation that a table has a row of each row's key; for ``expect=``.

    As in SQL, rows with a null in the key meet it. The rows have to lie where those of the table do, as for a join:
    partitioned by these columns, unless the table is a broadcast.

    ```python
    members = app.pushed_table("members", key="member", schema="member string, tier string")
    app.output_stream("orders", expect=[foreign_key("member", members)])
    ```

    :param columns: The column, or a list of columns, in the order of the table's key.
    :param table: A table that is pushed, or filled by side inputs.
    :param on_error: As of :func:`not_null`.
    """
    key = key_columns(columns, None, "foreign_key")
    if not isinstance(table, Table):
        reject(
            f"foreign_key({listed(key)}) names {table!r}, which is no table",
            hint="Declare it first: app.pushed_table(…), or app.table(…) of side inputs.",
        )
    _check_referred(key, table.descriptor)
    text = f"foreign_key({listed(key)}, {table.descriptor.table_id})"
    return Expectation(FOREIGN_KEY, text, key, table=table.descriptor.table_id, declared_table=table, on_error=on_error)


def _check_referred(key: tuple[str, ...], table: TableDescriptor) -> None:
    """Reject a table that does not have all its rows before the first message, and for the whole run."""
    about = f"foreign_key({listed(key)}) names the table {table.table_id!r}"
    if table.kind is not TableKind.PUSHED:
        reject(
            f"{about}, which is {table.word}",
            hint="Name a table that is pushed, or filled by side inputs. Of another one, join with it "
            '(how="left"), and expect that a column of it is not null.',
            table=table.table_id,
        )
    if len(key) != len(table.key):
        reject(
            f"{about}, whose key {listed(table.key)} has another number of columns",
            hint="Name as many columns, in the order of the table's key.",
            table=table.table_id,
        )


@checked_call
def condition(sql: str, *, on_error: object = "fail") -> Expectation:
    """Return the expectation that a condition in SQL is not false on any row; for ``expect=``.

    A text in ``expect=`` is short for it. As a CHECK constraint in SQL, it holds where the condition is null. A row on
    which the condition fails (a division by zero) does not meet it.

    ```python
    app.output_stream("orders", expect=["amount >= 0", condition("amount < 10000", on_error="warn")])
    ```

    :param sql: The condition, over the columns of the stream.
    :param on_error: As of :func:`not_null`.
    """
    if not isinstance(sql, str) or not sql.strip():
        reject(f"An expectation is {sql!r}", hint='Write a condition in SQL: "amount >= 0".')
    return Expectation(CONDITION, " ".join(sql.split()), sql=sql, on_error=on_error)


@checked_call
def rows(
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    change: float | None = None,
    on_error: object = "fail",
) -> Expectation:
    """Return the expectation that a run writes about as many rows as it should; for ``expect=``.

    Rows that other expectations drop do not count. A stage that runs epochs is judged at its end, with all its epochs.

    ```python
    app.output_stream("orders", expect=[rows(at_least=1, change=0.5)])
    ```

    :param at_least: The fewest rows.
    :param at_most: The most rows.
    :param change: The largest change from the run that published to this output last, as a fraction: ``0.5`` is half as
        many more or fewer. The first run has none to compare with.
    :param on_error: ``"fail"`` (nothing is published) or ``"warn"``.
    """
    limits = {"at_least": at_least, "at_most": at_most, "change": change}
    given = {name: limit for name, limit in limits.items() if limit is not None}
    for name, limit in given.items():
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 <= limit < float("inf"):
            reject(f"rows has {name}={limit!r}", hint="Write a number from 0 on: rows(at_least=1, change=0.5).")
    if not given:
        reject("rows() says nothing", hint="Write rows(at_least=1), rows(at_most=1000) or rows(change=0.5).")
    if at_least is not None and at_most is not None and at_least > at_most:
        reject(
            f"rows has at_least={at_least} above at_most={at_most}, which no run meets",
            hint="Write the smaller number as at_least.",
        )
    text = f"rows({', '.join(f'{name}={limit}' for name, limit in given.items())})"
    return Expectation(
        ROWS, text, limits=tuple((name, float(limit)) for name, limit in given.items()), on_error=on_error
    )


@checked_call
def fresh(column: str, within: str | int | timedelta, *, on_error: object = "fail") -> Expectation:
    """Return the expectation that the latest time in a column is not too old; for ``expect=``.

    It is compared with the end of the run's data interval, and without one with the time of the check. A run that
    writes no row with a time does not meet it; an epoch without rows is not checked.

    ```python
    app.output_stream("orders", expect=[fresh("at", "2 hours")])
    ```

    :param column: The column: a timestamp, a date, or a bigint of ms since 1970.
    :param within: The greatest age, as a length of time.
    :param on_error: ``"fail"`` (nothing is published) or ``"warn"``.
    """
    key = key_columns(column, None, "fresh")
    age = duration_ms(within)
    text = f"fresh({listed(key)}, {duration_text(age)})"
    return Expectation(FRESH, text, key, limits=(("within_ms", float(age)),), on_error=on_error)


def checked_expectations(
    expect: object, graph: GraphBuilder, where: str, *, of_input: bool = False
) -> tuple[Expectation, ...]:
    """Return the expectations of a stream, with what becomes of what does not meet them; () for None."""
    if expect is None:
        return ()
    if isinstance(expect, str) or not isinstance(expect, Sequence):
        reject(f"{where} has expect={expect!r}, which is no list", hint=_HINT)
    checked: list[Expectation] = []
    for each in expect:
        expectation = condition(each) if isinstance(each, str) else each
        if not isinstance(expectation, Expectation):
            reject(f"{where} expects {each!r}, which is no expectation", hint=_HINT)
        if of_input and expectation.kind not in OF_ROWS:
            reject(
                f"{where} expects {expectation.text}, which is about all rows together",
                hint='Expect it of an output; of an input expect what is true of each row: not_null("id"), "a >= 0".',
            )
        expectation = _with_table(_with_policy(expectation, graph, where), graph, where)
        if any(other.text == expectation.text for other in checked):
            reject(f"{where} expects {expectation.text} twice", hint="Say it once.")
        checked.append(expectation)
    return tuple(checked)


def checked_expectations_of_pushes(
    expect: object, graph: GraphBuilder, table: TableDescriptor
) -> tuple[Expectation, ...]:
    """Return the expectations of the rows that are pushed to a table; () for None."""
    where = f"table {table.table_id!r}"
    checked = checked_expectations(expect, graph, where)
    for each in checked:
        if each.kind in (UNIQUE, FOREIGN_KEY):
            reject(
                f"The {where} expects {each.text}, which pushes do not check: they look at one row at a time",
                hint="Keys that come twice are rejected already, as the push says with on_duplicate=. Check other "
                "columns in the source.",
                table=table.table_id,
            )
        if each.action == "dead letter":
            reject(
                f"The {where} expects {each.text} with dead letters, and a push writes no other stream",
                hint='Write on_error="fail" (the default), "warn" or "drop".',
                table=table.table_id,
            )
    check_expected_columns(checked, table.schema, where)
    return checked


def _with_policy(expectation: Expectation, graph: GraphBuilder, where: str) -> Expectation:
    on_error, about = expectation.on_error, f"{expectation.text} of {where}"
    if on_error in ("fail", "warn"):
        return replace(expectation, action=str(on_error), on_error=None)
    if expectation.kind not in OF_ROWS:
        reject(
            f"{about} has on_error={_shown(on_error)}, and it is about all rows together: no single row is wrong",
            hint='Write on_error="fail" (the default) or "warn".',
        )
    if on_error != "drop" and not isinstance(on_error, DeadLetter):
        reject(
            f"{about} has on_error={on_error!r}, which is not known",
            hint='Write "fail" (the default), "warn", "drop", or dead_letter(app.output_stream("bad")).',
        )
    policy = error_policy(on_error, graph, about)
    return replace(expectation, action="drop" if on_error == "drop" else "dead letter", on_error=None, policy=policy)


def _with_table(expectation: Expectation, graph: GraphBuilder, where: str) -> Expectation:
    """Return the expectation with the id of its table alone, which has to be one of this application."""
    if expectation.kind != FOREIGN_KEY:
        return expectation
    graph.check_same_application(expectation.declared_table, expectation.table, f"{expectation.text} of {where}")
    if graph.low_level:
        reject(
            f"{where} expects {expectation.text}, and no planner sees which rows a low-level task sends where",
            hint="Look the key up in the task, or expect it where another application reads the stream.",
        )
    return replace(expectation, declared_table=None)


def referring(stream: Stream[Any], expectations: Sequence[Expectation]) -> OperatorSpec:
    """Return the operator behind which rows of a stream lie where the tables do in which their keys are looked up."""
    operator = stream._operator
    for each in expectations:
        if each.kind == FOREIGN_KEY:
            operator = stream._graph.add(
                ForeignKeySpec,
                None,
                inputs=(operator,),
                schema=stream.schema,
                table=stream._graph.tables[each.table],
                key=each.columns,
                how="left",
            )
    return operator


def _shown(on_error: object) -> str:
    return f"dead_letter({on_error.stream!r})" if isinstance(on_error, DeadLetter) else repr(on_error)


def check_expected_columns(expectations: Sequence[Expectation], schema: Schema | None, where: str) -> None:
    """Reject columns that the schema of a stream, where it is known, does not have, or whose type does not fit."""
    if schema is None:
        return
    for each in expectations:
        for column in each.columns:
            about = f"the expectation {each.text} of {where}"
            check_column(column, schema, about)
            kind = schema[column].type
            if each.kind == UNIQUE and kind.name in _NOT_COMPARED:
                reject(
                    f"Column {column!r} of {about} is of type {kind.ddl()}, whose values are not compared as keys",
                    hint="Name a column of whole numbers, texts, times or decimals, or make one with select.",
                    column=column,
                )
            if each.kind == FRESH and kind.name not in _TIMES:
                reject(
                    f"Column {column!r} of {about} is of type {kind.ddl()}, which is no time",
                    hint="Name a column of type timestamp or date, or a bigint of ms since 1970.",
                    column=column,
                )


def expecting_streams(operator: OperatorSpec) -> tuple[StreamDescriptor, ...]:
    """Return the streams whose expectations an operator checks: those that it writes, or reads from outside."""
    if isinstance(operator, TaskSpec):
        return operator.outputs
    return (operator.stream,) if isinstance(operator, SendToSpec | InputOperatorSpec) else ()
