"""The streams of a run as their systems see them: names, rendered paths, bounds by time, partition counts, columns.

The plan step binds by it, and rejects streams that cannot be read so; among them files that several tasks read parts
of, behind an operator that assumes that each key lies in one partition. The preview of a backfill asks it what a run
would read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.declarations.serdes import REGISTRY
from airflow_samza.application.descriptors import StreamDescriptor, StreamRole
from airflow_samza.application.operator_spec import KeyedSpec
from airflow_samza.application.operator_specs import SendToSpec
from airflow_samza.errors import (
    ConfigError,
    PartitioningMismatch,
    PlanError,
    SamzaError,
    SectionOpen,
    TopicError,
    UnsupportedShape,
)
from airflow_samza.grouping import grouped
from airflow_samza.planner.join_groups import streams_arriving
from airflow_samza.planner.paths import operator_label
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.planner.wording import partition_before
from airflow_samza.prepare.input_versions import up_to
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.prepare.side_inputs import CREATE_STREAM, reported_columns, side_input_missing
from airflow_samza.runs.records.data_interval import folder_of_values, needed_interval, render_path
from airflow_samza.runs.records.names import safe
from airflow_samza.runs.records.run_plan import SIDE_INPUT, BoundStream, RunPlan
from airflow_samza.schema import Schema
from airflow_samza.system_kinds import traits_of
from airflow_samza.systems.capabilities import FixesOutputs, SendsBytes
from airflow_samza.systems.serdes.binding import bind_serde, with_schema_file
from airflow_samza.systems.serdes.serde import AsksRegistry
from airflow_samza.systems.system import StreamMetadata, StreamSpec, System
from airflow_samza.systems.tables.options import WAITING
from airflow_samza.task.program.kinds.operator_kind import CompiledOperator

_TEMPLATES = ("as_of", "branch", "ref", WAITING)
"""Options of tables that may name the run and its interval."""


def described(stream: StreamDescriptor, spec: ApplicationSpec, request: RunRequest) -> StreamSpec:
    """Return a stream as its system sees it, before its partition count is known."""
    path, below = stream.path, None
    if path is not None:
        below = folder_of_values(path)
        path = _rendered(path, stream, spec, request)
    bounds: tuple[int, int] | None = None
    if stream.slice_by == "timestamp" and stream.role is StreamRole.INPUT:
        if stream.timestamp is None:
            raise ConfigError(
                f"The input {stream.stream_id!r} is sliced by timestamp, and has no timestamp column.",
                hint='Name it: timestamp="at".',
                key="timestamp",
                stream=stream.stream_id,
            )
        bounds = needed_interval(
            request.interval,
            stream=stream.stream_id,
            what="slice by timestamp",
            partition_key=request.partition_key,
        ).micros()
    options = tuple(
        (option, _option(option, value, stream, spec, request) if option in _TEMPLATES else value)
        for option, value in stream.options
    )
    feeds = stream.role is StreamRole.SIDE_INPUT
    return StreamSpec(
        name=stream.physical_name(spec.config),
        partitions=stream.partitions,
        schema=stream.read_schema.ddl() if stream.read_schema is not None else None,
        key=_table_key(stream, spec) if feeds and not stream.key else stream.key,
        format=stream.format,
        path=path,
        timestamp=stream.timestamp,
        interval=bounds,
        broadcast=stream.broadcast,
        written=stream.role is StreamRole.OUTPUT,
        tolerant=stream.on_error is not None,
        options=options,
        below=below,
        serde=serde_of(stream),
        deletes=feeds or stream.events is not None,
        up_to=up_to(request, stream.stream_id),
        changes=stream.changes,
    )


def reject_uncut(spec: ApplicationSpec, streams: Mapping[str, BoundStream], kinds: Mapping[str, str]) -> None:
    """Reject inputs by the data interval in systems that would give all messages to each run."""
    for stream_id, stream in spec.inputs.items():
        kind = kinds[stream_id]
        if stream.slice_by == "timestamp" and not traits_of(kind).cuts_by_time:
            raise ConfigError(
                f'The input {stream_id!r} has slice="timestamp", and is in the system {streams[stream_id].system!r} of '
                f"kind {kind}, which does not cut its streams by time: each run would read all messages.",
                hint='Read what is new (slice="checkpoint"), or all of it; files, tables and topics of Kafka are cut '
                "by time.",
                key="slice",
                value="timestamp",
                stream=stream_id,
            )


def _rendered(template: str, stream: StreamDescriptor, spec: ApplicationSpec, request: RunRequest) -> str:
    return render_path(
        template,
        stream=stream.stream_id,
        interval=request.interval,
        run_id=request.run_id,
        config=spec.config,
        partition_key=request.partition_key,
    )


def _option(option: str, value: str, stream: StreamDescriptor, spec: ApplicationSpec, request: RunRequest) -> str:
    """Return an option that may name the run; a run of which rows wait is named as its folder is."""
    text = _rendered(value, stream, spec, request)
    return "/".join(map(safe, text.split("/"))) if option == WAITING and text else text


def _table_key(stream: StreamDescriptor, spec: ApplicationSpec) -> tuple[str, ...]:
    """Return the key of the table that a side input without one feeds."""
    return next(table.key for table in spec.tables.values() if stream.stream_id in table.side_inputs)


def stream_metadata(
    systems: Mapping[str, System], bound: Mapping[str, BoundStream], spec: ApplicationSpec
) -> dict[str, StreamMetadata]:
    """Return what the systems know of the streams, by stream id, with one call per system."""
    by_system = grouped(
        (stream.system, stream) for stream in bound.values() if stream.role != StreamRole.INTERMEDIATE.value
    )
    by_stream: dict[str, StreamMetadata] = {}
    for name, streams in by_system.items():
        metadata = systems[name].metadata([stream.spec for stream in streams])
        for stream in streams:
            if stream.spec.name in metadata:
                by_stream[stream.stream_id] = metadata[stream.spec.name]
            elif stream.role == StreamRole.INPUT.value and spec.inputs[stream.stream_id].shared:
                raise SectionOpen(
                    f"The shared stream {stream.stream_id!r} does not exist yet: the system {name!r} has no stream "
                    f"{stream.spec.name!r}.",
                    hint="The plan of the application that writes it makes it (output_stream with shared=True); run "
                    "that first.",
                    stream=stream.stream_id,
                    system=name,
                )
            elif stream.role == StreamRole.INPUT.value and stream.spec.partitions is None:
                systems[name].slice(stream.spec)  # the system's own words say best what is missing: root, path, topic
                raise TopicError(
                    f"The input {stream.stream_id!r} does not exist: the system {name!r} has no stream "
                    f"{stream.spec.name!r}.",
                    hint=CREATE_STREAM,
                    stream=stream.stream_id,
                    system=name,
                )
            elif stream.role == SIDE_INPUT:
                raise side_input_missing(spec, stream)
    return by_stream


def input_schemas(run: RunPlan, metadata: Mapping[str, StreamMetadata]) -> dict[str, Schema]:
    """Return the columns of the inputs whose columns the systems know and the application does not declare."""
    schemas: dict[str, Schema] = {}
    for stream in run.streams.values():
        if stream.role in (StreamRole.INPUT.value, SIDE_INPUT) and stream.spec.schema is None:
            ddl = (stream.slice or {}).get("schema") or (
                metadata[stream.stream_id].schema if stream.stream_id in metadata else None
            )
            if ddl is not None:
                schemas[stream.stream_id] = (
                    reported_columns(Schema.of(str(ddl))) if stream.role == SIDE_INPUT else Schema.of(str(ddl))
                )
    return schemas


def with_schemas(
    run: RunPlan, spec: ApplicationSpec, compiled: Mapping[str, CompiledOperator]
) -> dict[str, BoundStream]:
    """Return the streams; the run's own topics with the columns that reach them, where Catalyst is not needed."""
    streams = dict(run.streams)
    for stream_id in spec.intermediates:
        operator = compiled.get(spec.input_operator(stream_id).op_id)
        if operator is not None and operator.schema is not None:
            bound = streams[stream_id]
            streams[stream_id] = dataclasses.replace(
                bound, spec=dataclasses.replace(bound.spec, schema=operator.schema.ddl())
            )
    return streams


