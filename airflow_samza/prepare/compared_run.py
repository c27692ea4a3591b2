"""A run that is compared with another one: it reads what that read, starts from the same state, and shows nothing.

All its outputs wait for an approval, its state is its own, and what it reads leaves no mark where others look: offsets
of groups, tags of snapshots (decision 130). The runtime plans such runs by it, and passes of the plan step ask it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.loader import load_application
from airflow_samza.config import INPUTS_BOUNDED, INPUTS_FLUSH
from airflow_samza.errors import ConfigError, StateError, TopicError, UnknownName
from airflow_samza.prepare.input_versions import CHOICES
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.prepare.shared_sections import followed
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.epoch_records import newest_intent
from airflow_samza.runs.records.folders import RunFolder, must_read
from airflow_samza.runs.records.run_plan import CONTINUOUS, SIDE_INPUT, STAGED, BoundStream, RunPlan, side_input_key
from airflow_samza.runs.records.stage_result import VERSIONS
from airflow_samza.runs.stages.newest_stages import finished_stage
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.state_at_start import pinned_version, source_version
from airflow_samza.runs.state_history.versions import Version
from airflow_samza.runs.tables.pins import HISTORY, as_of_joins
from airflow_samza.system_kinds import traits_of
from airflow_samza.systems.capabilities import TellsWhatIsGone
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import System


def compared_with(files: Filesystem, request: RunRequest) -> RunPlan | None:
    """Return the plan of the run with which a run is compared; None: with none."""
    if request.compares is None:
        return None
    application, _, run_id = request.compares.partition("/")
    folder = RunFolder(application, run_id)
    generations = folder.plan_generations(files)
    if not generations:
        raise UnknownName(
            f"The run {run_id!r} of {application!r}, with which the run {request.run_id!r} is compared, is not there.",
            hint="Name a run that is on record: airflow-samza runs list.",
            name=run_id,
        )
    return must_read(files, folder.plan(generations[-1]), RunPlan)


def reject_uncompared_anew(request: RunRequest, former: RunPlan | None) -> None:
    """Reject to plan a run that was compared with another one anew, as one whose outputs everybody would see."""
    if request.compares is None and former is not None and former.compares is not None:
        raise ConfigError(
            f"The run {request.run_id!r} is compared with the run {former.compares[1]!r}, and would be published if it "
            "were planned anew.",
            hint="Give it another --run-id; to compare the application as it is now, leave --run-id out: "
            "airflow-samza compare.",
            key="--run-id",
            value=request.run_id,
        )


def with_options_of(request: RunRequest, base: RunPlan) -> RunRequest:
    """Return the request for a run of the same data as another: interval, partition key, sections, versions, keys.

    Keys that are set in the request come before those of the other run.
    """
    mode = request.mode or (STAGED if base.mode == CONTINUOUS else base.mode)
    config = {**base.config, **request.config}
    if mode == CONTINUOUS:
        config = {**base.config, INPUTS_BOUNDED: "false", **request.config}
        config.pop(INPUTS_FLUSH, None)  # the ranges say how they end
    spec = load_application(request.application).spec(config)
    return dataclasses.replace(
        request,
        compares=f"{base.application}/{base.run_id}",
        interval=DataInterval.from_iso(*base.interval) if base.interval is not None else None,
        partition_key=base.partition_key,
        config=config,
        mode=mode,
        sections=dict(_sections_read(base, spec)),
        input_versions=dict(_versions_read(base, spec)) if mode != CONTINUOUS else {},
    )


def _sections_read(base: RunPlan, spec: ApplicationSpec) -> Iterator[tuple[str, str]]:
    """Yield the inputs of which a run was given a section, each with that; where it has followed a run, with that."""
    for stream_id, named in (base.options.get("sections") or {}).items():
        if stream_id in spec.inputs:
            bound = base.streams.get(stream_id)
            writer = followed(bound.slice) if bound is not None else None
            yield stream_id, named if writer is None else writer.run


def _versions_read(base: RunPlan, spec: ApplicationSpec) -> Iterator[tuple[str, str]]:
    """Yield the inputs that are tables of lakes, each with the version up to which a run has read it."""
    for stream_id, bound in base.streams.items():
        chosen = any(name in CHOICES and value for name, value in bound.spec.options)
        if stream_id not in spec.inputs or chosen or not traits_of(base.systems[bound.system]["kind"]).has_tables:
            continue
        read = bound.slice or {}
        version = next((read[name] for name in VERSIONS if read.get(name) is not None), None)
        if version is not None:
            yield stream_id, str(version)


def with_versions_of(files: Filesystem, spec: ApplicationSpec, run_id: str, base: RunPlan) -> Version | None:
    """Return the state with which a run began, for one that is compared with it, and pin it; None: from nothing.

    Raises:
        StateError: it is not kept any more, or is that of another application.
    """
    state = base.state
    if state is None or not (state.version or state.source):
        return None
    if (base.application, base.app_id) != (spec.name, spec.app_id):
        raise StateError(
            f"The run {base.run_id!r} of {base.application!r} began with a state, with which the application "
            f"{spec.name!r} cannot begin.",
            hint="Compare with a run that began with nothing: its first one, or one with --state-from fresh.",
            application=spec.name,
            run=base.run_id,
        )
    lineage = StateHistory(spec.name, spec.app_id)
    try:
        if state.source is not None:
            return source_version(files, lineage, run_id, state.source)
        return pinned_version(files, lineage, run_id, state.version)
    except StateError as error:
        raise StateError(
            f"The state with which the run {base.run_id!r} began (version {state.version}) is not kept any more, so "
            f"the run {run_id!r} cannot be compared with it.",
            hint="Compare with a later run. job.state.versions.keep says how many versions are kept.",
            application=spec.name,
            run=base.run_id,
            version=state.version,
        ) from error


def same_range(
    files: Filesystem, spec: ApplicationSpec, base: RunPlan, key: str, stream: BoundStream, *, asked: bool
) -> dict[str, Any] | None:
    """Return the range that another run has read of an input or side input; None where it is to be found anew.

    That is so of an input that it has not read, and of a table of which the request names the version (``asked``):
    which of its files are read, the application says. A section that it has followed is complete by now.
    """
    former = base.streams.get(key)
    if former is None or former.slice is None or asked or followed(former.slice) is not None:
        return None
    if (former.system, former.spec.name, former.spec.path) != (stream.system, stream.spec.name, stream.spec.path):
        return None
    if stream.role == SIDE_INPUT:
        return dict(former.slice) if HISTORY in former.slice or not as_of_joins(spec) else None
    range_ = _read_to_the_end(files, base, former)
    count = stream.spec.partitions
    if count is not None and range_.get("partitions") not in (None, count):
        raise ConfigError(
            f"The input {stream.stream_id!r} has {count} partitions, and the run {base.run_id!r} with which this one "
            f"is compared read it in {range_['partitions']}.",
            hint=f"Leave partitions= of the input at {range_['partitions']} while the runs are compared.",
            key="partitions",
            value=count,
        )
    if spec.inputs[stream.stream_id].bounded:
        range_.pop("final", None)
    elif "final" not in range_:  # an input that has ended ends here, too: what is open is given
        range_.update({"final": False, "flushed": True})
        if range_.get("offsets") is not None:
            range_.setdefault("first", [first for first, _ in range_["offsets"]])
    return range_


def same_versions(
    base: RunPlan, streams: Mapping[str, BoundStream], tables: Collection[str]
) -> dict[str, dict[str, Any]]:
    """Return the versions of pushed tables that a run shares with another, by table."""
    shared = {
        name for name, bound in streams.items() if name in base.streams and bound.slice == base.streams[name].slice
    }
    return {
        table_id: dict(pinned)
        for table_id, pinned in base.tables.items()
        if table_id in tables and {pinned["stream_id"], side_input_key(pinned["stream_id"])} & shared
    }


def _read_to_the_end(files: Filesystem, base: RunPlan, former: BoundStream) -> dict[str, Any]:
    """Return the range that a run has read of an input: of a continuous one as far as it came."""
    planned = dict(former.slice or {})
    if base.mode != CONTINUOUS or "final" not in planned:
        return planned
    stage = next(stage for stage in base.plan.stages if former.stream_id in stage.inputs)
    handle = finished_stage(files, base, stage.stage_id)
    intent = newest_intent(files, handle.folder) if handle is not None else None
    reached = intent.inputs[former.stream_id] if intent is not None else None
    if reached is None or "offsets" not in planned or "chunks" in planned:
        raise ConfigError(
            f"The run {base.run_id!r} is continuous, and what it read of the input {former.stream_id!r} in all of its "
            "looks is not one range.",
            hint="Compare with a run on a schedule, or with a backfill.",
            key="--as-of",
            value=base.run_id,
        )
    ends = [[first, end] for (first, _), (_, end) in zip(planned["offsets"], reached.slice["offsets"], strict=True)]
    return {**planned, **{k: v for k, v in reached.slice.items() if k == "commit"}, "offsets": ends} | (
        {"flushed": True} if reached.end else {}
    )


def reject_missing_input(base: RunPlan, stream: BoundStream, system: System, range_: Mapping[str, Any]) -> None:
    """Reject an input of which something is gone since another run has read it."""
    missing = system.gone(stream.spec, range_) if isinstance(system, TellsWhatIsGone) else None
    if missing is not None:
        raise TopicError(
            f"The input {stream.stream_id!r} cannot be read as the run {base.run_id!r} has read it: {missing}.",
            hint="Compare with a later run (--as-of), whose input is still there.",
            stream=stream.stream_id,
            run=base.run_id,
        )
