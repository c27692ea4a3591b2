"""Every function of the Arrow subset by its SQL name."""

from __future__ import annotations

from airflow_samza.task.expressions import (
    attempts,
    conditionals,
    dates,
    letter_case,
    nested,
    numbers,
    patterns,
    strings,
)
from airflow_samza.task.expressions.expression import Function

FUNCTIONS: dict[str, Function] = {
    **attempts.FUNCTIONS,
    **conditionals.FUNCTIONS,
    **dates.FUNCTIONS,
    **letter_case.FUNCTIONS,
    **nested.FUNCTIONS,
    **numbers.FUNCTIONS,
    **patterns.FUNCTIONS,
    **strings.FUNCTIONS,
}
