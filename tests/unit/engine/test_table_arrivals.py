"""Tables that are read from run to run: rows appended since, and changes that are rejected, not passed over."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from airflow_samza.errors import ConfigError, StateError, TopicError
from airflow_samza.runs.records.run_plan import CONTINUOUS, RunPlan
from airflow_samza.runs.state_history.arrivals import Looks
from airflow_samza.systems.system import SystemBinding
from tests.support import table_apps
from tests.support.iceberg_lake import append, catalog_at, compact, stream, system_at, table_of
from tests.support.runs_here import Here
from tests.support.waiting import until

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

    def drop_tags(self) -> None:
        """Drop the tags that keep from expiry what was read."""
        for name in [name for name in self.refreshed.metadata.refs if name != "main"]:
            self.refreshed.manage_snapshots().remove_tag(name).commit()

    @property
    def refreshed(self) -> Table:
        self.table.refresh()
        return self.table

    def run(self, **request: Any) -> RunPlan:
        self.runs += 1
        return self.here.whole(FOLLOWING, f"run-{self.runs}", **request)

    @property
    def head(self) -> str:
        head = self.refreshed.current_snapshot()
        assert head is not None
        return str(head.snapshot_id)

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


def test_a_run_reads_no_further_than_the_newest_snapshot_that_its_request_names(following: Following) -> None:
    heads = []
    for number in range(5):
        following.append(number)
        heads.append(following.head)
    limits = [heads[:1], [heads[2], heads[1]], heads[1:2], heads[:1], [], heads[2:3]]
    copied = []
    for limit in limits:  # the fourth and the last lie before what was read
        run = following.run(input_versions={"views": ",".join(limit)} if limit else {})
        copied.append(following.copied)
    assert copied == [[0], [0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]
    again = following.here.whole(FOLLOWING, run.run_id, generation=2, input_versions={"views": heads[2]})
    assert again.stream("views").slice == run.stream("views").slice
    following.append(5)
    following.drop_tags()
    with following.refreshed.maintenance.expire_snapshots() as expiring:
        expiring.by_ids([int(head) for head in heads[2:4]])
    following.run(input_versions={"views": f"{heads[3]},{following.head}"})
    assert following.copied == [0, 1, 2, 3, 4, 5]
    with pytest.raises(TopicError, match=rf"no snapshot {heads[3]}: it has expired"):
        following.run(input_versions={"views": heads[3]})


def test_a_compaction_is_no_news(following: Following) -> None:
    following.append(1)
    following.append(2)
    following.run()
    compact(following.refreshed)
    following.append(3)
    following.run()
    assert following.copied == [1, 2, 3]


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
    following.drop_tags()
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


def expire_all(table: Table) -> None:
    """Expire all snapshots but those of branches and tags, as people do."""
    held = {ref.snapshot_id for ref in table.metadata.refs.values()}
    old = [one.snapshot_id for one in table.snapshots() if one.snapshot_id not in held]
    table.maintenance.expire_snapshots().by_ids(old).commit()


@pytest.mark.extended
def test_a_tag_keeps_the_snapshot_up_to_which_was_read_from_expiry(following: Following) -> None:
    following.append(1)
    following.run()
    first = following.refreshed.metadata.current_snapshot_id
    for row in (2, 3, 4):
        following.append(row)
    expire_all(following.refreshed)
    table = following.refreshed
    assert first in {one.snapshot_id for one in table.snapshots()}
    assert len(table.snapshots()) == 2
    following.run()
    assert following.copied == [1, 2, 3, 4]
    for row in range(5, 12):  # the tags move with the checkpoint
        following.append(row)
        following.run()
        expire_all(following.refreshed)
    assert following.copied == list(range(1, 12))
    tags = [name for name in following.refreshed.metadata.refs if name != "main"]
    assert len(tags) == 3
    assert first not in {one.snapshot_id for one in following.refreshed.snapshots()}
    location = following.refreshed.metadata_location
    following.run()  # nothing is new, and nothing is committed
    assert following.refreshed.metadata_location == location


def test_files_that_are_gone_behind_expired_snapshots_are_an_error(following: Following) -> None:
    following.append(1)
    following.run()
    following.append(2)
    following.refreshed.overwrite(pa.table({"n": [1, 2]}, SCHEMA))
    following.append(3)
    expire_all(following.refreshed)
    with pytest.raises(StateError, match="1 of the files that it had then were replaced, compacted, or lost rows"):
        following.plan()


def test_a_catalog_that_rejects_the_tag_is_a_note(following: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    def rejects(*_: object) -> None:
        raise TopicError("The catalog lets you read only.", hint="")

    monkeypatch.setattr("airflow_samza.systems.iceberg.system.hold_snapshot", rejects)
    following.append(1)
    plan = following.run()
    assert following.copied == [1]
    assert "its snapshot is not kept from expiry: The catalog lets you read only" in plan.notes["views"]["views"]


def test_a_continuous_run_follows_a_table_until_it_is_drained(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_samza.systems.tables.inputs.table_inputs.LOOK_SECONDS", 0.0)
    following.append(1)
    plan = following.here.plan(FOLLOWING, "live", mode=CONTINUOUS)
    failed = list[BaseException]()

    def work() -> None:
        try:
            following.here.stages(plan)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    for row in (2, 3):
        following.append(row)
        until(lambda row=row: failed or row in following.copied)  # type: ignore[misc]
        expire_all(following.refreshed)
    following.append(4)  # what is there when the drain comes is read
    following.here.runtime.drain(plan)
    thread.join(300)
    assert not thread.is_alive()
    assert not failed
    assert following.copied == [1, 2, 3, 4]
    following.here.runtime.close(plan)
    head = following.refreshed.metadata.current_snapshot_id
    following.append(5)
    following.append(6)
    expire_all(following.refreshed)
    assert head in {one.snapshot_id for one in following.refreshed.snapshots()}, "its end has tagged it"
    following.run()
    assert following.copied == [1, 2, 3, 4, 5, 6]


def test_a_continuous_run_goes_on_where_what_it_has_read_was_compacted_and_has_expired(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_samza.systems.tables.inputs.table_inputs.LOOK_SECONDS", 0.0)
    following.append(1)
    following.append(2)
    plan = following.here.plan(FOLLOWING, "live", mode=CONTINUOUS)
    looks = Looks(following.here.log.filesystem, plan, plan.stream("views"))
    failed = list[BaseException]()

    def work() -> None:
        try:
            following.here.stages(plan)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    until(lambda: failed or following.copied == [1, 2])
    compact(following.refreshed)
    until(lambda: failed or (looks.intake(looks.newest()) or {}).get("snapshot") == following.head)
    following.drop_tags()
    expire_all(following.refreshed)
    following.append(3)
    following.here.runtime.drain(plan)
    thread.join(300)
    assert not failed
    assert following.copied == [1, 2, 3]
