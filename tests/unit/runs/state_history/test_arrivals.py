"""Records of what a run has read of an input whose messages come in files, where its tasks have left some unread."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.runs.state_history.arrivals import Looks, intake_at_end
from tests.unit.runs.progress.test_progress import Records, views

OF_FILES = {"files": 9, "bytes": 900, "names": {"a": 1, "b": 2, "c": 3, "d": 4}}
OF_TABLE = {"files": 9, "bytes": 900, "snapshot": 7, "unread": {}}


def look(first: int, *names: str) -> dict[str, Any]:
    """A slice of two partitions: two chunks of ten offsets each, three files in them."""
    files = [{"path": name, "size": 10 * number} for number, name in enumerate(names, 1)]
    chunks = [[[(0, 0, 1)], [(1, 0, 1)]], [[(2, 0, 1)], []]]
    return {"files": files, "chunks": chunks, "offsets": [[first, first + 20], [first, first + 20]]}


class Ground:
    """A run that reads an input in files, whose plan found some."""

    def __init__(self, root: Path, intake: Mapping[str, Any]) -> None:
        records = Records(root, views)
        self.files, self.run = records.files, records.run
        planned = self.run.stream("page-views")
        self.stream = dataclasses.replace(planned, slice={**look(0, "a", "b", "c"), "known": intake})

    def looks(self) -> Looks:
        return Looks(self.files, self.run, self.stream)

    def at_end(self, *reached: int) -> Mapping[str, Any]:
        return intake_at_end(self.files, self.run, self.stream, reached)


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path, OF_FILES)


def test_a_run_that_has_read_all_leaves_the_record_of_its_plan(ground: Ground) -> None:
    assert ground.at_end(20, 20) == OF_FILES


@pytest.mark.parametrize(
    ("reached", "unread"),
    [
        ((0, 20), "ac"),
        ((9, 20), "ac"),
        ((10, 20), "c"),
        ((19, 20), "c"),
        ((20, 0), "b"),
        ((10, 10), "c"),
        ((0, 0), "abc"),
    ],
)
def test_files_behind_a_tasks_place_and_the_one_at_it_are_no_part_of_the_record(
    ground: Ground, reached: Sequence[int], unread: str
) -> None:
    sizes = {"a": 10, "b": 20, "c": 30}
    names = {name: number for name, number in OF_FILES["names"].items() if name not in unread}  # type: ignore[attr-defined]
    assert ground.at_end(*reached) == {
        "files": 9 - len(unread),
        "bytes": 900 - sum(sizes[name] for name in unread),
        "names": names,
    }


def test_the_record_of_a_table_names_the_files_that_are_left(tmp_path: Path) -> None:
    ground = Ground(tmp_path, OF_TABLE)
    assert ground.at_end(10, 20) == {"files": 8, "bytes": 870, "snapshot": 7, "unread": {"c": 30}}
    assert ground.at_end(20, 20) == OF_TABLE


def test_what_is_left_of_former_looks_is_not_forgotten(ground: Ground) -> None:
    newest = {**OF_FILES, "files": 12, "names": dict.fromkeys("abcdef", 0)}
    ground.looks().decide(1, newest, look(20, "d", "e", "f"))
    ground.looks().decide(2, newest, None, end=True)
    assert ground.at_end(40, 40) == newest
    assert ground.at_end(30, 40)["names"] == dict.fromkeys("abcde", 0)
    assert ground.at_end(20, 20)["names"] == dict.fromkeys("abc", 0)
    assert ground.at_end(10, 20)["names"] == dict.fromkeys("ab", 0)


def test_a_look_that_is_decided_stands_and_only_the_newest_has_a_record(ground: Ground) -> None:
    looks = ground.looks()
    first = looks.decide(1, {"n": 1}, look(20))
    assert looks.decide(1, {"n": 9}, None, end=True) == first
    assert (looks.newest(), looks.intake(1), looks.intake(0)) == (1, {"n": 1}, OF_FILES)
    looks.decide(2, {"n": 2}, None, end=False)
    assert (looks.newest(), looks.intake(1), looks.intake(2)) == (2, None, {"n": 2})
