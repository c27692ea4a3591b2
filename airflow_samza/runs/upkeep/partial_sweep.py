"""Deletes partial results of data intervals that no run on record reads or leaves (decision 117)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from airflow_samza.errors import SamzaError
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.records.partials import kept_by, kept_paths
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.upkeep.kept_runs import load_plans
from airflow_samza.systems.filesystems.filesystem import Filesystem

ROOT = "partials"


def folders_of(plans: Iterable[RunPlan]) -> set[str]:
    """Return the folders, by application, of the partial results that plans name."""
    return {str(kept["folder"]).rpartition("/")[0] for plan in plans for kept in kept_by(plan)}


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
            for run_id in files.list(f"runs/{application}")
            for plan in load_plans(files, RunFolder(application, run_id))
        ]
        named = {path for plan in plans for path in kept_paths(plan)}
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


def delete_partials(files: Filesystem, paths: Iterable[str]) -> None:
    """Delete folders and files of partial results: who misses one computes it again."""
    for path in paths:
        if path.endswith(".arrow"):
            files.delete(path)
        else:
            files.delete_tree(path)
