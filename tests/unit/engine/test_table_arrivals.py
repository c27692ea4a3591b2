"""Tables that are read from run to run: rows appended since, and changes that are rejected, not passed over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from airflow_samza.errors import ConfigError, StateError, TopicError
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.systems.system import SystemBinding
from tests.support import table_apps
from tests.support.iceberg_lake import append, catalog_at, stream, system_at, table_of
from tests.support.runs_here import Here

FOLLOWING = "tests.support.table_apps:following"
SCHEMA = pa.schema([("n", pa.int64())])


class Following:
    """A table, and runs that copy what was appended to it."""

    def __init__(self, folder: Path) -> None:
        self.lake = folder / "lake"
        self.table = table_of(self.lake, SCHEMA)
        self.here = Here(folder / "root", bindings={"tables": SystemBinding("iceberg", {"root": str(self.lake)})})
        self.runs = 0

    def append(self, *rows: int) -> None:
        self.refreshed.append(pa.table({"n": list(rows)}, SCHEMA))

    @property
    def refreshed(self) -> Table:
        self.table.refresh()
        return self.table

    def run(self) -> RunPlan:
        self.runs += 1
        return self.here.whole(FOLLOWING, f"run-{self.runs}")

    def plan(self) -> RunPlan:
        self.runs += 1
        return self.here.plan(FOLLOWING, f"run-{self.runs}")

    @property
    def copied(self) -> list[int]:
        return sorted(row["n"] for row in self.here.rows("copy"))


@pytest.fixture
def following(tmp_path: Path) -> Iterator[Following]:
    yield Following(tmp_path)
    table_apps.INPUT.clear()


def test_a_run_reads_what_was_appended_since_the_run_before(following: Following) -> None:
    following.append(1, 2)
    following.run()
    assert following.copied == [1, 2]
    following.append(3)
    following.append(4)
    plan = following.run()
    assert following.copied == [1, 2, 3, 4]
    note = plan.notes["views"]["views"]
    snapshot = following.refreshed.metadata.current_snapshot_id
    assert "reads 2 files" in note
    assert f"since the run run-1 (version 1), up to the snapshot {snapshot} of web.views" in note
    following.run()  # nothing is new
    assert following.copied == [1, 2, 3, 4]


def test_a_table_without_rows_is_read_from_its_first_row_on(following: Following) -> None:
    following.run()
    following.append(1)
    following.run()
    assert following.copied == [1]


def test_a_cleared_run_reads_the_snapshot_of_its_plan(following: Following) -> None:
    following.append(1)
    plan = following.plan()
    following.append(2)
    following.here.stages(plan)
    following.here.runtime.close(plan)
    assert following.copied == [1]
    following.run()
    assert following.copied == [1, 2]


def test_a_compaction_is_no_news(following: Following) -> None:
    following.append(1)
    following.append(2)
    following.run()
    compact(following.refreshed)
    following.append(3)
    following.run()
    assert following.copied == [1, 2, 3]


def compact(table: Table) -> None:
    """Put the rows of a table into one file, as a rewrite of data files does, whose operation is ``replace``."""
    from pyiceberg.io.pyarrow import _dataframe_to_data_files
    from pyiceberg.table.snapshots import Operation, Summary
    from pyiceberg.table.update import AddSnapshotUpdate

    rows, former = table.scan().to_arrow(), [task.file for task in table.scan().plan_files()]
    with table.transaction() as transaction:
        with transaction.update_snapshot().overwrite() as update:
            for file in former:
                update.delete_data_file(file)
            for file in _dataframe_to_data_files(table.metadata, rows, table.io):
                update.append_data_file(file)
        for one in transaction._updates:
            if isinstance(one, AddSnapshotUpdate):
                object.__setattr__(one.snapshot, "summary", Summary(Operation.REPLACE))


@pytest.mark.parametrize("what", ["replaced", "deleted"])
def test_rows_that_were_taken_away_are_an_error_unless_they_may_stay(following: Following, what: str) -> None:
    following.append(1, 2)
    following.append(3)
    following.run()
    if what == "replaced":
        following.refreshed.overwrite(pa.table({"n": [9]}, SCHEMA), "n = 3")
    else:
        following.refreshed.delete("n = 1")
    following.append(4)
    with pytest.raises(
        TopicError, match=r"The snapshot \d+ of the table web.views has (replaced|deleted) rows since"
    ) as caught:
        following.plan()
    assert "overwrites=skip" in caught.value.hint
    table_apps.INPUT["options"] = {"overwrites": "skip"}
    following.run()
    assert following.copied[:3] == [1, 2, 3]
    assert 4 in following.copied


def test_a_snapshot_that_has_expired_since_is_an_error(following: Following) -> None:
    following.append(1)
    following.run()
    read = following.refreshed.metadata.current_snapshot_id
    for number in (2, 3, 4):
        following.append(number)
    newer = [one.snapshot_id for one in following.refreshed.metadata.snapshots][:-1]
    following.refreshed.maintenance.expire_snapshots().by_ids(newer).commit()
    with pytest.raises(StateError, match=f"The snapshot {read} .* has expired since"):
        following.plan()


def test_rows_of_a_table_that_was_empty_and_whose_first_snapshots_have_expired_are_not_passed_over(
    following: Following,
) -> None:
    following.run()
    following.append(1)
    following.append(2)
    oldest = following.refreshed.metadata.snapshots[0].snapshot_id
    following.refreshed.maintenance.expire_snapshots().by_ids([oldest]).commit()
    with pytest.raises(StateError, match="has not read, has expired since"):
        following.plan()


def test_a_table_that_was_rolled_back_is_an_error(following: Following) -> None:
    following.append(1)
    former = following.refreshed.metadata.current_snapshot_id
    following.append(2)
    following.run()
    with following.refreshed.manage_snapshots() as managing:
        managing.set_current_snapshot(former)
    with pytest.raises(StateError, match="was rolled back"):
        following.plan()


def test_a_table_that_was_made_anew_is_an_error(following: Following) -> None:
    following.append(1)
    following.run()
    with catalog_at(following.lake) as catalog:
        catalog.drop_table("web.views")
        append(catalog.create_table("web.views", SCHEMA), [{"n": 2}])
    with pytest.raises(StateError, match="it was dropped and made anew"):
        following.plan()


@pytest.mark.parametrize(("option", "value"), [("snapshot", ""), ("as_of", "2100-01-01")])
def test_one_version_for_ever_is_not_followed(following: Following, option: str, value: str) -> None:
    following.append(1)
    snapshot = str(following.refreshed.metadata.current_snapshot_id)
    table_apps.INPUT["options"] = {option: value or snapshot}
    with pytest.raises(ConfigError, match=rf'slice="checkpoint" and the option {option}'):
        following.plan()


def test_a_first_run_may_pass_over_what_is_there(following: Following) -> None:
    following.append(1)
    following.here.whole(FOLLOWING, "run-0", config={"streams.views.samza.offset.default": "upcoming"})
    following.append(2)
    following.run()
    assert following.copied == [2]


def test_files_that_a_run_has_left_unread_are_read_by_the_next(following: Following) -> None:
    following.append(1)
    following.append(2)
    system, spec = system_at(following.lake), stream("web.views")
    first = system.arrived(spec, None)
    left = first["files"][0]
    again = system.arrived(spec, {**first["known"], "unread": {left["path"]: left["size"]}})
    assert [file["path"] for file in again["files"]] == [left["path"]]
    assert again["known"]["unread"] == {}
    following.append(3)
    both = system.arrived(spec, {**first["known"], "unread": {left["path"]: left["size"]}})
    assert len(both["files"]) == 2
