"""What the planner plans and this version of the runtime cannot run: refused before anything runs, all at once."""

from __future__ import annotations

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.operator_specs import (
    OperatorSpec,
    SendToTableSpec,
    TableJoinSpec,
)
from airflow_samza.errors import NotYet, PlanError, raise_all


def refuse_not_yet(spec: ApplicationSpec) -> None:
    """Raise :class:`NotYet` (several as one error) when something of the application cannot run yet."""
    raise_all(not_yet(spec))


def not_yet(spec: ApplicationSpec) -> list[PlanError]:
    """What of the application cannot run yet, a :class:`NotYet` each."""
    return [error for operator in spec.operators for error in _operator(operator)]


def _operator(operator: OperatorSpec) -> list[PlanError]:
    if isinstance(operator, TableJoinSpec | SendToTableSpec):
        table = operator.table
        if table.processor is not None:
            return [_said(operator, f"processors of side inputs (table {table.table_id!r})", "Leave processor= out: a message is a row.")]
    return []


def _said(operator: OperatorSpec, what: str, hint: str) -> NotYet:
    at = f" ({operator.location})" if operator.location is not None else ""
    return NotYet(f"{operator.title}{at} is planned, and this version cannot run {what} yet.", hint=hint, operator=operator.op_id)
