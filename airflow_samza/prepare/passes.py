"""The passes that make a run's plan, in order, over one frozen draft of it; nothing is stored or created.

1. ``bind_streams`` opens the systems, and binds every stream to its own: paths rendered, bounds of time.
2. ``reject_misplaced`` rejects streams that their systems cannot serve.
3. ``ask_systems`` asks for partition counts and columns, in one call per system.
4. ``plan_with_counts`` makes the ExecutionPlan, with the counts that the state depends on.
5. ``compare_inputs`` compares the inputs with those of which the state says how far they were read.
6. ``fix_ranges`` fixes the input range of each input and the version of each pushed table.
7. ``compile_stages`` compiles every stage, and finds what need not go through the run's own topics.
8. ``fix_tables`` fixes the tables that outputs write, where their systems have to be asked for them.
9. ``compare_state`` rejects state of other operators, tables or stores.
10. ``add_notes`` adds notes on what stages read and write.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StreamRole
from airflow_samza.config import Config
from airflow_samza.errors import raise_all
from airflow_samza.planner.declaration import declaration
from airflow_samza.planner.node_notes import node_notes
from airflow_samza.planner.planner import ExecutionPlanner, plan_shape
from airflow_samza.prepare.bound_systems import (
    asking_for_systems,
    bind_systems,
    declared_systems,
    run_bindings,
    system_name,
)
from airflow_samza.prepare.carried_state import arrived_slice, carried_slice, carries_state, former_names, is_carried_on
from airflow_samza.prepare.compared_run import reject_missing_input, same_range, same_versions
from airflow_samza.prepare.input_positions import (
    InputHistory,
    input_meanings,
    renamed_inputs,
    with_present_inputs,
)
from airflow_samza.prepare.input_versions import check_input_versions, reject_changes
from airflow_samza.prepare.long_windows import intervals_slice
from airflow_samza.prepare.notes import notes_of
from airflow_samza.prepare.output_slots import run_slot
from airflow_samza.prepare.publication import reject_uncompared, reject_unheld
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.prepare.run_streams import (
    check_serdes,
    described,
    fixed_outputs,
    input_schemas,
    output_schemas,
    reject_cut_files,
    reject_uncut,
    stream_metadata,
    with_plan,
    with_schemas,
)
from airflow_samza.prepare.shared_sections import find_writer, names_a_slot, reject_shared_outputs, section_slice
from airflow_samza.prepare.side_inputs import SideInputSlices, check_pushes, side_streams
from airflow_samza.prepare.spark_streams import reject_unreadable
from airflow_samza.prepare.unchanged import with_writer_of_state
from airflow_samza.records import plain
from airflow_samza.runs.records.run_plan import SIDE_INPUT, STAGED, BoundStream, RunPlan
from airflow_samza.runs.records.state_meaning import INPUT
from airflow_samza.runs.state_history.state_changes import (
    changed_inputs,
    changed_state,
    lies_by_partitions,
    reject_dropped_but_declared,
)
from airflow_samza.runs.state_history.versions import Version
from airflow_samza.schema import Schema
from airflow_samza.systems.capabilities import ExpiresMessages, HasTableVersions, TakesArrivals
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import ColumnBound, StreamMetadata, System, SystemBinding
from airflow_samza.task.program.kinds.operator_kind import CompiledOperator
from airflow_samza.task.program.pruning.bounds import input_bounds
from airflow_samza.task.program.pruning.topics import reduce_topics
from airflow_samza.task.program.stage_program import check_application
from airflow_samza.task.program.state_meanings import state_meanings


@dataclass(frozen=True)
class Draft:
    """A run's plan as far as the passes have made it, with what they know beside it.

    ``version`` is the state that the run continues from, ``base`` the run with which it is compared.
    ``schemas`` are the columns that systems report and the application does not declare. What a later pass makes is
    empty.
    """

    files: Filesystem
    bindings: Mapping[str, SystemBinding]
    default_system: str | None
    spec: ApplicationSpec
    request: RunRequest
    version: Version | None
    run: RunPlan
    base: RunPlan | None = None
    systems: Mapping[str, System] = field(default_factory=dict)
    metadata: Mapping[str, StreamMetadata] = field(default_factory=dict)
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    compiled: Mapping[str, CompiledOperator] = field(default_factory=dict)

    @property
    def kinds(self) -> dict[str, str]:
        """The kinds of the systems of the streams, by the streams' ids."""
        return {name: str(self.run.systems[bound.system]["kind"]) for name, bound in self.run.streams.items()}

    def with_run(self, **fields: Any) -> Draft:
        """Return the draft with other fields of the plan."""
        return dataclasses.replace(self, run=dataclasses.replace(self.run, **fields))


