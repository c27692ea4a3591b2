"""The meaning of every state that an application keeps from run to run.

Functions, keys, types, windows, columns of kept messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StoreDescriptor, TableDescriptor, TableKind
from airflow_samza.application.operator_spec import OperatorSpec, TableUserSpec
from airflow_samza.application.operator_specs import (
    AggregateSpec,
    SendToTableSpec,
    StreamJoinSpec,
    TableJoinSpec,
    TaskSpec,
    WindowOperatorSpec,
)
from airflow_samza.application.times import duration_text
from airflow_samza.application.windows import Aggregation, WindowSpec
from airflow_samza.errors import SamzaError, SchemaError
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.runs.records.state_meaning import STORE, TABLE, StateMeaning
from airflow_samza.runs.records.topic_contents import TopicContent
from airflow_samza.schema import Schema
from airflow_samza.task.program.schemas import SchemaResolver
from airflow_samza.task.program.stage_program import compile_stage

Inputs = tuple[Schema | None, ...]


def state_meanings(
    spec: ApplicationSpec, plan: ExecutionPlan, reported: Mapping[str, Schema], contents: Mapping[str, TopicContent]
) -> dict[str, StateMeaning]:
    """Return the meaning of each operator's, table's and store's state, by key.

    A type that only Spark knows is left out.

    ``reported`` are the columns of inputs as their systems report them, ``contents`` those of topics.
    """
    resolver = SchemaResolver(spec, reported, [])
    messages = {op_id: compiled.inputs for op_id, compiled in resolver.resolve().items()}
    kept = _kept_messages(spec, plan, reported, contents)
    found: dict[str, StateMeaning] = {}
    for op in spec.operators:
        if type(op) in MEANINGS:
            found.update(MEANINGS[type(op)](op, messages[op.op_id], kept.get(op.op_id, ())))
    for table in spec.tables.values():
        if table.kind is TableKind.LOCAL and not table.side_inputs:
            found[f"{TABLE}{table.table_id}"] = _of_table(table, resolver.tables.get(table.table_id))
    return found


def _kept_messages(
    spec: ApplicationSpec, plan: ExecutionPlan, reported: Mapping[str, Schema], contents: Mapping[str, TopicContent]
) -> dict[str, Inputs]:
    """The columns that come to operators which keep messages: those that the stage uses, as far as they are known."""
    found: dict[str, Inputs] = {}
    keeping = {op.op_id for op in spec.operators if _keeps_messages(op)}
    for stage in plan.stages:
        members = keeping.intersection(stage.operators)
        if members:
            with suppress(SchemaError):  # Spark reports them when the stage runs
                compiled = compile_stage(spec, plan, stage.stage_id, reported, contents).operators
                found.update({op_id: compiled[op_id].inputs for op_id in members})
    return found


def _keeps_messages(op: OperatorSpec) -> bool:
    return isinstance(op, StreamJoinSpec) or (
        isinstance(op, WindowOperatorSpec) and op.fold is not None and op.window.kind == "session"
    )


def _of_aggregate(op: AggregateSpec, messages: Inputs, kept: Inputs) -> Iterator[tuple[str, StateMeaning]]:
    facets = {"key": _columns(messages[0], op.key), "functions": _functions(messages[0], op.aggregations)}
    yield op.op_id, StateMeaning(op.title, op.name, _known(facets))


def _of_stream_join(op: StreamJoinSpec, messages: Inputs, kept: Inputs) -> Iterator[tuple[str, StateMeaning]]:
    facets = {
        "left key": _columns(messages[0], op.left_key),
        "right key": _columns(messages[1], op.right_key),
        "how": op.how,
        "times": f"{op.left_time or 'of arrival'} and {op.right_time or 'of arrival'}",
    }
    sides = _kept_columns(("left stream", "right stream"), kept)
    yield op.op_id, StateMeaning(op.title, op.name, _known(facets), sides)


def _of_task(op: TaskSpec, messages: Inputs, kept: Inputs) -> Iterator[tuple[str, StateMeaning]]:
    yield op.op_id, StateMeaning(f"the timers of {op.title}", op.name)
    for store in op.stores:
        yield f"{op.op_id}{STORE}{store.name}", _of_store(store)


def _of_its_table(op: TableUserSpec, messages: Inputs, kept: Inputs) -> Iterator[tuple[str, StateMeaning]]:
    """Return no meanings: the rows are the table's."""
    return iter(())


