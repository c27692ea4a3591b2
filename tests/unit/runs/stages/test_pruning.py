"""Deletion of old epochs: never of state that a stage has taken over from the run before."""

from __future__ import annotations

from pathlib import Path

from airflow_samza.runs.records.epoch_records import Commit, Manifest
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.totals import Totals
from airflow_samza.runs.stages.pruning import EPOCHS_KEPT, prune_epochs, state_folders, sweep_state
from airflow_samza.systems.filesystems.local import LocalFilesystem

FOLDER = RunFolder("views", "run-2").stage("views", Generation(1, 1))


def manifest(*paths: str) -> Manifest:
    state = {f"op-{n}": {"table": {"path": path, "rows": 1, "bytes": 1, "checksum": 0}} for n, path in enumerate(paths)}
    return Manifest(0, 3, "first", 1.0, {}, {}, state=state)


def test_state_of_the_lineage_is_not_the_stages_to_delete() -> None:
    own, taken_over = FOLDER.state(3, "first"), "state/views-1/files/00000000000000000001/views/1.1/0"
    assert state_folders(FOLDER, [manifest(f"{own}/a.arrow", f"{taken_over}/b.arrow")]) == {own}


def put(files: LocalFilesystem, *paths: str) -> None:
    for path in paths:
        files.put(path, b"{}")


def test_records_of_epochs_go_that_are_long_over_unless_a_task_stands_there(tmp_path: Path) -> None:
    files, newest = LocalFilesystem(tmp_path), 2 * EPOCHS_KEPT
    for epoch in range(newest + 1):
        put(files, FOLDER.intent(epoch), FOLDER.manifest(epoch, 0))
    put(files, f"{FOLDER.epochs}/notes/a.json")
    commit = Commit("views", "1.1", newest, 2, (), {}, {0: newest, 1: 3}, frozenset(), Totals(0.0), 1.0)
    prune_epochs(files, FOLDER, commit)
    kept = [3, *range(EPOCHS_KEPT + 1, newest + 1)]
    assert [epoch for epoch in range(newest + 1) if files.exists(FOLDER.intent(epoch))] == kept
    assert [epoch for epoch in range(newest + 1) if files.exists(FOLDER.manifest(epoch, 0))] == kept
    assert files.exists(f"{FOLDER.epochs}/notes/a.json")


def test_state_of_epochs_before_one_goes_but_what_is_kept_and_what_is_no_epochs(tmp_path: Path) -> None:
    files = LocalFilesystem(tmp_path)
    for epoch in (1, 2, 3, 4):
        put(files, *(f"{FOLDER.state(epoch, written)}/a.arrow" for written in ("first", "second")))
    put(files, f"{FOLDER.states}/notes/x/a.arrow")
    sweep_state(files, FOLDER, 3, {FOLDER.state(1, "second")})
    assert [files.exists(f"{FOLDER.state(epoch, 'first')}/a.arrow") for epoch in (1, 2, 3, 4)] == [
        False,
        False,
        True,
        True,
    ]
    assert [files.exists(f"{FOLDER.state(epoch, 'second')}/a.arrow") for epoch in (1, 2, 3, 4)] == [
        True,
        False,
        True,
        True,
    ]
    assert files.exists(f"{FOLDER.states}/notes/x/a.arrow")