def plan_run(
    files: Filesystem,
    bindings: Mapping[str, SystemBinding],
    default_system: str | None,
    spec: ApplicationSpec,
    request: RunRequest,
    version: Version | None,
    base: RunPlan | None = None,
) -> tuple[RunPlan, Mapping[str, System]]:
    """Return the plan of a run that continues from a version of the state, if it has one, and its systems.

    With a ``base`` it is compared with that run.
    """
    run = RunPlan(
        application=spec.name,
        app_id=spec.app_id,
        reference=request.application,
        run_id=request.run_id,
        generation=request.generation,
        mode=request.mode or STAGED,
        plan=plan_shape(spec),
        streams={},
        config=dict(request.config),
        bundle=dict(request.bundle),
        interval=request.interval.iso() if request.interval is not None else None,
        slot=run_slot(spec, request),
        declared=declaration(spec),
        nodes=node_notes(spec),
        approvals=tuple(name for name, output in spec.outputs.items() if base is not None or output.waits_for_approval),
    )
    draft = Draft(files, bindings, default_system, spec, request, version, run, base)
    for apply in PASSES:
        draft = apply(draft)
    return draft.run, draft.systems


def bind_streams(draft: Draft) -> Draft:
    """Bind the systems of all streams, and describe each stream as its system sees it."""
    spec, bindings = draft.spec, draft.bindings
    streams = {**spec.inputs, **spec.outputs, **spec.intermediates, **side_streams(spec, draft.run.plan)}
    places = {name: system_name(spec, stream, bindings, draft.default_system) for name, stream in streams.items()}
    declared = declared_systems(spec, places.values(), bindings)
    systems = bind_systems(run_bindings(declared, bindings), draft.files.root)
    bound = {
        name: BoundStream(stream.stream_id, stream.role.value, places[name], described(stream, spec, draft.request))
        for name, stream in streams.items()
    }
    return dataclasses.replace(draft, systems=systems).with_run(streams=bound, systems=declared)


def reject_misplaced(draft: Draft) -> Draft:
    """Reject streams that their systems cannot serve."""
    spec, streams, declared = draft.spec, draft.run.streams, draft.run.systems
    reject_changes(spec, streams, draft.systems)
    reject_uncut(spec, streams, draft.kinds)
    reject_unreadable(spec, streams, declared)
    check_input_versions(spec, draft.request, draft.kinds)
    if draft.base is None:
        reject_unheld(draft.run, draft.kinds)
    else:
        reject_uncompared(draft.run, draft.base, draft.kinds)
    raise_all([*check_pushes(spec, streams, declared), *check_serdes(spec, streams, declared, draft.systems)])
    return draft


def ask_systems(draft: Draft) -> Draft:
    """Ask the systems for what they know of the streams."""
    with _asking(draft):
        return dataclasses.replace(draft, metadata=stream_metadata(draft.systems, draft.run.streams, draft.spec))


def plan_with_counts(draft: Draft) -> Draft:
    """Plan the application with partition counts; those on which the state depends stay."""
    spec, version, kinds = draft.spec, draft.version, draft.kinds
    counts = {name: metadata.partitions for name, metadata in draft.metadata.items()}
    places = {name: bound.system for name, bound in draft.run.streams.items()}
    pinned = version.plan if version is not None and lies_by_partitions(version) else None
    plan = ExecutionPlanner({}, counts, kinds, places).plan(spec, pinned=pinned)
    plan = with_writer_of_state(draft.files, plan, version, draft.request.application)
    raise_all([*reject_shared_outputs(spec, plan, {stream_id: kinds[stream_id] for stream_id in spec.outputs})])
    return draft.with_run(
        plan=plan, streams={name: with_plan(bound, plan) for name, bound in draft.run.streams.items()}
    )


