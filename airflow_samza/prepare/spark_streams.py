"""Streams of systems of kind ``spark`` in a run's plan: notes about them and about outputs, and what is rejected.

The plan step rejects and notes by it; upserts into databases find their table by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.callables import callable_name
from airflow_samza.application.descriptors import StreamRole
from airflow_samza.errors import ConfigError, UnsupportedShape
from airflow_samza.runs.records.run_plan import CONTINUOUS, BoundStream, Note, RunPlan
from airflow_samza.system_kinds import traits_of
from airflow_samza.systems.spark.system import CarriedByDriver
from airflow_samza.systems.spark.tables import UPSERT
from airflow_samza.systems.system import System


def reject_unreadable(
    spec: ApplicationSpec, bound: Mapping[str, BoundStream], kept: Mapping[str, Mapping[str, Any]]
) -> None:
    """Reject what Spark's reading once, before a stage, cannot give.

    An unbounded input, a table's feed, rows that fail one by one.
    """
    for stream in bound.values():
        kind = kept[stream.system]["kind"]
        read = stream.role in (StreamRole.INPUT.value, StreamRole.SIDE_INPUT.value)
        if not (read and traits_of(kind).through_topics):
            continue
        where = f"{stream.stream_id!r} is in the system {stream.system!r} of kind {kind}"
        if stream.role == StreamRole.SIDE_INPUT.value:
            raise UnsupportedShape(
                f"The side input {where}, which cannot feed a table.",
                hint="Push it: app.pushed_table(…) and a SamzaTablePushOperator, whose source may be anything that "
                "Spark reads.",
                stream=stream.stream_id,
            )
        declared = spec.inputs[stream.stream_id]
        if declared.shared or not declared.bounded:
            raise UnsupportedShape(
                f"The input {where}, which is read once and whole, and is declared unbounded.",
                hint='Leave bounded= and slice="checkpoint" out; slice="timestamp" reads '
                "the rows of the data interval.",
                stream=stream.stream_id,
            )
        if declared.on_error is not None:
            raise UnsupportedShape(
                f"The input {where}, where rows cannot fail one by one, and has on_error=.",
                hint="Read a broader type, and convert it after the input in an operator that has on_error=.",
                stream=stream.stream_id,
            )


def reject_unbounded(run: RunPlan, systems: Mapping[str, System]) -> None:
    """Reject outputs that are written when the stage ends, in a run that does not end."""
    for stream_id, system in _outputs(run, systems):
        table = system.table(run.stream(stream_id).spec)
        if run.mode == CONTINUOUS and table.waits_for_the_end:
            raise ConfigError(
                f"The output {stream_id!r} has mode={table.mode!r}, which is written when the stage ends, and a "
                "continuous run does not end.",
                hint='Write it with mode="append", or run it staged or pipelined.',
                key="mode",
                value=table.mode,
                stream=stream_id,
            )


def reject_over_connect(run: RunPlan, systems: Mapping[str, System]) -> None:
    """Reject outputs that are upserted by a connection of the driver's Java, where stages have none."""
    for stream_id, system in _outputs(run, systems):
        table = system.table(run.stream(stream_id).spec)
        if table.mode == UPSERT:
            raise upserted_over_connect(stream_id, table.place)


def upserted_over_connect(stream_id: str, place: str) -> ConfigError:
    """Return the error of an output that cannot be upserted by a client of Spark Connect."""
    return ConfigError(
        f"The output {stream_id!r} is upserted into {place}, which needs a connection of the driver's Java, and over "
        "Spark Connect there is none.",
        hint="Run the application on a master of another kind; or append the changes, and merge them in the database.",
        key="mode",
        value=UPSERT,
        stream=stream_id,
    )


def spark_notes(run: RunPlan, spec: ApplicationSpec, systems: Mapping[str, System]) -> Iterator[Note]:
    """Yield what stages read by Spark, and what is promised of what Spark writes."""
    outputs = dict(_outputs(run, systems))
    for stage in run.plan.stages:
        for stream_id in stage.outputs:
            if stream_id in outputs:
                table = outputs[stream_id].table(run.stream(stream_id).spec)
                rerun = f"; {table.rerun}" if table.rerun else ""
                yield stage.stage_id, stream_id, f"written by Spark to {table.place}; {table.delivery}{rerun}"
        for bound, system in run.outside(stage.inputs, systems, CarriedByDriver):
            source = _source(spec, run, system, bound.stream_id)
            yield stage.stage_id, bound.stream_id, f"read once by Spark, before the stage: {source}"


def _source(spec: ApplicationSpec, run: RunPlan, system: CarriedByDriver, stream_id: str) -> str:
    reader = spec.inputs[stream_id].reader
    if reader is None:
        return system.table(run.stream(stream_id).spec).place
    at = spec.inputs[stream_id].location
    return f"the DataFrame of {callable_name(reader)}" + (f", line {at.line}" if at is not None else "")


def _outputs(run: RunPlan, systems: Mapping[str, System]) -> list[tuple[str, CarriedByDriver]]:
    written = sorted({stream_id for stage in run.plan.stages for stream_id in stage.outputs})
    return [(bound.stream_id, system) for bound, system in run.outside(written, systems, CarriedByDriver)]
