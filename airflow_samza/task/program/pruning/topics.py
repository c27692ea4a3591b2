"""The contents of the topics between stages (decision 6).

They are only columns that are read later, and partial results where an aggregation follows. They are decided once per
run, on its whole plan, and kept in its record: writers and readers follow it, whatever they know of schemas by then.
The plan step decides them, and stages and the test driver are compiled by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.operator_spec import KeyedResultSpec, OperatorSpec
from airflow_samza.application.operator_specs import (
    InputOperatorSpec,
    PartitionBySpec,
    WindowOperatorSpec,
)
from airflow_samza.chooser.default import looks_at_messages
from airflow_samza.config import Config
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.runs.records.run_plan import TopicContent
from airflow_samza.task.operators.aggregation.partial_groups import decomposable
from airflow_samza.task.operators.windows.fixed import has_slices
from airflow_samza.task.program.kinds.operator_kind import CompiledOperator
from airflow_samza.task.program.pruning.columns import NONE, Columns, both, columns_used, lowered, pruned


def reduce_topics(
    spec: ApplicationSpec, plan: ExecutionPlan, compiled: Mapping[str, CompiledOperator]
) -> dict[str, TopicContent]:
    """Return the contents of each intermediate stream through which less than whole messages go."""
    config = Config(spec.config)
    if config.whole_messages or looks_at_messages(config):
        return {}
    times = config.chooser_class is not None  # it may choose by event time, which partial results do not have
    contents = {} if times else _combined(spec, plan, compiled)
    topics = topic_columns(spec, contents)
    whole = {
        stream_id
        for stage in plan.stages
        for stream_id in (*stage.side_inputs, *(stage.outputs if stage.several_epochs else ()))
    }
    needed: dict[str, Columns] = {stream_id: None if stream_id in whole else NONE for stream_id in spec.intermediates}
    for stage in reversed(plan.stages):  # readers before writers
        operators = spec.operators_of(stage.operators)
        used = columns_used(operators, {**needed, **topics}, times=times)
        for operator in operators:
            if isinstance(operator, InputOperatorSpec) and operator.stream.stream_id in needed:
                stream_id = operator.stream.stream_id
                needed[stream_id] = both(needed[stream_id], used[operator.op_id])
    for stream_id, columns in needed.items():
        if stream_id not in contents and columns is not None:
            kept = _kept(spec, compiled, stream_id, columns | lowered(spec.stream(stream_id).key))
            if kept is not None:
                contents[stream_id] = TopicContent(kept)
    return contents


def topic_columns(spec: ApplicationSpec, contents: Mapping[str, TopicContent]) -> dict[str, Columns]:
    """By stream, the columns that a writer needs for what goes through it; a stream that is not there needs all."""
    columns: dict[str, Columns] = {}
    for stream_id, content in contents.items():
        if content.combined_for is not None:
            aggregate = next(operator for operator in spec.operators if operator.op_id == content.combined_for)
            assert isinstance(aggregate, KeyedResultSpec)
            columns[stream_id] = lowered(aggregate.columns_named)
        elif content.columns is not None:
            columns[stream_id] = lowered(content.columns)
    return columns


def _combined(
    spec: ApplicationSpec, plan: ExecutionPlan, compiled: Mapping[str, CompiledOperator]
) -> dict[str, TopicContent]:
    contents = {}
    for writer in spec.operators:
        if not isinstance(writer, PartitionBySpec):
            continue
        stream_id = writer.stream.stream_id
        reader = _sole_reader(spec.next_operators(spec.input_operator(stream_id)))
        messages = compiled[writer.op_id].inputs[0]
        together = any(stage.several_epochs and stream_id in (*stage.inputs, *stage.outputs) for stage in plan.stages)
        fed = any(stream_id in stage.side_inputs for stage in plan.stages)
        if reader is None or messages is None or together or fed:
            continue
        if isinstance(reader, WindowOperatorSpec) and not (plan.stream(stream_id).bounded and has_slices(reader)):
            continue  # in a stream without an end a message may be late, which partial results do not show
        if (
            decomposable(reader.aggregations)
            and set(writer.key) <= set(reader.key)
            and compiled[reader.op_id].schema is not None
        ):
            contents[stream_id] = TopicContent(combined_for=reader.op_id, schema=messages.ddl())
    return contents


def _sole_reader(readers: Sequence[OperatorSpec]) -> KeyedResultSpec | None:
    reader = readers[0] if len(readers) == 1 else None
    return reader if isinstance(reader, KeyedResultSpec) else None


def _kept(
    spec: ApplicationSpec, compiled: Mapping[str, CompiledOperator], stream_id: str, columns: frozenset[str]
) -> tuple[str, ...] | None:
    """The columns that go through a topic; None when all do."""
    schema = compiled[spec.input_operator(stream_id).op_id].schema
    if schema is None:
        return tuple(sorted(columns))
    left = pruned(schema, columns)
    return None if left is schema else left.names
