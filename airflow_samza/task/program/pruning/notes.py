"""Notes of a plan for people: the streams of which a stage reads or sends less than everything.

The plan step puts them beside a plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.operator_spec import CATALYST, OperatorSpec, RepartitioningSpec
from airflow_samza.application.operator_specs import (
    InputOperatorSpec,
    MergeSpec,
    SelectSpec,
    WhereSpec,
)
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.runs.records.run_plan import Note, TopicContent
from airflow_samza.schema import Schema
from airflow_samza.system_kinds import traits_of
from airflow_samza.task.program.kinds.operator_kind import CompiledOperator
from airflow_samza.task.program.pruning.bounds import input_bounds
from airflow_samza.task.program.pruning.columns import Columns, columns_used, lowered, pruned
from airflow_samza.task.program.pruning.topics import topic_columns


def flow_notes(
    spec: ApplicationSpec,
    plan: ExecutionPlan,
    compiled: Mapping[str, CompiledOperator],
    contents: Mapping[str, TopicContent],
    kinds: Mapping[str, str],
) -> Iterator[Note]:
    """Yield, per stage and stream, what less than whole streams and messages is read or sent.

    ``kinds`` are those of the streams' systems.
    """
    topics = topic_columns(spec, contents)
    for stage in plan.stages:
        operators = spec.operators_of(stage.operators)
        used = columns_used(operators, topics)
        inputs = {
            o.op_id: s
            for o in operators
            if isinstance(o, InputOperatorSpec) and (s := compiled[o.op_id].schema) is not None
        }
        bounds = input_bounds(operators, compiled, inputs)
        for operator in operators:
            if operator.op_id in inputs and isinstance(operator, InputOperatorSpec):
                stream_id = operator.stream.stream_id
                texts: list[str] = []
                if not (stream_id in contents and contents[stream_id].combined_for):
                    texts += _reading(inputs[operator.op_id], used[operator.op_id])
                has_statistics = traits_of(kinds.get(stream_id)).keeps_statistics
                if has_statistics and operator.stream.format in (None, "parquet") and stream_id in bounds:
                    texts.append(f"skips what statistics rule out by {' and '.join(map(str, bounds[stream_id]))}")
                if stream_id in spec.intermediates or operator.stream.format == "parquet":
                    kept = set(_encoded(operator, operators, compiled, contents, inputs[operator.op_id]))
                    names = ", ".join(name for name in inputs[operator.op_id].names if name in kept)
                    texts += [f"keeps the dictionaries of texts that repeat: {names}"] if names else []
                yield from ((stage.stage_id, stream_id, text) for text in texts)
        for stream_id in stage.outputs:
            if stream_id in contents:
                yield stage.stage_id, stream_id, _sending(compiled, contents[stream_id])


def _reading(schema: Schema, used: Columns) -> list[str]:
    left = pruned(schema, used)
    return (
        [] if left is schema else [f"reads {len(left.fields)} of {len(schema.fields)} columns: {', '.join(left.names)}"]
    )


def _sending(compiled: Mapping[str, CompiledOperator], content: TopicContent) -> str:
    if content.combined_for is not None:
        return f"sends partial results of {compiled[content.combined_for].spec.title} instead of messages"
    assert content.columns is not None
    return f"sends only {', '.join(content.columns)}: nothing else is read later"


def _encoded(
    source: OperatorSpec,
    operators: Sequence[OperatorSpec],
    compiled: Mapping[str, CompiledOperator],
    contents: Mapping[str, TopicContent],
    schema: Schema,
) -> Iterator[str]:
    """The columns of texts that go from an input to a topic through operators that leave dictionaries alone."""
    texts = {field.name for field in schema.fields if field.type.name == "string"}
    waiting = [(source, texts)]
    while waiting:
        writer, names = waiting.pop()
        for reader in operators:
            if not any(one.op_id == writer.op_id for one in reader.inputs) or compiled[reader.op_id].engine == CATALYST:
                continue
            if isinstance(reader, WhereSpec | MergeSpec):
                waiting.append((reader, names))
            elif isinstance(reader, SelectSpec):
                plain = {text.strip() for text in reader.expressions}
                waiting.append((reader, names if "*" in plain else names & plain))
            elif isinstance(reader, RepartitioningSpec):
                content = contents.get(reader.stream.stream_id, TopicContent())
                if content.combined_for is None:
                    carried = lowered(content.columns) if content.columns is not None else None
                    yield from (name for name in names if carried is None or name.lower() in carried)
