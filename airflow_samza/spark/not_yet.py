"""What can be planned, and run by the test driver, and not yet by stages on Spark: refused before anything runs, all at once."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StreamDescriptor
from airflow_samza.errors import NotYet, PlanError, raise_all
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.task.not_yet import not_yet


def refuse_what_cannot_run(spec: ApplicationSpec, plan: ExecutionPlan) -> None:
    """Raises :class:`NotYet` (several at once: :class:`PlanErrors`) for whatever cannot run yet."""
    found: list[PlanError] = not_yet(spec)
    read = {stream_id for stage in plan.stages for stream_id in stage.inputs}
    for stream_id in sorted(read & set(spec.inputs)):
        found += _input(spec.inputs[stream_id])
    raise_all(found)


def _input(stream: StreamDescriptor) -> Iterator[NotYet]:
    name = stream.stream_id
    at = f" ({stream.location})" if stream.location is not None else ""
    if stream.reader is not None:
        hint = "Write the DataFrame to files, or with format samza, and read those."
        yield _not_yet(f"The input {name!r}{at} comes from a DataFrame", hint, stream=name)


def _not_yet(what: str, hint: str, **facts: object) -> NotYet:
    return NotYet(f"{what}: it can be planned, and this version cannot run it yet.", hint=hint, **facts)
