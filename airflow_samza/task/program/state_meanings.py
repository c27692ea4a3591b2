"""The meaning of every state that an application keeps from run to run.

It is made of functions, keys, types, windows and columns of kept messages. The plan step compares it with the version
that a run goes on from.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import TableDescriptor, TableKind
from airflow_samza.errors import SchemaError
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.runs.records.run_plan import TopicContent
from airflow_samza.runs.records.state_meaning import TABLE, StateMeaning
from airflow_samza.schema import Schema
from airflow_samza.task.program.kinds.meanings import typed, without_unknown
from airflow_samza.task.program.kinds.operator_kind import Inputs
from airflow_samza.task.program.kinds.registry import kind_of
from airflow_samza.task.program.schemas import SchemaResolver
from airflow_samza.task.program.stage_program import compile_stage


def state_meanings(
    spec: ApplicationSpec, plan: ExecutionPlan, reported: Mapping[str, Schema], contents: Mapping[str, TopicContent]
) -> dict[str, StateMeaning]:
    """Return the meaning of each operator's, table's and store's state, by key.

    A type that only Spark knows is left out. ``reported`` are the columns of inputs as their systems report them,
    ``contents`` those of topics.
    """
    resolver = SchemaResolver(spec, reported, [])
    messages = {op_id: compiled.inputs for op_id, compiled in resolver.resolve().items()}
    kept = _kept_messages(spec, plan, reported, contents)
    meanings: dict[str, StateMeaning] = {}
    for op in spec.operators:
        meaning = kind_of(op).meaning
        if meaning is not None:
            meanings.update(meaning(op, messages[op.op_id], kept.get(op.op_id, ())))
    for table in spec.tables.values():
        if table.kind is TableKind.LOCAL and not table.side_inputs:
            meanings[f"{TABLE}{table.table_id}"] = _of_table(table, resolver.tables.get(table.table_id))
    return meanings


def _kept_messages(
    spec: ApplicationSpec, plan: ExecutionPlan, reported: Mapping[str, Schema], contents: Mapping[str, TopicContent]
) -> dict[str, Inputs]:
    """The columns that come to operators which keep messages: those that the stage uses, as far as they are known."""
    kept: dict[str, Inputs] = {}
    keeping = {op.op_id for op in spec.operators if kind_of(op).keeps_messages(op)}
    for stage in plan.stages:
        members = keeping.intersection(stage.operators)
        if members:
            with suppress(SchemaError):  # Spark reports them when the stage runs
                compiled = compile_stage(spec, plan, stage.stage_id, reported, contents).operators
                kept.update({op_id: compiled[op_id].inputs for op_id in members})
    return kept


def _of_table(table: TableDescriptor, schema: Schema | None) -> StateMeaning:
    facets = {
        "key": ", ".join(table.key),
        "columns": ", ".join(typed(schema, name) for name in schema.names) if schema is not None else None,
        "time to live": "none" if table.ttl_ms is None else "of each row",
    }
    return StateMeaning(f"the table {table.table_id!r}", table.table_id, without_unknown(facets))
