"""XComs of tasks: the ticket from which tasks of stages find the plan, a note for the page in Airflow, and results.

The API server reads no Dag files, so the note names what it needs to open the root and the systems: connections, by id.
Plan tasks write them; operators of stages and the page read them. Results of stages are counts and places, without long
lists. See decision 98.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_samza.errors import PlanError, RecordUnreadable, SamzaError
from airflow_samza.records import from_plain, plain
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import StageResult, new_results, run_seconds

if TYPE_CHECKING:
    from typing_extensions import Self

PLAN_NOTE, PLAN_FAILURE = "samza_run", "samza_plan_failure"
"""The keys of the XComs with the note, and with why there is none."""


class _Xcom:
    """The value of an XCom, which others may have written."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return plain(self)

    @classmethod
    def from_dict(cls, data: Any) -> Self | None:
        """Return what :meth:`to_dict` described; None of anything else."""
        try:
            return from_plain(cls, data)
        except RecordUnreadable:
            return None


@dataclass(frozen=True)
class PlanNote(_Xcom):
    """A planned run: the ids of connections, no secret of them.

    ``group`` is the task group or task that tells this use of the application from others in the Dag; ``tasks`` are
    the tasks that run the stages, by stage id; ``planned_at`` in seconds since 1970; ``interval`` is the data interval
    (ISO texts, UTC) and ``partition_key`` the key of the data, where the run has one.
    """

    application: str
    run_id: str
    generation: int
    fingerprint: str
    conn_id: str
    planned_at: float
    mode: str = "staged"
    group: str = ""
    systems: Mapping[str, str] = field(default_factory=dict)
    tasks: Mapping[str, str] = field(default_factory=dict)
    interval: tuple[str, str] | None = None
    partition_key: str | None = None

    def __post_init__(self) -> None:
        """Reject an interval of other texts."""
        for moment in self.interval or ():
            datetime.fromisoformat(moment)


@dataclass(frozen=True)
class PlanFailure(_Xcom):
    """Reason why a run could not be planned, in texts that quote no rows where these are hidden.

    ``application`` is the application as the Dag names it; ``kind`` the class of the error, ``rule`` its keyword,
    ``failed_at`` in seconds since 1970.
    """

    application: str
    conn_id: str
    kind: str
    sentence: str
    hint: str
    failed_at: float
    rule: str = SamzaError.rule


@dataclass(frozen=True)
class PlanTicket(_Xcom):
    """A generation of a run's plan, by name.

    ``tables`` are the inputs that are tables of lakes, for whoever pulls the XCom: table, snapshot or version, files,
    rows and bytes, as the plan fixes them.
    """

    application: str
    run_id: str
    generation: int
    fingerprint: str
    stages: tuple[str, ...]
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: Any) -> PlanTicket:
        """Return the ticket that :meth:`to_dict` described."""
        try:
            return from_plain(cls, data)
        except RecordUnreadable:
            shown = sorted(data) if isinstance(data, Mapping) else data
            raise PlanError(
                f"The task got no plan to work from, but {shown!r}.",
                hint="Pass plan=<the SamzaPlanOperator>.output, and clear the plan task with its downstream if its "
                "XCom is gone.",
            ) from None


LONGEST_LIST = 50
"""Files of an output beyond this many are left out of the XCom."""


def summary(run: RunPlan, results: Iterable[StageResult]) -> dict[str, Any]:
    """Return the XCom of stages, by stream: inputs with their ranges, and outputs with rows and places.

    ``seconds`` is the time in which at least one of the stages was at work, without those that keep a former result;
    ``bytes`` of inputs are those in memory.
    """
    stage_results = list(results)
    outputs = [output for result in stage_results for output in result.outputs]
    inputs = [read for result in stage_results for read in result.inputs]
    return {
        "run_id": run.run_id,
        "stages": [result.stage_id for result in stage_results],
        "generation": stage_results[-1].generation if stage_results else None,
        "seconds": round(run_seconds(run, new_results(stage_results)), 3),
        "read": {
            read.stream_id: {"messages": read.messages, "control": read.control, "bytes": read.bytes} for read in inputs
        },
        "slices": {
            read.stream_id: run.range_facts(read.stream_id) for read in inputs if not run.is_own(read.stream_id)
        },
        "rows": {output.stream_id: output.messages for output in outputs},
        "outputs": {
            output.stream_id: {
                "system": output.system,
                "stream": output.stream,
                "control": output.control,
                "bytes": output.bytes,
                **({"expectations": [plain(each) for each in output.expectations]} if output.expectations else {}),
                **({"held": True} if output.held else {}),
                **_short_facts(output.facts),
            }
            for output in outputs
        },
    }


def _short_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a system's facts without long lists: XComs lie in Airflow's database."""
    short: dict[str, Any] = {}
    for name, value in facts.items():
        if isinstance(value, list | tuple) and len(value) > LONGEST_LIST:
            short[name] = [*value[:LONGEST_LIST]]
            short[f"{name}_left_out"] = len(value) - LONGEST_LIST
        else:
            short[name] = value
    return short
