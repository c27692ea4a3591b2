"""The ``plan`` step of a run: everything that is known, decided or rejected before a stage runs.

root           what its storage permits, where that has to be asked
load           the application; where the run is planned already, that it is the one that was planned
reject         what this version does not run
lease          the state that the run continues from
bind           the systems
describe       every stream as its system sees it: paths rendered, ranges of time bounded
ask            partition counts, one call per system
plan           the ExecutionPlan, with the counts that the state depends on
compare        that inputs are those of which the state says how far they were read
range          the input range of each input
check          columns and expressions of every stage, and that the state was made by the same ones
keep           the stages that have a result of a former plan, of which nothing has changed
create         the topics that are written, the run's own and outputs; check that outputs can be written
store          the RunPlan
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StreamRole
from airflow_samza.application.loader import load_application
from airflow_samza.errors import ConfigError, SamzaError, raise_all
from airflow_samza.planner.declaration import declaration, first_of
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.planner.planner import ExecutionPlanner, plan_shape
from airflow_samza.planner.stage_code import stage_digests
from airflow_samza.prepare.bound_systems import (
    asking_for_systems,
    bind_systems,
    declared_systems,
    run_bindings,
    system_name,
)
from airflow_samza.prepare.carried_state import (
    arrived_slice,
    carried_slice,
    carries_state,
    is_carried_on,
    patience_of,
    previewed_state,
    take_state,
)
from airflow_samza.prepare.input_positions import input_meanings, meanings_by_key, renamed_inputs, with_present_inputs
from airflow_samza.prepare.kept_stages import fingerprints, reuse
from airflow_samza.prepare.lasting_outputs import with_lasting_notes
from airflow_samza.prepare.modes import check_mode
from airflow_samza.prepare.namesakes import continued_by, reject_namesake, reject_other_copy, with_writer_of_state
from airflow_samza.prepare.output_slots import run_slot, with_slot_notes
from airflow_samza.prepare.root_check import check_root
from airflow_samza.prepare.run_request import FRESH, PREVIOUS, RunRequest
from airflow_samza.prepare.run_streams import described, input_schemas, known_metadata, with_plan, with_schemas
from airflow_samza.prepare.serdes import check_serdes
from airflow_samza.prepare.shared_sections import check_names, reject_shared_outputs, section_slice
from airflow_samza.prepare.side_inputs import (
    SideInputSlices,
    check_pushes,
    pin_versions,
    side_streams,
    with_side_input_notes,
)
from airflow_samza.prepare.spark_streams import reject_unbounded, reject_unreadable, with_spark_notes
from airflow_samza.prepare.state_notes import with_state_notes
from airflow_samza.prepare.state_starts import former_names, write_starts
from airflow_samza.prepare.superseded_inputs import InputHistory
from airflow_samza.prepare.told_reading import with_reading_notes
from airflow_samza.prepare.unchanged import PLAN_ANEW, changed, differences, other_options, reject_other_options
from airflow_samza.records import plain
from airflow_samza.runs.lineage.state_changes import (
    changed_inputs,
    changed_state,
    dropped_and_there,
    lies_by_partitions,
)
from airflow_samza.runs.lineage.versions import Version
from airflow_samza.runs.records.folders import RunFolder, adopt, read
from airflow_samza.runs.records.forgotten_runs import reject_forgotten
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import SIDE_INPUT, STAGED, BoundStream, RunPlan
from airflow_samza.runs.stages.stage_state import code_run
from airflow_samza.runs.upkeep.topic_expiry import open_again
from airflow_samza.systems.capabilities import ExpiresMessages, TakesArrivals
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.object_store import requests
from airflow_samza.systems.filesystems.pace import Pace
from airflow_samza.systems.system import StreamSpec, System, SystemBinding
from airflow_samza.task.program.kinds.operator_kind import CompiledOperator
from airflow_samza.task.program.pruning.notes import flow_notes
from airflow_samza.task.program.pruning.topics import reduce_topics
from airflow_samza.task.program.stage_program import check_application
from airflow_samza.task.program.state_meanings import state_meanings

log = logging.getLogger(__name__)


def prepare_run(
    files: Filesystem,
    bindings: Mapping[str, SystemBinding],
    default_system: str | None,
    request: RunRequest,
    on_wait: Callable[[str], None] | None = None,
    data: str = "",
    plan_anew: str = PLAN_ANEW,
) -> RunPlan:
    """Return the plan of a run, made and stored by the module's list of steps, or the plan that is already stored.

    ``on_wait`` gets a sentence when the run has to wait for the state. ``data`` is the digest of the files that travel
    with the application's code. ``plan_anew`` is the hint for a stored plan that the application no longer fits.
    """
    for warning in check_root(files):
        log.warning("%s", warning)
    spec = load_application(request.application).spec(request.config)
    folder = RunFolder(spec.name, request.run_id)
    planned = folder.plan_generations(files)
    first = read(files, folder.plan(planned[0]), RunPlan) if planned else None
    if first is not None:
        reject_other_copy(first, spec)
    stored = _stored_plan(files, folder, request, planned)
    if stored is not None:
        why = _why_anew(files, folder, stored, spec, request, data)
        if not why:
            return continued_by(stored, spec, request.application)
        if not request.plans_anew:
            raise changed(stored, why, plan_anew)
        log.warning("The run %s is planned anew: %s.", request.run_id, first_of(why))
        request = dataclasses.replace(request, generation=planned[-1] + 1)
    check_mode(spec, request.mode or STAGED)
    check_names(spec, request.sections)
    if request.state_from not in (PREVIOUS, FRESH) and not carries_state(spec):
        raise ConfigError(
            f"The application {spec.name!r} carries no state from run to run, so this run cannot continue from that of "
            f"{request.state_from!r}.",
            hint="Leave state_from out; an application carries state when an input of it is unbounded "
            '(slice="checkpoint").',
            key="state_from",
            value=request.state_from,
        )
    taken = take_state(files, spec, request, on_wait) if carries_state(spec) else None
    try:
        version = taken.version if taken is not None else None
        run = _planned(files, bindings, default_system, spec, request, version)
        run = dataclasses.replace(run, options=_options_read(run, request))
        if taken is not None:
            slices = {stream_id: stream.slice for stream_id, stream in run.streams.items() if stream.role != SIDE_INPUT}
            starts = write_starts(files, folder, run.generation, spec, run.plan, slices, version)
            run = dataclasses.replace(run, state=dataclasses.replace(taken.state, starts=starts))
        systems = bind_systems(run_bindings(run.systems, bindings), files.root)
        run = _with_reuse(files, systems, spec, run, request, data)
        reject_unbounded(run, systems)
        reject_forgotten(files, run, systems)
        _create_topics(run, systems)
        _check_outputs(run, systems)
        open_again(files, folder)
        pin_versions(files, run)
    except SamzaError as error:
        if taken is not None and not error.retryable:
            taken.give_back(files, spec)
        raise
    made = adopt(files, folder.plan(run.generation), dataclasses.replace(run, requests=requests.take()))
    return continued_by(made, spec, request.application)


def _stored_plan(files: Filesystem, folder: RunFolder, request: RunRequest, planned: Sequence[int]) -> RunPlan | None:
    """Return the plan that a request asks for, where it is stored; of one that was planned anew the newest."""
    generation = planned[-1] if request.plans_anew and planned else request.generation
    return read(files, folder.plan(generation), RunPlan) if generation >= request.generation else None


def _why_anew(
    files: Filesystem, folder: RunFolder, stored: RunPlan, spec: ApplicationSpec, request: RunRequest, data: str
) -> tuple[str, ...]:
    """Return why a stored plan does not serve a request: what its application or its options say otherwise now.

    For who plans anew, stages that have begun with other bodies of callables are a reason, too.
    """
    reject_namesake(stored, spec, request.application)
    if not request.plans_anew:
        reject_other_options(stored, request)
        return differences(stored, spec)
    found = differences(stored, spec)
    found += tuple(f"{flag} was {then} and is {now}" for flag, then, now in other_options(stored, request))
    return found or tuple(
        f"the callables of the stage {stage_id} have changed"
        for stage_id, code in stage_digests(spec, stored.plan, data).items()
        if code_run(files, folder, stage_id, stored.generation) not in ("", code)
    )


def preview_run(
    files: Filesystem,
    bindings: Mapping[str, SystemBinding],
    default_system: str | None,
    request: RunRequest,
    data: str = "",
) -> RunPlan:
    """Return the plan that a run would get now: its systems are asked, nothing is made or stored.

    Of a run that was planned before it is a new plan. ``data`` as in :func:`prepare_run`.
    """
    spec = load_application(request.application).spec(request.config)
    version = previewed_state(files, spec, request.state_from)
    planned = RunFolder(spec.name, request.run_id).plan_generations(files)
    generation = planned[-1] + 1 if planned else request.generation
    request = dataclasses.replace(request, wait_seconds=0.0, generation=generation)
    run = _planned(files, bindings, default_system, spec, request, version)
    if not planned:
        return run
    systems = bind_systems(run_bindings(run.systems, bindings), files.root)
    return _with_reuse(files, systems, spec, run, request, data)


def _planned(
    files: Filesystem,
    bindings: Mapping[str, SystemBinding],
    default_system: str | None,
    spec: ApplicationSpec,
    request: RunRequest,
    version: Version | None,
) -> RunPlan:
    streams = {**spec.inputs, **spec.outputs, **spec.intermediates, **side_streams(spec, plan_shape(spec))}
    places = {stream_id: system_name(spec, stream, bindings, default_system) for stream_id, stream in streams.items()}
    kept = declared_systems(spec, places.values(), bindings)
    systems = bind_systems(run_bindings(kept, bindings), files.root)
    bound = {
        stream_id: BoundStream(
            stream.stream_id,
            stream.role.value,
            places[stream_id],
            described(stream, spec, request),
        )
        for stream_id, stream in streams.items()
    }
    reject_unreadable(spec, bound, kept)
    raise_all([*check_pushes(spec, bound, kept), *check_serdes(spec, bound, kept, systems)])
    with asking_for_systems({*bindings, *spec.systems}, places.values()):
        metadata = known_metadata(systems, bound, spec)
    counts = {stream_id: found.partitions for stream_id, found in metadata.items()}
    kinds = {stream_id: str(kept[place]["kind"]) for stream_id, place in places.items()}
    pinned = version.plan if version is not None and lies_by_partitions(version) else None
    plan = ExecutionPlanner({}, counts, kinds, places).plan(spec, pinned=pinned)
    plan = with_writer_of_state(files, plan, version, request.application)
    bound = {stream_id: with_plan(stream, plan) for stream_id, stream in bound.items()}
    raise_all(
        reject_shared_outputs(spec, plan, {stream_id: kept[places[stream_id]]["kind"] for stream_id in spec.outputs})
    )
    inputs = input_meanings(spec, bound, kept, systems) if carries_state(spec) else {}
    raise_all(dropped_and_there(meanings_by_key(inputs), spec.dropped, spec.name))
    read = None
    if version is not None:
        raise_all(changed_inputs(version, inputs, renamed_inputs(spec, version), spec.dropped, spec.name))
        read = with_present_inputs(spec, version)
    side_inputs = SideInputSlices(files, spec, systems, request.tables, request.interval)
    history = InputHistory(files, spec, read)
    reading = _Reading(spec, systems, read, request, side_inputs, history, files.pace)
    with asking_for_systems({*bindings, *spec.systems}, places.values()):
        bound = {stream_id: reading.with_slice(stream) for stream_id, stream in bound.items()}
    run = RunPlan(
        application=spec.name,
        app_id=spec.app_id,
        reference=request.application,
        run_id=request.run_id,
        generation=request.generation,
        mode=request.mode or STAGED,
        plan=plan,
        streams=bound,
        config=dict(request.config),
        systems=kept,
        interval=request.interval.iso() if request.interval is not None else None,
        slot=run_slot(spec, request),
        tables={table_id: plain(pinned) for table_id, pinned in side_inputs.tables.items()},
        declared=declaration(spec),
    )
    found_schemas = input_schemas(run, metadata)
    compiled = check_application(spec, plan, found_schemas)
    contents = reduce_topics(spec, plan, compiled)
    if contents:
        compiled = check_application(spec, plan, found_schemas, contents)
    meanings = state_meanings(spec, plan, found_schemas, contents) if carries_state(spec) else {}
    raise_all(dropped_and_there(meanings, spec.dropped, spec.name))
    if version is not None:
        raise_all(changed_state(version, meanings, former_names(spec, version), spec.dropped, spec.name))
    notes = with_state_notes(flow_notes(spec, plan, compiled, contents, kinds), plan, bound, version)
    notes = with_slot_notes(notes, run, systems, files)
    return dataclasses.replace(
        run,
        streams=with_schemas(run, spec, compiled),
        engines=_engines(plan, compiled),
        schemas={stream_id: schema.ddl() for stream_id, schema in found_schemas.items()},
        contents=contents,
        meanings={**meanings, **meanings_by_key(inputs)},
        notes=with_lasting_notes(
            with_reading_notes(with_spark_notes(with_side_input_notes(notes, run), run, spec, systems), run, systems),
            run,
            spec,
            systems,
            carries_state=carries_state(spec),
        ),
    )


def _with_reuse(
    files: Filesystem,
    systems: Mapping[str, System],
    spec: ApplicationSpec,
    run: RunPlan,
    request: RunRequest,
    data: str,
) -> RunPlan:
    """Return the plan with the fingerprints of its stages, and with the stages that keep a former result."""
    run = dataclasses.replace(run, fingerprints=fingerprints(run, stage_digests(spec, run.plan, data)))
    return dataclasses.replace(run, reuse=reuse(files, systems, run, wanted=request.reuse))


def _options_read(run: RunPlan, request: RunRequest) -> dict[str, Any]:
    """Return the options of the request, with the sections and versions that the run really reads."""
    sections = {
        stream_id: ", ".join(section["run"].partition("/")[2] for section in stream.slice["sections"])
        for stream_id, stream in run.streams.items()
        if stream.slice is not None and stream.slice.get("sections")
    }
    versions = {table_id: pinned["asked"] for table_id, pinned in run.tables.items()}
    sections = {**sections, **request.sections}
    return dataclasses.replace(request, mode=run.mode, sections=sections, tables=versions).options()


def _create_topics(run: RunPlan, systems: Mapping[str, System]) -> None:
    """Create the topics that stages write; topics that exist stay."""
    wanted: dict[str, list[StreamSpec]] = {}
    for stage in run.plan.stages:
        if run.kept_generation(stage.stage_id) is not None:
            continue
        for stream_id in stage.outputs:
            own = run.is_own(stream_id)
            stream = run.intermediate(stream_id, Generation(run.generation, 1)) if own else run.stream(stream_id)
            if not own or stream.spec.schema is not None:  # Catalyst knows the columns: the stage creates it
                wanted.setdefault(stream.system, []).append(stream.spec)
    for name, specs in wanted.items():
        systems[name].admin.create(specs)


def _engines(plan: ExecutionPlan, compiled: Mapping[str, CompiledOperator]) -> dict[str, dict[str, tuple[str, str]]]:
    """Return, per stage, each operator's engine and the reason, as far as it is known before the stage runs."""
    return {
        stage.stage_id: {
            op_id: (compiled[op_id].engine, compiled[op_id].reason) for op_id in stage.operators if op_id in compiled
        }
        for stage in plan.stages
    }