def with_plan(stream: BoundStream, plan: ExecutionPlan) -> BoundStream:
    """Return the stream with the partition count and the schema that the plan gave it."""
    planned = plan.stream(stream.stream_id)
    partitions = planned.partitions if planned.partitions > 0 else stream.spec.partitions
    schema = stream.spec.schema or planned.schema
    return dataclasses.replace(stream, spec=dataclasses.replace(stream.spec, partitions=partitions, schema=schema))


def output_schemas(spec: ApplicationSpec, compiled: Mapping[str, CompiledOperator]) -> dict[str, Schema]:
    """Return the columns of outputs: the declared ones, else those of the messages that are sent, where known."""
    schemas: dict[str, Schema] = {}
    for operator in spec.operators:
        sent = compiled.get(operator.op_id)
        if isinstance(operator, SendToSpec) and sent is not None and sent.inputs[0] is not None:
            schemas.setdefault(operator.stream.stream_id, sent.inputs[0])
    declared = {stream_id: stream.schema for stream_id, stream in spec.outputs.items() if stream.schema is not None}
    return {**schemas, **declared}


def fixed_outputs(
    run: RunPlan,
    systems: Mapping[str, System],
    columns: Mapping[str, Schema] | None = None,
    root: str = "",
) -> dict[str, BoundStream]:
    """Return the streams; outputs to tables with what tasks need to write them, asked for unless it is known.

    ``columns`` are those of the outputs' messages; None: the streams know them by now. ``root`` is the
    identity of the run's root: runs of other roots may have the same names, and write the same tables.
    """
    streams = dict(run.streams)
    for stream_id, bound in run.streams.items():
        system = systems[bound.system]
        if bound.role == StreamRole.OUTPUT.value and isinstance(system, FixesOutputs):
            ddl = bound.spec.schema
            schema = columns.get(stream_id) if columns is not None else Schema.of(ddl) if ddl is not None else None
            spec = bound.spec if schema is None else dataclasses.replace(bound.spec, schema=schema.ddl())
            name = f"{root}/{run.application}/{run.run_id}/{run.generation}"
            exists = bound.slice is not None and "made" not in bound.slice
            fixed = {**(bound.slice or {}), "run": name} if exists else system.fix_output(spec, schema, name)
            streams[stream_id] = dataclasses.replace(bound, spec=spec, slice=fixed)
    return streams


