"""A column that names the run: what a run wrote is replaced also after others have compacted the table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.errors import SchemaError, StorageUnavailable, TopicError
from airflow_samza.schema import Schema as Columns
from tests.support.delta_lake import HandMade, column, inline_vector
from tests.support.delta_outputs import Output, made_output
from tests.support.each_commit import at_each_commit
from tests.support.iceberg_outputs import ids, output_stream
from tests.support.slotted import day


@pytest.fixture
def output(tmp_path: Path) -> Output:
    return made_output(tmp_path, run_column="run")


def files(output: Output) -> set[str]:
    return {Path(path).name for path in output.table().file_uris()}


def test_the_column_is_filled(output: Output) -> None:
    output.publish(ids([1]))
    output.publish(ids([2]), run="other")
    names = [row["run"] for row in output.scanned()]
    assert len(set(names)) == 2
    assert all(re.fullmatch(r"samza-[0-9a-f]{16}-", name) for name in names)


@pytest.mark.parametrize("partition", ["", "part", "run"])
@pytest.mark.parametrize("slotted", [False, True])
def test_rows_are_replaced_after_a_compaction(tmp_path: Path, slotted: bool, partition: str) -> None:
    output = made_output(tmp_path, run_column="run", partition_by=partition)
    slot = day(1) if slotted else None
    output.foreign({"id": 9, "part": None, "run": None})
    output.publish([{"id": 1, "part": "a"}, {"id": 2, "part": "b/ c=é"}], slot=slot)
    output.publish(ids([3]), epoch=1, slot=slot)
    output.publish([{"id": 7, "part": "a"}], run="tuesday", slot=day(2) if slotted else None)
    output.table().optimize.compact()
    assert partition == "run" or not any(name.startswith("samza-") for name in files(output) if not partition)
    kept = [row for row in output.scanned() if row["id"] in (7, 9)]
    before = output.table().version()
    again: dict[str, Any] = {"run": "backfill"} if slotted else {"generation": "1.2"}
    output.publish(ids([4]), slot=slot, **again)
    assert output.table().version() == before + 1
    assert output.ids() == [4, 7, 9]
    assert sorted(kept, key=str) == sorted((row for row in output.scanned() if row["id"] != 4), key=str)
    output.publish(ids([5]), epoch=1, slot=slot, **again)
    assert output.ids() == [4, 5, 7, 9]
    output.table().optimize.compact()
    output.publish(ids([6]), run="tuesday", generation="1.2", slot=day(2) if slotted else None)
    assert output.ids() == [4, 5, 6, 9]


def test_files_of_which_all_rows_go_are_removed_and_others_stay(output: Output) -> None:
    output.publish(ids([1]))
    output.publish(ids([2]), epoch=1)
    output.table().optimize.compact()
    output.publish(ids([3]), epoch=2)
    output.publish(ids([7]), run="other")
    (of_other,) = (file["path"] for file in _added(output, "other"))
    output.publish(ids([4]), generation="1.2")
    assert output.ids() == [4, 7]
    assert len(files(output)) == 2
    assert of_other in files(output)


def _added(output: Output, run: str) -> list[dict[str, Any]]:
    (name,) = {row["run"] for row in output.scanned() if row["id"] == 7}
    found = pa.table(output.table().get_add_actions(flatten=True)).to_pylist()
    return [file for file in found if file["path"].startswith(name)]


def test_rows_that_a_deletion_vector_takes_out_stay_out(tmp_path: Path) -> None:
    table = HandMade(
        tmp_path,
        [column("id", "long"), column("run", "string")],
        reader=3,
        features=["deletionVectors"],
        name="web.out",
    )
    table.begin()
    output = Output(tmp_path, output_stream(run_column="run"))
    output.publish(ids([1, 2]))
    (name,) = {row["run"] for row in output.rows()}
    (own,) = output.place.glob("samza-*.parquet")
    added = table.file("packed.parquet", pa.table({"id": [1, 8, 2, 9], "run": [name, "x", name, None]}))
    added["add"]["deletionVector"] = inline_vector([1])
    table.next = 2
    table.commit(added, {"remove": {"path": own.name, "dataChange": False, "deletionTimestamp": 1}})
    output.publish(ids([3]), generation="1.2")
    assert output.ids() == [3, 9]


def test_rows_that_are_not_as_many_as_were_written_are_not_doubled(tmp_path: Path) -> None:
    made_output(tmp_path, run_column="run")
    Output(tmp_path).publish(ids([1]))  # without the column
    output = Output(tmp_path, output_stream(run_column="run"))
    output.publish(ids([5, 6]), run="other")
    output.table().optimize.compact()
    with pytest.raises(TopicError, match="of its 1 data files 0 are left"):
        output.publish(ids([2]), generation="1.2")
    output.table().delete("id = 5")
    with pytest.raises(TopicError, match="of its 1 data files 0 are left"):
        output.publish(ids([2]), run="other", generation="1.2")
    assert output.ids() == [1, 6]


@pytest.mark.parametrize("fault", ["lost", "landed", "compacted"])
def test_a_fault_between_the_look_and_the_commit(output: Output, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    monkeypatch.setattr("airflow_samza.systems.tables.publishing.time.sleep", lambda _: None)
    output.publish(ids([1]))
    output.publish(ids([7]), run="other")
    if fault != "compacted":
        output.table().optimize.compact()
    work = output.publication(ids([2]), generation="1.2")

    def act(number: int) -> None:
        if number == 1 and fault == "compacted":
            output.table().optimize.compact()
        elif number == 1:
            raise StorageUnavailable("The storage did not answer.", hint="Try again.")

    at_each_commit(monkeypatch, *((lambda _: None, act) if fault == "landed" else (act,)))
    output.system.publish(output.spec, work)
    assert output.ids() == [2, 7]
    assert files(output) <= {path.name for path in output.place.glob("*.parquet")}
    rewritten = len(list(output.place.glob("samza-*.parquet")))
    assert rewritten == 4, "one of each publication, and one that was rewritten: not one of each try"


def test_a_column_that_cannot_name_the_run_is_rejected(tmp_path: Path, output: Output) -> None:
    for name, words in (("nope", "has no such column"), ("id", "has it as long")):
        with pytest.raises(TopicError, match=words):
            Output(output.folder, output_stream(run_column=name)).publish(ids([1]))
    with pytest.raises(SchemaError, match="have the column 'run', which is filled"):
        output.publish([{"id": 1, "run": "mine"}])
    fresh = Output(tmp_path / "fresh", output_stream(create="true", run_column="run"))
    with pytest.raises(SchemaError, match="have the column 'run', which is filled"):
        fresh.system.fix_output(fresh.spec, Columns.of("id bigint, run string"))
