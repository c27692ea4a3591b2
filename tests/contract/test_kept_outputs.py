"""The contract of outputs when their run is planned anew, by kind: kept where all of them is there, else written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_samza.errors import TopicError
from airflow_samza.prepare.kept_stages import keep_result
from airflow_samza.runs.records.folders import write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import CODE
from airflow_samza.runs.stages.stage_runners import StageRequest
from airflow_samza.runs.stages.stage_state import StageHandle
from tests.support import delta_lake, slot_apps
from tests.support.iceberg_lake import append, catalog_at
from tests.support.slot_runs import DELTA, FILES, LOG, TABLE, Outputs

KINDS = [FILES, LOG, TABLE, DELTA]
ROWS = pa.schema([("n", pa.int64())])


@pytest.fixture
def outputs(tmp_path: Path) -> Iterator[Outputs]:
    yield Outputs(tmp_path)
    slot_apps.OUTPUT.clear()


def run(outputs: Outputs, application: str, run_id: str, day: int, generation: int = 1) -> RunPlan:
    """Run a day as if its stage had been submitted, unless the plan keeps its result."""
    plan, files = outputs.plan(application, run_id, day, generation=generation), outputs.here.log.filesystem
    (stage,) = plan.plan.stages
    handle = StageHandle(plan.application, run_id, stage.stage_id, Generation(generation, 1))
    files.make_dirs(handle.folder.attempts)
    if not keep_result(files, plan, handle):
        request = StageRequest(stage.stage_id, str(handle.generation), 1, code=plan.fingerprints[stage.stage_id][CODE])
        write_once(files, handle.folder.attempt(1, "request"), request)
        outputs.here.stages(plan)
    outputs.here.runtime.close(plan)
    return plan


def again(outputs: Outputs, application: str, generation: int = 2) -> RunPlan:
    return run(outputs, application, "monday", 1, generation)


def why(plan: RunPlan) -> str:
    """Return why the stage of a run runs; "" where its result is kept."""
    (reuse,) = plan.reuse.values()
    return "" if reuse.kept else reuse.why


def delta(outputs: Outputs) -> DeltaTable:
    return DeltaTable(str(outputs.lake.parent / "deltas/web/out"))


def segments(outputs: Outputs) -> list[Path]:
    return sorted((outputs.here.root / "topics/out/segments").glob("*.arrow"))


@pytest.mark.parametrize("application", KINDS)
def test_an_output_that_is_there_is_kept(outputs: Outputs, application: str) -> None:
    outputs.day(1, 1, 2)
    run(outputs, application, "monday", 1)
    for generation in (2, 3):  # what was kept is kept again
        assert why(again(outputs, application, generation)) == ""
        assert outputs.rows(application) == [1, 2]


@pytest.mark.parametrize("application", KINDS)
def test_an_output_is_kept_beside_what_other_runs_have_written(outputs: Outputs, application: str) -> None:
    outputs.day(1, 1, 2)
    outputs.day(2, 3)
    run(outputs, application, "monday", 1)
    run(outputs, application, "tuesday", 2)
    assert why(again(outputs, application)) == ""
    assert outputs.rows(application) == [1, 2, 3]


@pytest.mark.parametrize("application", KINDS)
def test_an_output_is_written_again_where_its_input_has_changed(outputs: Outputs, application: str) -> None:
    outputs.day(1, 1, 2)
    run(outputs, application, "monday", 1)
    outputs.day(1, 1, 5, 6)
    assert "input rows changed" in why(again(outputs, application))
    assert outputs.rows(application) == [1, 5, 6]


def one_file(outputs: Outputs) -> None:
    next((outputs.lake / "out").glob("*.parquet")).unlink()


def cut_file(outputs: Outputs) -> None:
    path = next((outputs.lake / "out").glob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-8])


def all_files(outputs: Outputs) -> None:
    for path in (outputs.lake / "out").glob("*.parquet"):
        path.unlink()


def manifests(outputs: Outputs) -> None:
    for path in (outputs.lake / "out/_samza/manifests").iterdir():
        path.unlink()


def one_segment(outputs: Outputs) -> None:
    segments(outputs)[0].unlink()


def iceberg_rows(outputs: Outputs) -> None:
    with catalog_at(outputs.lake.parent / "tables") as catalog:
        catalog.load_table("web.out").delete("n = 1 or n = 2")


def iceberg_table(outputs: Outputs) -> None:
    with catalog_at(outputs.lake.parent / "tables") as catalog:
        catalog.drop_table("web.out")


def iceberg_replaced(outputs: Outputs) -> None:
    with catalog_at(outputs.lake.parent / "tables") as catalog:
        table = catalog.load_table("web.out")
        table.delete("n > 0")
        append(table, [])


def delta_rows(outputs: Outputs) -> None:
    delta(outputs).delete("n in (1, 2)")


def delta_restored(outputs: Outputs) -> None:
    delta(outputs).restore(0)


DELETED: list[tuple[str, Callable[[Outputs], None]]] = [
    *((FILES, act) for act in (one_file, cut_file, all_files, manifests)),
    (LOG, one_segment),
    (TABLE, iceberg_table),
]


@pytest.mark.parametrize(("application", "act"), DELETED, ids=[act.__name__ for _, act in DELETED])
def test_an_output_of_which_somebody_has_deleted_a_part_is_written_again(
    outputs: Outputs, application: str, act: Callable[[Outputs], None]
) -> None:
    outputs.day(1, 1, 2)
    run(outputs, application, "monday", 1)
    act(outputs)
    assert "out" in why(again(outputs, application))
    assert outputs.rows(application) == [1, 2]


ROWS_DELETED: list[tuple[str, Callable[[Outputs], None]]] = [
    *((TABLE, act) for act in (iceberg_rows, iceberg_replaced)),
    *((DELTA, act) for act in (delta_rows, delta_restored)),
]


@pytest.mark.parametrize(("application", "act"), ROWS_DELETED, ids=[act.__name__ for _, act in ROWS_DELETED])
def test_a_table_whose_rows_somebody_has_deleted_is_not_kept_and_its_run_says_what_to_do(
    outputs: Outputs, application: str, act: Callable[[Outputs], None]
) -> None:
    outputs.day(1, 1, 2)
    run(outputs, application, "monday", 1)
    act(outputs)
    plan = outputs.plan(application, "monday", 1, generation=2)
    assert why(plan).startswith("what it wrote to out is there no more: of its 1 data files the table web.out has 0")
    with pytest.raises(TopicError, match="they were compacted, or rows of them deleted"):
        outputs.here.stages(plan)


@pytest.mark.parametrize("application", [TABLE, DELTA])
def test_upserted_rows_are_kept_until_somebody_commits_behind_them(outputs: Outputs, application: str) -> None:
    slot_apps.OUTPUT.update(mode="upsert", key="n")
    outputs.day(1, 1, 2)
    run(outputs, application, "monday", 1)
    assert why(again(outputs, application)) == ""
    outputs.day(2, 2, 3)
    run(outputs, application, "tuesday", 2)
    assert "commits behind it" in why(again(outputs, application, 3))
    assert outputs.rows(application) == [1, 2, 3]


def test_rows_are_kept_beside_those_of_another_library(outputs: Outputs) -> None:
    slot_apps.OUTPUT.update(mode="append")
    outputs.day(1, 1, 2)
    run(outputs, DELTA, "monday", 1)
    delta_lake.append(delta(outputs), [{"n": 7}], ROWS)
    assert why(again(outputs, DELTA)) == ""
    assert outputs.rows(DELTA) == [1, 2, 7]
