"""Write, audit, publish: what a run commits to a branch is seen when the branch is published, and not before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from airflow_samza.errors import TopicError
from airflow_samza.systems.capabilities import OutputCommit
from tests.support.each_commit import at_each_commit
from tests.support.iceberg_catalog_server import CatalogServer
from tests.support.iceberg_lake import append, table_of
from tests.support.iceberg_outputs import Output, ids, output_stream

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


def test_a_published_branch_leaves_its_snapshots_alone(output: Output) -> None:
    output.publish(ids([1]))
    output.publish(ids([2]), epoch=1)
    assert on_branch(output) == [1, 2]
    snapshots = {one.snapshot_id for one in output.table().snapshots()}
    version = publish(output)
    table = output.table()
    assert str(table.metadata.current_snapshot_id) == version
    assert {one.snapshot_id for one in table.snapshots()} == snapshots, "no row was written again"
    assert not any(key.startswith("samza.audit.") for key in table.properties)
    output.publish(ids([2]), epoch=1)  # a late retry
    assert set(output.table().metadata.refs) == {"main"}


def test_a_dropped_branch_leaves_nothing(output: Output) -> None:
    append(output.table(), ids([0]))
    output.publish(ids([1]))
    assert drop(output)
    table = output.table()
    assert set(table.metadata.refs) == {"main"}
    assert not any(key.startswith("samza.audit.") for key in table.properties)


def test_a_table_that_has_gone_on_is_not_set_back(output: Output) -> None:
    output.publish(ids([1]))
    output.foreign(*ids([9]))
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
    output.foreign(*ids([9]))
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
        assert drop(output)
        assert output.ids() == [1]
        assert set(output.table().metadata.refs) == {"main"}


def test_a_branch_of_which_somebody_has_dropped_the_snapshots_is_no_publication(output: Output) -> None:
    output.publish(ids([1]))
    output.table().manage_snapshots().remove_branch("audit/run").commit()
    with pytest.raises(TopicError, match="was dropped after the output 'out' was committed to it"):
        publish(output, "run", OutputCommit("app/run/stage", output.spec.name, "1.1"))
    assert drop(output)
    assert not any(key.startswith("samza.audit.") for key in output.table().properties)


def test_a_writer_between_the_look_and_the_publication(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    output.publish(ids([1]))
    at_each_commit(monkeypatch, lambda number: output.foreign(*ids([9])) if number == 1 else None, kind="iceberg")
    with pytest.raises(TopicError, match="others have committed to it since"):
        publish(output)
    assert output.ids() == [9]
