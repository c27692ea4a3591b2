"""The ``plan`` step of a run: everything that can be known, decided or refused before anything runs.

load           the application, and that its shape is what the Dag was made of
refuse         what this version does not run yet
take           the state that the run goes on from, and the lease on it
bind           the systems
describe       every stream as its system sees it: paths rendered, slices by time bounded
ask            partition counts, one call per system
plan           the ExecutionPlan, with the counts that the state depends on
slice          what is read of each input
check          columns and expressions of every stage, and that the state was made by the same ones
make           the topics that are written, the run's own and outputs; and see that outputs can be written
store          the RunPlan
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StreamDescriptor, StreamRole
from airflow_samza.application.loader import load_application
from airflow_samza.errors import ConfigError, PlanChanged, SamzaError, SectionOpen, TopicError, raise_all
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.planner.planner import ExecutionPlanner, plan_shape
from airflow_samza.prepare.bound_systems import bind_systems, declared_systems, run_bindings, system_name
from airflow_samza.prepare.carried_state import (
    FRESH,
    carried_slice,
    carries_state,
    is_carried_on,
    patience_of,
    previewed_state,
    take_state,
)
from airflow_samza.prepare.modes import check_mode
from airflow_samza.prepare.serdes import check_serdes, serde_of
from airflow_samza.prepare.shared_sections import check_names, refuse_shared_outputs, section_slice
from airflow_samza.prepare.side_inputs import (
    SideInputSlices,
    pin_versions,
    side_input_missing,
    side_streams,
    told_columns,
    with_side_input_notes,
)
from airflow_samza.prepare.spark_streams import refuse_endless, refuse_unreadable, with_spark_notes
from airflow_samza.prepare.state_notes import with_state_notes
from airflow_samza.prepare.state_starts import former_names, write_starts
from airflow_samza.prepare.superseded_inputs import InputHistory
from airflow_samza.records import plain
from airflow_samza.runs.lineage.state_changes import changed_state, dropped_and_there
from airflow_samza.runs.lineage.versions import Version
from airflow_samza.runs.records.data_interval import DataInterval, folder_of_values, needed_interval, render_path
from airflow_samza.runs.records.folders import RunFolder, adopt, read
from airflow_samza.runs.records.forgotten_runs import refuse_forgotten
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import SIDE_INPUT, STAGED, BoundStream, RunPlan
from airflow_samza.runs.records.run_state import LINEAGE
from airflow_samza.runs.upkeep.topic_expiry import open_again
from airflow_samza.schema import Schema
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import StreamMetadata, StreamSpec, System, SystemBinding
from airflow_samza.task.program.pruning.notes import flow_notes
from airflow_samza.task.program.pruning.topics import reduce_topics
from airflow_samza.task.program.schemas import CompiledOperator
from airflow_samza.task.program.stage_program import check_application
from airflow_samza.task.program.state_meanings import state_meanings


def prepare_run(
    files: Filesystem,
    bindings: Mapping[str, SystemBinding],
    reference: str,
    run_id: str,
    *,
    generation: int,
    interval: DataInterval | None,
    config: Mapping[str, str],
    shape: str | None,
    default_system: str | None,
    state: str = LINEAGE,
    wait_seconds: float | None = None,
    sections: Mapping[str, str] | None = None,
    mode: str = STAGED,
    tables: Mapping[str, str] | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> RunPlan:
    """The plan of a run, made and stored, or the one that stands; see the module's list of steps.

    ``state``: ``lineage`` goes on from the run before, ``fresh`` and the id of another run give the run a state of its
    own. ``sections`` names, by shared stream, the run of another application whose section is read, ``tables`` by
    pushed table the version that is.
    """
    spec = load_application(reference).spec(config)
    folder = RunFolder(spec.name, run_id)
    known = read(files, folder.plan(generation), RunPlan)
    _refuse_other_copy(files, folder, spec)
    if known is not None:
        return known
    outline = plan_shape(spec)
    _same_shape(outline, shape)
    check_mode(spec, mode)
    check_names(spec, sections or {})
    if state not in (LINEAGE, FRESH) and not carries_state(spec):
        raise ConfigError(
            f"The application {spec.name!r} carries no state from run to run, and this run is to go on from that of "
            f"{state!r}.",
            hint="Leave state_from out; an application carries state when an input of it goes on from run to run "
            '(slice="checkpoint").',
            key="state_from",
            value=state,
        )
    taken = (
        take_state(files, spec, run_id, generation, state, interval, wait_seconds, on_wait)
        if carries_state(spec)
        else None
    )
    try:
        version = taken.version if taken is not None else None
        wait = patience_of(spec, wait_seconds).wait_seconds
        run = _planned(
            files,
            bindings,
            spec,
            reference,
            run_id,
            interval,
            config,
            default_system,
            version,
            sections or {},
            wait,
            tables or {},
        )
        run = dataclasses.replace(run, generation=generation, mode=mode)
        if taken is not None:
            slices = {stream_id: stream.slice for stream_id, stream in run.streams.items() if stream.role != SIDE_INPUT}
            starts = write_starts(files, folder, generation, spec, run.plan, slices, version)
            run = dataclasses.replace(run, state=dataclasses.replace(taken.state, starts=starts))
        systems = bind_systems(run_bindings(run.systems, bindings), files.root)
        refuse_endless(run, systems)
        refuse_forgotten(files, run, systems)
        create_topics(run, systems)
        _check_outputs(run, systems)
        open_again(files, folder)
        pin_versions(files, run)
    except SamzaError as error:
        if taken is not None and not error.retryable:
            taken.give_back(files, spec)
        raise
    return adopt(files, folder.plan(generation), run)


def preview_run(
    files: Filesystem,
    bindings: Mapping[str, SystemBinding],
    reference: str,
    run_id: str,
    *,
    interval: DataInterval | None,
    config: Mapping[str, str],
    default_system: str | None,
    state: str = LINEAGE,
    sections: Mapping[str, str] | None = None,
    tables: Mapping[str, str] | None = None,
) -> RunPlan:
    """The plan of a run as its first generation would get it: systems are asked, nothing is made or stored."""
    spec = load_application(reference).spec(config)
    version = previewed_state(files, spec, state)
    return _planned(
        files,
        bindings,
        spec,
        reference,
        run_id,
        interval,
        config,
        default_system,
        version,
        sections or {},
        0.0,
        tables or {},
    )


def _planned(
    files: Filesystem,
    bindings: Mapping[str, SystemBinding],
    spec: ApplicationSpec,
    reference: str,
    run_id: str,
    interval: DataInterval | None,
    config: Mapping[str, str],
    default_system: str | None,
    version: Version | None,
    sections: Mapping[str, str],
    wait_seconds: float,
    tables: Mapping[str, str],
) -> RunPlan:
    streams = {**spec.inputs, **spec.outputs, **spec.intermediates, **side_streams(spec, plan_shape(spec))}
    places = {stream_id: system_name(spec, stream, bindings, default_system) for stream_id, stream in streams.items()}
    kept = declared_systems(spec, places.values(), bindings)
    systems = bind_systems(run_bindings(kept, bindings), files.root)
    bound = {
        stream_id: BoundStream(
            stream.stream_id, stream.role.value, places[stream_id], _describe(stream, spec, interval, run_id)
        )
        for stream_id, stream in streams.items()
    }
    refuse_unreadable(spec, bound, kept)
    raise_all(check_serdes(spec, bound, kept))
    metadata = _metadata(systems, bound, spec)
    plan = ExecutionPlanner({}, {stream_id: found.partitions for stream_id, found in metadata.items()}).plan(
        spec, pinned=version.plan if version is not None else None
    )
    bound = {stream_id: _with_plan(stream, plan) for stream_id, stream in bound.items()}
    raise_all(
        refuse_shared_outputs(spec, plan, {stream_id: kept[places[stream_id]]["kind"] for stream_id in spec.outputs})
    )
    side_inputs = SideInputSlices(files, spec, systems, tables, interval)
    reading = _Reading(
        spec,
        systems,
        version,
        sections,
        wait_seconds,
        side_inputs,
        InputHistory(files, spec.name, spec.app_id, version),
    )
    bound = {stream_id: reading.with_slice(stream) for stream_id, stream in bound.items()}
    run = RunPlan(
        application=spec.name,
        app_id=spec.app_id,
        reference=reference,
        run_id=run_id,
        generation=1,
        plan=plan,
        streams=bound,
        config=dict(config),
        systems=kept,
        interval=interval.iso() if interval is not None else None,
        tables={table_id: plain(pinned) for table_id, pinned in side_inputs.tables.items()},
    )
    told = input_schemas(run, metadata)
    compiled = check_application(spec, plan, told)
    contents = reduce_topics(spec, plan, compiled)
    if contents:
        compiled = check_application(spec, plan, told, contents)
    meanings = state_meanings(spec, plan, told, contents) if carries_state(spec) else {}
    raise_all(dropped_and_there(meanings, spec.dropped, spec.name))
    if version is not None:
        raise_all(changed_state(version, meanings, former_names(spec, version), spec.dropped, spec.name))
    notes = with_state_notes(flow_notes(spec, plan, compiled, contents), plan, bound, version)
    return dataclasses.replace(
        run,
        streams=_with_schemas(run, spec, compiled),
        engines=_engines(plan, compiled),
        schemas={stream_id: schema.ddl() for stream_id, schema in told.items()},
        contents=contents,
        meanings=meanings,
        notes=with_spark_notes(with_side_input_notes(notes, run), run, spec, systems),
    )


def create_topics(
    run: RunPlan, systems: Mapping[str, System], stage_id: str | None = None, generation: int = 1
) -> None:
    """Makes the topics that stages write (all stages, or one) as this generation of them writes them.

    There already is fine.
    """
    wanted: dict[str, list[StreamSpec]] = {}
    for stage in run.plan.stages:
        if stage_id is None or stage.stage_id == stage_id:
            for stream_id in stage.outputs:
                own = run.is_own(stream_id)
                stream = (
                    run.intermediate(stream_id, Generation(run.generation, generation))
                    if own
                    else run.stream(stream_id)
                )
                if own and stream.spec.schema is None and stage_id is None:
                    continue  # its columns come out of Catalyst, so the stage that writes it makes it
                wanted.setdefault(stream.system, []).append(stream.spec)
    for name, specs in wanted.items():
        systems[name].admin.create(specs)


def _refuse_other_copy(files: Filesystem, folder: RunFolder, spec: ApplicationSpec) -> None:
    """Two copies of an application (``app_id``) keep their runs in one folder, so no run of one may have the id of a run of the other."""
    planned = folder.plan_generations(files)
    first = read(files, folder.plan(planned[0]), RunPlan) if planned else None
    if first is not None and first.app_id != spec.app_id:
        raise ConfigError(
            f"The run {folder.run_id!r} of {spec.name!r} belongs to its copy with the id {first.app_id!r}, not to "
            "the one "
            f"with {spec.app_id!r}.",
            hint="Give the run of each copy an id of its own (--run-id).",
            key="run_id",
            value=folder.run_id,
        )


def _same_shape(outline: ExecutionPlan, shape: str | None) -> None:
    if shape is not None and outline.fingerprint != shape:
        raise PlanChanged(
            f"The application {outline.application!r} has changed its shape since the Dag was parsed "
            f"(fingerprint {outline.fingerprint} now, {shape} then), so its stages are not the Dag's tasks any more.",
            hint="Wait until the Dag file is parsed again, then clear the plan task with its downstream tasks.",
            application=outline.application,
            fingerprint=outline.fingerprint,
            parsed=shape,
        )


def _describe(
    stream: StreamDescriptor, spec: ApplicationSpec, interval: DataInterval | None, run_id: str
) -> StreamSpec:
    """A stream as its system sees it, before its partition count is known."""
    path, below = stream.path, None
    if path is not None:
        below = folder_of_values(path)
        path = render_path(path, stream=stream.stream_id, interval=interval, run_id=run_id, config=spec.config)
    bounds: tuple[int, int] | None = None
    if stream.slice_by == "timestamp" and stream.role is StreamRole.INPUT:
        if stream.timestamp is None:
            raise ConfigError(
                f"The input {stream.stream_id!r} is sliced by timestamp, and has no timestamp column.",
                hint='Name it: timestamp="at".',
                key="timestamp",
                stream=stream.stream_id,
            )
        bounds = needed_interval(interval, stream=stream.stream_id, what="slice by timestamp").micros()
    return StreamSpec(
        name=spec.config.get(f"streams.{stream.stream_id}.samza.physical.name", stream.stream_id),
        partitions=stream.partitions,
        schema=stream.schema.ddl() if stream.schema is not None else None,
        key=stream.key,
        format=stream.format,
        path=path,
        timestamp=stream.timestamp,
        interval=bounds,
        broadcast=stream.broadcast,
        written=stream.role is StreamRole.OUTPUT,
        tolerant=stream.on_error is not None and stream.role is StreamRole.INPUT,
        options=stream.options,
        below=below,
        serde=serde_of(stream),
    )


def _metadata(
    systems: Mapping[str, System], bound: Mapping[str, BoundStream], spec: ApplicationSpec
) -> dict[str, StreamMetadata]:
    """What the systems know of the streams, by stream id; one call per system."""
    by_system: dict[str, list[BoundStream]] = {}
    for stream in bound.values():
        if stream.role != StreamRole.INTERMEDIATE.value:
            by_system.setdefault(stream.system, []).append(stream)
    found: dict[str, StreamMetadata] = {}
    for name, streams in by_system.items():
        metadata = systems[name].admin.metadata([stream.spec for stream in streams])
        for stream in streams:
            if stream.spec.name in metadata:
                found[stream.stream_id] = metadata[stream.spec.name]
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
                    hint="Create it, correct its name, or bind the system to where it lies.",
                    stream=stream.stream_id,
                    system=name,
                )
            elif stream.role == SIDE_INPUT:
                raise side_input_missing(spec, stream)
    return found


def input_schemas(run: RunPlan, metadata: Mapping[str, StreamMetadata]) -> dict[str, Schema]:
    """The columns of inputs that the application does not declare, as their systems tell them."""
    told: dict[str, Schema] = {}
    for stream in run.streams.values():
        if stream.role in (StreamRole.INPUT.value, SIDE_INPUT) and stream.spec.schema is None:
            ddl = (stream.slice or {}).get("schema") or (
                metadata[stream.stream_id].schema if stream.stream_id in metadata else None
            )
            if ddl is not None:
                told[stream.stream_id] = (
                    told_columns(Schema.of(str(ddl))) if stream.role == SIDE_INPUT else Schema.of(str(ddl))
                )
    return told


def _engines(plan: ExecutionPlan, compiled: Mapping[str, CompiledOperator]) -> dict[str, dict[str, tuple[str, str]]]:
    """Per stage each operator's engine and the reason, as far as it is known before the stage runs."""
    return {
        stage.stage_id: {
            op_id: (compiled[op_id].engine, compiled[op_id].reason) for op_id in stage.operators if op_id in compiled
        }
        for stage in plan.stages
    }


