"""What the planner plans and this version does not run yet: refused by name before anything runs, all at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StreamDescriptor, TableKind
from airflow_samza.application.operator_specs import OperatorSpec, StreamJoinSpec, TableJoinSpec, TaskSpec, WindowOperatorSpec
from airflow_samza.application.task_api import WindowableTask
from airflow_samza.errors import NotYet, PlanError, PlanErrors
from airflow_samza.planner.plan import Stage


def refuse_what_cannot_run(spec: ApplicationSpec, stages: Iterable[Stage], config: Mapping[str, str]) -> None:
    """Raises :class:`NotYet` (several at once: :class:`PlanErrors`) for whatever in these stages cannot run yet."""
    stages = list(stages)
    found: list[PlanError] = [*_config(config)]
    for stage in stages:
        found += _stage(stage)
        for op_id in stage.operators:
            found += _operator(spec.operator(op_id), stage)
    for stream_id in sorted({stream_id for stage in stages for stream_id in stage.inputs}):
        if stream_id in spec.inputs:
            found += _input(spec.inputs[stream_id])
    for table_id in sorted({table_id for stage in stages for table_id in stage.tables}):
        found += _table(spec, table_id)
    if len(found) == 1:
        raise found[0]
    if found:
        raise PlanErrors(found)


def _config(config: Mapping[str, str]) -> Iterator[NotYet]:
    for key in sorted(config):
        if key.startswith("task.chooser.") or key == "task.window.ms" or (key.startswith("systems.") and key.endswith(".samza.priority")):
            yield _not_yet(f"The configuration key {key} asks for what this version does not do yet", "Leave the key out.", key=key)


def _stage(stage: Stage) -> Iterator[NotYet]:
    if stage.several_epochs:
        both = ", ".join(sorted(set(stage.inputs) & set(stage.outputs))) or ", ".join(stage.inputs)
        yield _not_yet(
            f"The stage {stage.stage_id!r} reads what it writes ({both})",
            "Cut the circle: send to an output stream, and read it in another application.",
            stage=stage.stage_id,
        )


def _operator(operator: OperatorSpec, stage: Stage) -> Iterator[NotYet]:
    at = f" ({operator.location})" if operator.location is not None else ""
    facts = {"operator": operator.op_id, "stage": stage.stage_id}
    if isinstance(operator, WindowOperatorSpec):
        yield _not_yet(
            f"The {operator.window.kind} window {operator.name!r}{at} needs event time",
            "Aggregate per key at the end of the stream: .aggregate(key, …, id=…), with the window's start as a key column.",
            **facts,
        )
    elif isinstance(operator, StreamJoinSpec):
        yield _not_yet(
            f"The stream-stream join {operator.name!r}{at} needs event time",
            "Send one side to a local table, .send_to(app.local_table(…)), and join the other with the table.",
            **facts,
        )
    elif isinstance(operator, TaskSpec) and isinstance(operator.factory, type) and issubclass(operator.factory, WindowableTask):
        yield _not_yet(
            f"The task {operator.factory.__name__}{at} is windowable, which needs a clock across epochs",
            "Do what window() does in end_of_stream().",
            **facts,
        )
    elif isinstance(operator, TableJoinSpec) and operator.table.kind is TableKind.REMOTE:
        yield _not_yet(
            f"The join {operator.name!r}{at} reads the remote table {operator.table.table_id!r}",
            "Read it in a map_batches, or fill a local table from a stream.",
            **facts,
        )


def _input(stream: StreamDescriptor) -> Iterator[NotYet]:
    name = stream.stream_id
    at = f" ({stream.location})" if stream.location is not None else ""
    if stream.reader is not None:
        yield _not_yet(
            f"The input {name!r}{at} comes from a DataFrame",
            "Write the DataFrame to files or with format samza, and read those.",
            stream=name,
        )
    if not stream.bounded or stream.slice_by == "checkpoint":
        what = "is sliced by checkpoint" if stream.slice_by == "checkpoint" else "is unbounded"
        yield _not_yet(
            f"The input {name!r}{at} {what}",
            "Bound it: a path= over the data interval, or slice='timestamp' with a timestamp column.",
            stream=name,
        )
    if stream.shared:
        yield _not_yet(f"The input {name!r}{at} is shared between Dags", "Read it as an input_stream.", stream=name)
    if stream.bootstrap or stream.priority is not None:
        yield _not_yet(
            f"The input {name!r}{at} has a {'priority' if stream.priority is not None else 'bootstrap mark'} for the chooser",
            "Leave it out; a table that is filled from a stream is full before its joins start.",
            stream=name,
        )


def _table(spec: ApplicationSpec, table_id: str) -> Iterator[NotYet]:
    table = spec.table(table_id)
    at = f" ({table.location})" if table.location is not None else ""
    if table.kind is TableKind.PUSHED or table.side_inputs:
        yield _not_yet(
            f"The table {table_id!r}{at} is fed by side inputs",
            "Fill a local table at the start: app.local_table(…) and stream.send_to(table).",
            table=table_id,
        )


def _not_yet(what: str, hint: str, **facts: object) -> NotYet:
    return NotYet(f"{what}: it can be planned, and this version cannot run it yet.", hint=hint, **facts)