def compare_inputs(draft: Draft) -> Draft:
    """Reject inputs that are not those of which the state says how far they were read."""
    spec, run, version = draft.spec, draft.run, draft.version
    inputs = input_meanings(spec, run.streams, run.systems, draft.systems) if carries_state(spec) else {}
    meanings = {f"{INPUT}{stream_id}": meaning for stream_id, meaning in inputs.items()}
    raise_all(reject_dropped_but_declared(meanings, spec.dropped, spec.name))
    if version is not None:
        raise_all(changed_inputs(version, inputs, renamed_inputs(spec, version), spec.dropped, spec.name))
    return draft.with_run(meanings=meanings)


def fix_ranges(draft: Draft) -> Draft:
    """Fix the range that the run reads of each input, and the version of each pushed table."""
    spec, request = draft.spec, draft.request
    version = None if draft.version is None else with_present_inputs(spec, draft.version)
    side_inputs = SideInputSlices(draft.files, spec, draft.systems, request)
    history = InputHistory(draft.files, spec, version)
    bounds = _bounds(draft)
    with _asking(draft):
        # Side inputs last: what was there before a message is there for it (rule S7).
        in_turn = sorted(draft.run.streams.items(), key=lambda named: named[1].role == SIDE_INPUT)
        ranges = {
            name: _with_range(draft, name, bound, version, side_inputs, history, bounds.get(name, ()))
            for name, bound in in_turn
        }
    streams = {name: ranges[name] for name in draft.run.streams}
    raise_all([*reject_cut_files(spec, streams)])
    tables = {table_id: plain(pinned) for table_id, pinned in side_inputs.tables.items()}
    for pinned in tables.values():
        if not pinned["numbers"]:
            del pinned["numbers"]  # so that the records of other runs stay what they are
    if draft.base is not None:
        tables = {**same_versions(draft.base, streams, spec.tables), **tables}
    warnings = (*draft.run.plan.warnings, *side_inputs.warnings)
    return draft.with_run(streams=streams, tables=tables, plan=dataclasses.replace(draft.run.plan, warnings=warnings))


def compile_stages(draft: Draft) -> Draft:
    """Check columns and expressions of every stage, and find what need not go through the run's own topics."""
    spec, run = draft.spec, draft.run
    schemas = input_schemas(run, draft.metadata)
    compiled = check_application(spec, run.plan, schemas)
    contents = reduce_topics(spec, run.plan, compiled)
    if contents:
        compiled = check_application(spec, run.plan, schemas, contents)
    engines = {
        stage.stage_id: {
            op_id: (compiled[op_id].engine, compiled[op_id].reason) for op_id in stage.operators if op_id in compiled
        }
        for stage in run.plan.stages
    }
    return dataclasses.replace(draft, schemas=schemas, compiled=compiled).with_run(
        streams=with_schemas(run, spec, compiled),
        engines=engines,
        schemas={stream_id: schema.ddl() for stream_id, schema in schemas.items()},
        contents=contents,
    )


def fix_tables(draft: Draft) -> Draft:
    """Fix the tables of outputs, whose columns the messages have to fit."""
    columns = output_schemas(draft.spec, draft.compiled)
    with _asking(draft):
        return draft.with_run(streams=fixed_outputs(draft.run, draft.systems, columns))


def compare_state(draft: Draft) -> Draft:
    """Reject a state that other operators, tables or stores have made."""
    spec, run, version = draft.spec, draft.run, draft.version
    meanings = state_meanings(spec, run.plan, draft.schemas, run.contents) if carries_state(spec) else {}
    raise_all(reject_dropped_but_declared(meanings, spec.dropped, spec.name))
    if version is not None:
        raise_all(changed_state(version, meanings, former_names(spec, version), spec.dropped, spec.name))
    return draft.with_run(meanings={**meanings, **run.meanings})


