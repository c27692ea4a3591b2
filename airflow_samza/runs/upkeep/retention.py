"""Keeps a root from growing: what a run's end, a command or a scheduled task deletes, of one application or of all.

Nothing here decides by itself: which runs stay is said in :mod:`airflow_samza.runs.upkeep.kept_runs`, in which order
things go in :mod:`airflow_samza.runs.upkeep.run_removal`, what a log still needs in
:mod:`airflow_samza.systems.log.maintenance`.

The commands ``gc`` and ``topics`` and the operator of retention call it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from airflow_samza.errors import SamzaError, StorageFull, TopicError
from airflow_samza.runs.records.folders import RunFolder, numbers, read, replace as write
from airflow_samza.runs.records.names import safe
from airflow_samza.runs.stages.stage_runners import all_runners
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.lease import Ended
from airflow_samza.runs.state_history.versions import all_versions
from airflow_samza.runs.upkeep.keep import Keep
from airflow_samza.runs.upkeep.kept_runs import OverRun, Reasons, SystemsOf, load_plans, over_runs
from airflow_samza.runs.upkeep.output_sweep import (
    PARTIALS,
    SweptTable,
    folders_of,
    sweep_outputs,
    unnamed_partials,
)
from airflow_samza.runs.upkeep.run_removal import SweptRuns, remove_run, slim_run
from airflow_samza.runs.upkeep.topic_expiry import own_topics
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.trash import empty_trash, make_trash
from airflow_samza.systems.log.maintenance import Swept, sweep
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.log.topic import Topic
from airflow_samza.systems.made_tables import MADE_TABLES

SWEEP_SECONDS = 10.0
"""Greatest number of seconds for which the end of a run looks for what may be deleted; the next run's end goes on."""

_Item = TypeVar("_Item")

_HALF_WRITTEN_SECONDS = 7 * 86400.0
_SUFFIXES = (".json", ".arrow", ".zip", ".log", ".parquet", ".pem")


@dataclass
class SweptRoot:
    """The files that a sweep of a whole root deleted, or would delete."""

    runs: SweptRuns = field(default_factory=SweptRuns)
    logs: dict[str, Swept] = field(default_factory=dict)
    tables: dict[str, SweptTable] = field(default_factory=dict)


def sweep_application(
    files: Filesystem,
    systems_of: SystemsOf,
    application: str,
    keep: Keep,
    *,
    seconds: float | None = None,
    now: float | None = None,
    dry: bool = False,
    into: SweptRuns | None = None,
) -> SweptRuns:
    """Delete what has expired of one application: topics of runs, runs beyond number and age, and their leftovers.

    ``application`` is its name, or that of its folder of runs. ``seconds``: after so long the rest is left to the next
    sweep. ``into``: what other sweeps have done, to which this one adds.
    """
    until = None if seconds is None else time.monotonic() + seconds
    now = time.time() if now is None else now
    swept = SweptRuns() if into is None else into
    name = safe(application)
    reasons = Reasons(files, systems_of, now)
    runs = over_runs(files, name, now)
    histories: set[str] = set()
    partials: set[str] = set()
    for number, run in reversed(list(enumerate(runs))):  # oldest first
        if until is not None and time.monotonic() >= until:
            break
        try:
            is_old = number >= keep.runs or run.at < now - keep.days * 86400
            if not is_old and run.slim is not None:
                swept.slim[run.folder.path] = run.slim
                continue  # most are
            going = files.exists(run.folder.removing)
            run = replace(run, plans=load_plans(files, run.folder))
            if going or is_old:
                why = None if going else next(reasons.of(run), None)
                if why is None:
                    partials |= folders_of(run.plans)
                    _remove_run(files, systems_of, run, now, swept, dry=dry)
                    continue
                swept.kept[f"{name}/{run.folder.run_id}"] = why
            slim_run(files, systems_of, run, now, swept, dry=dry)
            histories.update(StateHistory(p.application, p.app_id).path for p in run.plans if p.state is not None)
        except SamzaError as error:  # the others need not wait until this one is repaired
            full = isinstance(error, StorageFull)
            what = "not all of it can be deleted on a full disk" if full else "it cannot be looked at"
            swept.kept[f"{name}/{run.folder.run_id}"] = f"{what}: {error.sentence.removesuffix('.')}"
    for history in sorted(histories):
        _delete_leftovers(files, orphaned_state(files, history), swept, dry=dry)
    _delete_leftovers(files, unnamed_partials(files, [name], partials), swept, dry=dry)
    if not dry:
        empty_trash(files, now)
        if runs:
            make_trash(files)
    return swept


def _delete_leftovers(files: Filesystem, paths: Iterable[str], swept: SweptRuns, *, dry: bool) -> None:
    """Delete folders, and files of partial results, that nobody needs; what was found before is gone already."""
    for path in paths:
        if path not in swept.leftovers:
            swept.leftovers.append(path)
            if not dry:
                (files.delete if path.endswith(".arrow") else files.delete_tree)(path)


def _remove_run(
    files: Filesystem, systems_of: SystemsOf, run: OverRun, now: float, swept: SweptRuns, *, dry: bool
) -> None:
    """Delete a run; on a full disk first what of it goes without a note, which may make room for that of the run."""
    try:
        remove_run(files, systems_of, run, now, swept, dry=dry)
    except StorageFull:
        slim_run(files, systems_of, run, now, swept, dry=dry)
        remove_run(files, systems_of, run, now, swept, dry=dry)


