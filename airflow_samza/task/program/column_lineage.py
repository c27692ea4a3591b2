"""Column lineage: of which columns of its inputs each column of an output is made, and which decide about its rows.

Known from keys, aggregations, joins and SQL. Of a Python callable, and of SQL that cannot be read here, all columns of
its input count, marked as opaque.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.bad_records import DEAD_LETTERS
from airflow_samza.application.descriptors import TableDescriptor, TableKind
from airflow_samza.application.operator_spec import (
    CATALYST,
    JoinSpec,
    KeyedResultSpec,
    OperatorSpec,
    RepartitioningSpec,
)
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
from airflow_samza.application.output_schemas import WINDOW_COLUMNS
from airflow_samza.application.windows import Aggregation
from airflow_samza.runs.records.topic_contents import TopicContent
from airflow_samza.schema import Schema
from airflow_samza.task.expressions.column_use import ColumnUse, column_use
from airflow_samza.task.operators.combiner import Combining
from airflow_samza.task.operators.partial_groups import partial_fields
from airflow_samza.task.program.column_sources import (
    AGGREGATION,
    CONDITIONAL,
    FILTER,
    GROUP_BY,
    IDENTITY,
    JOIN,
    NOTHING,
    TRANSFORMATION,
    WINDOW,
    ColumnSource,
    Flow,
    Sources,
    StreamLineage,
    then,
)
from airflow_samza.task.program.pruning.columns import cut, lowered
from airflow_samza.task.program.schemas import COMBINED, CompiledOperator, SchemaResolver

_FAILURE = {name for name in DEAD_LETTERS.names if name not in ("message", "headers", "error")}


def column_lineage(
    spec: ApplicationSpec,
    stages: Mapping[str, Collection[str]],
    known: Mapping[str, Schema],
    contents: Mapping[str, TopicContent] | None = None,
) -> dict[str, dict[str, StreamLineage]]:
    """Return, by stage, the lineage of the streams that it writes, in columns of the streams that it reads.

    ``stages`` are the ids of the operators of each stage; ``known`` and ``contents`` are those of
    :class:`SchemaResolver`.
    """
    found = _Lineage(spec, known, contents)
    return {
        stage_id: {stream_id: found.named(stream_id, flow) for stream_id, flow in found.written(members).items()}
        for stage_id, members in stages.items()
    }


class _Lineage:
    """The flows of one application's operators and tables."""

    def __init__(
        self, spec: ApplicationSpec, known: Mapping[str, Schema], contents: Mapping[str, TopicContent] | None
    ) -> None:
        self.spec = spec
        resolver = SchemaResolver(spec, known, [], contents)
        self.compiled = resolver.resolve()
        self.streams = resolver.streams
        self.schemas_of_tables = resolver.tables
        self.contents = contents or {}
        self.flows: dict[str, Flow] = {}
        self.tables = {name: self._fed(table) for name, table in spec.tables.items()}
        while True:
            before = dict(self.tables)
            for operator in spec.operators:
                flow = FLOWS[type(operator)](self, operator, *(self.flows[source.op_id] for source in operator.inputs))
                reads = self._read(operator).reads
                self.flows[operator.op_id] = replace(self._without_failures(operator, flow), reads=reads)
            if before == self.tables:  # else one was read before the operator that writes it
                break

    def written(self, operators: Collection[str]) -> dict[str, Flow]:
        """Return the flows to streams, of the operators that are named."""
        found: dict[str, Flow] = {}
        members = set(operators)
        for operator in (operator for operator in self.spec.operators if operator.op_id in members):
            reads = self._read(operator).reads
            for stream_id, made in self._written_by(operator):
                flow = replace(made, reads=reads)
                found[stream_id] = found[stream_id].with_(flow) if stream_id in found else flow
        return found

    def named(self, stream_id: str, flow: Flow) -> StreamLineage:
        """Return the lineage of a stream by the columns that it has."""
        schema = self.streams.get(stream_id)
        content = self.contents.get(stream_id)
        if schema is None:
            return StreamLineage({}, flow.rows, flow.whole, flow.reads)
        if content is not None and content.columns is not None:
            schema = cut(schema, lowered(content.columns))
        columns = {name: flow.of(name) for name in schema.names}
        return StreamLineage(columns, flow.rows, reads=flow.reads, schema=schema)

    def _written_by(self, operator: OperatorSpec) -> Iterable[tuple[str, Flow]]:
        flow = self.flows[operator.op_id]
        read = self._read(operator)
        if isinstance(operator, SendToSpec | RepartitioningSpec):
            yield operator.stream.stream_id, flow
        if isinstance(operator, TaskSpec):
            for stream in operator.outputs:
                yield stream.stream_id, self._called(read, stream.schema or self.streams.get(stream.stream_id))
        dead = operator.on_error.stream if operator.on_error is not None else None
        for stream in operator.side_outputs:
            if dead is not None and stream.stream_id == dead.stream_id:
                failed = then(read.whole, TRANSFORMATION, True)
                columns = {name: NOTHING if name in _FAILURE else failed for name in DEAD_LETTERS.names}
                yield stream.stream_id, Flow(columns, read.rows | then(read.whole, FILTER, True))
            elif isinstance(operator, WindowOperatorSpec):  # messages that came too late
                yield stream.stream_id, read.chosen(then(read.of(operator.time_column), FILTER))
            elif not isinstance(operator, TaskSpec):
                yield stream.stream_id, read.chosen(then(read.whole, FILTER, True))

    def _read(self, operator: OperatorSpec) -> Flow:
        """Return all that comes to an operator; of an input, what lies in its stream."""
        read = Flow()
        for source in operator.inputs:
            read = read.with_(self.flows[source.op_id])
        if isinstance(operator, InputOperatorSpec):
            read = self._input(operator)
        for table in operator.tables:
            read = read.with_(self.tables[table.table_id])
        return read

    def _fed(self, table: TableDescriptor) -> Flow:
        """Return the flow of a table that side inputs fill; nothing is known of a remote one."""
        if table.kind is TableKind.REMOTE or not table.side_inputs:
            return Flow()
        read = Flow()
        for stream_id in table.side_inputs:
            stream = self.spec.side_inputs.get(stream_id)
            schema = (stream.schema if stream is not None else None) or self.streams.get(stream_id) or table.schema
            read = read.with_(_of_stream(stream_id, schema))
        if table.processor is None:
            return read
        return replace(self._called(read, self.schemas_of_tables.get(table.table_id)), reads=read.reads)

    def _called(self, read: Flow, schema: Schema | None) -> Flow:
        """Return what user code makes of messages: everything of everything."""
        made = then(read.whole, TRANSFORMATION, True)
        rows = read.rows | then(read.whole, FILTER, True)
        return Flow(rest=made, rows=rows) if schema is None else Flow({n.lower(): made for n in schema.names}, rows)

    def _without_failures(self, operator: OperatorSpec, flow: Flow) -> Flow:
        """Return the flow without messages that fail, where those are left out: any column may be at fault."""
        return flow if operator.on_error is None else flow.chosen(then(self._read(operator).whole, FILTER, True))

    def _schema(self, operator: OperatorSpec) -> Schema | None:
        return self.compiled[operator.op_id].schema

    def _input(self, operator: InputOperatorSpec) -> Flow:
        return _of_stream(operator.stream.stream_id, self._schema(operator))

    def _stamped(self, operator: ReadTimeSpec, flow: Flow) -> Flow:
        return Flow({**flow.columns, operator.column.lower(): NOTHING}, flow.rows, flow.rest)

    def _filtered(self, operator: FilterSpec, flow: Flow) -> Flow:
        return flow.chosen(then(flow.whole, FILTER, True))

    def _mapped(self, operator: OperatorSpec, flow: Flow) -> Flow:
        return self._called(flow, self._schema(operator))

    def _one_for_one(self, operator: MapSpec | MapAsyncSpec, flow: Flow) -> Flow:
        made = self._called(flow, self._schema(operator))
        return Flow(made.columns, flow.rows, made.rest)

    def _where(self, operator: WhereSpec, flow: Flow) -> Flow:
        use = column_use(operator.condition)
        return flow.chosen(then(flow.whole, FILTER, True) if use is None else then(_named(use, flow), FILTER))

    def _selected(self, operator: SelectSpec, flow: Flow) -> Flow:
        compiled = self.compiled[operator.op_id]
        columns: dict[str, Sources] = {}
        made: dict[str, Sources] = {}  # names that a later expression of the same select may use
        rest, used = NOTHING, NOTHING
        for text in operator.expressions:
            if text.strip() == "*":
                columns.update(flow.columns)
                rest |= flow.rest
                continue
            use = column_use(text)
            sources = _evaluated(use, flow, made)
            used |= then(flow.whole, FILTER, True) if use is None else then(_named(use, flow, made), FILTER)
            if use is not None and use.name:
                columns[use.name.lower()] = made[use.name.lower()] = sources
            else:
                rest |= sources
        if compiled.schema is not None and rest:  # columns whose names only Spark makes
            columns = {name.lower(): columns.get(name.lower(), rest) for name in compiled.schema.names}
        rows = flow.rows | used if compiled.engine == CATALYST else flow.rows  # explode and its like
        return Flow(columns, rows, rest)

    def _merged(self, operator: MergeSpec, *flows: Flow) -> Flow:
        merged = Flow()
        for flow in flows:
            merged = merged.with_(flow)
        return merged

    def _grouped(self, operator: KeyedResultSpec, flow: Flow) -> Flow:
        """Return the results of an aggregation or a window, also where partial results come to it."""
        compiled = self.compiled[operator.op_id]
        rows = flow.rows | then(flow.of_all(operator.key), GROUP_BY)
        columns = {name.lower(): flow.of(name) for name in operator.key}
        partial = self._partial(operator, compiled) if compiled.compiled == COMBINED else None
        if isinstance(operator, WindowOperatorSpec):
            time = flow.of(WINDOW_COLUMNS[0].name if partial is not None else operator.time_column)
            rows |= then(time, WINDOW)
            columns |= {field.name: then(time, TRANSFORMATION) for field in WINDOW_COLUMNS}
            if operator.fold is not None:
                folded = then(flow.whole, AGGREGATION, True)
                columns |= {name.lower(): folded for name in _folded(operator, compiled)}
        for made in operator.aggregations:
            parts = [made.column] if partial is None else partial.get(made.name, [])
            columns[made.name.lower()] = then(flow.of_all(parts), AGGREGATION)
        return Flow(columns, rows)

    def _partial(self, operator: KeyedResultSpec, compiled: CompiledOperator) -> dict[str, list[str]]:
        """Return the columns of partial results by the result's column that is made of them."""
        source = operator.inputs[0]
        assert isinstance(source, InputOperatorSpec)
        messages = self.contents[source.stream.stream_id].schema
        assert messages is not None
        assert compiled.schema is not None
        found: dict[str, list[str]] = {}
        for field, made in partial_fields(operator, Schema.of(messages), compiled.schema):
            if made is not None:
                found.setdefault(made, []).append(field.name)
        return found

    def _joined(self, operator: StreamJoinSpec, left: Flow, right: Flow) -> Flow:
        outer = operator.how in ("right", "full")
        joined = self._pairs(operator, left, right, operator.left_key, operator.right_key, outer)
        return joined.chosen(then(left.of(operator.left_time) | right.of(operator.right_time), JOIN))

    def _looked_up(self, operator: TableJoinSpec, flow: Flow) -> Flow:
        table, held = operator.table, self.tables[operator.table.table_id]
        outer = operator.how in ("right", "full")
        joined = self._pairs(operator, flow, held, operator.key, table.key, outer)
        return joined.chosen(then(flow.of(operator.time_column), JOIN) if table.ttl_ms is not None else NOTHING)

    def _pairs(
        self,
        operator: JoinSpec,
        left: Flow,
        right: Flow,
        left_key: tuple[str, ...],
        right_key: tuple[str, ...],
        outer: bool,
    ) -> Flow:
        rows = left.rows.union(right.rows, then(left.of_all(left_key) | right.of_all(right_key), JOIN))
        if operator.function is not None:
            both = Flow({}, rows, left.whole | right.whole)
            return self._called(both, self._schema(operator))
        keys = {name.lower() for name in right_key}
        columns = {**{name: found for name, found in right.columns.items() if name not in keys}, **left.columns}
        if outer:  # where the left message is missing, its key is the right one's
            for mine, theirs in zip(left_key, right_key, strict=False):
                columns[mine.lower()] = left.of(mine) | right.of(theirs)
        return Flow(columns, rows, left.rest | right.rest)

    def _sent(self, operator: RepartitioningSpec, flow: Flow) -> Flow:
        combining = self.compiled[operator.op_id].compiled
        if not isinstance(combining, Combining):
            return flow
        aggregate = combining.aggregate
        aggregations = {made.name: made for made in aggregate.aggregations}
        time = aggregate.time_column if isinstance(aggregate, WindowOperatorSpec) else None
        columns = {
            field.name.lower(): _part(flow, field.name, aggregations.get(made or ""), aggregate.key, time)
            for field, made in partial_fields(aggregate, combining.messages, combining.output)
        }
        return Flow(columns, flow.rows.union(then(flow.of_all(aggregate.key), GROUP_BY), then(flow.of(time), WINDOW)))

    def _to_table(self, operator: SendToTableSpec, flow: Flow) -> Flow:
        table = operator.table
        if table.kind is not TableKind.REMOTE:
            times = then(flow.of(operator.time_column), FILTER) if table.ttl_ms is not None else NOTHING
            held = flow.chosen(then(flow.of_all(table.key), GROUP_BY), times)
            self.tables[table.table_id] = self.tables[table.table_id].with_(held)
        return flow

    def _passed(self, operator: OperatorSpec, *flows: Flow) -> Flow:
        return flows[0] if flows else Flow()


