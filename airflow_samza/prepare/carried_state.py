"""The state of a run, as its ``plan`` step fixes it: version, lease, input ranges that continue it, starts of tasks.

An application carries state from run to run when it reads an input that is not bounded (as one with
``slice="checkpoint"`` is not) (decision 20). The start of each task is found in the version by the ids of operators,
tables and streams: an operator may have moved to another stage since, or have been renamed (``renamed_from=``), and its
state is where its former id is. Task *k* continues from task *k*, because a key stays in its partition (rule P10).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StreamDescriptor
from airflow_samza.config import Config
from airflow_samza.errors import ConfigError, PlanChanged, StateError, TopicError
from airflow_samza.planner.plan import ExecutionPlan, Stage
from airflow_samza.prepare.compared_run import with_versions_of
from airflow_samza.prepare.input_positions import with_present_inputs
from airflow_samza.prepare.run_request import FRESH, PREVIOUS, RunRequest
from airflow_samza.records import from_plain, plain
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.epoch_records import StageStart, TaskLeft
from airflow_samza.runs.records.folders import RunFolder, write_once
from airflow_samza.runs.records.names import safe
from airflow_samza.runs.records.run_plan import CARRIED, OWN, RunPlan, RunState
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.lease import Lease
from airflow_samza.runs.state_history.state_at_start import Patience, give_back, source_version, take_lease
from airflow_samza.runs.state_history.state_changes import lies_by_partitions
from airflow_samza.runs.state_history.versions import Version, find_version, newest_number, version_of_run
from airflow_samza.systems.capabilities import TakesArrivals
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import ColumnBound, StreamSpec
from airflow_samza.task.checkpoint import TaskCheckpoint


@dataclass(frozen=True)
class TakenState:
    """The state that a run starts from: ``version`` None is no state; a ``lease`` to continue the lineage."""

    state: RunState
    version: Version | None = None
    lease: Lease | None = None

    def give_back(self, files: Filesystem, spec: ApplicationSpec) -> None:
        """Free the lease, when the run cannot be planned."""
        if self.lease is not None:
            give_back(files, StateHistory(spec.name, spec.app_id), self.lease)


def is_carried_on(stream: StreamDescriptor) -> bool:
    """Return whether an input is unbounded: a run reads a range of it, and the next run continues behind that."""
    return not stream.bounded


def carries_state(spec: ApplicationSpec) -> bool:
    """Return whether a run of an application continues from the state of the run before."""
    return any(is_carried_on(stream) for stream in spec.inputs.values())


def take_state(
    files: Filesystem,
    spec: ApplicationSpec,
    request: RunRequest,
    on_wait: Callable[[str], None] | None = None,
    base: RunPlan | None = None,
) -> TakenState:
    """Return what a run starts from, and take the lease if it continues the lineage.

    ``on_wait`` gets a sentence that names the run it waits for. A run that is compared with a ``base`` starts from the
    state from which that started.
    """
    lineage, source = StateHistory(spec.name, spec.app_id), request.state_from
    keep = Config(spec.config).state_versions_keep
    if base is not None:
        begun = with_versions_of(files, spec, request.run_id, base)
        left_by = base.state.source if base.state is not None else None
        return TakenState(RunState(OWN, begun.number if begun is not None else 0, left_by, keep=keep), begun)
    if source == FRESH:
        return TakenState(RunState(OWN, keep=keep))
    if source != PREVIOUS:
        version = source_version(files, lineage, request.run_id, source)
        return TakenState(RunState(OWN, version.number, source, keep=keep), version)
    patience = patience_of(spec, request.wait_seconds, on_wait)
    lease = take_lease(files, lineage, request.run_id, request.generation, patience)
    try:
        version_ = find_version(files, lineage, lease.start)
        _reject_going_back(spec, request.run_id, request.interval, version_)
    except BaseException:
        give_back(files, lineage, lease)
        raise
    return TakenState(RunState(CARRIED, lease.start, None, lease.fence, keep=keep), version_, lease)


def previewed_state(files: Filesystem, spec: ApplicationSpec, source: str) -> Version | None:
    """Return the version that a run planned now would start from, as far as that is known without the lease."""
    lineage = StateHistory(spec.name, spec.app_id)
    if not carries_state(spec) or source == FRESH:
        return None
    return (
        find_version(files, lineage, newest_number(files, lineage))
        if source == PREVIOUS
        else version_of_run(files, lineage, source)
    )


def patience_of(
    spec: ApplicationSpec, wait_seconds: float | None = None, on_wait: Callable[[str], None] | None = None
) -> Patience:
    """Return how long a run of an application waits for the one before; ``wait_seconds`` None: as configured."""
    config = Config(spec.config)
    wait = config.state_lease_wait_ms / 1000 if wait_seconds is None else wait_seconds
    return Patience(wait, config.state_lease_grace_ms / 1000, on_wait)


def carried_slice(
    stream: StreamDescriptor, whole: Mapping[str, Any], version: Version | None, config: Mapping[str, str]
) -> dict[str, Any]:
    """Return the input range of an unbounded input: from where the version ends to the latest offset.

    It ends no stream (rule C9).

    ``whole`` is the range that the system gave: all that exists. A system without offsets gives just what its path or
    the data interval selects. ``first`` are the offsets at which the state began to read the input, however many runs
    ago.
    """
    ranges = whole.get("offsets")
    if "times" in whole:  # it begins with its interval, whatever was read before
        return {**whole, "final": False}
    if ranges is None:
        if stream.slice_by == "checkpoint":
            raise ConfigError(
                f'The input {stream.stream_id!r} has slice="checkpoint", and its system counts no offsets, so nobody '
                "knows what is new.",
                hint='Take the data interval: a path= over it, or slice="timestamp"; '
                "or write it to a log, and read that.",
                key="slice",
                value="checkpoint",
                stream=stream.stream_id,
            )
        return {**whole, "final": False}
    offsets_read = version.offsets.get(stream.stream_id) if version is not None else None
    if version is None or offsets_read is None:
        newest = Config(config).first_offset(stream.stream_id) == "upcoming"
        offsets = [[end if newest else start, end] for start, end in ranges]
        return {**whole, "offsets": offsets, "first": [start for start, _ in offsets], "final": False}
    if len(offsets_read) > len(ranges):
        raise _recreated(stream, version, f"has {len(ranges)} partitions, and {len(offsets_read)} were read")
    unread = []
    for partition, (oldest, head) in enumerate(ranges):
        start = offsets_read[partition] if partition < len(offsets_read) else oldest
        if start > head:
            raise _recreated(
                stream, version, f"ends at offset {head} of partition {partition}, and was read up to {start}"
            )
        unread.append([start, head])
    read = version.read.get(stream.stream_id, {})
    if read.get("topic") and whole.get("topic") and read["topic"] != whole["topic"]:
        raise _recreated(stream, version, "is another topic than the one that was read")
    return {**whole, "offsets": unread, "first": list(read.get("first", offsets_read)), "final": False}


def arrived_slice(
    stream: StreamDescriptor,
    spec: StreamSpec,
    system: TakesArrivals,
    version: Version | None,
    config: Mapping[str, str],
    bounds: Sequence[ColumnBound],
) -> dict[str, Any]:
    """Return the input range of files that keep coming: those that are new since the version; it ends no stream."""
    record = version.arrived.get(stream.stream_id) if version is not None else None
    skips = record is None and Config(config).first_offset(stream.stream_id) == "upcoming"
    return {**system.arrived(spec, record, unread=skips, bounds=bounds), "final": False}


def _recreated(stream: StreamDescriptor, version: Version, what: str) -> TopicError:
    reset = StateHistory(version.plan.application, version.plan.app_id).reset_command()
    return TopicError(
        f"The input {stream.stream_id!r} {what} by the run before: it was created again.",
        hint=f"Bring the former one back; or give it a new id and set dropped=[{stream.stream_id!r}], and it is read "
        f"from its oldest offset; or forget all state: {reset}",
        stream=stream.stream_id,
    )


def _reject_going_back(
    spec: ApplicationSpec, run_id: str, interval: DataInterval | None, version: Version | None
) -> None:
    """Reject a data interval before what the state has seen: it would be late in every window."""
    by_time = [
        stream.stream_id for stream in spec.inputs.values() if is_carried_on(stream) and stream.slice_by == "timestamp"
    ]
    if not by_time or interval is None or version is None or version.interval is None:
        return
    end = DataInterval.from_iso(*version.interval).end
    if interval.start < end:
        raise StateError(
            f"The data interval {interval} of the run {run_id!r} is before {end.isoformat()}, up to which the run "
            f"{version.run!r} has advanced the state of {spec.name!r}.",
            hint='Run it with a state of its own: state_from="fresh", or the id of the run before it.',
            application=spec.name,
            run=run_id,
        )


def write_starts(
    files: Filesystem,
    folder: RunFolder,
    generation: int,
    spec: ApplicationSpec,
    plan: ExecutionPlan,
    slices: Mapping[str, Mapping[str, Any] | None],
    version: Version | None,
) -> dict[str, str]:
    """Write a record per stage: ``tasks`` with ``checkpoint`` and ``state`` of each; returns their paths.

    Nothing where nothing is.

    ``slices`` are what the run reads of its inputs; only of unbounded ones is anything read from the version.
    """
    if version is None or not version.stages:
        return {}
    names = former_names(spec, version)
    version = with_present_inputs(spec, version)
    going_on = {
        stream_id: slice_ for stream_id, slice_ in slices.items() if slice_ is not None and slice_.get("final") is False
    }
    # Sections of a shared stream are chosen by their runs: a later one may begin before what was read.
    # The offsets of files that keep coming begin anew in each run, those of an interval of time where it begins.
    counted = {
        s
        for s, slice_ in going_on.items()
        if slice_.get("offsets") is not None and not {"sections", "chunks", "times"} & set(slice_)
    }
    paths = {}
    left = _left_by_tasks(version)
    for stage in plan.stages:
        tasks = dict(_starts(stage, version, left, names, set(going_on), counted))
        if tasks:
            paths[stage.stage_id] = f"{folder.path}/start/{generation}/{safe(stage.stage_id)}.json"
            write_once(files, paths[stage.stage_id], StageStart(stage.stage_id, version.number, tasks))
    return paths


def former_names(spec: ApplicationSpec, version: Version) -> dict[str, str]:
    """Return the former ids of operators, tables and streams that were renamed since a version, by the present one.

    Tables stand as ``table:<id>``. What the version knows by its present id was renamed before: ``renamed_from=`` may
    stay in the code.
    """
    present = {
        name
        for stage in version.plan.stages
        for name in (*stage.operators, *(f"table:{table_id}" for table_id in stage.tables))
    }
    names = {}
    for operator in spec.operators:
        former = operator.renamed_from
        if former is not None and operator.op_id not in present:
            names[operator.op_id] = f"{operator.op_id.removesuffix(operator.name)}{former}"
            names[operator.name] = former  # the intermediate stream of a partition_by is named like it
            names[f"{spec.name}-{spec.app_id}-input-{operator.name}"] = f"{spec.name}-{spec.app_id}-input-{former}"
    for table_id, table in spec.tables.items():
        if table.renamed_from is not None and f"table:{table_id}" not in present:
            names[f"table:{table_id}"] = f"table:{table.renamed_from}"
    return names


@dataclass
class _Left:
    """All that the tasks of one number have left, and which stages know an operator, a table or a stream."""

    checkpoints: dict[str, TaskCheckpoint] = field(default_factory=dict)
    states: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    stages_of: dict[str, list[str]] = field(default_factory=dict)

    def stages_that_know(self, names: Iterable[str], first: str) -> list[str]:
        """Return the stages that know one of these names, the stage ``first`` before the others."""
        found = dict.fromkeys(stage for name in names for stage in self.stages_of.get(name, ()))
        return sorted(found, key=lambda stage: stage != first)


def _left_by_tasks(version: Version) -> dict[int, _Left]:
    """Return all that a version holds by task number, read once for all the stages that ask for it."""
    found: dict[int, _Left] = defaultdict(_Left)
    for stage_id, tasks in version.stages.items():
        for task, record in tasks.items():
            left, known = found[task], set(record["state"] or {})
            if record["checkpoint"] is not None:
                checkpoint = from_plain(TaskCheckpoint, record["checkpoint"], "of a task's checkpoint")
                left.checkpoints[stage_id] = checkpoint
                known |= checkpoint.operators.keys() | checkpoint.offsets.keys() | checkpoint.sources.keys()
                for control in (checkpoint.control, checkpoint.heard):
                    known |= {entry["stream"] for entry in control.get("watermarks", ())}
            if record["state"] is not None:
                left.states[stage_id] = record["state"]
            for name in known:
                left.stages_of.setdefault(name, []).append(stage_id)
    return found


def _starts(
    stage: Stage,
    version: Version,
    left_by_tasks: Mapping[int, _Left],
    names: Mapping[str, str],
    going_on: set[str],
    counted: set[str],
) -> Iterator[tuple[int, TaskLeft]]:
    same = names.get(stage.stage_id, stage.stage_id)
    keys = [*stage.operators, *(f"table:{table_id}" for table_id in stage.tables)]
    _reject_fewer_tasks(stage, keys, list(version.stages.values()), names, version)
    external = [stream_id for stream_id in stage.inputs if stream_id in going_on]
    former = {key: names.get(key, key) for key in keys}
    for task in range(stage.task_count):
        left = left_by_tasks.get(task, _Left())
        stages = left.stages_that_know((*former.values(), *external), same)
        checkpoint = _checkpoint(left, stages, stage, external, counted, names)
        states = [left.states[stage_id] for stage_id in stages if stage_id in left.states]
        state = {key: value for key in keys if (value := _first(states, former[key])) is not None}
        if checkpoint is not None or state:
            yield task, TaskLeft(plain(checkpoint or TaskCheckpoint()), state or None)


def _checkpoint(
    left: _Left,
    stages: list[str],
    stage: Stage,
    external: list[str],
    counted: set[str],
    names: Mapping[str, str],
) -> TaskCheckpoint | None:
    """Return the stage's part of what tasks of this number knew, whichever ``stages`` they belonged to.

    The same stage's word comes first. None where no task of this number has left anything.
    """
    checkpoints = [left.checkpoints[name].for_next_run(external) for name in stages if name in left.checkpoints]
    if not left.checkpoints:
        return None
    present = {former: name for name, former in names.items()}
    last_first = checkpoints[::-1]  # of a mapping the last word counts
    operators = {
        present.get(op_id, op_id): _renamed(progress, present)
        for checkpoint in last_first
        for op_id, progress in checkpoint.operators.items()
    }
    offsets = {name: read for each in last_first for name, read in each.offsets.items() if name in counted}
    return TaskCheckpoint(
        offsets=dict(sorted(offsets.items())),
        control={"watermarks": _by_partition(each.control for each in last_first)},
        heard={"watermarks": _by_partition(each.heard for each in last_first)},
        sources={name: source for each in last_first for name, source in each.sources.items()},
        operators={op_id: progress for op_id, progress in operators.items() if op_id in stage.operators},
    )


def _by_partition(parts: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return one entry for each partition of which parts of checkpoints have watermarks: the last one's."""
    entries = (entry for part in parts for entry in part.get("watermarks", ()))
    return list({(entry["stream"], entry["partition"]): entry for entry in entries}.values())


