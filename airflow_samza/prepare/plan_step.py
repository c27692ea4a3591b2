"""The ``plan`` step of a run: everything that is known, decided or rejected before a stage runs.

1. Check what the storage of the root permits, where that has to be asked.
2. Load the application. Where the run has been planned, check that the plan is of this application.
3. Reject what this version does not run.
4. Lease the state from which the run continues.
5. Plan streams, counts, ranges and columns (:mod:`airflow_samza.prepare.passes`).
6. Keep the stages with a result of an earlier plan of which nothing has changed.
7. Create the topics that are written, the run's own and outputs, and check that outputs can be written.
8. Store the RunPlan.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.loader import load_application
from airflow_samza.config import INPUTS_BOUNDED, INPUTS_FLUSH, Config
from airflow_samza.errors import ConfigError, SamzaError, SectionOpen
from airflow_samza.planner.declaration import first_of
from airflow_samza.planner.stage_code import NOTHING_SHIPPED, ShippedDigests, stage_digests
from airflow_samza.prepare.carried_state import (
    carries_state,
    patience_of,
    previewed_state,
    take_state,
    write_starts,
)
from airflow_samza.prepare.compared_run import compared_with, reject_uncompared_anew
from airflow_samza.prepare.kept_stages import fingerprints, reuse
from airflow_samza.prepare.long_windows import with_kept_results
from airflow_samza.prepare.output_slots import with_root
from airflow_samza.prepare.passes import plan_run
from airflow_samza.prepare.publication import reject_forgotten
from airflow_samza.prepare.run_request import FRESH, PREVIOUS, RunRequest
from airflow_samza.prepare.run_streams import fixed_outputs
from airflow_samza.prepare.shared_sections import check_names
from airflow_samza.prepare.side_inputs import (
    pin_versions,
)
from airflow_samza.prepare.spark_streams import reject_over_connect, reject_unbounded
from airflow_samza.prepare.unchanged import (
    PLAN_ANEW,
    changed,
    continued_by,
    differences,
    other_options,
    reject_namesake,
    reject_other_copy,
    reject_other_options,
)
from airflow_samza.runs.progress.later_writers import with_later_writers
from airflow_samza.runs.progress.run_list import note_not_planned
from airflow_samza.runs.records.folders import RunFolder, adopt, read
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import (
    CARRIED,
    CONTINUOUS,
    OWN,
    PIPELINED,
    SIDE_INPUT,
    STAGED,
    RunPlan,
    RunState,
)
from airflow_samza.runs.stages.newest_stages import code_run
from airflow_samza.runs.state_history.held_versions import hold_read
from airflow_samza.runs.state_history.state_at_start import Patience
from airflow_samza.runs.upkeep.topic_expiry import remove_closed_note
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.object_store import requests
from airflow_samza.systems.filesystems.object_store.probe import check_store
from airflow_samza.systems.filesystems.pace import Looks, Pace
from airflow_samza.systems.system import StreamSpec, System, SystemBinding

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.5
"""Seconds between two looks for a section that is not there yet; runs take minutes."""


def prepare_run(
    files: Filesystem,
    bindings: Mapping[str, SystemBinding],
    default_system: str | None,
    request: RunRequest,
    on_wait: Callable[[str], None] | None = None,
    shipped: ShippedDigests = NOTHING_SHIPPED,
    plan_anew: str = PLAN_ANEW,
    *,
    over_connect: bool = False,
) -> RunPlan:
    """Return the plan of a run, made and stored by the module's list of steps, or the plan that is already stored.

    ``on_wait`` gets a sentence when the run has to wait for the state. ``shipped`` are digests of what travels with the
    application. ``plan_anew`` is the hint for a stored plan that the application no longer fits. Stages
    that run ``over_connect`` are clients of a Spark Connect server.
    """
    for warning in check_store(files):
        log.warning("%s", warning)
    spec = load_application(request.application).spec(request.config)
    folder = RunFolder(spec.name, request.run_id)
    planned = folder.plan_generations(files)
    first = read(files, folder.plan(planned[0]), RunPlan) if planned else None
    if first is not None:
        reject_other_copy(first, spec)
    stored = _stored_plan(files, folder, request, planned)
    if stored is not None:
        why = _why_anew(files, stored, spec, request, shipped)
        if not why:
            return continued_by(stored, spec, request.application)
        if not request.plans_anew:
            raise changed(stored, why, plan_anew)
        log.warning("The run %s is planned anew: %s.", request.run_id, first_of(why))
        request = dataclasses.replace(request, generation=planned[-1] + 1)
    former = read(files, folder.plan(planned[-1]), RunPlan) if planned else None
    reject_uncompared_anew(request, former)
    _check_mode(spec, request.mode or STAGED)
    check_names(spec, request.sections)
    if request.state_from not in (PREVIOUS, FRESH) and not carries_state(spec):
        raise ConfigError(
            f"The application {spec.name!r} carries no state from run to run, so this run cannot continue from that of "
            f"{request.state_from!r}.",
            hint="Leave state_from out; an application carries state when an input of it "
            'is unbounded (slice="checkpoint").',
            key="state_from",
            value=request.state_from,
        )
    request = _with_former_bundle(request, former)
    base = compared_with(files, request)
    taken = take_state(files, spec, request, on_wait, base) if carries_state(spec) else None
    try:
        version = taken.version if taken is not None else None
        run, systems = _plan_when_written(
            lambda: plan_run(files, bindings, default_system, spec, request, version, base),
            patience_of(spec, request.wait_seconds, on_wait),
            files.pace,
        )
        run = dataclasses.replace(run, options=_options_read(run, request))
        if taken is not None:
            slices = {stream_id: stream.slice for stream_id, stream in run.streams.items() if stream.role != SIDE_INPUT}
            starts = write_starts(files, folder, run.generation, spec, run.plan, slices, version)
            run = dataclasses.replace(run, state=dataclasses.replace(taken.state, starts=starts))
        digests = stage_digests(request.application, spec, run.plan, shipped)
        run = with_kept_results(files, spec, run, digests)
        run = with_later_writers(files, _with_reuse(files, systems, run, request, digests))
        reject_unbounded(run, systems)
        if over_connect:
            reject_over_connect(run, systems)
        run = with_root(files, run, systems)
        reject_forgotten(files, run, systems)
        _create_topics(run, systems)
        # Once more: with the tables that were made just now, and for this root.
        run = dataclasses.replace(run, streams=fixed_outputs(run, systems, root=run.root))
        run = dataclasses.replace(run, fingerprints=fingerprints(run, digests))
        _check_outputs(run, systems)
        run = _with_held_versions(files, systems, run)
        remove_closed_note(files, folder)
        pin_versions(files, run)
    except SamzaError as error:
        if taken is not None and not error.retryable:
            taken.give_back(files, spec)
        raise
    stored_run = adopt(files, folder.plan(run.generation), dataclasses.replace(run, requests=requests.take()))
    return continued_by(stored_run, spec, request.application)


def _plan_when_written(
    plan: Callable[[], tuple[RunPlan, Mapping[str, System]]], patience: Patience, pace: Pace
) -> tuple[RunPlan, Mapping[str, System]]:
    """Return the plan as soon as the sections of shared streams that it reads are there, or are being written."""
    deadline, looks, said = time.monotonic() + patience.wait_seconds, Looks(pace), False
    while True:
        try:
            return plan()
        except SectionOpen as error:
            if time.monotonic() >= deadline:
                raise
            if patience.on_wait is not None and not said:
                patience.on_wait(error.sentence)
                said = True
            time.sleep(looks.pause(_POLL_SECONDS))


def _with_former_bundle(request: RunRequest, former: RunPlan | None) -> RunRequest:
    """Return the request with the version of the Dag bundle by which its run was planned before, if that is another."""
    version = request.bundle.get("version")
    before = former.bundle.get("version") if former is not None and version else None
    if before in (None, version):
        return request
    return dataclasses.replace(request, bundle={**request.bundle, "before": str(before)})


def leave_why_not_planned(
    files: Filesystem,
    reference: str,
    run_id: str,
    config: Mapping[str, str],
    error: SamzaError,
    origin: Mapping[str, str] | None = None,
) -> None:
    """Leave under the root why a run could not be planned; where that cannot be written, its error says it alone.

    ``origin`` is the Airflow task that has tried.
    """
    with suppress(SamzaError, OSError):
        folder = RunFolder(load_application(reference).spec(config).name, run_id)
        note_not_planned(files, folder, reference, error, origin)


def _with_held_versions(files: Filesystem, systems: Mapping[str, System], run: RunPlan) -> RunPlan:
    """Hold the versions of tables up to which the run reads; return the plan with notes on those that cannot be."""
    slices = {stream_id: bound.slice for stream_id, bound in run.streams.items() if bound.role != SIDE_INPUT}
    reasons = hold_read(files, systems, run, slices)
    notes = {
        stage: {
            name: f"{text}; its snapshot is not kept from expiry: {reasons[name]}" if name in reasons else text
            for name, text in texts.items()
        }
        for stage, texts in run.notes.items()
    }
    return dataclasses.replace(run, notes=notes) if reasons else run


def _check_mode(spec: ApplicationSpec, mode: str) -> None:
    """Reject a mode that is none, or that does not fit the application."""
    if mode not in (STAGED, PIPELINED, CONTINUOUS):
        raise ConfigError(
            f"The mode {mode!r} of a run is not known.",
            hint="Choose staged, pipelined or continuous.",
            key="mode",
            value=mode,
        )
    if mode == CONTINUOUS and all(stream.bounded for stream in spec.inputs.values()):
        raise ConfigError(
            f"The application {spec.name!r} has no unbounded input, "
            "so a continuous run of it would be a pipelined one.",
            hint="Declare an input unbounded (bounded=False); or leave bounded= out, and give the run "
            f"{INPUTS_BOUNDED}=false in its configuration; or choose pipelined.",
            key="mode",
            value=mode,
        )
    if Config(spec.config).inputs_flush and (mode == CONTINUOUS or not carries_state(spec)):
        why = "is continuous" if mode == CONTINUOUS else "has no unbounded input, so it flushes everything anyway"
        raise ConfigError(
            f"{INPUTS_FLUSH} is true, and the run of the application {spec.name!r} {why}.",
            hint="Drain a continuous run (airflow-samza drain, SamzaDrainOperator)."
            if mode == CONTINUOUS
            else "Remove the key.",
            key=INPUTS_FLUSH,
            value="true",
        )


def _stored_plan(files: Filesystem, folder: RunFolder, request: RunRequest, planned: Sequence[int]) -> RunPlan | None:
    """Return the plan that a request asks for, where it is stored; of one that was planned anew the newest."""
    generation = planned[-1] if request.plans_anew and planned else request.generation
    return read(files, folder.plan(generation), RunPlan) if generation >= request.generation else None


def _why_anew(
    files: Filesystem,
    stored: RunPlan,
    spec: ApplicationSpec,
    request: RunRequest,
    shipped: ShippedDigests,
) -> tuple[str, ...]:
    """Return why a stored plan does not serve a request: what its application or its options say otherwise now.

    For who plans anew, stages that have begun with other bodies of callables are a reason, too.
    """
    reject_namesake(stored, spec, request.application)
    if not request.plans_anew:
        reject_other_options(stored, request)
        return differences(stored, spec)
    reasons = differences(stored, spec)
    reasons += tuple(f"{flag} was {then} and is {now}" for flag, then, now in other_options(stored, request))
    return reasons or tuple(
        f"the callables of the stage {stage_id} have changed"
        for stage_id, code in stage_digests(request.application, spec, stored.plan, shipped).items()
        if code_run(files, stored, stage_id) not in ("", code)
    )


def preview_run(
    files: Filesystem,
    bindings: Mapping[str, SystemBinding],
    default_system: str | None,
    request: RunRequest,
    shipped: ShippedDigests = NOTHING_SHIPPED,
    *,
    over_connect: bool = False,
) -> RunPlan:
    """Return the plan that a run would get now: its systems are asked, nothing is made or stored.

    Of a run that was planned before it is a new plan. ``shipped`` and ``over_connect`` as in :func:`prepare_run`.
    """
    spec = load_application(request.application).spec(request.config)
    version = previewed_state(files, spec, request.state_from)
    planned = RunFolder(spec.name, request.run_id).plan_generations(files)
    generation = planned[-1] + 1 if planned else request.generation
    request = dataclasses.replace(request, wait_seconds=0.0, generation=generation)
    run, systems = plan_run(files, bindings, default_system, spec, request, version)
    if over_connect:
        reject_over_connect(run, systems)
    digests = stage_digests(request.application, spec, run.plan, shipped)
    run = with_kept_results(files, spec, run, digests)
    if planned:
        run = _with_reuse(files, systems, run, request, digests)
    if not carries_state(spec):
        return with_later_writers(files, run)
    state = RunState(CARRIED if request.state_from == PREVIOUS else OWN, version.number if version is not None else 0)
    warned = with_later_writers(files, dataclasses.replace(run, state=state))
    return dataclasses.replace(warned, state=run.state)


def _with_reuse(
    files: Filesystem,
    systems: Mapping[str, System],
    run: RunPlan,
    request: RunRequest,
    digests: Mapping[str, str],
) -> RunPlan:
    """Return the plan with the fingerprints of its stages, and with the stages that keep a former result."""
    run = dataclasses.replace(run, fingerprints=fingerprints(run, digests))
    return dataclasses.replace(run, reuse=reuse(files, systems, run, enabled=request.reuse))


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
    topics: dict[str, list[StreamSpec]] = {}
    for stage in run.plan.stages:
        if run.kept_generation(stage.stage_id) is not None:
            continue
        for stream_id in stage.outputs:
            own = run.is_own(stream_id)
            stream = run.intermediate(stream_id, Generation(run.generation, 1)) if own else run.stream(stream_id)
            is_table = stream.slice is not None and "made" not in stream.slice  # one that is there
            if not is_table and (not own or stream.spec.schema is not None):  # None: the stage creates it
                topics.setdefault(stream.system, []).append(stream.spec)
    for name, specs in topics.items():
        systems[name].create(specs)


def _check_outputs(run: RunPlan, systems: Mapping[str, System]) -> None:
    for _, stream in sorted({bound.stream_id: bound for _, bound in run.written_outside()}.items()):
        systems[stream.system].check_writable(stream.spec, *([] if stream.slice is None else [stream.slice]))