@dataclasses.dataclass(frozen=True)
class _Reading:
    """The input ranges of a run, from the version of the state that it starts from."""

    spec: ApplicationSpec
    systems: Mapping[str, System]
    version: Version | None
    request: RunRequest
    side_inputs: SideInputSlices
    history: InputHistory
    pace: Pace

    def with_slice(self, stream: BoundStream) -> BoundStream:
        """Return the stream with the range that the run reads of it; a stream that it writes stays as it is."""
        if stream.role not in (StreamRole.INPUT.value, SIDE_INPUT):
            return stream
        if stream.role == SIDE_INPUT:
            return dataclasses.replace(stream, slice=self.side_inputs.of(stream))
        system = self.systems[stream.system]
        declared = self.spec.inputs[stream.stream_id]
        if declared.shared:
            named = self.request.sections.get(stream.stream_id)
            wait = patience_of(self.spec, self.request.wait_seconds).wait_seconds
            slice_ = section_slice(system, stream, declared, named, self.version, wait, self.history, self.pace)
        elif declared.slice_by == "checkpoint" and isinstance(system, TakesArrivals):
            slice_ = arrived_slice(declared, stream.spec, system, self.version, self.spec.config)
        else:
            slice_ = system.slice(stream.spec)
            if is_carried_on(declared):
                slice_ = carried_slice(declared, slice_, self.version, self.spec.config)
                if isinstance(system, ExpiresMessages):
                    slice_ = system.unexpired(stream.spec, slice_)
                self.history.reject_superseded(stream, system)
        return dataclasses.replace(stream, slice=slice_)


def _check_outputs(run: RunPlan, systems: Mapping[str, System]) -> None:
    for stream_id in sorted({stream_id for stage in run.plan.stages for stream_id in stage.outputs}):
        if not run.is_own(stream_id):
            stream = run.stream(stream_id)
            systems[stream.system].check_writable(stream.spec)