def _renamed(progress: Mapping[str, Any], present: Mapping[str, str]) -> dict[str, Any]:
    watermark = progress["watermark"]
    upstreams = {present.get(name, name): timestamp for name, timestamp in watermark["upstreams"].items()}
    return {**progress, "watermark": {**watermark, "upstreams": upstreams}}


def _first(states: list[Mapping[str, Any]], key: str) -> Any:
    return next((state[key] for state in states if key in state), None)


def _reject_fewer_tasks(
    stage: Stage,
    keys: list[str],
    former: list[Mapping[int, Mapping[str, Any]]],
    names: Mapping[str, str],
    version: Version,
) -> None:
    for tasks in former if lies_by_partitions(version) else ():
        beyond = [task for task in tasks if task >= stage.task_count]
        for key in keys:
            if any(key_of in (tasks[task]["state"] or {}) for task in beyond for key_of in [names.get(key, key)]):
                raise PlanChanged(
                    f"The stage {stage.stage_id!r} has {stage.task_count} tasks, and {key!r} keeps state in "
                    f"{max(tasks) + 1}.",
                    hint="Give its inputs their former partition counts; or start with fresh state: "
                    + StateHistory(version.plan.application, version.plan.app_id).reset_command(),
                    stage=stage.stage_id,
                    operator=key,
                    tasks=stage.task_count,
                    former=max(tasks) + 1,
                )