def _with_schemas(
    run: RunPlan, spec: ApplicationSpec, compiled: Mapping[str, CompiledOperator]
) -> dict[str, BoundStream]:
    """The run's own topics with the columns that reach them, where they are known before Catalyst has spoken."""
    streams = dict(run.streams)
    for stream_id in spec.intermediates:
        found = compiled.get(spec.input_operator(stream_id).op_id)
        if found is not None and found.schema is not None:
            bound = streams[stream_id]
            streams[stream_id] = dataclasses.replace(
                bound, spec=dataclasses.replace(bound.spec, schema=found.schema.ddl())
            )
    return streams


def _with_plan(stream: BoundStream, plan: ExecutionPlan) -> BoundStream:
    """The stream with the count and the schema that the plan gave it."""
    planned = plan.stream(stream.stream_id)
    partitions = planned.partitions if planned.partitions > 0 else stream.spec.partitions
    schema = stream.spec.schema or planned.schema
    return dataclasses.replace(stream, spec=dataclasses.replace(stream.spec, partitions=partitions, schema=schema))


@dataclasses.dataclass(frozen=True)
class _Reading:
    """What a run reads of its inputs, from the version of the state that it starts from."""

    spec: ApplicationSpec
    systems: Mapping[str, System]
    version: Version | None
    sections: Mapping[str, str]
    wait_seconds: float
    side_inputs: SideInputSlices
    history: InputHistory

    def with_slice(self, stream: BoundStream) -> BoundStream:
        """The stream with the slice that the run reads of it; not of what it writes."""
        if stream.role not in (StreamRole.INPUT.value, SIDE_INPUT):
            return stream
        if stream.role == SIDE_INPUT:
            return dataclasses.replace(stream, slice=self.side_inputs.of(stream))
        system = self.systems[stream.system]
        declared = self.spec.inputs[stream.stream_id]
        if declared.shared:
            named = self.sections.get(stream.stream_id)
            slice_ = section_slice(system, stream, declared, named, self.version, self.wait_seconds, self.history)
        else:
            slice_ = system.slice(stream.spec)
            if is_carried_on(declared):
                slice_ = carried_slice(declared, slice_, self.version, self.spec.config)
                self.history.refuse_superseded(stream, system)
        return dataclasses.replace(stream, slice=slice_)


def _check_outputs(run: RunPlan, systems: Mapping[str, System]) -> None:
    for stream_id in sorted({stream_id for stage in run.plan.stages for stream_id in stage.outputs}):
        if not run.is_own(stream_id):
            stream = run.stream(stream_id)
            systems[stream.system].check_writable(stream.spec)