def add_notes(draft: Draft) -> Draft:
    """Note for people what stages read and write; some outputs are rejected where their note is made."""
    notes = notes_of(
        draft.files,
        draft.run,
        draft.spec,
        draft.systems,
        draft.compiled,
        draft.kinds,
        draft.version,
        compares=draft.base is not None,
    )
    return draft.with_run(notes=notes)


PASSES: tuple[Callable[[Draft], Draft], ...] = (
    bind_streams,
    reject_misplaced,
    ask_systems,
    plan_with_counts,
    compare_inputs,
    fix_ranges,
    compile_stages,
    fix_tables,
    compare_state,
    add_notes,
)


def _asking(draft: Draft) -> AbstractContextManager[None]:
    places = [bound.system for bound in draft.run.streams.values()]
    return asking_for_systems({*draft.bindings, *draft.spec.systems}, places)


def _bounds(draft: Draft) -> dict[str, tuple[ColumnBound, ...]]:
    """Return the bounds of the inputs whose systems leave out by them what need not be read, by stream."""
    spec, run = draft.spec, draft.run
    asking = {
        name
        for name, bound in run.streams.items()
        if bound.role == StreamRole.INPUT.value and isinstance(draft.systems[bound.system], HasTableVersions)
    }
    if not asking:
        return {}
    compiled = check_application(spec, run.plan, input_schemas(run, draft.metadata))
    whole = {op_id: one.schema for op_id, one in compiled.items() if one.schema is not None}
    return {name: bounds for name, bounds in input_bounds(spec.operators, compiled, whole).items() if name in asking}


def _with_range(
    draft: Draft,
    key: str,
    stream: BoundStream,
    version: Version | None,
    side_inputs: SideInputSlices,
    history: InputHistory,
    bounds: Sequence[ColumnBound],
) -> BoundStream:
    """Return the stream with the range that the run reads of it; a stream that it writes stays as it is."""
    if draft.base is not None and stream.role in (SIDE_INPUT, StreamRole.INPUT.value):
        asked = bool(draft.request.input_versions.get(stream.stream_id))
        range_ = same_range(draft.files, draft.spec, draft.base, key, stream, asked=asked)
        if range_ is not None:
            reject_missing_input(draft.base, stream, draft.systems[stream.system], range_)
            return dataclasses.replace(stream, slice=range_)
    if stream.role == SIDE_INPUT:
        return dataclasses.replace(stream, slice=side_inputs.of(stream))
    if stream.role != StreamRole.INPUT.value:
        return stream
    spec, request = draft.spec, draft.request
    system, declared = draft.systems[stream.system], spec.inputs[stream.stream_id]
    flushed = is_carried_on(declared) and Config(spec.config).inputs_flush
    if declared.shared:
        named, writer = request.sections.get(stream.stream_id), None
        if named is not None and (draft.run.stages_run_concurrently or names_a_slot(named)):
            writer = find_writer(draft.files, stream.stream_id, stream.spec.name, named, request)
            named = writer.run if writer is not None else named
        follows = writer if draft.run.stages_run_concurrently else None
        slice_ = section_slice(system, stream, declared, named, version, history, follows, flushed=flushed)
    elif declared.slice_by == "checkpoint" and isinstance(system, TakesArrivals):
        slice_ = arrived_slice(declared, stream.spec, system, version, spec.config, bounds)
    elif declared.intervals is not None:
        slice_ = intervals_slice(declared, stream, system, spec, request)
    else:
        if isinstance(system, HasTableVersions):
            slice_ = system.slice_within(stream.spec, bounds)
        else:
            slice_ = system.slice(stream.spec)
        if is_carried_on(declared):
            slice_ = carried_slice(declared, slice_, version, spec.config)
            if isinstance(system, ExpiresMessages):
                slice_ = system.unexpired(stream.spec, slice_)
            history.reject_superseded(stream, system)
    return dataclasses.replace(stream, slice={**slice_, "flushed": True} if flushed else slice_)
