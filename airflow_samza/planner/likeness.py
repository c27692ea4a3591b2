"""The likeness of two plans: of one application, which may have moved to another module, or of two."""

from __future__ import annotations

import re
from typing import Any

from airflow_samza.planner.plan import ExecutionPlan

_MODULES = re.compile(r"(?:\b[A-Za-z_]\w*\.)+(?=[A-Za-z_<])")
"""The places of a function before its own name: ``pipelines.views.`` of ``pipelines.views.clean``."""


def are_alike(plan: ExecutionPlan, other: ExecutionPlan) -> bool:
    """Return True if two plans are equal in all that the code of an application says.

    Partition counts, and the modules and bodies of functions, play no part; so one of them may be a shape
    (:func:`~airflow_samza.planner.planner.plan_shape`).
    """
    return plan.shape_fingerprint == other.shape_fingerprint and _said(plan) == _said(other)


def _said(plan: ExecutionPlan) -> tuple[Any, ...]:
    operators = [(op.op_id, op.op, op.inputs, op.stream, op.table, op.schema, _details(op)) for op in plan.operators]
    streams = [(stream.stream_id, stream.role, stream.system, stream.schema) for stream in plan.streams]
    return operators, streams, plan.tables


def _details(operator: Any) -> dict[str, str]:
    return {name: without_modules(text) for name, text in operator.details if name != "broadcast_handled_by"}


def without_modules(text: str) -> str:
    """Return names of functions without the modules in which they stand: an application may move to another.

    >>> without_modules("pipelines.views.clean")
    'clean'
    """
    return _MODULES.sub("", text)