def serde_of(stream: StreamDescriptor) -> str | None:
    """Return what a run's record keeps of a stream's serde: an Avro schema itself in the place of its file's name."""
    if stream.serde is None:
        return None
    return with_schema_file(
        stream.serde, stream.stream_id, stream.location.file if stream.location is not None else None
    )


def check_serdes(
    spec: ApplicationSpec,
    bound: Mapping[str, BoundStream],
    kept: Mapping[str, Mapping[str, Any]],
    systems: Mapping[str, System],
) -> list[SamzaError]:
    """Return the errors in the serdes of an application, for the systems of its streams."""
    return [
        error
        for stream in bound.values()
        if stream.spec.serde is not None
        for error in _wrong(spec, stream, kept[stream.system]["kind"], systems[stream.system])
    ]


def _wrong(spec: ApplicationSpec, stream: BoundStream, kind: str, system: System) -> list[SamzaError]:
    subject = f"The stream {stream.stream_id!r} has serde={spec.stream(stream.stream_id).serde!r}, and"
    rejected = traits_of(kind).without_serdes
    if rejected is not None:
        what, hint = rejected
        where = f"{subject} is in the system {stream.system!r} of kind {kind}, {what}."
        return [UnsupportedShape(where, hint=hint, stream=stream.stream_id, system=stream.system)]
    if stream.spec.interval is not None and traits_of(kind).through_topics:
        return [
            UnsupportedShape(
                f'{subject} slice="timestamp": Spark cannot look into the bytes for the rows of the data interval.',
                hint="Bound the input by its path=, or by a query over a column beside the bytes.",
                stream=stream.stream_id,
            )
        ]
    if dict(stream.spec.options).get("partition_by"):
        return [
            ConfigError(
                f"{subject} is written with partition_by, whose columns are inside of the bytes.",
                hint="Leave partition_by out, or leave serde= out.",
                key="partition_by",
                stream=stream.stream_id,
            )
        ]
    if stream.spec.schema is None and not str(stream.spec.serde).startswith(REGISTRY):
        return []  # the columns of what is sent, which are known when it is
    try:
        if isinstance(system, SendsBytes):
            serde = system.value_serde(stream.spec)
        else:
            schema = (Schema(()) if stream.spec.schema is None else Schema.of(stream.spec.schema)).to_arrow()
            serde = bind_serde(str(stream.spec.serde), schema, stream.stream_id, system=stream.system)
        if isinstance(serde, AsksRegistry):
            serde.check_written() if stream.spec.written else serde.check_read()
    except SamzaError as error:
        return [error]
    return []


def reject_cut_files(spec: ApplicationSpec, streams: Mapping[str, BoundStream]) -> Iterator[PlanError]:
    """Yield an error for each operator with ``assume_partitioned_by`` that reads a file in several partitions."""
    for op in spec.operators:
        if not isinstance(op, KeyedSpec) or not op.assume_partitioned_by:
            continue
        for stream_id in streams_arriving(op):
            path = _file_in_parts(streams[stream_id].slice or {}) if stream_id in spec.inputs else None
            if path is not None:
                yield PartitioningMismatch(
                    f"{operator_label(op)} has assume_partitioned_by=, and several partitions read parts of the "
                    f"file {path} of {stream_id!r}: the rows of one key may lie in several of them.",
                    hint=f"{partition_before(op.key)}; or give {stream_id!r} fewer partitions, or smaller files.",
                    operator=op.op_id,
                    key=op.key,
                    stream=stream_id,
                    location=str(op.location) if op.location else None,
                )


def _file_in_parts(slice_: Mapping[str, Any]) -> str | None:
    """Return the path of a file of a slice of which several partitions read parts; None: there is none."""
    splits: Sequence[Sequence[Sequence[Any]]] = slice_.get("splits", ())
    read: set[int] = set()
    for of_partition in splits:
        files = {int(split[0]) for split in of_partition}
        if read & files:
            return str(slice_["files"][min(read & files)]["path"])
        read |= files
    return None
