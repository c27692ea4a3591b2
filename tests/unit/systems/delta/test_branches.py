"""Commits to a branch of a Delta table, which are files under the root: publishers that die or race, and their reader."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.errors import ConfigError, TopicError
from airflow_samza.systems.capabilities import OutputCommit
from airflow_samza.systems.delta.branches import Branch
from airflow_samza.systems.delta.system import DeltaSystem
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.system import Publication, SystemBinding
from tests.support.delta_lake import rows_of, stream
from tests.support.delta_outputs import Output, made_output, waiting_files
from tests.support.table_outputs import ids, output_stream

STAGES = ("first", "second")


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_samza.systems.tables.publishing.time.sleep", lambda _: None)


def audited(folder: Path, **more: Any) -> Output:
    made_output(folder / "lake", "id bigint", **more)
    return Output(folder / "lake", output_stream(branch="audit"))


@pytest.fixture
def output(tmp_path: Path) -> Output:
    return audited(tmp_path)


def committed(output: Output, **generations: str) -> list[OutputCommit]:
    return [OutputCommit(f"app/run/{stage}", output.spec.name, one) for stage, one in generations.items()]


def publish(output: Output, **generations: str) -> str | None:
    return output.system.publish_branch(output.spec, "app/run", committed(output, **generations))


def drop(output: Output) -> bool:
    return output.system.drop_branch(output.spec, "app/run")


def die_behind_the_commit(output: Output, **generations: str) -> None:
    """Publish by a process that dies before it deletes what waited."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Branch, "forget", lambda *_: None)
        assert publish(output, **generations) is not None


@pytest.mark.parametrize("cleared", STAGES)
def test_a_stage_that_is_cleared_behind_a_dead_publisher_is_published(output: Output, cleared: str) -> None:
    for number, stage in enumerate(STAGES):
        output.publish(ids([number]), stage=stage)
    die_behind_the_commit(output, first="1.1", second="1.1")
    output.publish(ids([5]), stage=cleared, generation="1.2")
    publish(output, **{"first": "1.1", "second": "1.1", cleared: "1.2"})
    assert output.ids() == [0 if cleared == "second" else 1, 5]
    assert waiting_files(output.folder) == []


def test_what_a_dead_publisher_has_published_is_not_dropped(output: Output) -> None:
    output.publish(ids([1]), stage="first")
    die_behind_the_commit(output, first="1.1")
    assert not drop(output)
    assert publish(output, first="1.1") is None
    assert output.ids() == [1]


def test_epochs_behind_those_that_a_dead_publisher_has_published_are_published_alone(output: Output) -> None:
    output.publish(ids([1]), stage="first")
    die_behind_the_commit(output, first="1.1")
    output.publish(ids([2]), stage="first", epoch=1)
    publish(output, first="1.1")
    assert output.ids() == [1, 2]
    output.publish(ids([3]), stage="first", generation="1.2")
    publish(output, first="1.2")
    assert output.ids() == [3]


def test_only_what_the_finished_stage_has_committed_is_published(output: Output) -> None:
    output.publish(ids([1]), stage="first")
    publish(output, first="1.1")
    output.publish(ids([2]), stage="first", generation="1.2")  # which goes on
    assert publish(output, first="1.1") is None
    assert output.ids() == [1]
    publish(output, first="1.2")
    assert output.ids() == [2]


def test_what_a_process_of_a_former_generation_has_left_is_not_published(output: Output) -> None:
    late = output.publication(ids([1]), stage="first")
    output.publish(ids([2]), stage="first", generation="1.2")
    publish(output, first="1.2")
    with pytest.MonkeyPatch.context() as patch:  # it has looked before the other one was there
        patch.setattr("airflow_samza.systems.tables.commits.TableView.reject_late", lambda *_: None)
        output.system.publish(output.spec, late)
    assert publish(output, first="1.2") is None
    assert output.ids() == [2]


@pytest.mark.parametrize("generation", ["1.1", "1.2"])
def test_nobody_adds_to_what_was_dropped_with_a_later_generation(output: Output, generation: str) -> None:
    late = output.publication(ids([1]), stage="first", generation=generation)
    output.publish(ids([2]), stage="first", generation="1.2")
    assert drop(output)
    with pytest.raises(TopicError, match="was dropped"):
        output.system.publish(output.spec, late)


def test_an_epoch_that_comes_while_its_branch_is_dropped_is_no_part_to_be_published(output: Output) -> None:
    output.publish(ids([1]), stage="first")
    late = output.publication(ids([2]), stage="first", epoch=1)
    look, looked = Branch.is_dropped, False

    def too_early(branch: Branch, owner: tuple[str, str]) -> bool:
        nonlocal looked
        if looked:
            return look(branch, owner)
        looked = True
        assert not look(branch, owner)
        assert drop(output)
        return False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Branch, "is_dropped", too_early)
        output.system.publish(output.spec, late)
    with pytest.raises(TopicError, match="was dropped"):
        publish(output, first="1.1")
    assert output.ids() == []


