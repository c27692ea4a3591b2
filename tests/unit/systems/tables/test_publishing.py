"""Publication of epochs to a table: exactly once, whatever happens between the look at the table and the commit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_samza.errors import StorageUnavailable, TopicError
from airflow_samza.systems.output_slots import OutputSlot
from airflow_samza.systems.tables import publishing
from tests.support import each_commit, iceberg_lake
from tests.support.delta_outputs import made_output
from tests.support.slotted import day
from tests.support.table_kinds import KINDS, Output
from tests.support.table_outputs import ids, output_stream

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string())])

Acting = Callable[[Callable[[int], object]], list[int]]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_samza.systems.tables.publishing.time.sleep", lambda _: None)


@pytest.fixture(params=["delta", "iceberg"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def made(kind: str, folder: Path, mode: str = "replace", *, partitioned: bool = False) -> Output:
    """Return an output to a table: one of the package for Delta, one of others for Iceberg."""
    if kind == "delta":
        made_output(folder, **({"partition_by": "part"} if partitioned else {}))
    else:
        table = iceberg_lake.table_of(folder, SCHEMA, name="web.out")
        if partitioned:
            table.update_spec().add_identity("part").commit()
    return KINDS[kind](folder, output_stream(mode=mode))


@pytest.fixture
def output(kind: str, tmp_path: Path) -> Output:
    return made(kind, tmp_path)


@pytest.fixture
def at_each_commit(kind: str, monkeypatch: pytest.MonkeyPatch) -> Acting:
    return lambda act: each_commit.at_each_commit(monkeypatch, act, kind=kind)


def parts(**rows: list[int]) -> list[dict[str, Any]]:
    return [{"id": number, "part": part} for part, numbers in rows.items() for number in numbers]


def foreign(output: Output, *numbers: int, part: str | None = None) -> None:
    output.foreign(*({"id": number, "part": part} for number in numbers))


def state(output: Output) -> object:
    """Return what changes with each commit of whatever to the table."""
    table = output.table()
    return table.version() if isinstance(table, DeltaTable) else table.metadata_location


def newest(output: Output) -> tuple[str, int | None]:
    """Return what the facts of a publication call the version of a table, and which it is."""
    table = output.table()
    return (
        ("version", table.version())
        if isinstance(table, DeltaTable)
        else ("snapshot", table.metadata.current_snapshot_id)
    )


def test_publishing_again_changes_nothing(output: Output) -> None:
    work = output.publication(ids([1, 2]))
    facts = output.system.publish(output.spec, work)
    before = state(output)
    assert output.system.publish(output.spec, work) == facts
    name, version = newest(output)
    assert (facts["rows"], facts[name]) == (2, str(version))
    assert (state(output), output.versions()) == (before, 1)
    output.publish(ids([3]), epoch=1)
    output.system.publish(output.spec, work)
    assert output.versions() == 2
    assert output.ids() == [1, 2, 3]


def test_a_lower_generation_is_rejected_and_what_it_staged_removed(output: Output) -> None:
    output.publish(ids([1]))
    late = output.publication(ids([2]), epoch=1)
    output.publish(ids([3]), generation="1.2")
    with pytest.raises(TopicError, match=r"Generation 1\.1 .* generation 1\.2 of it has published already"):
        output.system.publish(output.spec, late)
    assert not any(path.exists() for path in output.files_of(late.staged[0]))
    assert output.ids() == [3]


def test_a_clear_replaces_in_one_version(output: Output) -> None:
    output.publish(ids([1, 2]))
    output.publish(ids([3]), epoch=1)
    foreign(output, 9)
    facts = output.publish(ids([4]), generation="1.2")
    assert len(facts["superseded"]) == 2
    assert output.versions() == 4
    table = output.table()
    if isinstance(table, DeltaTable):
        last = table.history()[0]
        assert (last["operationParameters"]["mode"], last["samza.generation"]) == ("Overwrite", "1.2")
        assert table.transaction_version("no such one") is None
    else:
        said = table.metadata.current_snapshot().summary  # type: ignore[union-attr]
        assert said is not None
        assert (said.operation.value, said["deleted-data-files"], said["samza.epoch"]) == ("overwrite", "2", "0")
    assert output.ids() == [4, 9]


def test_a_clear_of_nothing_by_nothing(output: Output) -> None:
    output.publish([])
    output.publish(ids([1]), epoch=1)
    output.publish([], generation="1.2")
    assert output.ids() == []
    output.publish([], generation="1.2", epoch=1)
    output.publish(ids([2]), generation="1.2", epoch=2)
    assert output.ids() == [2]


@pytest.mark.parametrize("threads", [2, 4])
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
    assert output.versions() == 2


@pytest.mark.parametrize("act", ["same", "clear", "backfill"])
def test_another_publisher_between_the_look_and_the_commit(output: Output, at_each_commit: Acting, act: str) -> None:
    slot = day(1) if act == "backfill" else None
    output.publish(ids([1]), slot=slot)
    work = output.publication(ids([2]), epoch=1, slot=slot)
    others = {
        "same": work,
        "clear": output.publication(ids([3]), generation="1.2"),
        "backfill": output.publication(ids([3]), run="other", slot=slot),
    }
    tries = at_each_commit(lambda number: number > 1 or output.system.publish(output.spec, others[act]))
    if act == "same":
        output.system.publish(output.spec, work)
    else:
        with pytest.raises(TopicError, match=r"has published already|has replaced"):
            output.system.publish(output.spec, work)
    assert len(tries) == 1, "the library has tried again by itself"
    assert output.ids() == ([1, 2] if act == "same" else [3])


@pytest.mark.parametrize("clears", [False, True])
def test_a_foreign_writer_between_each_look_and_commit(output: Output, at_each_commit: Acting, clears: bool) -> None:
    output.publish(ids([1]))
    work = output.publication(ids([2]), generation="1.2") if clears else output.publication(ids([2]), epoch=1)
    tries = at_each_commit(lambda number: foreign(output, 100 + number) if number <= 5 else None)
    output.system.publish(output.spec, work)
    assert len(tries) == 6
    assert output.ids() == sorted([*([] if clears else [1]), 2, 101, 102, 103, 104, 105])


def test_who_always_comes_too_late_may_try_again(
    output: Output, at_each_commit: Acting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "PATIENCE_SECONDS", -1.0)
    work = output.publication(ids([1]))
    at_each_commit(lambda number: foreign(output, 100 + number))
    with pytest.raises(StorageUnavailable, match=r"Others commit to the table web\.out") as error:
        output.system.publish(output.spec, work)
    assert error.value.retryable
    monkeypatch.undo()
    output.system.publish(output.spec, work)
    assert output.ids() == [1, 101]


def test_a_clear_after_a_compaction_changes_nothing_and_names_the_remedy(output: Output) -> None:
    output.publish(ids([1]))
    output.publish(ids([2]), epoch=1)
    work = output.publication(ids([3]), generation="1.2")
    output.compact()
    before = state(output)
    with pytest.raises(TopicError, match="of its 2 data files 0 are left") as error:
        output.system.publish(output.spec, work)
    assert "mode=append" in error.value.hint
    assert (output.ids(), state(output)) == ([1, 2], before)
    output.publish(ids([4]), epoch=2)  # what goes on is not disturbed
    assert output.ids() == [1, 2, 4]


def test_appending_replaces_nothing_but_its_own(kind: str, tmp_path: Path) -> None:
    output = made(kind, tmp_path, "append", partitioned=True)
    output.publish(parts(a=[1]))
    output.publish(parts(a=[2]), run="other")
    foreign(output, 9, part="a")
    output.publish(parts(a=[3]), generation="1.2")
    assert output.ids() == [2, 3, 9]


@pytest.mark.parametrize("slotted", [False, True])
@pytest.mark.few(3)
def test_partitions_are_replaced(kind: str, tmp_path: Path, slotted: bool) -> None:
    output = made(kind, tmp_path, "replace partitions", partitioned=True)
    slot = day(1) if slotted else None
    foreign(output, 7, part="a")
    foreign(output, 8, part="b")
    foreign(output, 9)
    output.publish(parts(a=[1], c=[2]), run="monday", slot=slot)
    assert output.ids() == [1, 2, 8, 9]
    output.publish(parts(a=[3]), run="monday", epoch=1, slot=slot)  # epochs of a run add up
    output.publish(parts(a=[4], b=[5]), run="monday", stage="second", slot=slot)  # so do its stages
    assert output.ids() == [1, 2, 3, 4, 5, 9]
    output.publish([{"id": 6, "part": None}], run="tuesday", slot=day(2) if slotted else None)
    assert output.ids() == [1, 2, 3, 4, 5, 6]


def test_partitions_of_a_compacted_table_are_replaced(kind: str, tmp_path: Path) -> None:
    output = made(kind, tmp_path, "replace partitions", partitioned=True)
    output.publish(parts(a=[1], b=[2]))
    output.publish(parts(a=[3]), epoch=1)
    output.compact()
    output.publish(parts(a=[5], b=[4]), generation="1.2")
    assert output.ids() == [4, 5]


@pytest.mark.parametrize("slotted", [False, True])
@pytest.mark.few(3)
def test_a_table_is_replaced(kind: str, output: Output, slotted: bool) -> None:
    slot = day(1) if slotted else None
    whole = KINDS[kind](output.folder, output_stream(mode="replace table"))
    foreign(output, 7, 8)
    output.publish(ids([1]), run="earlier")
    whole.publish(ids([2]), run="monday", slot=slot)
    assert output.ids() == [2]
    whole.publish(ids([3]), run="monday", epoch=1, slot=slot)
    whole.publish(ids([4]), run="monday", stage="second", slot=slot)  # epochs and stages of a run add up
    assert output.ids() == [2, 3, 4]
    foreign(output, 9)
    whole.publish(ids([5]), run="monday", generation="1.2", slot=slot)  # a clear replaces what the stage wrote
    assert output.ids() == [4, 5, 9]
    whole.publish(ids([6]), run="tuesday", slot=slot)
    assert output.ids() == [6]


def test_a_data_file_that_is_gone_is_said_before_anything_changes(output: Output) -> None:
    work = output.publication(ids([1]))
    for path in output.files_of(work.staged[0]):
        path.unlink()
    with pytest.raises(TopicError, match="is gone before it was committed"):
        output.system.publish(output.spec, work)
    assert output.versions() == 0


@pytest.mark.parametrize("slot", [None, day(1)], ids=["of no slot", "of a day"])
@pytest.mark.parametrize("generation", ["1.1", "1.2", "2.1"])
@pytest.mark.few(6)
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


def test_a_run_of_the_same_name_under_another_root_is_rejected(kind: str, output: Output) -> None:
    output.publish(ids([1]))
    other = KINDS[kind](output.folder, root="staging")
    for epoch in (0, 1, 5):
        with pytest.raises(TopicError, match="another run of this name, under another root"):
            other.publish(ids([2]), epoch=epoch)
    assert output.ids() == [1]
