"""Outputs that replace partitions, where others compact the table between their epochs, or between their runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_samza.errors import TopicError
from airflow_samza.systems.tables import commits
from tests.support import delta_outputs
from tests.support.slotted import day
from tests.support.table_kinds import KINDS, Output
from tests.support.table_outputs import output_stream

MODE = {"mode": "replace partitions"}


def made(kind: str, folder: Path, **options: str) -> Output:
    """Return an output to a table by partition, which it has made."""
    spec = output_stream(schema="id bigint, part string", create="true", partition_by="part", **MODE, **options)
    output = KINDS[kind](folder, spec)
    output.system.create([spec])
    output.spec = output_stream(**MODE, **options)
    return output


@pytest.fixture(params=["iceberg", "delta"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def output(kind: str, tmp_path: Path) -> Output:
    """An output to a table by partition, of which one run has committed two epochs to the same partition."""
    output = made(kind, tmp_path)
    output.publish(row(1))
    output.publish(row(2), epoch=1)
    return output


def row(number: int, part: str = "a") -> list[dict[str, Any]]:
    return [{"id": number, "part": part}]


def foreign(output: Output, number: int, part: str) -> None:
    """Append a row as another writer does, who knows nothing of this package."""
    theirs = {"run": "theirs"} if isinstance(output, delta_outputs.Output) and "run" in columns(output) else {}
    output.foreign(*({**one, **theirs} for one in row(number, part)))


def columns(output: delta_outputs.Output) -> list[str]:
    return [field.name for field in output.table().schema().fields]


def delete(output: Output, condition: str) -> None:
    output.table().delete(condition)


def test_rows_of_the_run_that_others_have_compacted_are_not_replaced_by_its_next_epoch(output: Output) -> None:
    output.compact()
    with pytest.raises(TopicError, match=r"of the 2 data files that generation .* has written there 0 are left"):
        output.publish(row(3), epoch=2)
    assert sorted(output.ids()) == [1, 2]


def test_a_cleared_stage_replaces_the_partitions_that_others_have_compacted(output: Output) -> None:
    output.compact()
    output.publish(row(3), generation="1.2")
    assert output.ids() == [3]


def test_files_of_others_are_replaced_as_long_as_those_of_the_run_are_there(output: Output) -> None:
    output.publish(row(9), run="another")
    output.publish(row(3), epoch=2)
    assert 9 not in output.ids()


@pytest.mark.parametrize("again", [row(4), []])
def test_a_partition_that_a_run_writes_no_more_is_not_left_in_silence_when_others_have_compacted_it(
    output: Output, again: list[dict[str, Any]]
) -> None:
    output.publish(row(3, "b"), epoch=2)
    foreign(output, 9, "b")
    output.compact()
    work = output.publication(again, generation="1.2")
    with pytest.raises(TopicError, match=r"of its 3 data files \d are left") as error:
        output.system.publish(output.spec, work)
    assert "Delete by hand the partitions" in error.value.hint
    assert output.ids() == [1, 2, 3, 9]
    delete(output, "part = 'b'" if again else "id < 10")
    output.publish(again, generation="1.3")
    assert output.ids() == ([4] if again else [])


def test_a_day_is_corrected_beside_days_that_others_have_compacted(kind: str, tmp_path: Path) -> None:
    output = made(kind, tmp_path)
    for epoch in range(2):
        output.publish([*row(1, "monday"), *row(2, "east")], run="first", slot=day(1), epoch=epoch)
        output.publish(row(3, "tuesday"), run="second", slot=day(2), epoch=epoch)
    output.compact()
    output.publish([*row(4, "monday"), *row(5, "east")], run="third", slot=day(1))
    assert output.ids() == [3, 3, 4, 5]
    with pytest.raises(TopicError, match="0 are left"):
        output.publish(row(6, "wednesday"), run="fourth", slot=day(2))
    assert output.ids() == [3, 3, 4, 5]


def test_files_that_a_compaction_has_left_are_replaced_with_those_that_it_has_moved(tmp_path: Path) -> None:
    output = made("delta", tmp_path)
    output.publish([*row(1, "a"), *row(2, "b")])
    output.publish(row(3, "a"), epoch=1)
    output.compact()  # one file of a partition is not compacted
    output.publish([*row(4, "a"), *row(5, "b")], generation="1.2")
    assert output.ids() == [4, 5]


def test_rows_go_by_the_column_of_runs_wherever_others_have_moved_them(kind: str, tmp_path: Path) -> None:
    output = made(kind, tmp_path, run_column="run")
    output.publish([*row(1, "a"), *row(2, "b")], run="first", slot=day(1))
    for number, part in ((7, "a"), (8, "b"), (9, "c")):
        foreign(output, number, part)
    output.compact()
    output.publish(row(3, "a"), run="second", slot=day(1))
    assert output.ids() == [3, 8, 9]


def test_of_more_partitions_than_a_record_names_each_file_of_others_may_hold_rows(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_samza.systems.tables.publishing.TOLD", 2)
    output = made(kind, tmp_path)
    output.publish(row(1, "a"))
    output.publish([*row(2, "b"), *row(3, "c")], epoch=1)
    output.publish(row(4, "a"), epoch=2)
    foreign(output, 9, "d")
    output.compact()
    with pytest.raises(TopicError, match="are left"):
        output.publish([*row(5, "a"), *row(6, "b"), *row(7, "c")], generation="1.2")
    delete(output, "part = 'd'")
    output.publish([*row(5, "a"), *row(6, "b"), *row(7, "c")], generation="1.3")
    assert output.ids() == [5, 6, 7]


def test_names_of_equal_partitions_are_equal() -> None:
    nans = [commits.partition_name(0, (commits.comparable(float("nan")),)) for _ in range(2)]
    assert nans[0] == nans[1] != commits.partition_name(1, (commits.comparable(float("nan")),))