def test_a_commit_that_is_published_by_somebody_else_meanwhile_is_there_once(
    output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    for epoch in range(3):
        output.publish(ids([epoch]), stage="first", epoch=epoch)
    read = LocalFilesystem.read
    reads = itertools.count()

    def overtaken(files: LocalFilesystem, path: str) -> bytes:
        if "/branches/" in path and next(reads) == 1:
            assert publish(output, first="1.1") is not None
        return read(files, path)

    monkeypatch.setattr(LocalFilesystem, "read", overtaken)
    assert publish(output, first="1.1") is None
    assert output.ids() == [0, 1, 2]
    assert output.table().version() == 1


def test_a_publication_of_which_the_answer_is_lost_tells_its_version(
    output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    output.publish(ids([1]), stage="first")
    put, puts = LocalFilesystem.put_if_absent, itertools.count()

    def lost(files: LocalFilesystem, path: str, data: bytes, *, durable: bool = True) -> bool:
        done = put(files, path, data, durable=durable)
        if path.startswith("_delta_log/") and next(puts) == 0:
            raise OSError("no answer")
        return done

    monkeypatch.setattr(LocalFilesystem, "put_if_absent", lost)
    assert publish(output, first="1.1") == "1"
    assert output.ids() == [1]


def test_a_damaged_commit_is_named_and_a_cleared_stage_or_a_drop_does_without_it(output: Output) -> None:
    for generation in ("1.1", "1.2"):
        output.publish(ids([1]), stage="first", generation=generation)
        (path,) = Path(f"{output.folder}.root").rglob("branches/*/*.json")
        path.write_text("{")
        with pytest.raises(TopicError, match=f"{path.name} is damaged"):
            publish(output, first=generation)
    output.publish(ids([2]), stage="first", generation="1.3")
    publish(output, first="1.3")
    assert output.ids() == [2]
    output.publish(ids([3]), stage="first", generation="1.4")
    (path,) = Path(f"{output.folder}.root").rglob("branches/*/*.json")
    path.write_text("{")
    assert drop(output)


def test_a_data_file_that_is_gone_is_named_and_nothing_is_published(output: Output) -> None:
    output.publish(ids([1]), stage="first")
    output.publish(ids([2]), stage="second")
    Path(waiting_files(output.folder)[0]).unlink()
    with pytest.raises(TopicError, match="is gone before it was committed"):
        publish(output, first="1.1", second="1.1")
    assert output.ids() == []


def waiting(output: Output, table: str = "web.out", run: str = "app/run") -> list[Any]:
    return rows_of(output.system, stream(table, waiting=run))


@pytest.mark.parametrize("mode", ["none", "name", "id"])
@pytest.mark.parametrize("table", ["web.out", "web/out"])
def test_an_auditor_reads_what_waits_and_nothing_else(tmp_path: Path, mode: str, table: str) -> None:
    made_output(tmp_path / "lake", partition_by="part", **{"delta.columnMapping.mode": mode})
    Output(tmp_path / "lake").publish([{"id": 9, "part": "x"}], run="other")
    output = Output(tmp_path / "lake", output_stream(branch="audit"))
    rows = [{"id": 1, "part": "a b"}, {"id": 2, "part": None}]
    for epoch, row in enumerate(rows):
        output.publish([row], epoch=epoch)
    fixed = output.system.slice(stream(table, waiting="app/run"))
    assert (fixed["rows"], fixed["waiting"], fixed["version"]) == (2, "app/run", 1)
    assert sorted(waiting(output, table), key=lambda row: int(row["id"])) == rows
    output.publish([{"id": 3, "part": "c"}], generation="1.2")
    assert waiting(output, table) == [{"id": 3, "part": "c"}]


def test_a_run_without_a_row_is_audited(output: Output) -> None:
    output.publish([])
    assert waiting(output) == []


@pytest.mark.parametrize("end", ["published", "dropped", "never there"])
def test_a_run_of_which_nothing_waits_cannot_be_audited(output: Output, end: str) -> None:
    if end != "never there":
        output.publish(ids([1]), stage="first")
        assert publish(output) if end == "published" else drop(output)
    with pytest.raises(TopicError, match=r"what the run app/run has waiting for the table web\.out, and no commit"):
        output.system.slice(stream("web.out", waiting="app/run"))


def test_commits_to_other_tables_are_not_audited(output: Output, tmp_path: Path) -> None:
    made_output(tmp_path / "lake", "id bigint", table="web.other")
    Output(output.folder, output_stream("web.other", branch="audit")).publish(ids([7]))
    with pytest.raises(TopicError, match="no commit of it waits"):
        waiting(output)


def test_a_system_without_a_root_has_no_branches(output: Output) -> None:
    system = DeltaSystem("lake", SystemBinding("delta", {"root": str(output.folder)}))
    with pytest.raises(ConfigError, match="has no root under which its commits could wait"):
        system.publish(output.spec, Publication("app/run/stage", "1.1", 0, {}))
    with pytest.raises(TopicError, match="no commit of it waits"):
        system.slice(stream("web.out", waiting="app/run"))
