"""``gc`` and the data files of tables: what is nobody's goes, and what anybody may still need stays."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_samza.prepare.bound_systems import bind_systems, run_bindings
from airflow_samza.runs import finish
from airflow_samza.runs.publication import drop_branches
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.upkeep import output_sweep
from airflow_samza.runs.upkeep.keep import Keep
from airflow_samza.runs.upkeep.retention import sweep_root
from airflow_samza.systems.tables import sweeping
from tests.support import slot_apps
from tests.support.iceberg_lake import catalog_at
from tests.support.looked_at import LookedAt
from tests.support.slot_runs import DELTA, TABLE, Outputs

OLD = time.time() - 2 * sweeping.ORPHAN_SECONDS


@pytest.fixture
def outputs(tmp_path: Path) -> Iterator[Outputs]:
    yield Outputs(tmp_path)
    slot_apps.OUTPUT.clear()


def data_files(outputs: Outputs, folder: str = "tables") -> dict[str, Path]:
    return {path.name: path for path in (outputs.lake.parent / folder).rglob("*.parquet")}


def grow_old(outputs: Outputs, folder: str = "tables") -> None:
    for path in data_files(outputs, folder).values():
        os.utime(path, (OLD, OLD))


def sweep(outputs: Outputs, *, dry: bool = False, keep: Keep | None = None) -> int:
    (swept,) = outputs.here.runtime.upkeep.sweep_root(keep or Keep(), dry=dry).tables.values()
    assert not swept.later
    return swept.files


def test_files_of_epochs_never_committed_go_and_others_stay(outputs: Outputs) -> None:
    outputs.day(1, 1, 2)
    outputs.run(TABLE, "scheduled", 1)
    (committed,) = data_files(outputs).values()
    folder = committed.parent
    given_up = folder / f"samza-{'0' * 16}-{'1' * 32}.parquet"
    young = folder / f"samza-{'0' * 16}-{'2' * 32}.parquet"
    foreign = [folder / "00000-0-a.parquet", folder / "samza-report.parquet"]
    for path in (given_up, *foreign):
        shutil.copy(committed, path)
    grow_old(outputs)
    shutil.copy(committed, young)
    outputs.day(2, 7)
    going_on = outputs.plan(TABLE, "going-on", 2)
    staged = left_staged(outputs, going_on)
    os.utime(staged, (OLD, OLD))
    assert sweep(outputs, dry=True) == 1
    assert given_up.exists()
    assert sweep(outputs) == 1
    assert {committed, young, staged, *foreign} == set(data_files(outputs).values())
    assert outputs.rows(TABLE) == [1, 2]


def test_of_a_run_at_work_files_go_that_were_merged_a_week_before_its_last_commit_and_later_ones_stay(
    outputs: Outputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs.day(1, 1, 2)
    plan = outputs.plan(TABLE, "at-work", 1)
    outputs.here.stages(plan)
    (committed,) = data_files(outputs).values()
    at = time.time()
    prefix = committed.name.rpartition("-")[0]
    written = {days: committed.with_name(f"{prefix}-{days:032x}.parquet") for days in (9, 6)}
    for days, path in written.items():
        shutil.copy(committed, path)
        os.utime(path, (at - days * 86_400,) * 2)
    monkeypatch.setattr(output_sweep, "over_since", lambda *_: None)
    files, systems = outputs.here.log.filesystem, bind_systems(run_bindings(plan.systems, outputs.here.bindings), "")
    swept = output_sweep.sweep_outputs(files, lambda _: systems, at + 10 * 86_400, dry=False)
    assert [one.files for one in swept.values()] == [1]
    assert set(data_files(outputs).values()) == {committed, written[6]}


def test_of_slim_runs_one_plan_is_loaded_for_each_table(outputs: Outputs) -> None:
    for day in (1, 2, 3):
        outputs.day(day, day)
        outputs.run(TABLE, f"day-{day}", day)
    sweep(outputs)
    (committed, *_) = data_files(outputs).values()
    given_up = committed.parent / f"samza-{'0' * 16}-{'1' * 32}.parquet"
    shutil.copy(committed, given_up)
    grow_old(outputs)
    files, upkeep = LookedAt(outputs.here.root), outputs.here.runtime.upkeep
    (swept,) = sweep_root(files, [], upkeep.systems_of, Keep()).tables.values()
    assert swept.files == 1
    assert len([path for path in files.paths if path.endswith("/plan/1.json")]) == 1


def left_staged(outputs: Outputs, plan: RunPlan) -> Path:
    """Return the file that a run writes whose driver dies before the commit."""

    class Dead(Exception):
        pass

    def die(point: str) -> None:
        if point == "before-commit":
            raise Dead

    known = set(data_files(outputs))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finish, "reach", die)
        with pytest.raises(Dead):
            outputs.here.stages(plan)
    (name,) = set(data_files(outputs)) - known
    return data_files(outputs)[name]


def test_replaced_files_go_when_no_snapshot_has_them_or_has_removed_them(outputs: Outputs) -> None:
    outputs.day(1, 1)
    outputs.run(TABLE, "scheduled", 1)
    (former,) = data_files(outputs).values()
    with catalog_at(outputs.lake.parent / "tables") as catalog:
        table = catalog.load_table("web.out")
        assert table.metadata.current_snapshot_id is not None
        table.manage_snapshots().create_tag(table.metadata.current_snapshot_id, "audited").commit()
    outputs.day(1, 2)
    outputs.run(TABLE, "by-hand", 1)
    grow_old(outputs)
    assert sweep(outputs) == 0, "a tag has it"
    with catalog_at(outputs.lake.parent / "tables") as catalog:
        table = catalog.load_table("web.out")
        replacing = table.metadata.current_snapshot_id
        table.manage_snapshots().remove_tag("audited").commit()
        table = catalog.load_table("web.out")
        table.maintenance.expire_snapshots().by_ids(
            [one.snapshot_id for one in table.snapshots() if one.snapshot_id != replacing]
        ).commit()
    assert sweep(outputs) == 0, "the snapshot that took it out is there"
    outputs.day(2, 3)
    outputs.run(TABLE, "scheduled-2", 2)
    with catalog_at(outputs.lake.parent / "tables") as catalog:
        table = catalog.load_table("web.out")
        assert replacing is not None
        table.maintenance.expire_snapshots().by_id(replacing).commit()
        assert sweep(outputs) == 0, "former metadata names it"
        table.transaction().set_properties({"write.metadata.previous-versions-max": "1"}).commit_transaction()
    assert sweep(outputs) == 1
    assert not former.exists()
    assert outputs.rows(TABLE) == [2, 3]


@pytest.fixture
def waiting(outputs: Outputs) -> RunPlan:
    """A run that is over, of which a commit waits beside the rows of a day that all see."""
    outputs.day(1, 1)
    outputs.run(DELTA, "monday", 1)
    slot_apps.OUTPUT["branch"] = "audit/{run_id}"
    outputs.day(2, 2)
    plan = outputs.run(DELTA, "tuesday", 2)
    grow_old(outputs, "deltas")
    return plan


def test_files_of_a_commit_that_waits_stay_and_those_of_one_that_is_published_are_the_tables(
    outputs: Outputs, waiting: RunPlan
) -> None:
    assert sweep(outputs) == 0
    assert outputs.rows(DELTA) == [1]
    outputs.here.runtime.publish(waiting)
    assert sweep(outputs) == 0
    assert outputs.rows(DELTA) == [1, 2]


def test_files_of_a_commit_that_was_dropped_go(outputs: Outputs, waiting: RunPlan) -> None:
    root = str(outputs.here.root)
    systems = bind_systems(run_bindings(waiting.systems, outputs.bindings), root)
    assert drop_branches(systems, waiting)[0].was_there
    assert sweep(outputs) == 1
    assert outputs.rows(DELTA) == [1]


def test_files_of_output_that_waits_for_approval_stay_and_those_of_rejected_output_go(outputs: Outputs) -> None:
    slot_apps.OUTPUT["publish"] = "after approval"
    outputs.day(1, 1)
    outputs.here.runtime.publish(outputs.run(DELTA, "monday", 1))
    outputs.day(2, 2)
    waiting = outputs.run(DELTA, "tuesday", 2)
    grow_old(outputs, "deltas")
    assert sweep(outputs) == 0
    outputs.here.runtime.give_up(waiting)
    assert sweep(outputs) == 1
    assert outputs.rows(DELTA) == [1]


def test_files_of_a_commit_go_with_the_records_of_its_run(outputs: Outputs, waiting: RunPlan) -> None:
    slot_apps.OUTPUT.clear()
    outputs.day(3, 3)
    outputs.run(DELTA, "wednesday", 3)
    sweep(outputs, keep=Keep(runs=1))
    assert outputs.here.runtime.upkeep.sweep_root(Keep(runs=1)).runs.runs == []
    assert len(data_files(outputs, "deltas")) == 2
    assert outputs.rows(DELTA) == [1, 3]
