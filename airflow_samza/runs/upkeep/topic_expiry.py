"""Expiry of the topics of a run that is over.

They are marked to expire, and deleted after that, unless the run is opened again. The runtime does it when a run ends;
the plan step opens a run again by it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from airflow_samza.errors import UnknownName
from airflow_samza.records import durable
from airflow_samza.runs.finish import output_stream
from airflow_samza.runs.records.folders import RunFolder, read, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.runs.upkeep.waiting_output import waiting_output
from airflow_samza.systems.capabilities import ExpiresTopics, ExpiringTopic
from airflow_samza.systems.filesystems import trash
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.pace import Looks
from airflow_samza.systems.system import System

KEEP_AFTER_SUCCESS_SECONDS = 24 * 3600.0
KEEP_AFTER_FAILURE_SECONDS = 7 * 24 * 3600.0


@durable("note of a slimmed run", reports=True)
@dataclass(frozen=True)
class Slimmed:
    """The note that what a run needs no more is gone, or that it is being deleted in place.

    ``over``: when the run ended, or this deletion began (seconds since 1970). ``places`` are those of the tables that
    it wrote, which sweeps look after; None: something may wait on a branch of one, or it is not known. ``is_swept``: a
    week after its end files were looked for that dead processes have left half written.
    """

    over: float = 0.0
    places: tuple[str, ...] | None = None
    is_swept: bool = False


def own_topics(files: Filesystem, run: RunPlan) -> list[tuple[str, str]]:
    """Return the run's own topics, of every generation of its stages under this plan: system and name; there or not."""
    topics: dict[tuple[str, str], None] = {}
    first = Generation(run.generation, 1)
    for stream in (run.stream(stream_id) for stage in run.plan.stages for stream_id in stage.inputs):
        read = run.through(stream, first)
        if read.spec.through is not None:
            topics[read.system, read.spec.through] = None
    for stage in run.plan.stages:
        generations = {first, *run.generations(files, stage.stage_id)}
        kept = run.kept_generation(stage.stage_id)
        for generation in sorted(generations if kept is None else {kept, *generations}):
            for stream_id in stage.outputs:
                topic = output_stream(run, stream_id, generation)
                if run.is_own(stream_id) or topic.spec.through is not None:
                    topics[topic.system, topic.spec.through or topic.spec.name] = None
    return list(topics)


def topics_there(files: Filesystem, systems: Mapping[str, System], run: RunPlan) -> Iterator[tuple[str, ExpiringTopic]]:
    """Yield those of the run's own topics that are there and whose system does not look after itself, by name."""
    for system, name in own_topics(files, run):
        topic = find_own(systems, system, name)
        if topic is not None:
            yield name, topic


def expire_topics(files: Filesystem, systems: Mapping[str, System], run: RunPlan, at: float) -> list[str]:
    """Marks the run's own topics, of every generation of its stages, to expire at a time (seconds since 1970).

    Returns their names. Where output of the run waits to be published, nothing expires.
    """
    marked: list[str] = []
    if waiting_output(files, systems, run):
        return marked
    for name, topic in topics_there(files, systems, run):
        topic.expire(int(at * 1000))
        marked.append(name)
    return marked


def reopen(files: Filesystem, systems: Mapping[str, System], run: RunPlan) -> None:
    """Opens a closed run again: its topics expire no more. One whose records are being deleted is rejected.

    The note that it is closed goes first: a sweep looks for it after it has begun to take a topic, and gives the topic
    back. While a run is open, no mark makes a sweep delete its topics, so an open one is left as it is.
    """
    if not remove_closed_note(files, run.folder):
        return
    for _, topic in topics_there(files, systems, run):
        if topic.expires_at is not None:
            topic.expire(None)


def remove_closed_note(files: Filesystem, folder: RunFolder) -> bool:
    """Takes the note away that a run is closed; one whose records are being deleted is rejected, and stays closed.

    Returns whether it was closed.
    """
    closed = read(files, folder.closed, RunEnd)
    if closed is not None:
        files.delete(folder.closed)
    if files.exists(folder.removing):
        if closed is not None:
            write_once(files, folder.closed, closed)
        raise UnknownName(
            f"The run {folder.run_id!r} of {folder.application!r} is not kept any more: its records are being deleted.",
            hint="Plan it anew (clear its plan task with its downstream; on the command line: another --run-id). "
            "keep_runs and keep_runs_days say how many runs are kept.",
            name=folder.run_id,
        )
    if closed is not None and not files.renames_folders:
        _await_slimming(files, folder)
    return closed is not None


def _await_slimming(files: Filesystem, folder: RunFolder) -> None:
    """Wait until a sweep that has begun before the run was opened has deleted what it deletes in place.

    One that begins later finds that the run is open.
    """
    looks = Looks(files.pace)
    while forget_dead_slimming(files, folder):
        time.sleep(looks.pause(0.5))


def forget_dead_slimming(files: Filesystem, folder: RunFolder) -> bool:
    """Delete the note of a sweep that has died while it deleted in place; return whether one still deletes."""
    note = read(files, folder.slimming, Slimmed)
    if note is None:
        return False
    lives = abs(time.time() - note.over) < trash.YOUNG_SECONDS
    if not lives:
        files.delete(folder.slimming)
    return lives


def expiry(topic: ExpiringTopic, over: float) -> float:
    """Return when a topic of a run that has been over since ``over`` may be deleted (seconds since 1970).

    As it is marked, else after a week.
    """
    at = topic.expires_at
    return at / 1000 if at is not None else over + KEEP_AFTER_FAILURE_SECONDS


def find_own(systems: Mapping[str, System], system: str, name: str) -> ExpiringTopic | None:
    """Return a topic of a run; None when it is not there, or its system looks after itself."""
    bound = systems[system]
    return bound.expiring(name) if isinstance(bound, ExpiresTopics) else None
