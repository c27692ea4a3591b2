"""The registry of the kinds of operators, by the class of their specs.

The compiler of a stage, column lineage and the meaning of state look up here.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.task.program.kinds.keyed import KEYED
from airflow_samza.task.program.kinds.operator_kind import OperatorKind
from airflow_samza.task.program.kinds.sending import SENDING
from airflow_samza.task.program.kinds.stateless import STATELESS

KINDS: Mapping[type[OperatorSpec], OperatorKind] = {**STATELESS, **KEYED, **SENDING}
"""The facts of every kind of operator in a task."""


def kind_of(operator: OperatorSpec) -> OperatorKind:
    """Return the facts of an operator's kind."""
    return KINDS[type(operator)]