def _of_stream(stream_id: str, schema: Schema | None) -> Flow:
    """Return the flow of a stream as it lies: each column is made of itself."""
    names = schema.names if schema is not None else ()
    columns = {name.lower(): frozenset([ColumnSource(stream_id, name)]) for name in names}
    return Flow(columns, reads=frozenset([stream_id]))


def _part(flow: Flow, name: str, made: Aggregation | None, key: tuple[str, ...], time: str | None) -> Sources:
    """Return the sources of one column of partial results."""
    if made is not None:
        return then(flow.of(made.column), AGGREGATION)
    return flow.of(name) if name in key else then(flow.of(time), TRANSFORMATION)


def _folded(operator: WindowOperatorSpec, compiled: CompiledOperator) -> Iterable[str]:
    schema = operator.fold_schema or compiled.schema
    taken = {*operator.key, *(field.name for field in WINDOW_COLUMNS)}
    return [] if schema is None else [name for name in schema.names if name not in taken]


def _named(use: ColumnUse, flow: Flow, made: Mapping[str, Sources] | None = None) -> Sources:
    """Return the sources of all columns that an expression names."""
    return NOTHING.union(*(_column(name, flow, made or {}) for name in (*use.values, *use.conditions)))


def _evaluated(use: ColumnUse | None, flow: Flow, made: Mapping[str, Sources]) -> Sources:
    """Return the sources of an expression's value."""
    if use is None:
        return then(flow.whole, TRANSFORMATION, True)
    how = IDENTITY if use.is_column else TRANSFORMATION
    values = NOTHING.union(*(_column(name, flow, made) for name in use.values))
    conditions = NOTHING.union(*(_column(name, flow, made) for name in use.conditions))
    return then(values, how) | then(conditions, CONDITIONAL)


