"""``gc`` and the data files of tables: what is nobody's goes, and what anybody may still need stays."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_samza.runs import finish
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.upkeep.kept_runs import Keep
from airflow_samza.systems.tables import sweeping
from tests.support import slot_apps
from tests.support.iceberg_lake import catalog_at
from tests.support.slot_runs import TABLE, Outputs

OLD = time.time() - 2 * sweeping.ORPHAN_SECONDS


@pytest.fixture
def outputs(tmp_path: Path) -> Iterator[Outputs]:
    yield Outputs(tmp_path)
    slot_apps.OUTPUT.clear()


def data_files(outputs: Outputs) -> dict[str, Path]:
    return {path.name: path for path in (outputs.lake.parent / "tables").rglob("*.parquet")}


def grow_old(outputs: Outputs) -> None:
    for path in data_files(outputs).values():
        os.utime(path, (OLD, OLD))


def sweep(outputs: Outputs, *, dry: bool = False) -> int:
    (swept,) = outputs.here.runtime.upkeep.sweep_root(Keep(), dry=dry).tables.values()
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
    assert sweep(outputs) == 1
    assert not former.exists()
    assert outputs.rows(TABLE) == [2, 3]
