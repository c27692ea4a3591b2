"""The schema that every operator of an application emits, the engine that runs it, and why.

SQL is compiled here, once. ``arrow``: on whole batches in the task; ``python``: a user's callable per message, in the
task; ``catalyst``: by Spark's engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.bad_records import DEAD_LETTERS
from airflow_samza.application.descriptors import StreamDescriptor, TableDescriptor
from airflow_samza.application.expectations import expecting_streams
from airflow_samza.application.operator_spec import ARROW, OperatorSpec, RepartitioningSpec
from airflow_samza.application.operator_specs import InputOperatorSpec, SendToSpec, SendToTableSpec, TableJoinSpec
from airflow_samza.errors import SamzaError
from airflow_samza.grouping import grouped
from airflow_samza.runs.records.run_plan import TopicContent
from airflow_samza.schema import Schema
from airflow_samza.task.messages.expectations import check_expectations
from airflow_samza.task.operators.aggregation.combiner import Combining
from airflow_samza.task.program.kinds.operator_kind import CompiledOperator, SchemaLookup
from airflow_samza.task.program.kinds.registry import kind_of
from airflow_samza.task.program.pruning.columns import Columns


class SchemaResolver(SchemaLookup):
    """Compiles the operators of one application in order; what is wrong is raised, or collected in ``errors``."""

    def __init__(
        self,
        spec: ApplicationSpec,
        reported: Mapping[str, Schema],
        errors: list[SamzaError] | None = None,
        contents: Mapping[str, TopicContent] | None = None,
    ) -> None:
        super().__init__(spec, reported, contents)
        self.operators: dict[str, CompiledOperator] = {}
        self._errors = errors
        self._writers = grouped(
            (operator.stream.stream_id, operator.op_id)
            for operator in spec.operators
            if isinstance(operator, RepartitioningSpec)
        )

    def resolve(self) -> dict[str, CompiledOperator]:
        """All operators, compiled as far as their schemas are known."""
        for stream in self.spec.side_inputs.values():
            reported = stream.schema or self.reported.get(stream.stream_id)
            if reported is not None and stream.stream_id not in self.spec.inputs:
                self.streams[stream.stream_id] = reported
        for table in self.spec.tables.values():
            self._declare_table(table)
        waiting = []
        for operator in self.spec.operators:
            if self._waits(operator):
                waiting.append(operator)
            else:
                self._resolve_one(operator)
        for operator in waiting:
            self._resolve_one(operator)
        return {operator.op_id: self.operators[operator.op_id] for operator in self.spec.operators}

    def narrow(self, members: Sequence[str], used: Mapping[str, Columns]) -> None:
        """Compile one stage's operators anew, for inputs of which only the columns used are read (by operator id)."""
        self.used = used
        for operator in self.spec.operators_of(members):
            inputs = tuple(self.operators[source.op_id].schema for source in operator.inputs)
            self.operators[operator.op_id] = self._compiled(operator, inputs)

    def _waits(self, operator: OperatorSpec) -> bool:
        """Return whether an operator gets a second turn: it may be declared before what its columns come from.

        That is an operator before it, the writer of its stream, or the writer of the table that it joins.
        """
        needed = [source.op_id for source in operator.inputs]
        if isinstance(operator, InputOperatorSpec):
            needed += self._writers.get(operator.stream.stream_id, ())
        lacks_table = isinstance(operator, TableJoinSpec) and operator.table.table_id not in self.tables
        return lacks_table or any(op_id not in self.operators for op_id in needed)

    def _resolve_one(self, operator: OperatorSpec) -> None:
        inputs = tuple(self.operators[source.op_id].schema for source in operator.inputs)
        compiled = CompiledOperator(operator, inputs, None, ARROW, "")
        with self._collected_errors():
            compiled = self._compiled(operator, inputs)
        self.operators[operator.op_id] = compiled
        if isinstance(operator, RepartitioningSpec) and inputs[0] is not None:
            sent = (
                compiled.compiled.sent if isinstance(compiled.compiled, Combining) else compiled.compiled or inputs[0]
            )
            self.streams.setdefault(operator.stream.stream_id, sent)
        if isinstance(operator, SendToSpec) and (operator.stream.schema or inputs[0]) is not None:
            declared = operator.stream.schema or inputs[0]
            assert declared is not None
            self.streams.setdefault(operator.stream.stream_id, declared)
        for stream in dead_letters_of(operator):
            self.streams.setdefault(stream.stream_id, stream.schema or DEAD_LETTERS)
        for stream in operator.side_outputs:
            beside = stream.schema or (inputs[0] if inputs else compiled.schema)
            if beside is not None:
                self.streams.setdefault(stream.stream_id, beside)
        if isinstance(operator, SendToTableSpec) and inputs[0] is not None:
            self.tables.setdefault(operator.table.table_id, inputs[0])

    def _declare_table(self, table: TableDescriptor) -> None:
        schema = table.schema
        if schema is None and len(table.side_inputs) == 1 and table.processor is None:
            stream = self.spec.side_inputs.get(table.side_inputs[0])
            schema = self.reported.get(table.side_inputs[0]) or (stream.schema if stream is not None else None)
        if schema is not None:
            self.tables[table.table_id] = schema
            with self._collected_errors():
                check_expectations(table.location, table.expect, schema, f"table {table.table_id!r}")

    @contextmanager
    def _collected_errors(self) -> Iterator[None]:
        try:
            yield
        except SamzaError as error:
            if self._errors is None:
                raise
            self._errors.append(error)

    def _compiled(self, operator: OperatorSpec, inputs: tuple[Schema | None, ...]) -> CompiledOperator:
        derived = kind_of(operator).schema(self, operator, *inputs)
        if isinstance(derived, CompiledOperator):
            return derived
        sent = self.sent(operator.stream, inputs[0]) if isinstance(operator, RepartitioningSpec) else None
        return CompiledOperator(operator, inputs, derived, *operator.engine, sent)


def dead_letters_of(operator: OperatorSpec) -> list[StreamDescriptor]:
    """Return the streams to which an operator sends what it cannot handle, or what does not meet an expectation."""
    policy = operator.on_error
    own = [policy.stream] if policy is not None and policy.stream is not None else []
    return [*own, *(stream for expecting in expecting_streams(operator) for stream in expecting.dead_letters)]
