"""The table of what runs every kind of operator, and its making from a compiled operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_samza.application.bad_records import DEAD_LETTERS
from airflow_samza.application.descriptors import ErrorPolicy, StoreDescriptor, TableKind
from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.operator_specs import (
    AggregateSpec,
    BroadcastSpec,
    FilterSpec,
    FlatMapSpec,
    InputOperatorSpec,
    MapAsyncSpec,
    MapBatchesSpec,
    MapSpec,
    MergeSpec,
    PartitionBySpec,
    ReadTimeSpec,
    SelectSpec,
    SendToSpec,
    SendToTableSpec,
    SinkSpec,
    StreamJoinSpec,
    TableJoinSpec,
    TaskSpec,
    TransformSpec,
    WhereSpec,
    WindowOperatorSpec,
)
from airflow_samza.config import Config
from airflow_samza.errors import NotYet, SchemaError
from airflow_samza.schema import Schema
from airflow_samza.storage.backends import StoreSettings, make_store
from airflow_samza.storage.store import KeyValueStore, StoreLayout
from airflow_samza.task.messages.bad_records import BadRecords, Reading
from airflow_samza.task.messages.output_writers import OutputWriter, Sender
from airflow_samza.task.operators.aggregate import Aggregate
from airflow_samza.task.operators.combiner import Combiner, Combining
from airflow_samza.task.operators.low_level import Context, LowLevelTask, RemoteTaskTable, TaskStore, TaskTable
from airflow_samza.task.operators.map_async import MapAsync
from airflow_samza.task.operators.operator import Operator
from airflow_samza.task.operators.outputs import SendTo
from airflow_samza.task.operators.per_message import Filter, FlatMap, Map, Sink
from airflow_samza.task.operators.read_time import ReadTime
from airflow_samza.task.operators.remote_tables import RemoteTableJoin, SendToRemoteTable
from airflow_samza.task.operators.stateless import MapBatches, Pass, Select, Where
from airflow_samza.task.operators.stream_join.operator import StreamJoin
from airflow_samza.task.operators.tables import SendToTable, TableJoin
from airflow_samza.task.operators.windows.window import Window
from airflow_samza.task.program.schemas import COMBINED, CompiledOperator
from airflow_samza.task.tables.remote_table import RemoteTables
from airflow_samza.task.tables.store import TableStore


@dataclass(frozen=True)
class TaskResources:
    """Resources that the operators of one task share: output writers by stream, tables by id, the task's name."""

    task_name: str
    writers: Mapping[str, OutputWriter]
    tables: Mapping[str, TableStore]
    partitions: Mapping[str, Sequence[int]]
    config: Mapping[str, str]
    one_by_one: frozenset[str]
    clock: Callable[[], int]
    reading: Reading = field(default_factory=Reading)
    remote: RemoteTables = field(default_factory=RemoteTables)


def make_operator(compiled: CompiledOperator, resources: TaskResources, *, beside: bool = True) -> Operator[Any]:
    """Return the operator of one task; reject what the planner knows and the runtime does not (``NotYet``).

    ``beside``: whether it writes dead letters and late messages beside its results; of an operator that all tasks run
    alike, one does.
    """
    made = _made(compiled, resources, beside)
    policy = compiled.spec.on_error
    if policy is not None:
        dead_letters = _dead_letters(compiled.spec, policy, resources) if beside else None
        made.bad = BadRecords(compiled.spec, policy, dead_letters, resources.reading, resources.clock)
    return made


def _dead_letters(spec: OperatorSpec, policy: ErrorPolicy, resources: TaskResources) -> Sender | None:
    stream = policy.stream
    if stream is None:
        return None
    return Sender(resources.writers[stream.stream_id], DEAD_LETTERS, stream.schema or DEAD_LETTERS, spec.title)


def _made(compiled: CompiledOperator, resources: TaskResources, beside: bool) -> Operator[Any]:
    given = [_known(compiled, schema) for schema in compiled.inputs]
    spec = compiled.spec
    output = None if spec.is_terminal else _known(compiled, compiled.schema)
    return MAKERS[type(spec)](_Making(compiled, spec, given, output, resources, beside))


@dataclass(frozen=True)
class _Making:
    """All of which an operator is made. ``output`` is None where it emits nothing."""

    compiled: CompiledOperator
    spec: Any
    inputs: Sequence[Schema]
    output: Schema | None
    resources: TaskResources
    beside: bool

    @property
    def first(self) -> Schema:
        return self.inputs[0]

    @property
    def columns(self) -> Schema:
        assert self.output is not None
        return self.output


def _read_time(making: _Making) -> ReadTime:
    source = making.spec.inputs[0]
    assert isinstance(source, InputOperatorSpec)
    clock = making.resources.clock
    return ReadTime(making.spec, making.first, making.columns, clock, bounded=source.stream.bounded)


