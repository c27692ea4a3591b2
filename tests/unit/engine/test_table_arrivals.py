"""Tables that are read from run to run: rows appended since, and changes that are rejected, not passed over."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.table import Table

from airflow_samza.errors import ConfigError, StateError, TopicError
from airflow_samza.runs.records.run_plan import CONTINUOUS, RunPlan
from airflow_samza.runs.state_history.arrivals import Looks
from airflow_samza.systems.system import SystemBinding
from tests.support import delta_lake, iceberg_lake, table_apps
from tests.support.delta_outputs import Output
from tests.support.runs_here import Here
from tests.support.table_inputs import stream
from tests.support.table_outputs import output_stream
from tests.support.waiting import until

FOLLOWING = "tests.support.table_apps:following"
SCHEMA = pa.schema([("n", pa.int64())])


class Following:
    """A table, and runs that copy what was appended to it."""

    kind: str
    word: str
    """The name of a version of such a table."""
    lake_of_kind: Any

    def __init__(self, folder: Path) -> None:
        self.lake = folder / "lake"
        self.lake_of_kind.table_of(self.lake, SCHEMA)
        self.here = Here(folder / "root", bindings={"tables": SystemBinding(self.kind, {"root": str(self.lake)})})
        self.runs = 0

    @property
    def head(self) -> str:
        """The newest version of the table."""
        raise NotImplementedError

    def append(self, *rows: int) -> None:
        raise NotImplementedError

    def compact(self) -> None:
        """Put all rows into one file."""
        raise NotImplementedError

    def tidy(self) -> None:
        """Do what somebody does from time to time who looks after the table."""
        raise NotImplementedError

    def run(self, **request: Any) -> RunPlan:
        self.runs += 1
        return self.here.whole(FOLLOWING, f"run-{self.runs}", **request)

    def plan(self) -> RunPlan:
        self.runs += 1
        return self.here.plan(FOLLOWING, f"run-{self.runs}")

    @contextmanager
    def live(self) -> Iterator[tuple[RunPlan, list[BaseException]]]:
        """A continuous run, and its failure, if it fails; it is drained in the end."""
        plan = self.here.plan(FOLLOWING, "live", mode=CONTINUOUS)
        failed = list[BaseException]()

        def work() -> None:
            try:
                self.here.stages(plan)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        yield plan, failed
        self.here.runtime.drain(plan)
        thread.join(300)
        assert not thread.is_alive()
        assert not failed

    @property
    def copied(self) -> list[int]:
        return sorted(row["n"] for row in self.here.rows("copy"))


class OfIceberg(Following):
    """A table of Iceberg."""

    kind = "iceberg"
    word = "snapshot"
    lake_of_kind = iceberg_lake

    def append(self, *rows: int) -> None:
        self.table.append(pa.table({"n": list(rows)}, SCHEMA))

    def compact(self) -> None:
        iceberg_lake.compact(self.table)

    def tidy(self) -> None:
        """Expire all snapshots but those of branches and tags."""
        table = self.table
        held = {ref.snapshot_id for ref in table.metadata.refs.values()}
        self.expire([one for one in self.snapshots if one not in held])

    def expire(self, snapshots: list[int]) -> None:
        self.table.maintenance.expire_snapshots().by_ids(snapshots).commit()

    def drop_tags(self) -> None:
        """Drop the tags that keep from expiry what was read."""
        for name in [name for name in self.table.metadata.refs if name != "main"]:
            self.table.manage_snapshots().remove_tag(name).commit()

    @property
    def table(self) -> Table:
        with iceberg_lake.catalog_at(self.lake) as catalog:
            return catalog.load_table("web.views")

    @property
    def snapshots(self) -> list[int]:
        return [one.snapshot_id for one in self.table.snapshots()]

    @property
    def head(self) -> str:
        return str(self.table.metadata.current_snapshot_id)


class OfDelta(Following):
    """A table of Delta."""

    kind = "delta"
    word = "version"
    lake_of_kind = delta_lake

    def append(self, *rows: int) -> None:
        write_deltalake(self.table, pa.table({"n": list(rows)}, SCHEMA), mode="append")

    def compact(self) -> None:
        self.table.optimize.compact()

    tidy = compact

    @property
    def place(self) -> Path:
        return self.lake / "web/views"

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(str(self.place))

    @property
    def head(self) -> str:
        return str(self.table.version())


KINDS = {"iceberg": OfIceberg, "delta": OfDelta}


@pytest.fixture(params=KINDS)
def following(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Following]:
    yield KINDS[request.param](tmp_path)
    table_apps.INPUT.clear()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have continuous runs look for what is new without a pause."""
    monkeypatch.setattr("airflow_samza.systems.tables.system.LOOK_SECONDS", 0.0)


