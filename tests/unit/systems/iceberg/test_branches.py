"""Write, audit, publish: what a run commits to a branch is seen when the branch is published, and not before."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from airflow_samza.errors import ConfigError, TopicError
from airflow_samza.systems.capabilities import OutputCommit
from airflow_samza.systems.iceberg.output_options import OutputOptions
from tests.support.iceberg_catalog_server import CatalogServer
from tests.support.iceberg_lake import append, table_of
from tests.support.iceberg_outputs import Output, ids, output_stream
from tests.support.slotted import day

SCHEMA = Schema(NestedField(1, "id", LongType()))


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_samza.systems.tables.publishing.time.sleep", lambda _: None)


@pytest.fixture
def output(tmp_path: Path) -> Output:
    table_of(tmp_path, SCHEMA, name="web.out")
    return audited(tmp_path)


def audited(folder: Path | str, run: str = "run", **more: Any) -> Output:
    return Output(folder, output_stream(branch=f"audit/{run}"), **more)


def on_branch(output: Output, run: str = "run") -> list[int]:
    found: list[int] = output.table().scan().use_ref(f"audit/{run}").to_arrow()["id"].to_pylist()
    return sorted(found)


def publish(output: Output, run: str = "run", *committed: OutputCommit) -> str | None:
    return output.system.publish_branch(output.spec, f"app/{run}", committed)


def drop(output: Output, run: str = "run") -> bool:
    return output.system.drop_branch(output.spec, f"app/{run}")


def test_rows_are_seen_when_the_branch_is_published(output: Output) -> None:
    append(output.table(), ids([0]))
    output.publish(ids([1]))
    output.publish(ids([2]), epoch=1)
    assert (output.ids(), on_branch(output)) == ([0], [0, 1, 2])
    snapshots = {one.snapshot_id for one in output.table().snapshots()}
    version = publish(output)
    table = output.table()
    assert str(table.metadata.current_snapshot_id) == version
    assert {one.snapshot_id for one in table.snapshots()} == snapshots, "no row was written again"
    assert output.ids() == [0, 1, 2]
    assert set(table.metadata.refs) == {"main"}
    assert not any(key.startswith("samza.audit.") for key in table.properties)
    assert publish(output) is None
    committed = [OutputCommit("app/run/stage", output.spec.name, "1.1")]
    assert output.system.published_version(output.spec, committed) == version
    assert output.system.published_version(output.spec, [*committed, committed[0]._replace(generation="1.2")]) is None
    append(output.table(), ids([3]))
    assert output.system.published_version(output.spec, committed) == version
    output.publish(ids([2]), epoch=1)  # a late retry
    assert output.ids() == [0, 1, 2, 3]
    assert set(output.table().metadata.refs) == {"main"}


def test_an_empty_table_gets_its_first_rows_by_a_branch(output: Output) -> None:
    output.publish(ids([1]))
    assert output.ids() == []
    publish(output)
    assert output.ids() == [1]


def test_a_clear_replaces_on_the_branch_and_after_it_was_published(output: Output) -> None:
    slot = day(1)
    output.publish(ids([1]), slot=slot)
    output.publish(ids([2]), slot=slot, generation="1.2")
    assert on_branch(output) == [2]
    with pytest.raises(TopicError, match=r"generation 1\.2 of it has published already"):
        output.publish(ids([3]), slot=slot, epoch=1)
    publish(output)
    output.publish(ids([4]), slot=slot, generation="1.3")
    assert (output.ids(), on_branch(output)) == ([2], [4])
    publish(output)
    assert output.ids() == [4]


def test_a_run_that_is_never_published_changes_nothing_for_others(output: Output) -> None:
    slot = day(1)
    plain = Output(output.folder)
    plain.publish(ids([1]), run="monday", slot=slot)
    output.publish(ids([2]), slot=slot)
    assert (output.ids(), on_branch(output)) == ([1], [2])
    assert [one.run_id for one in plain.system.slot_writers(plain.spec, slot)] == ["monday"]
    plain.publish(ids([3]), run="monday", generation="1.2", slot=slot)
    assert output.ids() == [3]


def test_a_table_that_has_gone_on_is_not_set_back(output: Output) -> None:
    output.publish(ids([1]))
    append(output.table(), ids([9]))
    with pytest.raises(TopicError, match="others have committed to it since the branch began") as error:
        publish(output)
    assert "Clear the stage" in error.value.hint
    assert output.ids() == [9]
    output.publish(ids([2]), generation="1.2")
    assert on_branch(output) == [2, 9]
    publish(output)
    assert output.ids() == [2, 9]


def test_what_other_stages_have_on_a_branch_stays_when_one_is_cleared(output: Output) -> None:
    output.publish(ids([1]), stage="first")
    append(output.table(), ids([9]))
    output.publish(ids([2]), stage="second")
    output.publish(ids([3]), stage="second", generation="1.2")
    assert on_branch(output) == [1, 3]


def test_a_branch_of_another_run_or_of_somebody_is_rejected(output: Output) -> None:
    output.publish(ids([1]))
    for act in (
        lambda: output.publish(ids([2]), run="other"),
        lambda: output.system.check_branch(output.spec, "app/other"),
        lambda: publish(output, "other"),
        lambda: drop(output, "other"),
    ):
        with pytest.raises(TopicError, match="'audit/run' already, which the run 'app/run' has begun"):
            act()
    table = output.table()
    assert table.metadata.current_snapshot_id is not None
    table.manage_snapshots().create_branch(table.metadata.current_snapshot_id, "audit/theirs").commit()
    theirs = audited(output.folder, "theirs")
    with pytest.raises(TopicError, match="'audit/theirs' already, which is not of a run"):
        theirs.publish(ids([1]), run="theirs")


@pytest.mark.parametrize("fault", [409, 500, (500, "landed"), (409, "landed")], ids=str)
@pytest.mark.few(1)
def test_publishing_with_a_catalog_that_fails(tmp_path: Path, fault: Any) -> None:
    with CatalogServer(tmp_path, token="hunter2") as server:
        server.catalog.create_namespace("web")
        server.catalog.create_table("web.out", SCHEMA)
        output = audited(tmp_path, server=server)
        output.publish(ids([1]))
        server.faults = [fault, None]
        publish(output)
        assert output.ids() == [1]
        output.publish(ids([2]), generation="1.2")
        server.faults = [fault, None]
        drop(output)
        assert output.ids() == [1]
        assert set(output.table().metadata.refs) == {"main"}


def test_a_branch_that_was_dropped_is_begun_anew_by_a_clear_alone(output: Output) -> None:
    append(output.table(), ids([0]))
    output.publish(ids([1]))
    assert drop(output)
    assert not drop(output)
    table = output.table()
    assert (output.ids(), set(table.metadata.refs)) == ([0], {"main"})
    assert not any(key.startswith("samza.audit.") for key in table.properties)
    with pytest.raises(TopicError, match="was dropped after the output 'out' was committed to it"):
        output.publish(ids([2]), epoch=1)
    output.publish(ids([3]), generation="1.2")
    first, second = (OutputCommit("app/run/stage", output.spec.name, number) for number in ("1.1", "1.2"))
    with pytest.raises(TopicError, match="was dropped after the output 'out' was committed to it"):
        publish(output, "run", first)
    publish(output, "run", second)
    assert output.ids() == [0, 3]
    publish(output, "run", second)
    assert not drop(output)
    assert output.ids() == [0, 3]


def test_a_branch_of_which_somebody_has_dropped_the_snapshots_is_no_publication(output: Output) -> None:
    output.publish(ids([1]))
    output.table().manage_snapshots().remove_branch("audit/run").commit()
    with pytest.raises(TopicError, match="was dropped after the output 'out' was committed to it"):
        publish(output, "run", OutputCommit("app/run/stage", output.spec.name, "1.1"))
    assert drop(output)
    assert not any(key.startswith("samza.audit.") for key in output.table().properties)


def test_a_writer_between_the_look_and_the_publication(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    output.publish(ids([1]))
    commit, inside = SqlCatalog.commit_table, threading.local()

    def first(self: SqlCatalog, *arguments: Any) -> Any:
        if not getattr(inside, "acts", False):
            inside.acts = True
            append(output.table(), ids([9]))
        return commit(self, *arguments)

    monkeypatch.setattr(SqlCatalog, "commit_table", first)
    with pytest.raises(TopicError, match="others have committed to it since"):
        publish(output)
    assert output.ids() == [9]


def test_main_is_no_branch_to_be_published(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="branch='main', which is what readers see"):
        OutputOptions.of(output_stream(branch="main"))
