"""Aggregations, windows and copies; joins of streams and with tables; writing a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from airflow_samza.application.descriptors import TableKind
from airflow_samza.application.operator_spec import ARROW, JoinSpec, KeyedResultSpec, OperatorSpec, TableUserSpec
from airflow_samza.application.operator_specs import (
    AggregateSpec,
    ApplyChangesSpec,
    DistinctSpec,
    ForeignKeySpec,
    InputOperatorSpec,
    SendToTableSpec,
    StreamJoinSpec,
    TableJoinSpec,
    WindowOperatorSpec,
)
from airflow_samza.application.operators.keyed_results import HISTORY, applied_schema
from airflow_samza.application.output_schemas import WINDOW_COLUMNS, joined_schema, joined_streams_schema
from airflow_samza.grouping import grouped
from airflow_samza.runs.records.state_meaning import StateMeaning
from airflow_samza.schema import Schema
from airflow_samza.task.messages.output_writers import Sender
from airflow_samza.task.operators.aggregation.aggregate import Aggregate
from airflow_samza.task.operators.aggregation.partial_groups import partial_fields
from airflow_samza.task.operators.applied_changes import ApplyChanges
from airflow_samza.task.operators.distinct.operator import Distinct
from airflow_samza.task.operators.remote_tables import RemoteTableJoin, SendToRemoteTable
from airflow_samza.task.operators.stateless import Pass
from airflow_samza.task.operators.stream_join.operator import StreamJoin
from airflow_samza.task.operators.tables import SendToTable, TableJoin, TemporalJoin
from airflow_samza.task.operators.windows.window import Window
from airflow_samza.task.program.column_sources import (
    AGGREGATION,
    FILTER,
    GROUP_BY,
    JOIN,
    NOTHING,
    TRANSFORMATION,
    WINDOW,
    Flow,
    called,
    then,
)
from airflow_samza.task.program.kinds.meanings import (
    columns_text,
    functions_text,
    kept_columns,
    window_text,
    without_unknown,
)
from airflow_samza.task.program.kinds.operator_kind import (
    COMBINED,
    CompiledOperator,
    Flows,
    Inputs,
    Making,
    OperatorKind,
    SchemaLookup,
    passed_on,
    results_schema,
)
from airflow_samza.task.program.schema_checks import check_columns, check_keys, check_sides, check_writable


def _results(
    schemas: SchemaLookup, operator: KeyedResultSpec, schema: Schema | None
) -> CompiledOperator | Schema | None:
    source = operator.inputs[0]
    content = schemas.contents.get(source.stream.stream_id) if isinstance(source, InputOperatorSpec) else None
    if content is None or content.combined_for != operator.op_id:
        return results_schema(operator, schema)
    combining = schemas.combining(content)
    reason = "merges partial results"
    return CompiledOperator(operator, (combining.messages,), combining.output, ARROW, reason, COMBINED)


def _grouped(flows: Flows, operator: KeyedResultSpec, flow: Flow) -> Flow:
    """Return the sources of results, also where partial results come to the operator."""
    compiled = flows.compiled[operator.op_id]
    rows = flow.rows | then(flow.of_all(operator.key), GROUP_BY)
    columns = {name.lower(): flow.of(name) for name in operator.key}
    partial = _partial(flows, operator, compiled) if compiled.compiled == COMBINED else None
    if isinstance(operator, WindowOperatorSpec):
        time = flow.of(WINDOW_COLUMNS[0].name if partial is not None else operator.time_column)
        rows |= then(time, WINDOW)
        columns |= {field.name: then(time, TRANSFORMATION) for field in WINDOW_COLUMNS}
        schema = operator.fold_schema or compiled.schema
        if operator.fold is not None and schema is not None:
            folded = then(flow.whole, AGGREGATION, True)
            others = {*operator.key, *(field.name for field in WINDOW_COLUMNS)}
            columns |= {name.lower(): folded for name in schema.names if name not in others}
    for aggregation in operator.aggregations:
        parts = [aggregation.column] if partial is None else partial.get(aggregation.name, [])
        columns[aggregation.name.lower()] = then(flow.of_all(parts), AGGREGATION)
    return Flow(columns, rows)


def _partial(flows: Flows, operator: KeyedResultSpec, compiled: CompiledOperator) -> dict[str, list[str]]:
    """Return the columns of partial results by the result's column that is made of them."""
    source = operator.inputs[0]
    assert isinstance(source, InputOperatorSpec)
    messages = flows.contents[source.stream.stream_id].schema
    assert messages is not None
    assert compiled.schema is not None
    fields = partial_fields(operator, Schema.of(messages), compiled.schema)
    return grouped((result, field.name) for field, result in fields if result is not None)


