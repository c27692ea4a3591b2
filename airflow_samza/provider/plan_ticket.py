"""The ticket that the ``plan`` task gives to the stages through XCom: where their plan lies, and its fingerprint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_samza.errors import PlanError, RecordUnreadable
from airflow_samza.records import made, plain


@dataclass(frozen=True)
class PlanTicket:
    """A generation of a run's plan, by name."""

    application: str
    run_id: str
    generation: int
    fingerprint: str
    stages: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return plain(self)

    @classmethod
    def from_dict(cls, data: Any) -> PlanTicket:
        """Return the ticket that :meth:`to_dict` described."""
        try:
            return made(cls, data)
        except RecordUnreadable:
            shown = sorted(data) if isinstance(data, Mapping) else data
            raise PlanError(
                f"The task got no plan to work from, but {shown!r}.",
                hint="Pass plan=<the SamzaPlanOperator>.output, and clear the plan task with its downstream if its "
                "XCom is gone.",
            ) from None
