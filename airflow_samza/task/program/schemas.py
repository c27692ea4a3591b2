"""The schema that every operator of an application emits, the engine that runs it, and why.

SQL is compiled here, once.

``arrow``: on whole batches in the task; ``python``: a user's callable per message, in the task; ``catalyst``: by
Spark's engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.bad_records import DEAD_LETTERS
from airflow_samza.application.descriptors import StreamDescriptor, TableDescriptor
from airflow_samza.application.event_times import stamped_schema
from airflow_samza.application.operator_spec import ARROW, CATALYST, KeyedResultSpec, OperatorSpec, RepartitioningSpec
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
from airflow_samza.application.output_schemas import (
    aggregated_schema,
    joined_schema,
    joined_streams_schema,
    merged_schema,
    windowed_schema,
)
from airflow_samza.errors import InvalidApplication, SamzaError, SchemaError
from airflow_samza.runs.records.topic_contents import TopicContent
from airflow_samza.schema import Schema
from airflow_samza.task.expressions.compiler import (
    UnknownColumn,
    compile_condition,
    compile_projection,
    unknown_columns,
)
from airflow_samza.task.expressions.expression import UnsupportedExpression
from airflow_samza.task.expressions.reading import Unreadable
from airflow_samza.task.messages.user_errors import cut_short
from airflow_samza.task.operators.combiner import Combining
from airflow_samza.task.operators.partial_groups import partial_schema
from airflow_samza.task.program.pruning.columns import Columns, cut, lowered
from airflow_samza.task.program.schema_checks import (
    check_columns,
    check_sides,
    check_writable,
    place_of,
    unknown_column,
)

COMBINED = "combined"
"""The ``compiled`` of an aggregation that gets partial results instead of messages."""


@dataclass(frozen=True)
class CompiledOperator:
    """An operator with all that running it needs.

    The schemas of its inputs and output (None: not known yet), its engine and the reason.

    ``compiled`` holds the compiled expressions of ``where`` (a tuple of conjuncts) and ``select`` (a projection), for
    ``partition_by`` the schema that goes through the topic or the :class:`Combining`, and :data:`COMBINED` for an
    aggregation behind one. ``unreadable`` is the place of what seems a syntax error, where only Spark can find
    that it is none.
    """

    spec: OperatorSpec
    inputs: tuple[Schema | None, ...]
    schema: Schema | None
    engine: str
    reason: str
    compiled: Any = None
    unreadable: str = ""


class SchemaResolver:
    """Resolves the operators of one application in order; what is wrong is raised, or collected in ``errors``.

    ``known`` maps streams (by id) and operators (by operator id) to schemas that the application does not declare:
    those that systems report of inputs, and Spark of operators that Catalyst runs. ``contents`` are those of topics
    through which less than whole messages go.
    """

    def __init__(
        self,
        spec: ApplicationSpec,
        known: Mapping[str, Schema],
        errors: list[SamzaError] | None = None,
        contents: Mapping[str, TopicContent] | None = None,
    ) -> None:
        self.spec = spec
        self.known = known
        self.contents = contents or {}
        self.used: Mapping[str, Columns] = {}
        self.operators: dict[str, CompiledOperator] = {}
        self.streams: dict[str, Schema] = {}
        self.tables: dict[str, Schema] = {}
        self._errors = errors

    def resolve(self) -> dict[str, CompiledOperator]:
        """All operators, compiled as far as their schemas are known."""
        for stream in self.spec.side_inputs.values():
            reported = stream.schema or self.known.get(stream.stream_id)
            if reported is not None and stream.stream_id not in self.spec.inputs:
                self.streams[stream.stream_id] = reported
        for table in self.spec.tables.values():
            self._declare_table(table)
        waiting = list(self.spec.operators)
        # A join may be declared before the writer from which its table's schema comes: it gets a second turn.
        for _ in range(2):
            again = []
            for operator in waiting:
                late = isinstance(operator, TableJoinSpec) and operator.table.table_id not in self.tables
                behind = any(source.op_id not in self.operators for source in operator.inputs)
                late = late or (isinstance(operator, InputOperatorSpec) and self._is_behind(operator))
                if (late or behind) and _ == 0:
                    again.append(operator)
                    continue
                self._resolve_one(operator)
            waiting = again
        return {operator.op_id: self.operators[operator.op_id] for operator in self.spec.operators}

    def narrow(self, members: Sequence[str], used: Mapping[str, Columns]) -> None:
        """Compile one stage's operators anew, for inputs of which only the columns used are read (by operator id)."""
        self.used = used
        within = set(members)
        for operator in self.spec.operators:
            if operator.op_id in within:
                inputs = tuple(self.operators[source.op_id].schema for source in operator.inputs)
                self.operators[operator.op_id] = self._compiled(operator, inputs)

    def _is_behind(self, operator: InputOperatorSpec) -> bool:
        """Return whether the stream's writer waits for its own turn."""
        writers = [o for o in self.spec.operators if isinstance(o, RepartitioningSpec) and o.stream is operator.stream]
        return any(writer.op_id not in self.operators for writer in writers)

    def _resolve_one(self, operator: OperatorSpec) -> None:
        inputs = tuple(self.operators[source.op_id].schema for source in operator.inputs)
        try:
            made = self._compiled(operator, inputs)
        except (SamzaError, SchemaError) as error:
            if self._errors is None:
                raise
            self._errors.append(error)
            made = CompiledOperator(operator, inputs, None, ARROW, "")
        self.operators[operator.op_id] = made
        if isinstance(operator, RepartitioningSpec) and inputs[0] is not None:
            sent = made.compiled.sent if isinstance(made.compiled, Combining) else made.compiled or inputs[0]
            self.streams.setdefault(operator.stream.stream_id, sent)
        if isinstance(operator, SendToSpec) and (operator.stream.schema or inputs[0]) is not None:
            declared = operator.stream.schema or inputs[0]
            assert declared is not None
            self.streams.setdefault(operator.stream.stream_id, declared)
        dead_letters = operator.on_error.stream if operator.on_error is not None else None
        if dead_letters is not None:
            self.streams.setdefault(dead_letters.stream_id, dead_letters.schema or DEAD_LETTERS)
        for stream in operator.side_outputs:
            beside = stream.schema or (inputs[0] if inputs else made.schema)
            if beside is not None:
                self.streams.setdefault(stream.stream_id, beside)
        if isinstance(operator, SendToTableSpec) and inputs[0] is not None:
            self.tables.setdefault(operator.table.table_id, inputs[0])

    def _declare_table(self, table: TableDescriptor) -> None:
        schema = table.schema
        if schema is None and len(table.side_inputs) == 1 and table.processor is None:
            stream = self.spec.side_inputs.get(table.side_inputs[0])
            schema = self.known.get(table.side_inputs[0]) or (stream.schema if stream is not None else None)
        if schema is not None:
            self.tables[table.table_id] = schema

    def _compiled(self, operator: OperatorSpec, inputs: tuple[Schema | None, ...]) -> CompiledOperator:
        made = SCHEMAS[type(operator)](self, operator, *inputs)
        if isinstance(made, CompiledOperator):
            return made
        sent = self._sent(operator, inputs[0]) if isinstance(operator, RepartitioningSpec) else None
        return CompiledOperator(operator, inputs, made, *operator.engine, sent)

    def _input(self, operator: InputOperatorSpec) -> Schema | None:
        schema = self._stream_schema(operator.stream)
        if schema is None:
            return None
        self.streams.setdefault(operator.stream.stream_id, schema)
        return cut(schema, self.used.get(operator.op_id))

    def _keyed_result(self, operator: KeyedResultSpec, schema: Schema | None) -> CompiledOperator | Schema | None:
        source = operator.inputs[0]
        content = self.contents.get(source.stream.stream_id) if isinstance(source, InputOperatorSpec) else None
        if content is None or content.combined_for != operator.op_id:
            return self._results(operator, schema)
        combining = self._combining(content)
        reason = "merges partial results"
        return CompiledOperator(operator, (combining.messages,), combining.output, ARROW, reason, COMBINED)

    def _sent(self, operator: RepartitioningSpec, schema: Schema | None) -> Schema | Combining | None:
        """Return the schema of what an operator sends; None when that is not known yet."""
        content = self.contents.get(operator.stream.stream_id)
        if schema is None or content is None:
            return schema
        if content.combined_for is None:
            return cut(schema, lowered(content.columns) if content.columns is not None else None)
        return self._combining(content, schema)

    def _combining(self, content: TopicContent, messages: Schema | None = None) -> Combining:
        """Return what a combiner does for a topic that carries partial results, with the types that the plan knew."""
        aggregate = next(o for o in self.spec.operators if o.op_id == content.combined_for)
        known = Schema.of(content.schema)
        assert isinstance(aggregate, KeyedResultSpec)
        output = self._results(aggregate, known)
        assert output is not None
        return Combining(aggregate, messages or known, output, partial_schema(aggregate, known, output))

    def _stream_schema(self, stream: StreamDescriptor) -> Schema | None:
        content = self.contents.get(stream.stream_id)
        if content is not None and content.combined_for is not None:
            return self._combining(content).sent
        derived = stream.schema or self.streams.get(stream.stream_id)
        if derived is not None and content is not None and content.columns is not None:
            derived = cut(derived, lowered(content.columns))
        reported = self.known.get(stream.stream_id)
        if derived is not None and reported is not None and derived.fields == reported.fields:
            return derived  # the same columns, and the dataclass, too
        if stream.stream_id in self.spec.intermediates:
            return reported or derived
        return derived or reported

    def _sql(self, operator: WhereSpec | SelectSpec, schema: Schema | None) -> CompiledOperator:
        texts = operator.sql
        known = self.known.get(operator.op_id)
        if schema is None:
            return CompiledOperator(operator, (None,), known, ARROW, "the columns are known when the stage runs")
        try:
            if isinstance(operator, WhereSpec):
                conjuncts = compile_condition(operator.condition, schema)
                return CompiledOperator(operator, (schema,), schema, *operator.engine, conjuncts)
            projection = compile_projection(operator.expressions, schema)
            return CompiledOperator(operator, (schema,), projection.schema, *operator.engine, projection)
        except UnknownColumn as unknown:
            raise unknown_column(operator, unknown.name, cut_short(", ".join(texts)), schema) from None
        except UnsupportedExpression as unsupported:
            missing = unknown_columns(texts, schema)
            if missing:
                raise unknown_column(operator, missing[0], cut_short(", ".join(texts)), schema) from None
            if operator.on_error is not None:
                raise InvalidApplication(
                    f"{operator.title}{place_of(operator)} has on_error={operator.on_error.text}, and Catalyst runs it "
                    f"({unsupported}): a row that fails there fails the stage.",
                    hint="Leave on_error= out, and filter such rows out before: try_cast, try_divide, CASE WHEN … THEN "
                    "… END.",
                    operator=operator.op_id,
                ) from None
            output = schema if isinstance(operator, WhereSpec) else known or operator.schema
            place = unsupported.place if isinstance(unsupported, Unreadable) else ""
            return CompiledOperator(operator, (schema,), output, CATALYST, str(unsupported), unreadable=place)
        except SchemaError as error:
            raise InvalidApplication(
                f"{operator.title}{place_of(operator)}: {error.sentence}", hint=error.hint, operator=operator.op_id
            ) from None

    def _results(self, operator: KeyedResultSpec, schema: Schema | None) -> Schema | None:
        check_columns(operator, operator.columns_named, schema)
        key, aggregations = operator.key, operator.aggregations
        if isinstance(operator, WindowOperatorSpec):
            folded = operator.fold_schema
            return windowed_schema(schema, operator.window, key, aggregations, folded, operator.title)
        return aggregated_schema(schema, key, (), aggregations, operator.title)

    def _messages(self, operator: OperatorSpec, schema: Schema | None) -> Schema | None:
        return operator.schema or schema

    def _nothing(self, operator: OperatorSpec, *schemas: Schema | None) -> Schema | None:
        return None

    def _transformed(self, operator: TransformSpec, schema: Schema | None) -> Schema | None:
        return self.known.get(operator.op_id) or operator.schema

    def _stamped(self, operator: ReadTimeSpec, schema: Schema | None) -> Schema | None:
        return _stamped(operator, schema)

    def _merged(self, operator: MergeSpec, *schemas: Schema | None) -> Schema | None:
        used = self.used.get(operator.op_id)
        return merged_schema([cut(schema, used) if schema is not None else None for schema in schemas], operator.title)

    def _looked_up(self, join: TableJoinSpec, schema: Schema | None) -> Schema | None:
        check_columns(join, join.key, schema)
        if join.function is not None:
            return join.schema or schema
        return joined_schema(schema, self.tables.get(join.table.table_id), join.table.key, join.how, join.title)

    def _by_key(self, operator: PartitionBySpec, schema: Schema | None) -> Schema | None:
        check_columns(operator, operator.key, schema)
        return None

    def _to_stream(self, operator: SendToSpec, schema: Schema | None) -> Schema | None:
        stream = operator.stream
        check_columns(operator, stream.key, schema)
        check_writable(operator, stream.schema, schema, f"output stream {stream.stream_id!r}")
        return None

    def _to_table(self, operator: SendToTableSpec, schema: Schema | None) -> Schema | None:
        table = operator.table
        check_columns(operator, table.key, schema)
        check_writable(operator, table.schema, schema, f"table {table.table_id!r}")
        return None

    def _stream_join(self, join: StreamJoinSpec, left: Schema | None, right: Schema | None) -> Schema | None:
        check_sides(join, left, right)
        if join.function is not None:
            return join.schema or left
        return joined_streams_schema(left, right, join.left_key, join.right_key, join.how, join.title)