of_iceberg = pytest.mark.parametrize("following", ["iceberg"], indirect=True)
of_delta = pytest.mark.parametrize("following", ["delta"], indirect=True)


def test_a_run_reads_what_was_appended_since_the_run_before_and_a_compaction_is_no_news(following: Following) -> None:
    following.append(1, 2)
    following.run()
    assert following.copied == [1, 2]
    following.append(3)
    following.append(4)
    plan = following.plan()
    head = following.head
    following.append(5)  # which the run that is planned does not read, also when it is cleared
    following.compact()
    for generation in (1, 2):
        following.here.stages(plan, generation=generation)
        assert following.copied == [1, 2, 3, 4]
    following.here.runtime.close(plan)
    note = plan.notes["views"]["views"]
    assert "reads 2 files" in note
    assert f"since the run run-1 (version 1), up to the {following.word} {head} of web.views" in note
    following.run()
    following.run()  # nothing is new
    assert following.copied == [1, 2, 3, 4, 5]


def test_a_table_without_rows_is_read_from_its_first_row_on(following: Following) -> None:
    following.run()
    following.append(1)
    following.run()
    assert following.copied == [1]


def test_a_cleared_run_reads_the_version_of_its_plan(following: Following) -> None:
    following.append(1)
    plan = following.plan()
    following.append(2)
    following.here.stages(plan)
    following.here.runtime.close(plan)
    assert following.copied == [1]
    following.run()
    assert following.copied == [1, 2]


def test_a_run_reads_no_further_than_the_newest_version_that_its_request_names(following: Following) -> None:
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
    if isinstance(following, OfIceberg):
        following.drop_tags()
        following.expire([int(head) for head in heads[2:4]])
    following.run(input_versions={"views": f"{heads[3]},{following.head}"})
    assert following.copied == [0, 1, 2, 3, 4, 5]
    following.append(6)
    following.run(input_versions={"views": "current"})
    assert following.copied == [0, 1, 2, 3, 4, 5, 6]
    if isinstance(following, OfIceberg):
        with pytest.raises(TopicError, match=rf"no snapshot {heads[3]}: it has expired"):
            following.run(input_versions={"views": heads[3]})


def test_a_compaction_is_no_news(following: Following) -> None:
    following.append(1)
    following.append(2)
    following.run()
    following.compact()
    following.append(3)
    following.run()
    assert following.copied == [1, 2, 3]


@of_iceberg
@pytest.mark.parametrize("what", ["replaced", "deleted"])
def test_rows_that_were_taken_away_are_an_error_unless_they_may_stay_in_iceberg(
    following: OfIceberg, what: str
) -> None:
    following.append(1, 2)
    following.append(3)
    following.run()
    if what == "replaced":
        following.table.overwrite(pa.table({"n": [9]}, SCHEMA), "n = 3")
    else:
        following.table.delete("n = 1")
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


@of_delta
@pytest.mark.parametrize("what", ["replaced", "deleted"])
def test_rows_that_were_taken_away_are_an_error_unless_they_may_stay_in_delta(following: OfDelta, what: str) -> None:
    following.append(1, 2)
    following.append(3)
    following.run()
    if what == "replaced":
        write_deltalake(str(following.place), pa.table({"n": [3]}, SCHEMA), mode="overwrite", predicate="n = 3")
    else:
        following.table.delete("n = 3")
    following.append(4)
    said = rf"The version 3 of the table web\.views has {what} rows since the input 'views' was read last"
    with pytest.raises(TopicError, match=said) as caught:
        following.plan()
    assert "such versions add" in caught.value.hint
    table_apps.INPUT["options"] = {"overwrites": "skip"}
    following.run()
    assert following.copied == [1, 2, 3, 4]


@of_delta
def test_an_output_here_is_followed_and_who_has_replaced_rows_is_named(following: OfDelta) -> None:
    output = Output(following.lake, output_stream("web.views"))
    output.publish([{"n": 1}])
    following.run()
    output.publish([{"n": 2}], epoch=1)
    following.run()
    assert following.copied == [1, 2]
    output.publish([{"n": 3}], generation="1.2")
    with pytest.raises(TopicError, match=r"has replaced rows \(by app/run/stage\) since"):
        following.plan()


