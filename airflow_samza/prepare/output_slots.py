"""Slots of a run's outputs: what the run will replace there, what stays beside it, and what is rejected (rule O1)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.partition_keys import names_interval
from airflow_samza.application.rejections import listed
from airflow_samza.config import own_keys
from airflow_samza.prepare.carried_state import carries_state
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.records.names import producer_id, safe
from airflow_samza.runs.records.run_plan import Note, RunPlan, newest_plan
from airflow_samza.systems.capabilities import (
    FixesOutputs,
    PublishesBranches,
    PublishesForGood,
    ReplacesSlots,
)
from airflow_samza.systems.filesystems.filesystem import Filesystem, root_identity
from airflow_samza.systems.output_slots import (
    APPEND,
    MODE,
    UPSERT,
    OutputSlot,
    appends,
    check_mode,
    digest,
    reject_meeting,
    run_id_of,
    run_of,
)
from airflow_samza.systems.spark.system import CarriedByDriver
from airflow_samza.systems.system import StreamSpec, System

ON_RERUN = "on_rerun"
"""The option of an output on Kafka by which another run of an interval adds to what was published."""

_SHOWN = 3
"""Runs that a note names."""


def run_slot(spec: ApplicationSpec, request: RunRequest) -> OutputSlot | None:
    """Return what a run writes of each output; None where it is of its own.

    That is so where a run has neither a data interval nor a partition key, and where runs go on from each other's
    state: then no two of them write the same. A key that is a date is another name of its interval, so that a run with
    the interval alone replaces what was written by the key.
    """
    if carries_state(spec) or (request.interval is None and request.partition_key is None):
        return None
    own = own_keys(request.config)
    return OutputSlot(
        spec.name,
        spec.app_id,
        request.interval.iso() if request.interval is not None else None,
        None if _is_named(request) else request.partition_key,
        digest(json.dumps(own, sort_keys=True)) if own else "",
    )


def _is_named(request: RunRequest) -> bool:
    """Return whether the partition key of a run names its interval, and so says no more than that."""
    if request.interval is None:
        return False
    start, end = (moment.replace(tzinfo=None) for moment in (request.interval.start, request.interval.end))
    return names_interval(request.partition_key, start, end)


def slot_notes(
    run: RunPlan, systems: Mapping[str, System], files: Filesystem, *, compares: bool = False
) -> Iterator[Note]:
    """Yield what becomes of what earlier runs wrote to the outputs.

    A slot of another application, and an interval that overlaps one that is written, are rejected; of a run that is
    compared with another one, when it is published.
    """
    for stage in run.plan.stages:
        for stream_id in stage.outputs:
            if not run.is_own(stream_id):
                for text in _texts(run, stream_id, systems, files, compares=compares):
                    yield stage.stage_id, stream_id, text


def with_root(files: Filesystem, run: RunPlan, systems: Mapping[str, System]) -> RunPlan:
    """Return the plan with the identity of its root, if outputs keep it; reject a run with a namesake at one.

    That is a run of the same name under another root: what it has published would be taken for what this one does.
    """
    kept = [
        (system, bound.spec, run.producer(stage.stage_id))
        for stage in run.plan.stages
        for bound, system in run.outside(stage.outputs, systems, ReplacesSlots)
    ]
    if not kept:
        return run
    identity = root_identity(files)
    for system, stream, producer in kept:
        system.reject_namesake(stream, producer, identity)
    return dataclasses.replace(run, root=identity)


def _texts(
    run: RunPlan, stream_id: str, systems: Mapping[str, System], files: Filesystem, *, compares: bool
) -> Iterator[str]:
    bound = run.stream(stream_id)
    system = systems[bound.system]
    branch = system.branch(bound.spec) if isinstance(system, PublishesBranches) else None
    if branch is not None and isinstance(system, PublishesBranches):
        system.check_branch(bound.spec, run_of(producer_id(run.application, run.run_id, stream_id)))
        yield f"commits to the branch {branch!r}, which nobody sees until it is published"
    if stream_id in run.approvals:
        yield "waits for approval when its stage has ended, and nobody sees it before"
    if compares:
        return
    if not isinstance(system, ReplacesSlots):
        if run.slot is not None:
            yield from _not_replaced(bound.spec, system)
        return
    if not isinstance(system, FixesOutputs):  # which has checked it, and has other modes beside
        check_mode(bound.spec.name, bound.spec.options)
    if appends(bound.spec.options) and (MODE, UPSERT) not in bound.spec.options:
        yield 'mode="append": adds to what is there, also to what an earlier run wrote for the same interval'
    slot = run.slot_of(stream_id)
    if slot is None:
        return
    written = system.slot_writers(bound.spec, slot)
    reject_meeting(slot, written, output=_place(run, stream_id), stream=stream_id)
    mine = run_of(producer_id(run.application, run.run_id, stream_id))
    others = [writer for writer in written if run_of(writer.producer) != mine]
    same = dict.fromkeys(writer.run_id for writer in others if writer.slot.code == slot.code)
    if same:
        yield f"replaces what {_runs(list(same))} wrote for {slot.text}"
    apart = dict.fromkeys(writer.run_id for writer in others if writer.slot.code != slot.code)
    if apart:
        yield f"what {_runs(list(apart))} wrote for it with another configuration stays beside it"
    left = _outside(run, stream_id, system, files)
    if left:
        yield (
            f'what {_runs(left)} wrote for it stays beside it: with mode="append", '
            "or by a version that replaced nothing"
        )


def _not_replaced(stream: StreamSpec, system: System) -> Iterator[str]:
    """Yield what becomes of an interval that runs again, where the system does not replace what a run wrote."""
    if isinstance(system, PublishesForGood):
        adds = (ON_RERUN, APPEND) in stream.options
        effect = "adds its messages" if adds else f'is rejected, unless {ON_RERUN}="{APPEND}"'
        yield f"messages that are published cannot be replaced: another run of the interval {effect}"
    elif isinstance(system, CarriedByDriver) and not system.table(stream).waits_for_the_end:
        if (MODE, UPSERT) in stream.options:
            yield 'mode="upsert": rows of a key that is there are replaced, whichever run has written them'
        else:
            yield "rows that are appended cannot be replaced: another run of the interval adds its rows"


def _outside(run: RunPlan, stream_id: str, system: ReplacesSlots, files: Filesystem) -> list[str]:
    """Return the runs of the same data whose rows lie at an output outside of slots, as far as they are on record."""
    stages = [stage.stage_id for stage in run.plan.stages if stream_id in stage.outputs]
    here = safe(run.run_id)
    candidates = (
        producer_id(run.application, run_id, stage_id)
        for run_id in files.list(f"runs/{safe(run.application)}")
        if run_id != here
        for stage_id in stages
    )
    run_ids = dict.fromkeys(run_id_of(one) for one in system.outside_slots(run.stream(stream_id).spec, candidates))
    return [run_id for run_id in run_ids if _is_of_same_data(run, RunFolder(run.application, run_id), files)]


def _is_of_same_data(run: RunPlan, folder: RunFolder, files: Filesystem) -> bool:
    other = newest_plan(files, folder)
    if other is None or other.keeps_state or (other.app_id, other.interval) != (run.app_id, run.interval):
        return False
    if other.slot is None or run.slot is None:
        return other.interval is not None
    return other.slot.code.key == run.slot.code.key


def _runs(runs: list[str]) -> str:
    return f"the run{'' if len(runs) == 1 else 's'} {listed(map(repr, runs), _SHOWN)}"


def _place(run: RunPlan, stream_id: str) -> str:
    spec = run.stream(stream_id).spec
    return repr(spec.path or spec.name)