def _of_window(op: WindowOperatorSpec, messages: Inputs, kept: Inputs) -> Iterator[tuple[str, StateMeaning]]:
    facets = {
        "key": _columns(messages[0], op.key),
        "windows": _window_text(op.window),
        "event time": op.time_column,
        "early results": ("accumulating" if op.window.accumulating else "one after the other")
        if op.window.is_early
        else "none",
    }
    if op.fold is None:
        facets["functions"] = _functions(messages[0], op.aggregations)
    elif op.fold_schema is not None:
        facets["fold to"] = op.fold_schema.ddl()
    yield op.op_id, StateMeaning(op.title, op.name, _known(facets), _kept_columns(("messages",), kept))


def _of_table(table: TableDescriptor, schema: Schema | None) -> StateMeaning:
    facets = {
        "key": ", ".join(table.key),
        "columns": ", ".join(_typed(schema, name) for name in schema.names) if schema is not None else None,
        "time to live": "none" if table.ttl_ms is None else "of each row",
    }
    return StateMeaning(f"the table {table.table_id!r}", table.table_id, _known(facets))


def _of_store(store: StoreDescriptor) -> StateMeaning:
    facets = {
        "key": ", ".join(_typed(store.key, name) for name in store.key.names),
        "value": store.value.fields[0].type.ddl()
        if store.plain_value
        else ", ".join(_typed(store.value, n) for n in store.value.names),
        "time to live": "none" if store.ttl_ms is None else "of each entry",
    }
    return StateMeaning(f"the store {store.name!r}", store.name, facets)


def _window_text(window: WindowSpec) -> str:
    lengths = [window.duration_ms, window.hop_ms, window.gap_ms]
    lasting = " / ".join(duration_text(length) for length in lengths if length is not None)
    return f"{window.kind} {lasting}, {window.time} time, {window.zone}"


def _functions(messages: Schema | None, aggregations: Sequence[Aggregation]) -> str | None:
    if messages is None and any(a.column is not None for a in aggregations):
        return None
    return ", ".join(
        f"{a.name}={a.function}({_typed(messages, a.column) if a.column is not None else ''}"
        f"{f', rsd {a.rsd:g}' if a.rsd is not None else ''})"
        for a in aggregations
    )


def _columns(schema: Schema | None, names: Sequence[str]) -> str | None:
    if schema is None:
        return None
    return ", ".join(_typed(schema, name) for name in names) or "none"


def _typed(schema: Schema | None, name: str) -> str:
    assert schema is not None
    try:
        return f"{name} {schema[name].type.ddl()}"
    except SamzaError:  # a field of a struct, or a name in other letters
        return name


def _kept_columns(sides: Sequence[str], kept: Inputs) -> dict[str, dict[str, str]]:
    return {
        side: {field.name: field.type.ddl() for field in schema.fields}
        for side, schema in zip(sides, kept, strict=False)
        if schema is not None
    }


def _known(facets: Mapping[str, str | None]) -> dict[str, str]:
    return {name: text for name, text in facets.items() if text is not None}


MEANINGS: Mapping[type[OperatorSpec], Callable[[Any, Inputs, Inputs], Iterator[tuple[str, StateMeaning]]]] = {
    AggregateSpec: _of_aggregate,
    WindowOperatorSpec: _of_window,
    StreamJoinSpec: _of_stream_join,
    TableJoinSpec: _of_its_table,
    SendToTableSpec: _of_its_table,
    TaskSpec: _of_task,
}
"""The meaning of the state of every kind of operator that keeps any, by the key under which it is kept.

Each gets the columns of its inputs, and of those the ones that it keeps.
"""
