"""Publication of epochs to a Delta table: exactly once, whatever happens between the look at the log and the commit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.schema import Field, PrimitiveType

from airflow_samza.errors import StorageUnavailable, TopicError
from tests.support.delta_outputs import Output, made_output
from tests.support.each_commit import at_each_commit
from tests.support.table_outputs import ids


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_samza.systems.tables.publishing.time.sleep", lambda _: None)


@pytest.fixture
def output(tmp_path: Path) -> Output:
    return made_output(tmp_path)


def test_a_foreign_writer_that_began_before_our_commit_lands_behind_it(output: Output) -> None:
    output.publish(ids([1]))
    theirs = output.table()
    output.publish(ids([2]), epoch=1)
    from deltalake import write_deltalake

    write_deltalake(theirs, pa.table({"id": [9], "part": pa.array([None], pa.string())}), mode="append")
    assert output.ids() == [1, 2, 9]


@pytest.mark.parametrize("clears", [False, True])
@pytest.mark.parametrize("landed", [False, True])
def test_a_commit_whose_answer_is_lost(
    output: Output, monkeypatch: pytest.MonkeyPatch, landed: bool, clears: bool
) -> None:
    output.publish(ids([1]))
    work = output.publication(ids([2]), generation="1.2") if clears else output.publication(ids([2]), epoch=1)

    def fails(number: int) -> None:
        if number == 1:
            raise StorageUnavailable("The storage did not answer.", hint="Try again.")

    tries = at_each_commit(monkeypatch, *((lambda _: None, fails) if landed else (fails,)))
    output.system.publish(output.spec, work)
    assert len(tries) == (1 if landed else 2)
    assert output.versions() == 2
    assert output.ids() == ([2] if clears else [1, 2])


def test_a_compaction_between_the_look_and_the_commit_doubles_nothing(
    output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    output.publish(ids([1]))
    output.foreign({"id": 9, "part": None})
    work = output.publication(ids([3]), generation="1.2")

    def compact(number: int) -> None:
        if number == 1:
            output.table().optimize.compact()

    at_each_commit(monkeypatch, compact)
    with pytest.raises(TopicError, match="of its 1 data files 0 are left"):
        output.system.publish(output.spec, work)
    assert output.ids() == [1, 9]


def drop_and_make(output: Output) -> None:
    import shutil

    shutil.rmtree(output.place / "_delta_log")
    output.system.create([output.spec])


def repartition(output: Output) -> None:
    from deltalake import write_deltalake

    rows = pa.table({"id": pa.array([], pa.int64()), "part": pa.array([], pa.string())})
    write_deltalake(output.table(), rows, mode="overwrite", partition_by=["part"], schema_mode="overwrite")


def retype(output: Output) -> None:
    from deltalake import write_deltalake

    rows = pa.table({"id": pa.array([], pa.int64()), "part": pa.array([], pa.int32())})
    write_deltalake(output.table(), rows, mode="overwrite", schema_mode="overwrite")


def drop_column(output: Output) -> None:
    from deltalake import write_deltalake

    write_deltalake(
        output.table(), pa.table({"id": pa.array([], pa.int64())}), mode="overwrite", schema_mode="overwrite"
    )


def constrain(output: Output) -> None:
    output.table().alter.add_constraint({"few": "id < 9"})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (drop_and_make, "was made anew"),
        (repartition, "has other partitions now"),
        (retype, "has the column 'part' as int now, which was string"),
        (drop_column, "has no column 'part' any more"),
        (constrain, "has the CHECK constraint few"),
    ],
)
def test_a_table_that_the_files_do_not_fit_is_rejected(
    output: Output, change: Callable[[Output], None], words: str
) -> None:
    work = output.publication([{"id": 1, "part": "a"}])
    change(output)
    before = output.versions()
    with pytest.raises(TopicError, match=words):
        output.system.publish(output.spec, work)
    assert output.versions() == before


def test_a_column_that_was_added_since_the_plan_is_null(output: Output) -> None:
    work = output.publication([{"id": 1, "part": "a"}])
    output.table().alter.add_columns([Field("more", PrimitiveType("string"))])
    output.system.publish(output.spec, work)
    assert output.scanned() == output.rows() == [{"id": 1, "part": "a", "more": None}]


def test_a_damaged_record_is_not_overwritten(output: Output) -> None:
    output.publish(ids([1]))
    log = output.place / "_delta_log" / f"{1:020d}.json"
    log.write_text(log.read_text().replace('\\"generation\\":', '\\"generatio\\":'))
    with pytest.raises(TopicError, match="the record samza"):
        output.publish(ids([2]), epoch=1)


def test_the_library_reads_the_records(output: Output) -> None:
    output.publish(ids([1]), epoch=3)
    names = [name for name in _applications(output.table()) if name.startswith("samza.epoch ")]
    assert [output.table().transaction_version(name) for name in names] == [3]


def _applications(table: DeltaTable) -> list[str]:
    import json

    text = Path(table.table_uri.removeprefix("file://"), "_delta_log", f"{1:020d}.json").read_text()
    return [action["txn"]["appId"] for action in map(json.loads, text.splitlines()) if "txn" in action]
