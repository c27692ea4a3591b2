"""Facts of a task's manifest: how far it has read, what has ended, and its watermarks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_samza.control.watermarks import END_OF_TIME, NONE_YET
from airflow_samza.errors import SamzaError
from airflow_samza.runs.progress.task_facts import Reached, facts_of_manifest, read_task_facts
from airflow_samza.runs.records.epoch_records import Manifest, Staged
from airflow_samza.runs.records.folders import write_once
from airflow_samza.systems.filesystems.local import LocalFilesystem

READ = {"views": {"messages": 5}}


def manifest(control: dict[str, Any] | None, ended: bool = False) -> Manifest:
    """The manifest of a task that has read two partitions; without a control part that of a stage of one epoch."""
    checkpoint = None if control is None else {"offsets": {"views": {"0": 7, "1": 9}}, "control": control}
    more: dict[str, Any] = (
        {"report": {"inputs": {"views": {"next_offsets": {"0": 7, "1": 9}}}}} if control is None else {}
    )
    return Manifest(
        0, 0, "a", 2.5, READ, {"out": Staged({}, 4)}, checkpoint=checkpoint, ended=ended, facts={"late": 1}, **more
    )


def test_of_one_epoch_all_that_was_read_has_ended() -> None:
    facts = facts_of_manifest(manifest(None, ended=True))
    assert (facts.seconds, facts.read, facts.written, facts.facts) == (2.5, READ, {"out": {"messages": 4}}, {"late": 1})
    assert facts.ended
    assert facts.reached == (Reached("views", 0, 7, True, 0, None), Reached("views", 1, 9, True, 0, None))


@pytest.mark.parametrize(("mark", "shown"), [(5_000, 5_000), (NONE_YET, None), (END_OF_TIME, None)])
def test_of_several_epochs_ends_and_watermarks_are_by_partition(mark: int, shown: int | None) -> None:
    control = {
        "end_of_stream": [{"stream": "views", "partition": 1, "tasks": ["a", "b"], "ended": True}],
        "watermarks": [{"stream": "views", "partition": 0, "timestamp_of_last_emission": mark}],
    }
    facts = facts_of_manifest(manifest(control))
    assert not facts.ended
    assert facts.reached == (Reached("views", 0, 7, False, 0, shown), Reached("views", 1, 9, True, 2, None))


def test_a_task_without_a_manifest_has_no_facts(tmp_path: Path) -> None:
    files = LocalFilesystem(tmp_path)
    write_once(files, "0.json", manifest({}))
    found = read_task_facts(files, ["0.json", "1.json"])
    assert found == [facts_of_manifest(manifest({})), None]


def test_rejects_a_manifest_whose_checkpoint_has_no_control_part() -> None:
    broken = Manifest(0, 0, "a", 1.0, READ, {}, checkpoint={"offsets": {"views": {"0": 7}}})
    with pytest.raises(SamzaError, match="of a task's manifest"):
        facts_of_manifest(broken)
