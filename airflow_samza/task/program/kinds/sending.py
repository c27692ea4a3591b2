"""Operators that send messages to a stream, and low-level tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_samza.application.descriptors import ErrorPolicy, StoreDescriptor, StreamDescriptor, TableKind
from airflow_samza.application.operator_spec import OperatorSpec, RepartitioningSpec
from airflow_samza.application.operator_specs import (
    BroadcastSpec,
    PartitionBySpec,
    SendToSpec,
    TaskSpec,
    WindowOperatorSpec,
)
from airflow_samza.application.windows import Aggregation
from airflow_samza.config import Config
from airflow_samza.runs.records.state_meaning import STORE, StateMeaning
from airflow_samza.schema import Schema
from airflow_samza.storage.store import KeyValueStore, StoreLayout
from airflow_samza.task.messages.bad_records import BadRecords
from airflow_samza.task.messages.expectations import Expectations, check_expectations
from airflow_samza.task.messages.output_writers import dead_letter_sender
from airflow_samza.task.operators.aggregation.combiner import Combiner, Combining
from airflow_samza.task.operators.aggregation.partial_groups import partial_fields
from airflow_samza.task.operators.low_level.context import Context
from airflow_samza.task.operators.low_level.stores import TaskStore
from airflow_samza.task.operators.low_level.tables import RemoteTaskTable, TaskTable
from airflow_samza.task.operators.low_level.task import LowLevelTask
from airflow_samza.task.operators.stateless import SendTo
from airflow_samza.task.program.column_sources import (
    AGGREGATION,
    GROUP_BY,
    TRANSFORMATION,
    WINDOW,
    Flow,
    Sources,
    then,
)
from airflow_samza.task.program.kinds.meanings import typed
from airflow_samza.task.program.kinds.operator_kind import (
    Flows,
    Inputs,
    Making,
    OperatorKind,
    SchemaLookup,
    no_messages,
    passed_on,
)
from airflow_samza.task.program.schema_checks import check_columns, check_writable


def _check_key(schemas: SchemaLookup, operator: PartitionBySpec, schema: Schema | None) -> None:
    check_columns(operator, operator.key, schema)


def _check_messages(schemas: SchemaLookup, operator: SendToSpec, schema: Schema | None) -> None:
    stream = operator.stream
    check_columns(operator, stream.key, schema)
    check_writable(operator, stream.schema, schema, f"output stream {stream.stream_id!r}")
    check_expectations(operator.location, stream.expect, stream.schema or schema, f"output stream {stream.stream_id!r}")


def _check_outputs(schemas: SchemaLookup, operator: TaskSpec, *inputs: Schema | None) -> None:
    for stream in operator.outputs:
        check_expectations(operator.location, stream.expect, stream.schema, f"output stream {stream.stream_id!r}")


def _sent(flows: Flows, operator: RepartitioningSpec, flow: Flow) -> Flow:
    combining = flows.compiled[operator.op_id].compiled
    if not isinstance(combining, Combining):
        return flow
    aggregate = combining.aggregate
    aggregations = {aggregation.name: aggregation for aggregation in aggregate.aggregations}
    time = aggregate.time_column if isinstance(aggregate, WindowOperatorSpec) else None
    columns = {
        field.name.lower(): _part(flow, field.name, aggregations.get(result or ""), aggregate.key, time)
        for field, result in partial_fields(aggregate, combining.messages, combining.output)
    }
    return Flow(columns, flow.rows.union(then(flow.of_all(aggregate.key), GROUP_BY), then(flow.of(time), WINDOW)))


def _part(flow: Flow, name: str, aggregation: Aggregation | None, key: tuple[str, ...], time: str | None) -> Sources:
    """Return the sources of one column of partial results."""
    if aggregation is not None:
        return then(flow.of(aggregation.column), AGGREGATION)
    return flow.of(name) if name in key else then(flow.of(time), TRANSFORMATION)


def _meaning_of_task(op: TaskSpec, messages: Inputs, kept: Inputs) -> Iterator[tuple[str, StateMeaning]]:
    yield op.op_id, StateMeaning(f"the timers of {op.title}", op.name)
    for store in op.stores:
        yield f"{op.op_id}{STORE}{store.name}", _meaning_of_store(store)


def _meaning_of_store(store: StoreDescriptor) -> StateMeaning:
    facets = {
        "key": ", ".join(typed(store.key, name) for name in store.key.names),
        "value": store.value.fields[0].type.ddl()
        if store.plain_value
        else ", ".join(typed(store.value, name) for name in store.value.names),
        "time to live": "none" if store.ttl_ms is None else "of each entry",
    }
    return StateMeaning(f"the store {store.name!r}", store.name, facets)


def _repartition(making: Making) -> Combiner | SendTo:
    spec, sent = making.spec, making.compiled.compiled
    writer = making.resources.writers[spec.stream.stream_id]
    if isinstance(sent, Combining):
        return Combiner(spec, sent, writer)
    return SendTo(spec, making.first, sent or making.first, writer)


def _send_to(making: Making) -> SendTo:
    stream = making.spec.stream
    writer = making.resources.writers[stream.stream_id]
    _expect(making, stream, stream.schema or making.first)
    return SendTo(making.spec, making.first, stream.schema or making.first, writer)


def _expect(making: Making, stream: StreamDescriptor, schema: Schema) -> None:
    """Have what is sent to a stream checked; of several operators that send to it, the first counts for all."""
    writer = making.resources.writers[stream.stream_id]
    if stream.expect and writer.expectations is None:
        writer.expectations = expectations_of(making, stream, schema)


def expectations_of(making: Making, stream: StreamDescriptor, schema: Schema) -> Expectations:
    """Return the expectations of a stream that an operator reads or writes, as a task evaluates them."""
    spec, resources = making.spec, making.resources

    def bad_records(policy: ErrorPolicy) -> BadRecords:
        dead_letters = dead_letter_sender(spec, policy, resources.writers) if making.beside else None
        return BadRecords(spec, policy, dead_letters, resources.reading, resources.clock)

    finds = {table_id: table.find for table_id, table in resources.tables.items()}
    where = f"{stream.role.value} stream {stream.stream_id!r}"
    of_changes = stream.events is not None
    return Expectations(spec.location, stream.expect, schema, where, bad_records, finds, of_changes=of_changes)


def _low_level(making: Making) -> LowLevelTask:
    spec, resources = making.spec, making.resources
    for stream in spec.outputs:
        if stream.schema is not None:
            _expect(making, stream, stream.schema)
    schemas = {source.stream.stream_id: schema for source, schema in zip(spec.inputs, making.inputs, strict=True)}
    tables: dict[str, TaskTable | RemoteTaskTable] = {
        table.table_id: RemoteTaskTable(resources.remote.of(table))
        if table.kind is TableKind.REMOTE
        else TaskTable(table, resources.tables[table.table_id], resources.clock)
        for table in spec.tables
    }
    stores = {store.name: TaskStore(store, _backend(store, making)) for store in spec.stores}
    context = Context(resources.task_name, resources.partitions, resources.config, tables, resources.clock, stores)
    return LowLevelTask(spec, schemas, resources.writers, context, resources.reading)


def _backend(store: StoreDescriptor, making: Making) -> KeyValueStore:
    from airflow_samza.storage.backends import StoreSettings, make_store

    config = Config(making.resources.config)
    settings = StoreSettings.of(config, store.name, store.backend, store.ttl_ms)
    return make_store(StoreLayout(store.name, store.key, store.value), settings, config, making.resources.clock)


SENDING: Mapping[type[OperatorSpec], OperatorKind] = {
    PartitionBySpec: OperatorKind(_check_key, _sent, _repartition),
    BroadcastSpec: OperatorKind(no_messages, _sent, _repartition),
    SendToSpec: OperatorKind(_check_messages, passed_on, _send_to),
    TaskSpec: OperatorKind(_check_outputs, passed_on, _low_level, _meaning_of_task),
}
"""The kinds of operators that end a stage with messages for a stream."""