def _meaning_of_aggregate(op: AggregateSpec, messages: Inputs, kept: Inputs) -> Iterator[tuple[str, StateMeaning]]:
    facets = {"key": columns_text(messages[0], op.key), "functions": functions_text(messages[0], op.aggregations)}
    yield op.op_id, StateMeaning(op.title, op.name, without_unknown(facets))


def _meaning_of_window(op: WindowOperatorSpec, messages: Inputs, kept: Inputs) -> Iterator[tuple[str, StateMeaning]]:
    facets = {
        "key": columns_text(messages[0], op.key),
        "windows": window_text(op.window),
        "event time": op.time_column,
        "early results": ("accumulating" if op.window.accumulating else "one after the other")
        if op.window.is_early
        else "none",
    }
    if op.fold is None:
        facets["functions"] = functions_text(messages[0], op.aggregations)
    elif op.fold_schema is not None:
        facets["fold to"] = op.fold_schema.ddl()
    yield op.op_id, StateMeaning(op.title, op.name, without_unknown(facets), kept_columns(("messages",), kept))


def _aggregate(making: Making) -> Aggregate:
    return Aggregate(making.spec, making.first, making.columns, combined=making.compiled.compiled is COMBINED)


def _window(making: Making) -> Window:
    combined = making.compiled.compiled is COMBINED
    clock, late_to = making.resources.clock, _late_to(making)
    return Window(making.spec, making.first, making.columns, clock, late_to, combined=combined)


def _late_to(making: Making) -> Sender | None:
    """Return what sends late messages to their stream; None where there is none."""
    spec = making.spec
    dead_letters = spec.on_error.stream if spec.on_error is not None else None
    late = next((stream for stream in spec.side_outputs if stream is not dead_letters), None)
    if late is None or not making.beside:
        return None
    writer = making.resources.writers[late.stream_id]
    return Sender(writer, late.schema or making.first, spec.title)


def _distinct_schema(schemas: SchemaLookup, operator: DistinctSpec, schema: Schema | None) -> Schema | None:
    check_columns(operator, operator.columns_named, schema)
    if schema is not None:
        check_keys(operator, operator.key, schema)
    return schema or operator.schema


def _distinct(making: Making) -> Distinct:
    return Distinct(making.spec, making.first, _late_to(making))


def _distinct_flow(flows: Flows, operator: DistinctSpec, flow: Flow) -> Flow:
    return flow.chosen(then(flow.of_all(operator.key), GROUP_BY), then(flow.of(operator.time_column), FILTER))


def _meaning_of_distinct(op: DistinctSpec, messages: Inputs, kept: Inputs) -> Iterator[tuple[str, StateMeaning]]:
    facets = {"key": columns_text(messages[0], op.key), "keep": op.keep, "event time": op.time_column or "none"}
    yield op.op_id, StateMeaning(op.title, op.name, without_unknown(facets), kept_columns(("messages",), kept))


def _applied_schema(schemas: SchemaLookup, operator: ApplyChangesSpec, schema: Schema | None) -> Schema | None:
    check_columns(operator, (*operator.key, *operator.sequence_by), schema)
    if schema is None:
        return operator.schema
    check_keys(operator, operator.key, schema)
    return applied_schema(schema, operator.sequence_by[0], operator.scd_type, operator.title)