def _stamped(operator: ReadTimeSpec, read: Schema | None) -> Schema | None:
    """The columns that are read, in the declared order, and the one that is filled."""
    if read is None:
        return operator.schema
    if operator.schema is None:
        return stamped_schema(Schema(read.fields), operator.column, operator.title)
    fields = tuple(field for field in operator.schema.fields if field.name in read or field.name == operator.column)
    return operator.schema if fields == operator.schema.fields else Schema(fields)


SCHEMAS: Mapping[type[OperatorSpec], Callable[..., CompiledOperator | Schema | None]] = {
    InputOperatorSpec: SchemaResolver._input,
    ReadTimeSpec: SchemaResolver._stamped,
    FilterSpec: SchemaResolver._messages,
    WhereSpec: SchemaResolver._sql,
    MapSpec: SchemaResolver._messages,
    FlatMapSpec: SchemaResolver._messages,
    MapAsyncSpec: SchemaResolver._messages,
    MapBatchesSpec: SchemaResolver._messages,
    SelectSpec: SchemaResolver._sql,
    TransformSpec: SchemaResolver._transformed,
    MergeSpec: SchemaResolver._merged,
    AggregateSpec: SchemaResolver._keyed_result,
    WindowOperatorSpec: SchemaResolver._keyed_result,
    TableJoinSpec: SchemaResolver._looked_up,
    StreamJoinSpec: SchemaResolver._stream_join,
    PartitionBySpec: SchemaResolver._by_key,
    BroadcastSpec: SchemaResolver._nothing,
    SendToSpec: SchemaResolver._to_stream,
    SendToTableSpec: SchemaResolver._to_table,
    SinkSpec: SchemaResolver._nothing,
    TaskSpec: SchemaResolver._nothing,
}
"""The columns that every kind of operator emits, from those of its inputs; what is wrong with them is raised."""