def _window(making: _Making) -> Window:
    spec, combined = making.spec, making.compiled.compiled is COMBINED
    dead_letters = spec.on_error.stream if spec.on_error is not None else None
    late = next((stream for stream in spec.side_outputs if stream is not dead_letters), None)
    late_to = None
    if late is not None and making.beside:
        writer = making.resources.writers[late.stream_id]
        late_to = Sender(writer, making.first, late.schema or making.first, spec.title)
    return Window(spec, making.first, making.columns, making.resources.clock, late_to, combined=combined)


def _aggregate(making: _Making) -> Aggregate:
    return Aggregate(making.spec, making.first, making.columns, combined=making.compiled.compiled is COMBINED)


def _table_join(making: _Making) -> RemoteTableJoin | TableJoin:
    spec, first, columns, resources = making.spec, making.first, making.columns, making.resources
    one_by_one = spec.op_id in resources.one_by_one
    if spec.table.kind is TableKind.REMOTE:
        return RemoteTableJoin(spec, first, columns, resources.remote.of(spec.table), one_by_one=one_by_one)
    store = resources.tables[spec.table.table_id]
    return TableJoin(spec, first, columns, store, resources.clock, one_by_one=one_by_one)


def _send_to_table(making: _Making) -> SendToRemoteTable | SendToTable:
    spec, resources = making.spec, making.resources
    if spec.table.kind is TableKind.REMOTE:
        return SendToRemoteTable(spec, making.first, resources.remote.of(spec.table))
    return SendToTable(spec, making.first, resources.tables[spec.table.table_id], resources.clock)


def _repartition(making: _Making) -> Combiner | SendTo:
    spec, sent = making.spec, making.compiled.compiled
    writer = making.resources.writers[spec.stream.stream_id]
    if isinstance(sent, Combining):
        return Combiner(spec, sent, writer)
    return SendTo(spec, making.first, sent or making.first, writer)


def _send_to(making: _Making) -> SendTo:
    stream = making.spec.stream
    writer = making.resources.writers[stream.stream_id]
    return SendTo(making.spec, making.first, stream.schema or making.first, writer)


def _only_on_spark(making: _Making) -> Operator[Any]:
    raise NotYet(
        f"{making.spec.title} is planned, and this version cannot run it yet.",
        hint="Leave it out for now; the plan shows what the application will do.",
        operator=making.spec.op_id,
    )


def _low_level(making: _Making) -> LowLevelTask:
    spec, resources = making.spec, making.resources
    schemas = {source.stream.stream_id: schema for source, schema in zip(spec.inputs, making.inputs, strict=True)}
    tables: dict[str, TaskTable | RemoteTaskTable] = {
        table.table_id: RemoteTaskTable(resources.remote.of(table))
        if table.kind is TableKind.REMOTE
        else TaskTable(table, resources.tables[table.table_id], resources.clock)
        for table in spec.tables
    }
    stores = {store.name: TaskStore(store, _backend(store, resources)) for store in spec.stores}
    context = Context(resources.task_name, resources.partitions, resources.config, tables, resources.clock, stores)
    return LowLevelTask(spec, schemas, resources.writers, context)


def _backend(store: StoreDescriptor, resources: TaskResources) -> KeyValueStore:
    config = Config(resources.config)
    settings = StoreSettings.of(config, store.name, store.backend, store.ttl_ms)
    return make_store(StoreLayout(store.name, store.key, store.value), settings, config, resources.clock)


def _known(compiled: CompiledOperator, schema: Schema | None) -> Schema:
    if schema is None:
        raise SchemaError(
            f"The columns of {compiled.spec.title} are not known.",
            hint="Declare the schema of the stage's inputs.",
            operator=compiled.spec.op_id,
        )
    return schema


MAKERS: Mapping[type[OperatorSpec], Callable[[_Making], Operator[Any]]] = {
    InputOperatorSpec: lambda making: Pass(making.spec, making.columns),
    ReadTimeSpec: _read_time,
    FilterSpec: lambda making: Filter(making.spec, making.first),
    WhereSpec: lambda making: Where(making.spec, making.first, making.compiled.compiled),
    MapSpec: lambda making: Map(making.spec, making.first, making.columns),
    FlatMapSpec: lambda making: FlatMap(making.spec, making.first, making.columns),
    MapAsyncSpec: lambda making: MapAsync(making.spec, making.first, making.columns, making.resources.task_name),
    MapBatchesSpec: lambda making: MapBatches(making.spec, making.first, making.columns),
    SelectSpec: lambda making: Select(making.spec, making.first, making.compiled.compiled),
    TransformSpec: _only_on_spark,
    MergeSpec: lambda making: Pass(making.spec, making.columns),
    AggregateSpec: _aggregate,
    WindowOperatorSpec: _window,
    TableJoinSpec: _table_join,
    StreamJoinSpec: lambda making: StreamJoin(
        making.spec, making.first, making.inputs[1], making.columns, making.resources.clock
    ),
    PartitionBySpec: _repartition,
    BroadcastSpec: _repartition,
    SendToSpec: _send_to,
    SendToTableSpec: _send_to_table,
    SinkSpec: lambda making: Sink(making.spec, making.first),
    TaskSpec: _low_level,
}
"""By kind of operator, the making of what runs it."""