def _applied_flow(flows: Flows, operator: ApplyChangesSpec, flow: Flow) -> Flow:
    chosen = flow.chosen(then(flow.of_all(operator.key), GROUP_BY), then(flow.of_all(operator.sequence_by), FILTER))
    if operator.scd_type == 1:
        return chosen
    times = then(flow.of(operator.sequence_by[0]), TRANSFORMATION)
    return replace(chosen, columns={**chosen.columns, **dict.fromkeys(HISTORY, times)})


def _meaning_of_changes(op: ApplyChangesSpec, messages: Inputs, kept: Inputs) -> Iterator[tuple[str, StateMeaning]]:
    facets = {
        "key": columns_text(messages[0], op.key),
        "sequence": columns_text(messages[0], op.sequence_by),
        "stored as": op.stored_as,
    }
    columns = kept_columns(("messages",), kept) if op.scd_type == 2 else {}
    yield op.op_id, StateMeaning(op.title, op.name, without_unknown(facets), columns)


def _stream_join_schema(
    schemas: SchemaLookup, join: StreamJoinSpec, left: Schema | None, right: Schema | None
) -> Schema | None:
    check_sides(join, left, right)
    if join.function is not None:
        return join.schema or left
    return joined_streams_schema(left, right, join.left_key, join.right_key, join.how, join.title)


def _table_join_schema(schemas: SchemaLookup, join: TableJoinSpec, schema: Schema | None) -> Schema | None:
    check_columns(join, join.key, schema)
    if join.function is not None:
        return join.schema or schema
    return joined_schema(schema, schemas.tables.get(join.table.table_id), join.table.key, join.how, join.title)


def _referring_schema(schemas: SchemaLookup, operator: ForeignKeySpec, schema: Schema | None) -> Schema | None:
    check_columns(operator, operator.key, schema)
    return schema


def _check_rows(schemas: SchemaLookup, operator: SendToTableSpec, schema: Schema | None) -> None:
    table = operator.table
    check_columns(operator, table.key, schema)
    check_writable(operator, table.schema, schema, f"table {table.table_id!r}")


def _joined(flows: Flows, operator: StreamJoinSpec, left: Flow, right: Flow) -> Flow:
    joined = _pairs(flows, operator, left, right, operator.left_key, operator.right_key)
    return joined.chosen(then(left.of(operator.left_time) | right.of(operator.right_time), JOIN))


def _looked_up(flows: Flows, operator: TableJoinSpec, flow: Flow) -> Flow:
    table = operator.table
    joined = _pairs(flows, operator, flow, flows.tables[table.table_id], operator.key, table.key)
    return joined.chosen(then(flow.of(operator.time_column), JOIN) if operator.time_column is not None else NOTHING)


def _pairs(
    flows: Flows, operator: JoinSpec, left: Flow, right: Flow, left_key: tuple[str, ...], right_key: tuple[str, ...]
) -> Flow:
    rows = left.rows.union(right.rows, then(left.of_all(left_key) | right.of_all(right_key), JOIN))
    if operator.function is not None:
        return called(Flow({}, rows, left.whole | right.whole), flows.schema(operator))
    keys = {name.lower() for name in right_key}
    columns = {**{name: sources for name, sources in right.columns.items() if name not in keys}, **left.columns}
    if operator.how in ("right", "full"):  # where the left message is missing, its key is the right one's
        for mine, theirs in zip(left_key, right_key, strict=False):
            columns[mine.lower()] = left.of(mine) | right.of(theirs)
    return Flow(columns, rows, left.rest | right.rest)


def _to_table(flows: Flows, operator: SendToTableSpec, flow: Flow) -> Flow:
    table = operator.table
    if table.kind is not TableKind.REMOTE:
        times = then(flow.of(operator.time_column), FILTER) if table.ttl_ms is not None else NOTHING
        held = flow.chosen(then(flow.of_all(table.key), GROUP_BY), times)
        flows.tables[table.table_id] = flows.tables[table.table_id].with_(held)
    return flow


