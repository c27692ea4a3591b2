"""Column lineage of applications of tests, and a short way to write down what is expected of it."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.planner.planner import ExecutionPlanner
from airflow_samza.runs.records.run_plan import TopicContent
from airflow_samza.schema import Schema
from airflow_samza.task.program.column_lineage import column_lineage
from airflow_samza.task.program.column_sources import Sources, StreamLineage, lineage_through
from airflow_samza.task.program.pruning.topics import reduce_topics
from airflow_samza.task.program.stage_program import check_application

Stages = dict[str, dict[str, StreamLineage]]


def planned(spec: ApplicationSpec) -> tuple[ExecutionPlan, Mapping[str, TopicContent]]:
    """Return the plan, and what goes through its topics where that is less than whole messages."""
    plan = ExecutionPlanner({}, {}).plan(spec)
    return plan, reduce_topics(spec, plan, check_application(spec, plan))


def stages_of(spec: ApplicationSpec, *, reduced: bool = True, known: Mapping[str, Schema] | None = None) -> Stages:
    """Return the column lineage by stage; ``reduced``: with topics as they really are."""
    plan, contents = planned(spec)
    operators = {stage.stage_id: stage.operators for stage in plan.stages}
    return column_lineage(spec, operators, known or {}, contents if reduced else {})


def whole_run(spec: ApplicationSpec, *, reduced: bool = True) -> dict[str, StreamLineage]:
    """Return the column lineage of outputs in columns of inputs."""
    found = lineage_through(stages_of(spec, reduced=reduced))
    return {stream_id: lineage for stream_id, lineage in found.items() if stream_id in spec.outputs}


def said(sources: Sources) -> set[str]:
    """Return sources as ``stream.column how``, with a ``?`` behind those of user code."""
    return {f"{s.stream}.{s.column} {s.how}{'?' if s.opaque else ''}" for s in sources}