def _column(name: str, flow: Flow, made: Mapping[str, Sources]) -> Sources:
    return flow.columns[name] if name in flow.columns else made.get(name, flow.rest)


FLOWS: Mapping[type[OperatorSpec], Callable[..., Flow]] = {
    InputOperatorSpec: _Lineage._input,
    ReadTimeSpec: _Lineage._stamped,
    FilterSpec: _Lineage._filtered,
    WhereSpec: _Lineage._where,
    MapSpec: _Lineage._one_for_one,
    FlatMapSpec: _Lineage._mapped,
    MapAsyncSpec: _Lineage._one_for_one,
    MapBatchesSpec: _Lineage._mapped,
    SelectSpec: _Lineage._selected,
    TransformSpec: _Lineage._mapped,
    MergeSpec: _Lineage._merged,
    AggregateSpec: _Lineage._grouped,
    WindowOperatorSpec: _Lineage._grouped,
    TableJoinSpec: _Lineage._looked_up,
    StreamJoinSpec: _Lineage._joined,
    PartitionBySpec: _Lineage._sent,
    BroadcastSpec: _Lineage._sent,
    SendToSpec: _Lineage._passed,
    SendToTableSpec: _Lineage._to_table,
    SinkSpec: _Lineage._passed,
    TaskSpec: _Lineage._passed,
}
"""The columns that every kind of operator emits, from those that come to it."""