def _meaning_of_join(op: StreamJoinSpec, messages: Inputs, kept: Inputs) -> Iterator[tuple[str, StateMeaning]]:
    facets = {
        "left key": columns_text(messages[0], op.left_key),
        "right key": columns_text(messages[1], op.right_key),
        "how": op.how,
        "times": f"{op.left_time or 'of arrival'} and {op.right_time or 'of arrival'}",
    }
    sides = kept_columns(("left stream", "right stream"), kept)
    yield op.op_id, StateMeaning(op.title, op.name, without_unknown(facets), sides)


def _meaning_of_table_join(op: TableJoinSpec, messages: Inputs, kept: Inputs) -> Iterator[tuple[str, StateMeaning]]:
    """Return the meaning of the messages that wait for late rows; the rows are the table's."""
    if op.wait_ms is not None:
        facets = {"key": columns_text(messages[0], op.key), "event time": op.time_column or "none"}
        yield op.op_id, StateMeaning(op.title, op.name, without_unknown(facets), kept_columns(("messages",), kept))


def _no_meaning(op: TableUserSpec, messages: Inputs, kept: Inputs) -> Iterator[tuple[str, StateMeaning]]:
    """Return no meanings: the rows are the table's."""
    return iter(())


def _stream_join(making: Making) -> StreamJoin:
    return StreamJoin(making.spec, making.first, making.inputs[1], making.columns, making.resources.clock)


def _table_join(making: Making) -> RemoteTableJoin | TableJoin:
    spec, first, columns, resources = making.spec, making.first, making.columns, making.resources
    one_by_one = spec.op_id in resources.one_by_one
    if spec.table.kind is TableKind.REMOTE:
        return RemoteTableJoin(spec, first, columns, resources.remote.of(spec.table), one_by_one=one_by_one)
    store = resources.tables[spec.table.table_id]
    if spec.as_of is not None and (spec.wait_ms is not None or spec.table.retain_ms is not None):
        return TemporalJoin(spec, first, columns, store, resources.clock, waits=spec.op_id in resources.unbounded)
    return TableJoin(spec, first, columns, store, resources.clock, one_by_one=one_by_one)


def _send_to_table(making: Making) -> SendToRemoteTable | SendToTable:
    spec, resources = making.spec, making.resources
    if spec.table.kind is TableKind.REMOTE:
        return SendToRemoteTable(spec, making.first, resources.remote.of(spec.table))
    return SendToTable(spec, making.first, resources.tables[spec.table.table_id], resources.clock)


KEYED: Mapping[type[OperatorSpec], OperatorKind] = {
    AggregateSpec: OperatorKind(_results, _grouped, _aggregate, _meaning_of_aggregate),
    WindowOperatorSpec: OperatorKind(
        _results,
        _grouped,
        _window,
        _meaning_of_window,
        lambda window: window.fold is not None and window.window.kind == "session",
    ),
    DistinctSpec: OperatorKind(
        _distinct_schema,
        _distinct_flow,
        _distinct,
        _meaning_of_distinct,
        lambda operator: True,
    ),
    ApplyChangesSpec: OperatorKind(
        _applied_schema,
        _applied_flow,
        lambda making: ApplyChanges(making.spec, making.first, making.columns),
        _meaning_of_changes,
        lambda operator: operator.scd_type == 2,
    ),
    StreamJoinSpec: OperatorKind(_stream_join_schema, _joined, _stream_join, _meaning_of_join, lambda operator: True),
    TableJoinSpec: OperatorKind(
        _table_join_schema, _looked_up, _table_join, _meaning_of_table_join, lambda join: join.wait_ms is not None
    ),
    ForeignKeySpec: OperatorKind(
        _referring_schema, passed_on, lambda making: Pass(making.spec, making.columns), _no_meaning
    ),
    SendToTableSpec: OperatorKind(_check_rows, _to_table, _send_to_table, _no_meaning),
}
"""The kinds of operators that bring messages together by their keys, at once or through a table."""
