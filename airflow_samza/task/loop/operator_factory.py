"""From a compiled operator to the operator that runs: which class runs which spec."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_samza.application.bad_records import DEAD_LETTERS
from airflow_samza.application.descriptors import ErrorPolicy, StoreDescriptor, TableKind
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
    OperatorSpec,
    PartitionBySpec,
    ReadTimeSpec,
    SelectSpec,
    SendToSpec,
    SendToTableSpec,
    SinkSpec,
    StreamJoinSpec,
    TableJoinSpec,
    TaskSpec,
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
    """What the operators of one task share: output writers by stream, tables by id, and the task's place."""

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
    """The operator of one task; what the planner knows and the runtime does not is refused (``NotYet``).

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
    spec = compiled.spec
    if isinstance(spec, InputOperatorSpec):
        schema = _known(compiled, compiled.schema)
        return Pass(spec, schema)
    if isinstance(spec, TaskSpec):
        return _low_level(spec, compiled, resources)
    given = [_known(compiled, schema) for schema in compiled.inputs]
    first = given[0]
    if isinstance(spec, FilterSpec):
        return Filter(spec, first)
    if isinstance(spec, WhereSpec):
        return Where(spec, first, compiled.compiled)
    if isinstance(spec, SelectSpec):
        return Select(spec, first, compiled.compiled)
    if isinstance(spec, SinkSpec):
        return Sink(spec, first)
    if isinstance(spec, SendToTableSpec) and spec.table.kind is TableKind.REMOTE:
        return SendToRemoteTable(spec, first, resources.remote.of(spec.table))
    if isinstance(spec, SendToTableSpec):
        return SendToTable(spec, first, resources.tables[spec.table.table_id], resources.clock)
    if isinstance(spec, PartitionBySpec | BroadcastSpec):
        writer = resources.writers[spec.stream.stream_id]
        if isinstance(compiled.compiled, Combining):
            return Combiner(spec, compiled.compiled, writer)
        return SendTo(spec, first, compiled.compiled or first, writer)
    if isinstance(spec, SendToSpec):
        return SendTo(spec, first, spec.stream.schema or first, resources.writers[spec.stream.stream_id])
    schema = _known(compiled, compiled.schema)
    if isinstance(spec, MapSpec):
        return Map(spec, first, schema)
    if isinstance(spec, FlatMapSpec):
        return FlatMap(spec, first, schema)
    if isinstance(spec, MapAsyncSpec):
        return MapAsync(spec, first, schema, resources.task_name)
    if isinstance(spec, MapBatchesSpec):
        return MapBatches(spec, first, schema)
    if isinstance(spec, ReadTimeSpec):
        source = spec.inputs[0]
        assert isinstance(source, InputOperatorSpec)
        return ReadTime(spec, first, schema, resources.clock, bounded=source.stream.bounded)
    if isinstance(spec, MergeSpec):
        return Pass(spec, schema)
    if isinstance(spec, WindowOperatorSpec):
        dead_letters = spec.on_error.stream if spec.on_error is not None else None
        late = next((stream for stream in spec.side_outputs if stream is not dead_letters), None) if beside else None
        late_to = (
            Sender(resources.writers[late.stream_id], first, late.schema or first, spec.title)
            if late is not None
            else None
        )
        return Window(spec, first, schema, resources.clock, late_to, combined=compiled.compiled is COMBINED)
    if isinstance(spec, AggregateSpec):
        return Aggregate(spec, first, schema, combined=compiled.compiled is COMBINED)
    if isinstance(spec, TableJoinSpec) and spec.table.kind is TableKind.REMOTE:
        return RemoteTableJoin(
            spec, first, schema, resources.remote.of(spec.table), one_by_one=spec.op_id in resources.one_by_one
        )
    if isinstance(spec, TableJoinSpec):
        store = resources.tables[spec.table.table_id]
        return TableJoin(spec, first, schema, store, resources.clock, one_by_one=spec.op_id in resources.one_by_one)
    if isinstance(spec, StreamJoinSpec):
        return StreamJoin(spec, first, given[1], schema, resources.clock)
    raise NotYet(
        f"{spec.title} is planned, and this version cannot run it yet.",
        hint="Leave it out for now; the plan shows what the application will do.",
        operator=spec.op_id,
    )


def _low_level(spec: TaskSpec, compiled: CompiledOperator, resources: TaskResources) -> LowLevelTask:
    schemas = {
        source.stream.stream_id: _known(compiled, schema)
        for source, schema in zip(spec.inputs, compiled.inputs, strict=True)
        if isinstance(source, InputOperatorSpec)
    }
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
