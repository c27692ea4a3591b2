"""What the planner plans and this version of the runtime cannot run: refused before anything runs, all at once."""

from __future__ import annotations

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.errors import PlanError, raise_all


def refuse_not_yet(spec: ApplicationSpec) -> None:
    """Raise :class:`NotYet` (several as one error) when something of the application cannot run yet."""
    raise_all(not_yet(spec))


def not_yet(spec: ApplicationSpec) -> list[PlanError]:
    """What of the application cannot run yet, a :class:`NotYet` each: nothing now."""
    return []
