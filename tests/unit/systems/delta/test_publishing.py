"""Publication of epochs to a Delta table: exactly once, whatever happens between the look at the log and the commit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.schema import Field, PrimitiveType

from airflow_samza.errors import StorageUnavailable, TopicError
from airflow_samza.systems.output_slots import OutputSlot
from airflow_samza.systems.system import Publication
from airflow_samza.systems.tables import publishing
from tests.support.delta_outputs import Output, made_output
from tests.support.delta_puts import at_each_commit
from tests.support.iceberg_outputs import ids, output_stream
from tests.support.slotted import day


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_samza.systems.tables.publishing.time.sleep", lambda _: None)


@pytest.fixture
def output(tmp_path: Path) -> Output:
    return made_output(tmp_path)


def parts(**rows: list[int]) -> list[dict[str, Any]]:
    return [{"id": number, "part": part} for part, numbers in rows.items() for number in numbers]


def version(output: Output) -> int:
    return int(output.table().version())


def test_publishing_again_changes_nothing(output: Output) -> None:
    work = output.publication(ids([1, 2]))
    facts = output.system.publish(output.spec, work)
    assert output.system.publish(output.spec, work) == facts
    assert (facts["rows"], facts["version"]) == (2, "1")
    output.publish(ids([3]), epoch=1)
    output.system.publish(output.spec, work)
    assert version(output) == 2
    assert output.ids() == [1, 2, 3]


def test_a_lower_generation_is_rejected_and_what_it_staged_removed(output: Output) -> None:
    output.publish(ids([1]))
    late = output.publication(ids([2]), epoch=1)
    output.publish(ids([3]), generation="1.2")
    with pytest.raises(TopicError, match=r"Generation 1\.1 .* generation 1\.2 of it has published already"):
        output.system.publish(output.spec, late)
    assert not any((output.place / file["path"]).exists() for file in late.staged[0]["files"])
    assert output.ids() == [3]


def test_a_clear_replaces_in_one_version(output: Output) -> None:
    output.publish(ids([1, 2]))
    output.publish(ids([3]), epoch=1)
    output.foreign({"id": 9, "part": "x"})
    facts = output.publish(ids([4]), generation="1.2")
    assert len(facts["superseded"]) == 2
    assert version(output) == 4
    last = output.table().history()[0]
    assert (last["operationParameters"]["mode"], last["samza.generation"]) == ("Overwrite", "1.2")
    assert output.ids() == [4, 9]
    assert output.table().transaction_version("no such one") is None


@pytest.mark.parametrize("threads", [4])
def test_many_publish_the_same_epoch_at_the_same_moment(output: Output, threads: int) -> None:
    output.publish(ids([0]))
    work = output.publication(ids([1, 2]), epoch=1)
    barrier, failed = threading.Barrier(threads), list[BaseException]()

    def publish() -> None:
        try:
            system = output.system
            barrier.wait(60)
            system.publish(output.spec, work)
        except BaseException as error:
            failed.append(error)

    running = [threading.Thread(target=publish) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(60)
    assert not failed
    assert output.ids() == [0, 1, 2]
    assert version(output) == 2


@pytest.mark.parametrize("act", ["same", "clear", "backfill"])
def test_another_publisher_between_the_look_and_the_commit(
    output: Output, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    slot = day(1) if act == "backfill" else None
    output.publish(ids([1]), slot=slot)
    work = output.publication(ids([2]), epoch=1, slot=slot)
    others = {
        "same": work,
        "clear": output.publication(ids([3]), generation="1.2"),
        "backfill": output.publication(ids([3]), run="other", slot=slot),
    }

    def first(number: int) -> None:
        if number == 1:
            output.system.publish(output.spec, others[act])

    tries = at_each_commit(monkeypatch, first)
    if act == "same":
        output.system.publish(output.spec, work)
    else:
        with pytest.raises(TopicError, match=r"has published already|has replaced"):
            output.system.publish(output.spec, work)
    assert len(tries) == 1
    assert output.ids() == ([1, 2] if act == "same" else [3])


@pytest.mark.parametrize("clears", [False, True])
def test_a_foreign_writer_between_each_look_and_commit(
    output: Output, monkeypatch: pytest.MonkeyPatch, clears: bool
) -> None:
    output.publish(ids([1]))
    work = output.publication(ids([2]), generation="1.2") if clears else output.publication(ids([2]), epoch=1)

    def foreign(number: int) -> None:
        if number <= 3:
            output.foreign({"id": 100 + number, "part": None})

    tries = at_each_commit(monkeypatch, foreign)
    output.system.publish(output.spec, work)
    assert len(tries) == 4
    assert output.ids() == sorted([*([] if clears else [1]), 2, 101, 102, 103])


def test_a_foreign_writer_that_began_before_our_commit_lands_behind_it(output: Output) -> None:
    output.publish(ids([1]))
    theirs = output.table()
    output.publish(ids([2]), epoch=1)
    from deltalake import write_deltalake

    write_deltalake(theirs, pa.table({"id": [9], "part": pa.array([None], pa.string())}), mode="append")
    assert output.ids() == [1, 2, 9]


def test_who_always_comes_too_late_may_try_again(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "PATIENCE_SECONDS", -1.0)
    work = output.publication(ids([1]))
    at_each_commit(monkeypatch, lambda number: output.foreign({"id": 100 + number, "part": None}))
    with pytest.raises(StorageUnavailable, match=r"Others commit to the table web\.out") as error:
        output.system.publish(output.spec, work)
    assert error.value.retryable
    monkeypatch.undo()
    output.system.publish(output.spec, work)
    assert output.ids() == [1, 101]


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
    assert version(output) == 2
    assert output.ids() == ([2] if clears else [1, 2])


def test_a_clear_after_a_compaction_changes_nothing_and_names_the_remedy(output: Output) -> None:
    output.publish(ids([1]))
    output.publish(ids([2]), epoch=1)
    work = output.publication(ids([3]), generation="1.2")
    output.table().optimize.compact()
    before = version(output)
    with pytest.raises(TopicError, match="of its 2 data files 0 are left") as error:
        output.system.publish(output.spec, work)
    assert "mode=append" in error.value.hint
    assert (output.ids(), version(output)) == ([1, 2], before)
    output.publish(ids([4]), epoch=2)  # what goes on is not disturbed
    assert output.ids() == [1, 2, 4]


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
    before = version(output)
    with pytest.raises(TopicError, match=words):
        output.system.publish(output.spec, work)
    assert version(output) == before


def test_a_column_that_was_added_since_the_plan_is_null(output: Output) -> None:
    work = output.publication([{"id": 1, "part": "a"}])
    output.table().alter.add_columns([Field("more", PrimitiveType("string"))])
    output.system.publish(output.spec, work)
    assert output.scanned() == output.rows() == [{"id": 1, "part": "a", "more": None}]


def partitioned(folder: Path, mode: str) -> Output:
    made_output(folder, partition_by="part")
    return Output(folder, output_stream(mode=mode))


def test_appending_replaces_nothing_but_its_own(tmp_path: Path) -> None:
    output = partitioned(tmp_path, "append")
    output.publish(parts(a=[1]))
    output.publish(parts(a=[2]), run="other")
    output.foreign({"id": 9, "part": "a"})
    output.publish(parts(a=[3]), generation="1.2")
    assert output.ids() == [2, 3, 9]


@pytest.mark.parametrize("slotted", [False, True])
def test_partitions_are_replaced(tmp_path: Path, slotted: bool) -> None:
    output = partitioned(tmp_path, "replace partitions")
    slot = day(1) if slotted else None
    output.foreign({"id": 7, "part": "a"}, {"id": 8, "part": "b"}, {"id": 9, "part": None})
    output.publish(parts(a=[1], c=[2]), run="monday", slot=slot)
    assert output.ids() == [1, 2, 8, 9]
    output.publish(parts(a=[3]), run="monday", epoch=1, slot=slot)  # epochs of a run add up
    output.publish(parts(a=[4], b=[5]), run="monday", stage="second", slot=slot)  # so do its stages
    assert output.ids() == [1, 2, 3, 4, 5, 9]
    output.publish([{"id": 6, "part": None}], run="tuesday", slot=day(2) if slotted else None)
    assert output.ids() == [1, 2, 3, 4, 5, 6]


def test_partitions_of_a_compacted_table_are_replaced(tmp_path: Path) -> None:
    output = partitioned(tmp_path, "replace partitions")
    output.publish(parts(a=[1], b=[2]))
    output.publish(parts(a=[3]), epoch=1)
    output.table().optimize.compact()
    output.publish(parts(a=[5], b=[4]), generation="1.2")
    assert output.ids() == [4, 5]


def test_a_table_is_replaced(tmp_path: Path) -> None:
    made_output(tmp_path)
    whole = Output(tmp_path, output_stream(mode="replace table"))
    whole.foreign({"id": 7, "part": None})
    whole.publish(ids([2]), run="monday")
    assert whole.ids() == [2]
    whole.publish(ids([3]), run="monday", epoch=1)
    whole.publish(ids([4]), run="monday", stage="second")  # epochs and stages of a run add up
    assert whole.ids() == [2, 3, 4]
    whole.foreign({"id": 9, "part": None})
    whole.publish(ids([5]), run="monday", generation="1.2")  # a clear replaces what the stage wrote
    assert whole.ids() == [4, 5, 9]
    whole.publish(ids([6]), run="tuesday")
    assert whole.ids() == [6]


def test_an_empty_epoch_is_on_record(output: Output) -> None:
    output.publish([])
    output.publish(ids([1]), epoch=1)
    output.publish([], generation="1.2")
    assert output.ids() == []
    output.publish(ids([2]), generation="1.2", epoch=2)
    assert output.ids() == [2]


def test_a_data_file_that_is_gone_is_said_before_anything_changes(output: Output) -> None:
    work = output.publication(ids([1]))
    for file in work.staged[0]["files"]:
        (output.place / file["path"]).unlink()
    with pytest.raises(TopicError, match="is gone before it was committed"):
        output.system.publish(output.spec, work)
    assert version(output) == 0


@pytest.mark.parametrize("slot", [None, day(1)], ids=["of no slot", "of a day"])
@pytest.mark.parametrize("generation", ["1.1", "1.2", "2.1"])
def test_a_run_of_the_same_name_under_another_root_replaces_nothing(
    generation: str, slot: OutputSlot | None, output: Output
) -> None:
    output.publish(ids([1]), root="here", slot=slot)
    for rows in (ids([2]), []):
        with pytest.raises(TopicError, match=r"generation 1\.1 of app/run/stage has committed, .* under another root"):
            output.publish(rows, generation=generation, root="there", slot=slot)
    assert output.ids() == [1]
    output.publish(ids([3]), generation="2.1", root="here", slot=slot)
    assert output.ids() == [3]


def test_records_without_a_root_are_those_of_any(output: Output) -> None:
    output.publish(ids([1]))
    output.publish(ids([2]), epoch=1, root="here")
    with pytest.raises(TopicError, match="under another root"):
        output.publish(ids([3]), generation="1.2", root="there")
    output.publish(ids([4]), generation="1.2", root="here")
    assert output.ids() == [4]


def test_a_run_of_the_same_name_under_another_root_is_rejected(output: Output) -> None:
    output.publish(ids([1]))
    fixed = output.system.fix_output(output.spec, None, "staging/app/run/1")
    producer = output.system.producer(output.spec, "stage-1-1-0-0-" + "0" * 32, fixed)
    producer.write(0, pa.RecordBatch.from_pydict({"id": [2]}))
    work = Publication("app/run/stage", "1.1", 5, {0: producer.finish()})
    with pytest.raises(TopicError, match="another run of this name, under another root"):
        output.system.publish(output.spec, work)
    assert output.ids() == [1]


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
