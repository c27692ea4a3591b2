"""Records of epochs: what may be read, and what is dropped that tasks have staged with other code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_samza.errors import RecordUnreadable, StageLost
from airflow_samza.runs.records.epoch_records import (
    InputIntent,
    Intent,
    Manifest,
    commit,
    drop_what_cannot_count,
    read_manifests,
)
from airflow_samza.runs.records.folders import RunFolder, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.systems.filesystems.local import LocalFilesystem

FOLDER = RunFolder("views", "run-1").stage("views", Generation(1, 1))
BY = ("", "old", "new")


class Staged:
    """A stage of three tasks that have staged their output: by a former release, by old code and by new code."""

    def __init__(self, root: Path, *, whole: bool = True) -> None:
        self.files = LocalFilesystem(root)
        self.intent = Intent("views", "1.1", 0, len(BY), {}, {}, 1.0, whole)
        write_once(self.files, FOLDER.intent(0), self.intent)
        self.manifests = [Manifest(task, 0, f"{task}", 1.0, {}, {}, code=code) for task, code in enumerate(BY)]
        for task, manifest in enumerate(self.manifests):
            write_once(self.files, FOLDER.manifest(0, task), manifest)

    def left_after(self, code: str) -> list[str]:
        drop_what_cannot_count(self.files, FOLDER, code)
        return [code for task, code in enumerate(BY) if self.files.exists(FOLDER.manifest(0, task))]


def test_what_tasks_have_staged_with_other_code_is_dropped(tmp_path: Path) -> None:
    assert Staged(tmp_path).left_after("new") == ["", "new"]


def test_nothing_is_dropped_where_the_code_is_not_known(tmp_path: Path) -> None:
    assert Staged(tmp_path).left_after("") == [*BY]


def test_a_stage_of_several_epochs_drops_nothing(tmp_path: Path) -> None:
    assert Staged(tmp_path, whole=False).left_after("new") == [*BY]


def test_what_is_committed_is_not_dropped(tmp_path: Path) -> None:
    staged = Staged(tmp_path)
    commit(staged.files, FOLDER, staged.intent, staged.manifests)
    assert staged.left_after("new") == [*BY]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("torn", [b"", b'{"task": 1', b"\0" * 9, b'{"task": \0\0}'])
def test_a_manifest_that_a_power_failure_tore_counts_as_none(tmp_path: Path, torn: bytes, whole: bool) -> None:
    staged = Staged(tmp_path, whole=whole)
    staged.files.put(FOLDER.manifest(0, 1), torn)
    with pytest.raises(StageLost, match="1 of 3 tasks have left no manifest, the first is task 1"):
        read_manifests(staged.files, FOLDER, staged.intent)
    assert staged.left_after("") == ["", "new"]


@pytest.mark.parametrize(("task", "epoch"), [(0, 0), (1, 1)])
def test_a_manifest_of_another_task_or_epoch_is_damage(tmp_path: Path, task: int, epoch: int) -> None:
    staged = Staged(tmp_path, whole=False)
    left = read_manifests(staged.files, FOLDER, staged.intent)[1]
    staged.files.delete(FOLDER.manifest(0, 1))
    write_once(staged.files, FOLDER.manifest(0, 1), replace(left, task=task, epoch=epoch))
    with pytest.raises(RecordUnreadable, match=f"it is the one of task {task} in epoch {epoch}"):
        read_manifests(staged.files, FOLDER, staged.intent)


def test_a_manifest_of_a_newer_format_is_an_error_and_stays(tmp_path: Path) -> None:
    staged = Staged(tmp_path)
    staged.files.put(FOLDER.manifest(0, 1), b'{"format": 99}')
    with pytest.raises(RecordUnreadable):
        staged.left_after("")
    assert staged.files.exists(FOLDER.manifest(0, 1))


def test_a_stage_that_has_not_begun_has_nothing_to_drop(tmp_path: Path) -> None:
    drop_what_cannot_count(LocalFilesystem(tmp_path), FOLDER, "new")


def test_rejects_offsets_that_are_no_ranges() -> None:
    assert InputIntent("s", {"offsets": [[0, 3], [2, 2]]}).slice == {"offsets": [[0, 3], [2, 2]]}
    with pytest.raises(TypeError):
        InputIntent("s", {"offsets": [[0, "3"]]})