@of_iceberg
def test_a_snapshot_that_has_expired_since_is_an_error(following: OfIceberg) -> None:
    following.append(1)
    following.run()
    read = following.table.metadata.current_snapshot_id
    for number in (2, 3, 4):
        following.append(number)
    following.drop_tags()
    following.expire(following.snapshots[:-1])
    with pytest.raises(StateError, match=f"The snapshot {read} .* has expired since"):
        following.plan()


@of_delta
def test_a_log_that_was_cleaned_up_since_is_an_error(following: OfDelta) -> None:
    following.append(1)
    following.run()
    for number in (2, 3, 4):
        following.append(number)
    following.table.create_checkpoint()
    for version in range(3):
        (following.place / "_delta_log" / f"{version:020d}.json").unlink()
    with pytest.raises(
        StateError, match=r"version 1 .* cannot be followed: version 2 has been cleaned up since"
    ) as error:
        following.plan()
    assert "delta.logRetentionDuration" in error.value.hint


@of_iceberg
def test_rows_of_a_table_that_was_empty_and_whose_first_snapshots_have_expired_are_not_passed_over(
    following: OfIceberg,
) -> None:
    following.run()
    following.append(1)
    following.append(2)
    following.expire(following.snapshots[:1])
    with pytest.raises(StateError, match="has not read, has expired since"):
        following.plan()


@of_iceberg
def test_a_table_that_was_rolled_back_is_an_error(following: OfIceberg) -> None:
    following.append(1)
    former = following.table.metadata.current_snapshot_id
    following.append(2)
    following.run()
    with following.table.manage_snapshots() as managing:
        managing.set_current_snapshot(former)
    with pytest.raises(StateError, match="was rolled back"):
        following.plan()


@of_iceberg
def test_a_table_that_was_made_anew_is_an_error(following: OfIceberg) -> None:
    following.append(1)
    following.run()
    with iceberg_lake.catalog_at(following.lake) as catalog:
        catalog.drop_table("web.views")
        iceberg_lake.append(catalog.create_table("web.views", SCHEMA), [{"n": 2}])
    with pytest.raises(StateError, match="it was dropped and made anew"):
        following.plan()


@of_delta
def test_a_table_that_was_put_back_or_made_anew_is_an_error(following: OfDelta) -> None:
    following.append(1)
    following.append(2)
    following.run()
    (following.place / "_delta_log" / f"{2:020d}.json").unlink()
    with pytest.raises(StateError, match="was put back to an older one"):
        following.plan()
    shutil.rmtree(following.place)
    delta_lake.table_of(following.lake, SCHEMA, [{"n": 2}])
    with pytest.raises(StateError, match="it was dropped and made anew"):
        following.plan()


@pytest.mark.parametrize("by_time", [False, True])
def test_one_version_for_ever_is_not_followed(following: Following, by_time: bool) -> None:
    following.append(1)
    option, value = ("as_of", "2100-01-01") if by_time else (following.word, following.head)
    table_apps.INPUT["options"] = {option: value}
    with pytest.raises(ConfigError, match=rf'slice="checkpoint" and the option {option}'):
        following.plan()


@of_delta
def test_what_a_run_has_waiting_is_not_followed(following: OfDelta) -> None:
    following.append(1)
    table_apps.INPUT["options"] = {"waiting": "app/run"}
    with pytest.raises(ConfigError, match="the option waiting, which is what one run has waiting, and no part of the"):
        following.plan()


def test_an_unknown_rule_for_overwrites_is_rejected(following: Following) -> None:
    table_apps.INPUT["options"] = {"overwrites": "ignore"}
    with pytest.raises(ConfigError, match="overwrites"):
        following.plan()


def test_a_first_run_may_pass_over_what_is_there(following: Following) -> None:
    following.append(1)
    following.here.whole(FOLLOWING, "run-0", config={"streams.views.samza.offset.default": "upcoming"})
    following.append(2)
    following.run()
    assert following.copied == [2]


@of_iceberg
def test_files_that_a_run_has_left_unread_are_read_by_the_next(following: OfIceberg) -> None:
    following.append(1)
    following.append(2)
    system, spec = iceberg_lake.system_at(following.lake), stream("web.views")
    first = system.arrived(spec, None)
    left = first["files"][0]
    again = system.arrived(spec, {**first["known"], "unread": {left["path"]: left["size"]}})
    assert [file["path"] for file in again["files"]] == [left["path"]]
    assert again["known"]["unread"] == {}
    following.append(3)
    both = system.arrived(spec, {**first["known"], "unread": {left["path"]: left["size"]}})
    assert len(both["files"]) == 2


