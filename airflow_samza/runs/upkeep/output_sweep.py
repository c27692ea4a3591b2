"""Files that runs have left outside of their own folders, and nobody needs any more.

In the folders of tables these are data files of epochs never committed, and those replaced since. The tables are those
that the plans on record write. What a run that is open writes or reads stays, and what waits on a branch for its
publication. Partial results of data intervals go when no run on record reads or leaves them (decision 117).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from airflow_samza.application.descriptors import StreamRole
from airflow_samza.errors import SamzaError
from airflow_samza.runs.held_outputs import has_open_outputs
from airflow_samza.runs.records.epoch_records import Commit
from airflow_samza.runs.records.folders import RunFolder, StageFolder, newest, read, run_folders
from airflow_samza.runs.records.names import writer_name
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.upkeep.kept_runs import SystemsOf, load_plans, over_since
from airflow_samza.runs.upkeep.topic_expiry import Slimmed
from airflow_samza.systems.capabilities import SweepsOutputs
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import StreamSpec
from airflow_samza.systems.tables.options import BRANCH


@dataclass
class SweptTable:
    """Data files of a table that a sweep deleted, or would delete; ``later``: why it could not."""

    files: int = 0
    bytes: int = 0
    later: str = ""


@dataclass
class _Held:
    """Names of data files that open runs read, and beginnings of the names of those that they write.

    Each beginning has the time since when a file with it may have been written that is yet to be committed: epochs are
    committed in turn, so what is far older than the last commit was committed, and merged since, or was given up.
    """

    names: set[str] = field(default_factory=set)
    prefixes: dict[str, float] = field(default_factory=dict)

    def holds(self, name: str, written: float) -> bool:
        return name in self.names or any(
            name.startswith(prefix) and written >= since for prefix, since in self.prefixes.items()
        )


def sweep_outputs(
    files: Filesystem,
    systems_of: SystemsOf,
    now: float,
    *,
    dry: bool,
    slim: Mapping[str, Slimmed] | None = None,
) -> dict[str, SweptTable]:
    """Delete what nobody needs of the tables that runs on record write; return by table what that was.

    ``slim`` are the notes of runs that are over and hold nothing, by folder: a plan that names no other tables than
    those of newer runs is not loaded.
    """
    held = _Held()
    outputs: dict[str, tuple[SweepsOutputs, StreamSpec]] = {}
    for plan, is_over, is_waiting in _plans(files, now, slim or {}):
        if not is_over or is_waiting:
            _hold(files, plan, held, whole=is_waiting)
        for place, output in _outputs(plan, systems_of):
            outputs.setdefault(place, output)
    swept: dict[str, SweptTable] = {}
    for place, (tables, spec) in sorted(outputs.items(), key=lambda pair: pair[0]):
        try:
            swept[place] = SweptTable(*tables.sweep_output(spec, held.holds, now, dry=dry))
        except SamzaError as error:
            swept[place] = SweptTable(later=error.sentence)
    return swept


def _outputs(plan: RunPlan, systems_of: SystemsOf) -> Iterator[tuple[str, tuple[SweepsOutputs, StreamSpec]]]:
    """Yield the tables that a plan writes, with their places."""
    bounds = [bound for bound in plan.streams.values() if bound.role == StreamRole.OUTPUT.value]
    if not any(bound.slice for bound in bounds):
        return
    try:
        systems = systems_of(plan)
    except SamzaError:  # a system that is not bound here any more
        return
    for bound in bounds:
        system = systems[bound.system]
        if isinstance(system, SweepsOutputs):
            yield system.location(bound.spec), (system, bound.spec)


def written_places(plans: Iterable[RunPlan], systems_of: SystemsOf) -> tuple[str, ...] | None:
    """Return the places of the tables that plans write; None where output to one may wait."""
    if any(_has_branch(plan) or plan.approvals for plan in plans):
        return None
    return tuple(sorted({place for plan in plans for place, _ in _outputs(plan, systems_of)}))


def _plans(files: Filesystem, now: float, slim: Mapping[str, Slimmed]) -> Iterator[tuple[RunPlan, bool, bool]]:
    """Yield each plan, with whether its run is over, and whether something of the run waits to be published."""
    seen: set[str] = set()
    for application in files.list("runs"):
        try:
            run_ids = files.list(f"runs/{application}")
        except SamzaError:  # a link, which the sweep of runs names
            continue
        for run_id in reversed(run_ids):  # mostly the newest first
            folder = RunFolder(application, run_id)
            places = slim[folder.path].places if folder.path in slim else None
            if places is not None and seen.issuperset(places):
                continue
            try:
                plans, over = load_plans(files, folder), over_since(files, folder, now)
            except SamzaError:  # what is damaged stays for fsck
                continue
            seen.update(places or ())
            is_waiting = (any(map(_has_branch, plans)) and _waits(files, f"{application}/{run_id}")) or (
                bool(plans) and has_open_outputs(files, plans[-1], now)
            )
            for plan in plans:
                yield plan, over is not None, is_waiting


def _has_branch(plan: RunPlan) -> bool:
    return any(BRANCH in dict(bound.spec.options) for bound in plan.streams.values())


def _waits(files: Filesystem, run: str) -> bool:
    from airflow_samza.systems.delta.branches import waits  # loads pyarrow, as the imports below do

    return waits(files, run)


def _hold(files: Filesystem, plan: RunPlan, held: _Held, *, whole: bool) -> None:
    """Hold what a run reads and writes; with ``whole`` commits of it may wait, however old they are."""
    for bound in plan.streams.values():
        for file in (bound.slice or {}).get("files") or ():
            if isinstance(file, dict) and "path" in file:
                held.names.add(str(file["path"]).rpartition("/")[2])
    for stage, bound in plan.written_outside():
        if "run" not in (bound.slice or {}):
            continue
        from airflow_samza.systems.tables.output import name_prefix

        for generation in plan.folder.generations(files, stage.stage_id):
            writer = writer_name(stage.stage_id, generation, 0, 0)
            prefix = name_prefix(str((bound.slice or {})["run"]), writer, bound.spec.name)
            held.prefixes[prefix] = 0.0 if whole else _since(files, plan.folder.stage(stage.stage_id, generation))


def _since(files: Filesystem, stage: StageFolder) -> float:
    from airflow_samza.systems.tables.sweeping import ORPHAN_SECONDS

    commit = newest(files, stage.epochs, lambda epoch: read(files, stage.commit(epoch), Commit))
    return 0.0 if commit is None else commit.committed_at - ORPHAN_SECONDS


PARTIALS = "partials"


def folders_of(plans: Iterable[RunPlan]) -> set[str]:
    """Return the folders, by application, of the partial results that plans name."""
    return {str(kept["folder"]).rpartition("/")[0] for plan in plans for kept in plan.kept_results()}


def unnamed_partials(files: Filesystem, applications: Iterable[str], folders: Iterable[str]) -> list[str]:
    """Return the folders and files of partial results in some folders that no plan of these applications names.

    A plan is stored before a task of its run keeps anything, so what is new is named. Where a plan cannot be read,
    nothing is returned: it may name all of them. Nor is anything behind a link.
    """
    try:
        listed = [(folder, meaning) for folder in sorted(folders) for meaning in files.list(folder)]
        if not listed:
            return []
        plans = [
            plan
            for application in applications
            for folder in run_folders(files, application)
            for plan in load_plans(files, folder)
        ]
        kept = (each for plan in plans for each in plan.kept_results())
        named = {f"{each['folder']}/{name}" for each in kept for names in each["names"] for name in names if name}
        meanings = {path.rpartition("/")[0] for path in named}
        return [path for folder, meaning in listed for path in _unnamed(files, f"{folder}/{meaning}", meanings, named)]
    except SamzaError:
        return []


def _unnamed(files: Filesystem, folder: str, meanings: set[str], named: set[str]) -> Iterator[str]:
    if folder not in meanings:
        yield folder
        return
    for name in files.list(folder):
        if f"{folder}/{name.rpartition('-')[0]}" not in named:
            yield f"{folder}/{name}"
