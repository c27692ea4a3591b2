"""A column that names the run: what a run wrote is replaced also after others have compacted the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.errors import SchemaError, StorageUnavailable
from airflow_samza.schema import Schema as Columns
from tests.support.delta_lake import HandMade, column, inline_vector
from tests.support.delta_outputs import Output, made_output
from tests.support.each_commit import at_each_commit
from tests.support.table_outputs import ids, output_stream


@pytest.fixture
def output(tmp_path: Path) -> Output:
    return made_output(tmp_path, run_column="run")


def files(output: Output) -> set[str]:
    return {Path(path).name for path in output.table().file_uris()}


def test_files_of_which_all_rows_go_are_removed_and_others_stay(output: Output) -> None:
    output.publish(ids([1]))
    output.publish(ids([2]), epoch=1)
    output.compact()
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


@pytest.mark.parametrize("fault", ["lost", "landed", "compacted"])
def test_a_fault_between_the_look_and_the_commit(output: Output, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    monkeypatch.setattr("airflow_samza.systems.tables.publishing.time.sleep", lambda _: None)
    output.publish(ids([1]))
    output.publish(ids([7]), run="other")
    if fault != "compacted":
        output.compact()
    work = output.publication(ids([2]), generation="1.2")

    def act(number: int) -> None:
        if number == 1 and fault == "compacted":
            output.compact()
        elif number == 1:
            raise StorageUnavailable("The storage did not answer.", hint="Try again.")

    at_each_commit(monkeypatch, *((lambda _: None, act) if fault == "landed" else (act,)))
    output.system.publish(output.spec, work)
    assert output.ids() == [2, 7]
    assert files(output) <= {path.name for path in output.place.glob("*.parquet")}
    rewritten = len(list(output.place.glob("samza-*.parquet")))
    assert rewritten == 4, "one of each publication, and one that was rewritten: not one of each try"


def test_a_stream_that_has_the_column_itself_is_rejected(tmp_path: Path) -> None:
    fresh = Output(tmp_path, output_stream(create="true", run_column="run"))
    with pytest.raises(SchemaError, match="have the column 'run', which is filled"):
        fresh.system.fix_output(fresh.spec, Columns.of("id bigint, run string"))
