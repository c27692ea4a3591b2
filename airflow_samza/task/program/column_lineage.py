"""Column lineage: of which columns of its inputs each column of an output is made, and which decide about its rows.

It is known from keys, aggregations, joins and SQL. Of a Python callable, and of SQL that cannot be read here, all
columns of its input count, marked as opaque. OpenLineage events of tasks carry it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import reduce

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.bad_records import DEAD_LETTERS
from airflow_samza.application.descriptors import TableDescriptor, TableKind
from airflow_samza.application.operator_spec import OperatorSpec, RepartitioningSpec
from airflow_samza.application.operator_specs import (
    DistinctSpec,
    InputOperatorSpec,
    SendToSpec,
    TaskSpec,
    WindowOperatorSpec,
)
from airflow_samza.runs.records.run_plan import TopicContent
from airflow_samza.schema import Schema
from airflow_samza.task.program.column_sources import (
    FILTER,
    NOTHING,
    TRANSFORMATION,
    Flow,
    StreamLineage,
    called,
    of_stream,
    then,
)
from airflow_samza.task.program.kinds.operator_kind import Flows
from airflow_samza.task.program.kinds.registry import kind_of
from airflow_samza.task.program.pruning.columns import lowered, pruned
from airflow_samza.task.program.schemas import SchemaResolver, dead_letters_of

_FAILURE = {name for name in DEAD_LETTERS.names if name not in ("message", "headers", "error")}


def column_lineage(
    spec: ApplicationSpec,
    stages: Mapping[str, Collection[str]],
    reported: Mapping[str, Schema],
    contents: Mapping[str, TopicContent] | None = None,
) -> dict[str, dict[str, StreamLineage]]:
    """Return, by stage, the lineage of the streams that it writes, in columns of the streams that it reads.

    ``stages`` are the ids of the operators of each stage; ``reported`` and ``contents`` are those of
    :class:`SchemaResolver`.
    """
    lineage = _Lineage(spec, reported, contents)
    return {
        stage_id: {stream_id: lineage.named(stream_id, flow) for stream_id, flow in lineage.written(members).items()}
        for stage_id, members in stages.items()
    }


class _Lineage:
    """The flows of one application's operators and tables."""

    def __init__(
        self, spec: ApplicationSpec, reported: Mapping[str, Schema], contents: Mapping[str, TopicContent] | None
    ) -> None:
        self.spec = spec
        resolver = SchemaResolver(spec, reported, [], contents)
        self.compiled = resolver.resolve()
        self.streams = resolver.streams
        self.schemas_of_tables = resolver.tables
        self.contents = contents or {}
        self.flows: dict[str, Flow] = {}
        self.tables = {name: self._fed(table) for name, table in spec.tables.items()}
        surroundings = Flows(self.compiled, self.contents, self.tables)
        while True:
            before = dict(self.tables)
            for operator in spec.operators:
                inputs = [self.flows[source.op_id] for source in operator.inputs]
                flow, read = kind_of(operator).flow(surroundings, operator, *inputs), self._read(operator)
                if operator.on_error is not None:  # messages that fail are missing: any column may be at fault
                    flow = flow.chosen(then(read.whole, FILTER, True))
                self.flows[operator.op_id] = replace(flow, reads=read.reads)
            if before == self.tables:  # else one was read before the operator that writes it
                break

    def written(self, operators: Collection[str]) -> dict[str, Flow]:
        """Return the flows to streams, of the operators that are named."""
        flows: dict[str, Flow] = {}
        for operator in self.spec.operators_of(operators):
            reads = self._read(operator).reads
            for stream_id, written in self._written_by(operator):
                flow = replace(written, reads=reads)
                flows[stream_id] = flows[stream_id].with_(flow) if stream_id in flows else flow
        return flows

    def named(self, stream_id: str, flow: Flow) -> StreamLineage:
        """Return the lineage of a stream by the columns that it has."""
        schema = self.streams.get(stream_id)
        content = self.contents.get(stream_id)
        if schema is None:
            return StreamLineage({}, flow.rows, flow.whole, flow.reads)
        if content is not None and content.columns is not None:
            schema = pruned(schema, lowered(content.columns))
        columns = {name: flow.of(name) for name in schema.names}
        return StreamLineage(columns, flow.rows, reads=flow.reads, schema=schema)

    def _written_by(self, operator: OperatorSpec) -> Iterable[tuple[str, Flow]]:
        flow = self.flows[operator.op_id]
        read = self._read(operator)
        if isinstance(operator, SendToSpec | RepartitioningSpec):
            yield operator.stream.stream_id, flow
        if isinstance(operator, TaskSpec):
            for stream in operator.outputs:
                yield stream.stream_id, called(read, stream.schema or self.streams.get(stream.stream_id))
        dead = {stream.stream_id for stream in dead_letters_of(operator)}
        for stream in operator.side_outputs:
            if stream.stream_id in dead:
                failed = then(read.whole, TRANSFORMATION, True)
                columns = {name: NOTHING if name in _FAILURE else failed for name in DEAD_LETTERS.names}
                yield stream.stream_id, Flow(columns, read.rows | then(read.whole, FILTER, True))
            elif isinstance(operator, WindowOperatorSpec | DistinctSpec):  # messages that came too late
                yield stream.stream_id, read.chosen(then(read.of(operator.time_column), FILTER))
            elif not isinstance(operator, TaskSpec):
                yield stream.stream_id, read.chosen(then(read.whole, FILTER, True))

    def _read(self, operator: OperatorSpec) -> Flow:
        """Return all that comes to an operator; of an input, what lies in its stream."""
        read = [self.flows[source.op_id] for source in operator.inputs]
        if isinstance(operator, InputOperatorSpec):
            read = [of_stream(operator.stream.stream_id, self.compiled[operator.op_id].schema)]
        return reduce(Flow.with_, [*read, *(self.tables[table.table_id] for table in operator.tables)], Flow())

    def _fed(self, table: TableDescriptor) -> Flow:
        """Return the flow of a table that side inputs fill; nothing is known of a remote one."""
        if table.kind is TableKind.REMOTE or not table.side_inputs:
            return Flow()
        read = Flow()
        for stream_id in table.side_inputs:
            stream = self.spec.side_inputs.get(stream_id)
            schema = (stream.schema if stream is not None else None) or self.streams.get(stream_id) or table.schema
            read = read.with_(of_stream(stream_id, schema))
        if table.processor is None:
            return read
        return replace(called(read, self.schemas_of_tables.get(table.table_id)), reads=read.reads)
