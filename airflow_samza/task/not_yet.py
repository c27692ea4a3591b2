"""What the planner plans and this version of the runtime cannot run: refused before anything runs, all at once."""

from __future__ import annotations

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import TableKind
from airflow_samza.application.operator_specs import (
    AggregateSpec,
    OperatorSpec,
    SendToTableSpec,
    StreamJoinSpec,
    TableJoinSpec,
    TaskSpec,
    WindowOperatorSpec,
)
from airflow_samza.control.end_of_stream import output_sources
from airflow_samza.errors import NotYet, PlanError, raise_all
from airflow_samza.planner.plan import ExecutionPlan


def refuse_not_yet(spec: ApplicationSpec, plan: ExecutionPlan) -> None:
    """Raise :class:`NotYet` (several as one error) when something of the application cannot run yet."""
    raise_all(not_yet(spec, plan))


def not_yet(spec: ApplicationSpec, plan: ExecutionPlan) -> list[PlanError]:
    """What of the application cannot run yet, a :class:`NotYet` each."""
    return [
        *(error for operator in spec.operators for error in _operator(operator)),
        *_circles(plan),
        *_unbounded(spec, plan),
        *_configured(spec),
    ]


def _operator(operator: OperatorSpec) -> list[PlanError]:
    if isinstance(operator, WindowOperatorSpec):
        return [_said(operator, "windows", "Use aggregate for one result per key at the end of the stream.")]
    if isinstance(operator, StreamJoinSpec):
        return [_said(operator, "joins of two streams", "Write one of the streams to a local table and join that.")]
    if isinstance(operator, TableJoinSpec | SendToTableSpec):
        table = operator.table
        if table.kind is TableKind.REMOTE:
            return [_said(operator, f"remote tables ({table.table_id!r})", "Read or write it in a Python callable (map, sink).")]
        if table.processor is not None:
            return [_said(operator, f"processors of side inputs (table {table.table_id!r})", "Leave processor= out: a message is a row.")]
    if isinstance(operator, TaskSpec) and hasattr(operator.factory, "window"):
        return [_said(operator, "window() of a low-level task", "Do the work in process or in on_end_of_stream.")]
    return []


def _said(operator: OperatorSpec, what: str, hint: str) -> NotYet:
    at = f" ({operator.location})" if operator.location is not None else ""
    return NotYet(f"{operator.title}{at} is planned, and this version cannot run {what} yet.", hint=hint, operator=operator.op_id)


def _circles(plan: ExecutionPlan) -> list[PlanError]:
    return [
        NotYet(
            f"Stage {stage.stage_id!r} reads what it writes, and this version cannot run such a stage yet.",
            hint="Send the results to an output stream, and read that in the next run.",
            stage=stage.stage_id,
        )
        for stage in plan.stages
        if stage.several_epochs
    ]


def _unbounded(spec: ApplicationSpec, plan: ExecutionPlan) -> list[PlanError]:
    """An aggregation or table behind an unbounded input keeps state from run to run."""
    inputs_of = {operator.op_id: [source.op_id for source in operator.inputs] for operator in spec.operators}
    streams = {operator.op_id: operator.stream for operator in plan.operators if operator.op == "input" and operator.stream is not None}
    keepers = [operator for operator in spec.operators if isinstance(operator, AggregateSpec | SendToTableSpec)]
    sources = output_sources(inputs_of, streams, {operator.op_id: [operator.op_id] for operator in keepers})
    errors: list[PlanError] = []
    for operator in keepers:
        unbounded = sorted(stream for stream in sources[operator.op_id] if not plan.stream(stream).bounded)
        if unbounded:
            what = f"state behind the unbounded stream {unbounded[0]!r}"
            errors.append(_said(operator, what, "Declare the input bounded, or bound it: path=, timestamp= over the data interval."))
    return errors


def _configured(spec: ApplicationSpec) -> list[PlanError]:
    key = "task.chooser.class"
    if key not in spec.config:
        return []
    return [
        NotYet(
            f"{key} is {spec.config[key]!r}, and this version cannot run choosers of one's own yet.",
            hint=f"Remove {key}; inputs are read by bootstrap and priority.",
            key=key,
            value=spec.config[key],
        )
    ]
