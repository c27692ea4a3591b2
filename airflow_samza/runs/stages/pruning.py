"""Deletes records and state of a stage's old epochs, of which newer ones have taken the place.

The loop of a stage does it after a commit.
"""

from __future__ import annotations

from collections.abc import Iterable

from airflow_samza.runs.records.epoch_records import Commit, Manifest
from airflow_samza.runs.records.folders import StageFolder
from airflow_samza.storage.snapshots import snapshot_files
from airflow_samza.systems.filesystems.filesystem import Filesystem

EPOCHS_KEPT = 20
"""Old intents, manifests and commits are small, and say what happened; more of them would only make listings longer."""


def state_folders(folder: StageFolder, manifests: Iterable[Manifest]) -> set[str]:
    """Return the folders of a stage's state files that manifests name, without what came from a run before."""
    folders = {path.rpartition("/")[0] for manifest in manifests for path in snapshot_files(manifest.state)}
    return {path for path in folders if path.startswith(f"{folder.states}/")}


def prune_epochs(files: Filesystem, folder: StageFolder, committed: Commit) -> None:
    """Deletes records of epochs that are long over, but for manifests that still stand."""
    standing = set(committed.standing.values())
    for name in files.list(folder.epochs):
        if name.isdigit() and int(name) <= committed.epoch - EPOCHS_KEPT and int(name) not in standing:
            files.delete_tree(folder.manifests(int(name)))
            files.delete_tree(f"{folder.epochs}/{name}")


def sweep_state(files: Filesystem, folder: StageFolder, before: int, kept: set[str]) -> None:
    """Delete the state folders of epochs before one but for the ``kept``, also what tries that died have left."""
    for epoch in files.list(folder.states):
        if not epoch.isdigit() or int(epoch) >= before:
            continue
        folders = [f"{folder.states}/{epoch}/{written}" for written in files.list(f"{folder.states}/{epoch}")]
        unused = [written for written in folders if written not in kept]
        for written in unused:
            files.delete_tree(written)
        if len(unused) == len(folders):
            files.delete_tree(f"{folder.states}/{epoch}")
