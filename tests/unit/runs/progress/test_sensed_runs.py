"""Readers of a table that have reached a version."""

from __future__ import annotations

from airflow_samza.runs.progress.sensed_runs import Readers
from airflow_samza.runs.tables import versions as tables
from airflow_samza.runs.tables.versions import rollback
from airflow_samza.systems.filesystems.filesystem import Filesystem
from tests.unit.runs.tables.test_versions import PLACE, files, pushed  # noqa: F401


def test_all_runs_that_are_on_have_to_have_it_and_there_have_to_be_enough() -> None:
    assert Readers(2, 1, {"a": 2, "b": 3}).is_reached
    assert not Readers(2, 1, {"a": 2, "b": 1}).is_reached
    assert not Readers(2, 1).is_reached
    assert Readers(2, 0).is_reached
    assert str(Readers(2, 1)) == "version 2 is waited for; no run is on"


def test_a_slice_is_the_newest_version_of_the_same_rows(files: Filesystem) -> None:  # noqa: F811
    first, second = pushed(files, "a", of=1), pushed(files, "b", of=2)
    rollback(files, *PLACE, 1, "undo")
    assert tables.number_read(files, *PLACE, first.slice) == 3
    assert tables.number_read(files, *PLACE, second.slice) == 2
    assert tables.number_read(files, *PLACE, {"offsets": [[0, 9]]}) == 0
