"""Deletion of old epochs: never of state that a stage has taken over from the run before."""

from __future__ import annotations

from airflow_samza.runs.records.epoch_records import Manifest
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.stages.pruning import state_folders

FOLDER = RunFolder("views", "run-2").stage("views", Generation(1, 1))


def manifest(*paths: str) -> Manifest:
    state = {f"op-{n}": {"table": {"path": path, "rows": 1, "bytes": 1, "checksum": 0}} for n, path in enumerate(paths)}
    return Manifest(0, 3, "first", 1.0, {}, {}, state=state)


def test_state_of_the_lineage_is_not_the_stages_to_delete() -> None:
    own, taken_over = FOLDER.state(3, "first"), "state/views-1/files/00000000000000000001/views/1.1/0"
    assert state_folders(FOLDER, [manifest(f"{own}/a.arrow", f"{taken_over}/b.arrow")]) == {own}
