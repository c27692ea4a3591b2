"""Delta tables that are read from run to run: rows appended since, and changes that are rejected, not passed over."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_samza.errors import ConfigError, StateError, TopicError
from airflow_samza.runs.records.run_plan import CONTINUOUS, RunPlan
from airflow_samza.systems.system import SystemBinding
from tests.support import table_apps
from tests.support.delta_lake import stream, system_at, table_of
from tests.support.delta_outputs import Output
from tests.support.iceberg_outputs import output_stream
from tests.support.runs_here import Here
from tests.support.waiting import until

FOLLOWING = "tests.support.table_apps:following"
SCHEMA = pa.schema([("n", pa.int64())])


class Following:
    """A table, and runs that copy what was appended to it."""

    def __init__(self, folder: Path) -> None:
        self.lake = folder / "lake"
        table_of(self.lake, SCHEMA)
        self.place = self.lake / "web/views"
        self.here = Here(folder / "root", bindings={"tables": SystemBinding("delta", {"root": str(self.lake)})})
        self.runs = 0

    def append(self, *rows: int) -> None:
        write_deltalake(str(self.place), pa.table({"n": list(rows)}, SCHEMA), mode="append")

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(str(self.place))

    def run(self, **request: Any) -> RunPlan:
        self.runs += 1
        return self.here.whole(FOLLOWING, f"run-{self.runs}", **request)

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


def test_a_run_reads_what_was_appended_since_the_run_before_and_a_compaction_is_no_news(following: Following) -> None:
    following.append(1, 2)
    following.run()
    assert following.copied == [1, 2]
    following.append(3)
    following.append(4)
    plan = following.plan()
    following.append(5)  # which the run that is planned does not read, also when it is cleared
    following.table.optimize.compact()
    for generation in (1, 2):
        following.here.stages(plan, generation=generation)
        assert following.copied == [1, 2, 3, 4]
    following.here.runtime.close(plan)
    note = plan.notes["views"]["views"]
    assert "reads 2 files" in note
    assert "since the run run-1 (version 1), up to the version 3 of web.views" in note
    following.run()
    following.run()  # nothing is new
    assert following.copied == [1, 2, 3, 4, 5]


def test_a_run_reads_no_further_than_the_newest_version_that_its_request_names(following: Following) -> None:
    for number in range(4):
        following.append(number)
    newest = following.table.version()
    copied = []
    for limit in (f"{newest - 3}", f"{newest - 1},{newest - 2}", f"{newest - 3}", "current"):
        following.run(input_versions={"views": limit})
        copied.append(following.copied)
    assert copied == [[0], [0, 1, 2], [0, 1, 2], [0, 1, 2, 3]]


@pytest.mark.parametrize("what", ["replaced", "deleted"])
def test_rows_that_were_taken_away_are_an_error_unless_they_may_stay(following: Following, what: str) -> None:
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


def test_an_output_here_is_followed_and_who_has_replaced_rows_is_named(following: Following) -> None:
    output = Output(following.lake, output_stream("web.views"))
    output.publish([{"n": 1}])
    following.run()
    output.publish([{"n": 2}], epoch=1)
    following.run()
    assert following.copied == [1, 2]
    output.publish([{"n": 3}], generation="1.2")
    with pytest.raises(TopicError, match=r"has replaced rows \(by app/run/stage\) since"):
        following.plan()


def test_a_log_that_was_cleaned_up_since_is_an_error(following: Following) -> None:
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


def test_a_table_that_was_put_back_or_made_anew_is_an_error(following: Following) -> None:
    following.append(1)
    following.append(2)
    following.run()
    (following.place / "_delta_log" / f"{2:020d}.json").unlink()
    with pytest.raises(StateError, match="was put back to an older one"):
        following.plan()
    shutil.rmtree(following.place)
    table_of(following.lake, SCHEMA, [{"n": 2}])
    with pytest.raises(StateError, match="it was dropped and made anew"):
        following.plan()


@pytest.mark.parametrize("option", [{"version": "1"}, {"as_of": "2100-01-01"}])
def test_one_version_for_ever_is_not_followed(following: Following, option: dict[str, str]) -> None:
    following.append(1)
    table_apps.INPUT["options"] = option
    with pytest.raises(ConfigError, match=r'slice="checkpoint" and the option (version|as_of)'):
        following.plan()


def test_what_a_run_has_waiting_is_not_followed(following: Following) -> None:
    following.append(1)
    table_apps.INPUT["options"] = {"waiting": "app/run"}
    with pytest.raises(ConfigError, match="the option waiting, which is what one run has waiting, and no part of the"):
        following.plan()


def test_an_unknown_rule_for_overwrites_is_rejected(following: Following) -> None:
    table_apps.INPUT["options"] = {"overwrites": "ignore"}
    with pytest.raises(ConfigError, match="overwrites"):
        following.plan()


def test_files_that_a_run_has_left_unread_are_read_by_the_next_also_when_they_were_compacted(
    following: Following,
) -> None:
    following.append(1)
    following.append(2)
    system, spec = system_at(following.lake), stream("web.views")
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


@pytest.mark.extended
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
        following.table.optimize.compact()
    following.append(4)  # what is there when the drain comes is read
    following.here.runtime.drain(plan)
    thread.join(300)
    assert not thread.is_alive()
    assert not failed
    assert following.copied == [1, 2, 3, 4]
    following.here.runtime.close(plan)
    following.append(5)
    following.run()
    assert following.copied == [1, 2, 3, 4, 5]
