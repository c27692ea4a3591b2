"""The state that a run leaves when all its stages have succeeded: the next version, or a state of its own.

Everything is read from the run's records, so whoever comes next can do it: the run's own cleanup, or the plan of the
run after it (decision 13). The runtime makes it when a run ends, and upkeep for one that died.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from airflow_samza.runs.failpoints import reach
from airflow_samza.runs.records.epoch_records import Intent, newest_commit, newest_intent, read_manifest
from airflow_samza.runs.records.folders import adopt
from airflow_samza.runs.records.names import safe
from airflow_samza.runs.records.run_plan import CARRIED, SIDE_INPUT, RunPlan
from airflow_samza.runs.stages.newest_stages import finished_stage
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.runs.state_history.arrivals import intake_at_end
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.lease import begin, load_lease, reject_ended
from airflow_samza.runs.state_history.versions import (
    Version,
    commit_version,
    expire,
    expire_apart,
    find_version,
    finished_version,
)
from airflow_samza.systems.filesystems.filesystem import Filesystem

_EVERYTHING = 2**62
"""An offset behind all others."""


def before_commit(files: Filesystem, run: RunPlan) -> None:
    """Reject a run that has lost its lease (StateFenced), before anything of it is committed."""
    if run.state is not None and run.state.fence is not None:
        history = StateHistory(run.application, run.app_id)
        begin(files, history, load_lease(files, history, run.state.fence))


def reject_fenced(files: Filesystem, run: RunPlan) -> None:
    """Reject early what would be rejected at its commit, and a stage whose start is not kept any more."""
    if run.state is None:
        return
    history = StateHistory(run.application, run.app_id)
    if run.state.fence is not None:
        reject_ended(files, history, load_lease(files, history, run.state.fence))
    if run.state.version:
        find_version(files, history, run.state.version)


def leave_state(files: Filesystem, run: RunPlan) -> Version | None:
    """Return the version that a run leaves, once all its stages have succeeded; before, or without state, None."""
    if run.state is None:
        return None
    history = StateHistory(run.application, run.app_id)
    if run.state.kind == CARRIED:
        assert run.state.fence is not None
        lease = load_lease(files, history, run.state.fence)
        left = finished_version(files, history, lease)
        if left is not None:
            return left
        left = _version(files, run, lease.head + 1, run.state.version, history.version_files(lease.fence))
        if left is None:
            return None
        standing = commit_version(files, history, lease, left)
        expire(files, history, run.state.keep)
        return standing
    left = _version(files, run, 0, run.state.version, history.own_files(run.run_id, run.generation))
    if left is None:
        return None
    standing = adopt(files, history.own_state(run.run_id, run.generation), left)
    files.delete(history.pin(run.state.version, run.run_id))
    expire_apart(files, history, run.state.keep)
    return standing


def _version(files: Filesystem, run: RunPlan, number: int, parent: int, folder: str) -> Version | None:
    finished = [finished_stage(files, run, stage.stage_id) for stage in run.plan.stages]
    handles = {handle.stage_id: handle for handle in finished if handle is not None}
    if len(handles) < len(finished):
        return None
    intents = {stage_id: newest_intent(files, handle.folder) for stage_id, handle in handles.items()}
    stages = {stage_id: _left_by(files, handle, intents[stage_id]) for stage_id, handle in handles.items()}
    for stage_id, tasks in stages.items():
        for task, left in tasks.items():
            state = copied_files(files, left["state"], f"{folder}/{safe(stage_id)}/{left['generation']}/{task}")
            tasks[task] = {"checkpoint": left["checkpoint"], "state": state}
    reach("state-after-files")
    return Version(
        number=number,
        parent=parent,
        run=run.run_id,
        plan_generation=run.generation,
        plan=run.plan,
        offsets=_offsets(run, stages),
        stages=stages,
        interval=run.interval,
        sections=_sections(run, intents),
        read=_read(run, intents),
        files=folder,
        arrived=_arrived(files, run, stages),
        at=time.time(),
        meanings=run.meanings,
    )


def _left_by(files: Filesystem, handle: StageHandle, last: Intent | None) -> dict[int, Mapping[str, Any]]:
    """Return the state that the tasks of a finished stage left at the end of their last epochs."""
    committed = newest_commit(files, handle.folder, last) if last is not None else None
    if committed is None:
        return {}
    manifests = {task: read_manifest(files, handle.folder, task, epoch) for task, epoch in committed.standing.items()}
    generation = str(handle.generation)
    return {
        task: {"generation": generation, "checkpoint": m.checkpoint, "state": m.state} for task, m in manifests.items()
    }


def copied_files(files: Filesystem, described: Any, folder: str) -> Any:
    """A description of files, each of them copied into a folder: whatever it holds under ``path`` is one."""
    if isinstance(described, Mapping):
        copied = {name: copied_files(files, value, folder) for name, value in described.items() if name != "path"}
        if isinstance(described.get("path"), str):
            copied["path"] = _copied(files, described["path"], folder)
        return copied
    if isinstance(described, list | tuple):
        return [copied_files(files, item, folder) for item in described]
    return described


def _copied(files: Filesystem, path: str, folder: str) -> str:
    target = f"{folder}/{path.rpartition('/')[2]}"
    # One generation of a task leaves one table under a name, so who finds it there has nothing to do.
    if not files.exists(target):
        files.put_if_absent(target, files.read(path))
    return target


def _offsets(run: RunPlan, stages: Mapping[str, Mapping[int, Mapping[str, Any]]]) -> dict[str, tuple[int, ...]]:
    """The next offsets by input: what every stage has read; the end of the slice where no task tells."""
    offsets: dict[str, tuple[int, ...]] = {}
    for stream_id, stream in run.streams.items():
        ranges = (stream.slice or {}).get("offsets")
        if ranges is None or stream.role == SIDE_INPUT or run.is_own(stream_id) or "chunks" in (stream.slice or {}):
            continue  # tables are filled anew, from their side inputs; of files there is a record of its own
        offsets[stream_id] = tuple(
            min(next_offsets, default=int(end))
            for (_, end), next_offsets in zip(ranges, _next_offsets(stages, stream_id, len(ranges)), strict=True)
        )
    return offsets


def _next_offsets(
    stages: Mapping[str, Mapping[int, Mapping[str, Any]]], stream_id: str, partitions: int
) -> Iterator[list[int]]:
    """The next offsets of each partition of an input, as the tasks that read it tell."""
    read_by = [left["checkpoint"] for tasks in stages.values() for left in tasks.values() if left["checkpoint"]]
    for partition in range(partitions):
        yield [
            int(next_)
            for c in read_by
            if (next_ := c.get("offsets", {}).get(stream_id, {}).get(str(partition))) is not None
        ]


def _read(run: RunPlan, intents: Mapping[str, Intent | None]) -> dict[str, Mapping[str, Any]]:
    """As of what each input with offsets was read: of several stages the one that looked at it first."""
    read_: dict[str, Mapping[str, Any]] = {}
    for stage in run.plan.stages:
        intent = intents[stage.stage_id]
        if intent is None:
            continue
        for stream_id in stage.inputs:
            stream, slice_ = run.stream(stream_id), intent.inputs[stream_id].slice
            if run.is_own(stream_id) or stream.slice is None or "first" not in stream.slice:
                continue
            if "commit" not in slice_ and "topic" not in slice_:
                continue
            former = read_.get(stream_id)
            if former is None or int(slice_.get("commit", 0)) < int(former.get("commit", 0)):
                read_[stream_id] = {
                    **({"commit": slice_["commit"]} if "commit" in slice_ else {}),
                    "first": stream.slice["first"],
                    "topic": slice_.get("topic"),
                }
    return read_


def _arrived(
    files: Filesystem, run: RunPlan, stages: Mapping[str, Mapping[int, Mapping[str, Any]]]
) -> dict[str, Mapping[str, Any]]:
    """The records of what was read of inputs whose messages arrive in files."""
    arrived = {}
    for stream_id, stream in run.streams.items():
        if "chunks" in (stream.slice or {}):
            partitions = run.plan.stream(stream_id).partitions
            reached = [
                min(next_offsets, default=_EVERYTHING) for next_offsets in _next_offsets(stages, stream_id, partitions)
            ]
            arrived[stream_id] = intake_at_end(files, run, stream, reached)
    return arrived


def _sections(run: RunPlan, intents: Mapping[str, Intent | None]) -> dict[str, tuple[str, ...]]:
    """The runs of other applications that were read of shared streams, with those that earlier runs had read.

    Of one that was followed the plan does not know the generation; the stage that has read it does.
    """
    sections = {}
    for stream_id, stream in run.streams.items():
        marks = (stream.slice or {}).get("read_sections")
        if marks is None:
            continue
        writer = None
        for stage in run.plan.stages:
            intent = intents[stage.stage_id] if stream_id in stage.inputs else None
            writer = intent.inputs[stream_id].writer if intent is not None else writer
        sections[stream_id] = tuple(f"{mark}{writer or ''}" if mark.endswith("@") else mark for mark in marks)
    return sections
