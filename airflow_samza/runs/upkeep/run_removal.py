"""Deleting what a run that is over has left: first what nobody needs any more, at last the run itself.

A run is deleted in an order that a reader never sees half of: its topics go, each out of sight at once, and then its
folder, likewise. A sweeper that dies in between leaves a note, and the next sweep goes on.

The race is between the *sweeper* and a *planner*, which opens the run again. The sweeper writes the note and then looks
whether the run is still over. The planner opens the run and then looks for the note. So at least one of them sees the
other and gives way. Sweeps of a root do it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from airflow_samza.errors import StorageFull
from airflow_samza.records import durable
from airflow_samza.runs.records.folders import RunFolder, replace, write_once
from airflow_samza.runs.records.run_plan import CARRIED, RunPlan
from airflow_samza.runs.stages.newest_stages import finished_stage
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.tables.folder import TableFolder
from airflow_samza.runs.upkeep.kept_runs import OverRun, SystemsOf, is_half_removed, over_since
from airflow_samza.runs.upkeep.output_sweep import written_places
from airflow_samza.runs.upkeep.topic_expiry import (
    Slimmed,
    expiry,
    find_own,
    forget_dead_slimming,
    own_topics,
    topics_there,
)
from airflow_samza.runs.upkeep.waiting_output import waiting_output
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.trash import move_to_trash
from airflow_samza.systems.system import System


@durable("note of a run's removal", reports=True)
@dataclass(frozen=True)
class Removal:
    """A run is being deleted, since ``at`` (seconds since 1970)."""

    at: float = 0.0


@dataclass
class SweptRuns:
    """The runs that a sweep deleted, or would delete.

    ``runs`` as ``<application>/<run>``, names of ``topics``, folders of ``leftovers``.

    ``kept`` says why runs beyond number and age stay; ``slim`` are the notes of runs that were passed over, by
    folder.
    """

    runs: list[str] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    slim: dict[str, Slimmed] = field(default_factory=dict)


def slim_run(
    files: Filesystem, systems_of: SystemsOf, run: OverRun, now: float, swept: SweptRuns, *, dry: bool = False
) -> None:
    """Delete what a run that is over needs no more though it stays: expired topics, code, state with a copy.

    A note says what was done, so that the next sweep passes it over, until the run is opened and closed again.
    """
    if run.slim is not None:
        return
    left = False
    for plan in run.plans:
        if waiting_output(files, systems_of(plan), plan):
            return
    for plan in run.plans:
        left = _sweep_topics(files, systems_of(plan), run, plan, now, swept, dry=dry) or left
    for path in _leftovers(files, run):
        if dry or _deleted(files, path, run.folder):
            swept.leftovers.append(path)
    if not dry and not files.renames_folders:
        forget_dead_slimming(files, run.folder)
    if not left and not dry:
        with suppress(StorageFull):  # it only spares the next sweep a look
            replace(files, run.folder.slimmed, Slimmed(run.at, written_places(run.plans, systems_of)))


def remove_run(
    files: Filesystem, systems_of: SystemsOf, run: OverRun, now: float, swept: SweptRuns, *, dry: bool = False
) -> bool:
    """Deletes a run with its topics; False when it was opened again at this moment."""
    folder = run.folder
    names = [(plan, topics) for plan in run.plans if (topics := own_topics(files, plan))]
    if not dry:
        files.delete(folder.slimmed)  # with that note the next sweep would not look whether the removal has begun
        write_once(files, folder.removing, Removal(time.time()))
        if over_since(files, folder, now) is None and not is_half_removed(files, folder):
            files.delete(folder.removing)
            return False
    for plan, topics in names:
        systems = systems_of(plan)
        for system, name in topics:
            topic = find_own(systems, system, name)
            if topic is not None and (dry or topic.delete()):
                swept.topics.append(name)
    name_of_run = f"{folder.application}/{folder.run_id}"
    if dry:
        swept.runs.append(name_of_run)
        return True
    _release_pins(files, run)
    if files.renames_folders:
        place = move_to_trash(files, folder.path)
        if place is not None:
            files.delete_tree(place)
    else:
        _remove_in_place(files, folder)
    swept.runs.append(name_of_run)
    files.delete_empty(folder.path.rpartition("/")[0])
    return True


def _remove_in_place(files: Filesystem, folder: RunFolder) -> None:
    """Delete a run's folder where none is renamed in one step.

    First what makes the run be there, its plans (or a push's request), at last the note that it goes.
    """
    first, last = ("plan", "push.json"), [path.rpartition("/")[2] for path in (folder.closed, folder.removing)]
    names = files.list(folder.path)
    rest = [name for name in names if name not in (*first, *last)]
    for name in (*(name for name in first if name in names), *rest, *last[:1]):
        (files.delete if name.endswith(".json") else files.delete_tree)(f"{folder.path}/{name}")
    files.delete_tree(folder.path)


def _deleted(files: Filesystem, path: str, folder: RunFolder) -> bool:
    """Deletes a folder of a run, unless the run is opened again at this moment: then it is given back."""
    if not files.renames_folders:
        return _deleted_in_place(files, path, folder)
    place = move_to_trash(files, path)
    if place is not None and not files.exists(folder.closed) and not files.exists(path):
        files.rename(place, path)
        return False
    if place is not None:
        files.delete_tree(place)
    return place is not None


def _deleted_in_place(files: Filesystem, path: str, folder: RunFolder) -> bool:
    """The same where no folder is renamed in one step.

    A note stands while something is deleted: who opens the run again waits for its end, or is seen here after the note
    stood.
    """
    replace(files, folder.slimming, Slimmed(time.time()))
    try:
        if not files.exists(folder.closed):
            return False
        files.delete_tree(path)
        return True
    finally:
        files.delete(folder.slimming)


def _sweep_topics(
    files: Filesystem,
    systems: Mapping[str, System],
    run: OverRun,
    plan: RunPlan,
    now: float,
    swept: SweptRuns,
    *,
    dry: bool,
) -> bool:
    """Deletes the topics of a run that are expired; whether others are left."""

    def is_open() -> bool:
        return not files.exists(run.folder.closed)

    left = False
    for name, topic in topics_there(files, systems, plan):
        if expiry(topic, run.at) > now or is_open():
            left = True
        elif dry or topic.delete(is_open):
            swept.topics.append(name)
    return left


def _leftovers(files: Filesystem, run: OverRun) -> list[str]:
    """Return folders that nobody reads any more: shipped code, and state of stages that have left it elsewhere."""
    leftovers = [run.folder.code] if files.list(run.folder.code) else []
    for plan in run.plans:
        stages = {stage.stage_id: finished_stage(files, plan, stage.stage_id) for stage in plan.plan.stages}
        if all(stages.values()) and _has_left(files, plan):
            folders = (handle.folder.states for handle in stages.values() if handle is not None)
            leftovers += [path for path in folders if files.list(path)]
    return leftovers


def _has_left(files: Filesystem, plan: RunPlan) -> bool:
    """Return whether what a run leaves lies in the application's state, or there is nothing to leave."""
    if plan.state is None:
        return True
    history = StateHistory(plan.application, plan.app_id)
    if plan.state.kind != CARRIED:
        return files.exists(history.own_state(plan.run_id, plan.generation))
    assert plan.state.fence is not None
    return files.exists(history.lease(plan.state.fence, "ended"))


def _release_pins(files: Filesystem, run: OverRun) -> None:
    """Delete the pins of a run, which would hold what it read for a month: nobody could see that it is over."""
    readers = {f"{plan.application}/{plan.run_id}" for plan in run.plans}
    for plan in run.plans:
        if plan.state is not None:
            files.delete(StateHistory(plan.application, plan.app_id).pin(plan.state.version, plan.run_id))
    for system in files.list("tables"):
        for topic in files.list(f"tables/{system}"):
            table = TableFolder(system, topic)
            for number in files.list(table.pins):
                for reader in readers:
                    path = table.pin(int(number), reader)
                    if files.exists(path):
                        files.delete(path)
                files.delete_empty(f"{table.pins}/{number}")