def sweep_root(
    files: Filesystem,
    logs: Sequence[LogSystem],
    systems_of: SystemsOf,
    keep: Keep,
    *,
    now: float | None = None,
    dry: bool = False,
) -> SweptRoot:
    """Deletes what has expired of all applications, and what nobody names any more in the given logs."""
    now = time.time() if now is None else now
    sweeps = SweptRoot()
    if not dry:
        empty_trash(files, now)
    for application in files.list("runs"):
        try:
            sweep_application(files, systems_of, application, keep, now=now, dry=dry, into=sweeps.runs)
        except TopicError as error:
            sweeps.runs.kept[application] = f"it cannot be looked at: {error.sentence.removesuffix('.')}"
    for log in logs:
        sweeps.logs[log.name] = sweep_log(files, log, now=now, dry=dry)
        for topic in _orphans(files, log, now):
            sweeps.logs[log.name].delete(topic, dry=dry)
    sweeps.tables = sweep_outputs(files, systems_of, now, dry=dry, slim=sweeps.runs.slim)
    for history in files.list("state"):
        orphaned = _unless_link(orphaned_state, files, f"state/{history}")
        _delete_leftovers(files, orphaned, sweeps.runs, dry=dry)
    partials = [f"{PARTIALS}/{name}" for name in _unless_link(files.list, PARTIALS)]
    _delete_leftovers(files, unnamed_partials(files, files.list("runs"), partials), sweeps.runs, dry=dry)
    if not dry:
        for top in ("runs", "state", "tables", PARTIALS, MADE_TABLES):
            _delete_temporary(files, top, now - _HALF_WRITTEN_SECONDS, sweeps.runs.slim)
        for path, slim in sweeps.runs.slim.items():
            if not slim.is_swept and slim.over < now - _HALF_WRITTEN_SECONDS:
                _delete_temporary(files, path, now - _HALF_WRITTEN_SECONDS)
                with suppress(StorageFull):  # it only spares the next sweep a look
                    write(files, f"{path}/slimmed.json", replace(slim, is_swept=True))
    return sweeps


def sweep_log(files: Filesystem, log: LogSystem, *, now: float | None = None, dry: bool = False) -> Swept:
    """Sweeps a log; topics of runs that are open are spared, however they are marked."""
    at = None if now is None else int(now * 1000)
    return sweep(log.filesystem, log.name, at, is_held=OpenTopics(files).holds, dry=dry, store=log.store)


def _orphans(files: Filesystem, log: LogSystem, now: float) -> Iterator[Topic]:
    """Topics that belong to a run which is not on record: its plan was never made to the end."""
    for name in log.topics():
        try:
            topic = log.topic(name)
        except TopicError:  # fsck names it
            continue
        if not log.store.holds(topic):
            continue
        if topic.is_runs_own and topic.created is not None and topic.created / 1000 < now - _HALF_WRITTEN_SECONDS:
            run = RunFolder(topic.owner[0], name.split("/")[1])
            if not run.plan_generations(files):
                yield topic


class OpenTopics:
    """The topics of runs that are not closed; the plans of a run are loaded when one of its topics is asked for."""

    def __init__(self, files: Filesystem) -> None:
        self._files = files
        self._topics: dict[str, dict[str, RunFolder]] = {}

    def holds(self, name: str) -> bool:
        """Return whether a topic belongs to a run that is open now."""
        folder = self._run(name)
        return folder is not None and not self._files.exists(folder.closed) and bool(self._files.list(folder.path))

    def open_run(self, name: str) -> RunFolder | None:
        """Return the run between whose stages a topic lies, if it is not closed, or a process of it lives."""
        folder = self._run(name)
        if folder is None or self.holds(name):
            return folder
        return folder if any(runner.is_alive(self._files) for runner in all_runners(self._files, folder)) else None

    def _run(self, name: str) -> RunFolder | None:
        run_id = name.rpartition("/")[0].rpartition("/")[2]  # as runs/records/names.py names topics of a run
        if run_id not in self._topics:
            self._topics[run_id] = {
                topic: plan.folder
                for application in (self._files.list("runs") if run_id else ())
                for plan in _unless_link(load_plans, self._files, RunFolder(application, run_id))
                for _, topic in own_topics(self._files, plan)
            }
        return self._topics[run_id].get(name)


def _unless_link(look: Callable[..., Sequence[_Item]], *at: object) -> Sequence[_Item]:
    """Return what a look finds; nothing where a link was planted: behind it is nothing of ours."""
    try:
        return look(*at)
    except TopicError as error:
        if not error.facts.get("link"):
            raise
        return ()


def _delete_temporary(files: Filesystem, directory: str, before: float, spared: Container[str] = ()) -> None:
    """Deletes what writers that died left half written, in all folders below; behind a link nothing.

    ``spared`` are folders of slim runs, each of which is looked through once, a week after its end.
    """
    names = _unless_link(files.list, directory)
    if names:
        files.delete_temporary(directory, before)
    for name in names:
        path = f"{directory}/{name}"
        if not name.endswith(_SUFFIXES) and path not in spared:
            _delete_temporary(files, path, before, spared)


def orphaned_state(files: Filesystem, history: str) -> list[str]:
    """Return folders of state files that nobody will read: their lease has ended, and no version names them.

    A lease that has ended with a version that is not among the versions yet counts as one; the newest lease's files
    stay in any case.
    """
    versions = list(all_versions(files, f"{history}/versions"))
    needed = {version.files for version in versions}
    newest = max((version.number for version in versions), default=0)
    fences = numbers(files, f"{history}/leases")
    orphaned = []
    for fence in numbers(files, f"{history}/files"):
        path = f"{history}/files/{fence:020}"
        if path in needed or not fences or fence >= fences[-1]:
            continue
        ended = read(files, f"{history}/leases/{fence:020}/ended.json", Ended)
        if ended is not None and ended.version is not None and ended.version["number"] > newest:
            continue
        orphaned.append(path)
    return orphaned