@of_delta
def test_files_that_a_run_has_left_unread_are_read_by_the_next_also_when_they_were_compacted(
    following: OfDelta,
) -> None:
    following.append(1)
    following.append(2)
    system, spec = delta_lake.system_at(following.lake), stream("web.views")
    following.table.optimize.compact()
    following.append(3)
    first = system.arrived(spec, None)
    compacted = first["files"][0]
    since = system.arrived(spec, {**first["known"], "version": 0})
    left = since["files"][0]
    assert left["path"] != compacted["path"]
    again = system.arrived(spec, {**since["known"], "unread": {left["path"]: left["size"]}})
    assert [file["path"] for file in again["files"]] == [left["path"]]
    assert again["known"]["unread"] == {}
    with pytest.raises(StateError, match=r"has left the file gone\.parquet .* unread"):
        system.arrived(spec, {**since["known"], "unread": {"gone.parquet": 1}})


@of_iceberg
@pytest.mark.extended
def test_a_tag_keeps_the_snapshot_up_to_which_was_read_from_expiry(following: OfIceberg) -> None:
    following.append(1)
    following.run()
    first = following.table.metadata.current_snapshot_id
    for row in (2, 3, 4):
        following.append(row)
    following.tidy()
    table = following.table
    assert first in {one.snapshot_id for one in table.snapshots()}
    assert len(table.snapshots()) == 2
    following.run()
    assert following.copied == [1, 2, 3, 4]
    for row in range(5, 12):  # the tags move with the checkpoint
        following.append(row)
        following.run()
        following.tidy()
    assert following.copied == list(range(1, 12))
    tags = [name for name in following.table.metadata.refs if name != "main"]
    assert len(tags) == 3
    assert first not in {one.snapshot_id for one in following.table.snapshots()}
    location = following.table.metadata_location
    following.run()  # nothing is new, and nothing is committed
    assert following.table.metadata_location == location


@of_iceberg
def test_files_that_are_gone_behind_expired_snapshots_are_an_error(following: OfIceberg) -> None:
    following.append(1)
    following.run()
    following.append(2)
    following.table.overwrite(pa.table({"n": [1, 2]}, SCHEMA))
    following.append(3)
    following.tidy()
    with pytest.raises(StateError, match="1 of the files that it had then were replaced, compacted, or lost rows"):
        following.plan()


@of_iceberg
def test_a_catalog_that_rejects_the_tag_is_a_note(following: OfIceberg, monkeypatch: pytest.MonkeyPatch) -> None:
    def rejects(*_: object) -> None:
        raise TopicError("The catalog lets you read only.", hint="")

    monkeypatch.setattr("airflow_samza.systems.iceberg.system.hold_snapshot", rejects)
    following.append(1)
    plan = following.run()
    assert following.copied == [1]
    assert "its snapshot is not kept from expiry: The catalog lets you read only" in plan.notes["views"]["views"]


@pytest.mark.parametrize("following", ["iceberg", pytest.param("delta", marks=pytest.mark.extended)], indirect=True)
@pytest.mark.usefixtures("at_once")
def test_a_continuous_run_follows_a_table_until_it_is_drained(following: Following) -> None:
    following.append(1)
    with following.live() as (plan, failed):
        for row in (2, 3):
            following.append(row)
            until(lambda row=row: failed or row in following.copied)  # type: ignore[misc]
            following.tidy()
        following.append(4)  # what is there when the drain comes is read
    assert following.copied == [1, 2, 3, 4]
    following.here.runtime.close(plan)
    head = following.head
    following.append(5)
    following.append(6)
    following.tidy()
    if isinstance(following, OfIceberg):
        assert int(head) in following.snapshots, "its end has tagged it"
    following.run()
    assert following.copied == [1, 2, 3, 4, 5, 6]


@of_iceberg
@pytest.mark.usefixtures("at_once")
def test_a_continuous_run_goes_on_where_what_it_has_read_was_compacted_and_has_expired(following: OfIceberg) -> None:
    following.append(1)
    following.append(2)
    with following.live() as (plan, failed):
        looks = Looks(following.here.log.filesystem, plan, plan.stream("views"))
        until(lambda: failed or following.copied == [1, 2])
        following.compact()
        until(lambda: failed or (looks.intake(looks.newest()) or {}).get("snapshot") == following.head)
        following.drop_tags()
        following.tidy()
        following.append(3)
    assert following.copied == [1, 2, 3]
