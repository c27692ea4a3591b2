"""Pushes from tables of lakes up to their submission: what is fixed, what is rejected, what needs no push. No Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.errors import ConfigError, PushError, SamzaError, SourceUnavailable, UnknownName
from airflow_samza.launch.table_push import prepare_push, push_bindings, submit_push
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.folders import replace as put, write_once
from airflow_samza.runs.stages.stage_runners import StageRequest
from airflow_samza.runs.stages.stage_state import FAILED, StageHandle, StatusRecord
from airflow_samza.runs.tables.folder import TableFolder
from airflow_samza.runs.tables.push_finish import finish_push
from airflow_samza.runs.tables.push_request import PushRequest, request_path
from airflow_samza.runs.tables.table_version import TableVersion, describe_push
from airflow_samza.runs.tables.versions import rollback
from airflow_samza.systems.system import SystemBinding
from tests.support.pushed_lakes import COLUMNS, LAKES, Lake
from tests.support.pushes import Pushes

APPLICATION = "tests.support.side_input_apps:pushed_views"
ROWS: list[dict[str, Any]] = [{"member_id": 1, "tier": "gold"}, {"member_id": 2, "tier": "iron"}]


class Submitting:
    """A root, a table that is pushed to, and a lake; what Spark would stage is staged by the test."""

    def __init__(self, folder: Path, kind: type[Lake]) -> None:
        self.folder = folder
        self.pushes = Pushes(folder / "root")
        self.lake = kind(folder / "lake", ROWS)
        self.started: list[PushRequest] = []

    def request(self, source: Any = None, push_id: str = "monday", **options: Any) -> PushRequest:
        files, source = self.pushes.files, source if source is not None else self.lake.source()
        return prepare_push(files, self.lake.bindings, APPLICATION, "profiles", source, push_id, None, **options)

    def rejected(self, source: Any = None, **options: Any) -> str:
        with pytest.raises(SamzaError) as error:
            self.request(source, **options)
        return str(error.value)

    def submit(self, request: PushRequest) -> StageHandle:
        return submit_push(self.pushes.files, self.pushes.system, request, lambda: self.start(request), {})

    def start(self, request: PushRequest) -> Any:
        self.started.append(request)
        raise InterruptedError

    def push(self, push_id: str, **options: Any) -> TableVersion:
        """Push the rows, which are staged as Spark would, unless the submission shows that this is not needed."""
        request = self.request(push_id=push_id, **options)
        try:
            self.submit(request)
        except InterruptedError:
            self.pushes.stage(request, {row["member_id"]: row["tier"] for row in self.lake.scan()})
        return finish_push(self.pushes.files, self.pushes.system, request)


@pytest.fixture(params=LAKES, ids=lambda lake: lake.kind)
def submitting(request: pytest.FixtureRequest, tmp_path: Path) -> Submitting:
    return Submitting(tmp_path, request.param)


def test_a_request_names_the_snapshot_that_is_current_and_a_retry_keeps_it(submitting: Submitting) -> None:
    lake, files = submitting.lake, submitting.pushes.files
    before = lake.version
    first = submitting.request()
    assert dict(first.source) == lake.source(**{lake.word: before})
    put(files, request_path(first.handle), first)
    lake.append([{"member_id": 3, "tier": "new"}])
    assert lake.version != before
    assert submitting.request().source == first.source
    assert submitting.request(push_id="other").source == lake.source(**{lake.word: lake.version})
    assert submitting.request(lake.source(**{lake.word: lake.version})).source[lake.word] == lake.version


@pytest.mark.parametrize(("error", "kept"), [(PushError("odd rows"), False), (SourceUnavailable("asleep"), True)])
def test_a_push_that_was_rejected_reads_the_table_anew_and_no_other(
    submitting: Submitting, error: SamzaError, kept: bool
) -> None:
    lake, files = submitting.lake, submitting.pushes.files
    first = submitting.request()
    put(files, request_path(first.handle), first)
    write_once(
        files,
        first.handle.folder.attempt(1, "request"),
        StageRequest(first.handle.stage_id, str(first.handle.generation), 1),
    )
    put(files, first.handle.folder.attempt(1, "status"), StatusRecord(FAILED, error=error.to_dict()))
    lake.append([{"member_id": 3, "tier": "new"}])
    assert submitting.request().source[lake.word] == (first.source[lake.word] if kept else lake.version)


def test_tables_and_snapshots_that_are_not_there_are_rejected(submitting: Submitting) -> None:
    lake = submitting.lake
    former = lake.version
    lake.append([{"member_id": 3, "tier": "new"}])
    lake.forget()
    gone = submitting.rejected(lake.source(**{lake.word: former}))
    assert f"({lake.word} {former} of {lake.kind} table web.members of system 'lake') cannot be read: " in gone
    assert "expired" in gone
    missing = submitting.rejected({**lake.source(), lake.kind: "web.member"})
    assert "table web.member of system 'lake') cannot be read: The table web.member" in missing
    assert "members" in missing  # what was meant
    odd = submitting.rejected(lake.source(**{lake.word: "newest"}))
    assert f"{lake.word} 'newest'" in odd or f"{lake.word}='newest'" in odd


def test_a_system_that_is_missing_or_of_another_kind_is_rejected(submitting: Submitting) -> None:
    lake = submitting.lake
    assert "of system None" in submitting.rejected({lake.kind: "web.members"})
    unbound = submitting.rejected(lake.source(system="laek"))
    assert "'laek', which is not bound to anything." in unbound
    assert "'lake'" in unbound  # what was meant
    lake.bindings["data"] = SystemBinding("files", {"root": "/data"})
    assert "'data', which is of kind files" in submitting.rejected(lake.source(system="data"))
    assert "has 'since' beside" in submitting.rejected(lake.source(since="1"))


def test_columns_are_checked_before_spark_starts(submitting: Submitting, tmp_path: Path) -> None:
    schema = pa.schema([("member", pa.int64()), ("tier", pa.int64())])
    lake = type(submitting.lake)(tmp_path / "drifted", [{"member": 1, "tier": 5}], schema)
    submitting.lake = lake
    said = submitting.rejected()
    assert "member_id is missing (the table has bigint)" in said
    assert "tier is bigint in the source and string in the table" in said
    assert "takes the column 'level'" in submitting.rejected(columns=["level"])
    assert submitting.request(columns={"member_id": "member", "tier": "string(tier)"}).columns is not None


def test_the_runner_gets_the_lakes_binding_and_no_other_connection(submitting: Submitting) -> None:
    request, lake = submitting.request(), submitting.lake
    assert push_bindings(lake.bindings, request, {})["lake"] == lake.bindings["lake"]
    with pytest.raises(ConfigError, match="has a connection beside it"):
        push_bindings(lake.bindings, request, {"password": "hush"})
    with pytest.raises(UnknownName, match="'lake', which is not bound"):
        push_bindings({}, request, {})


def test_a_push_of_the_same_snapshot_makes_no_version(submitting: Submitting) -> None:
    lake = submitting.lake
    first = submitting.push("monday")
    assert first.source == lake.source(**{lake.word: lake.version})
    again = submitting.push("tuesday")
    assert (again.number, again.push_id, len(submitting.started)) == (1, "monday", 1)
    assert "The push tuesday makes no version" in describe_push(again, "tuesday")
    assert f"from {lake.word} {lake.version} of {lake.kind} table web.members" in describe_push(first, "monday")
    lake.append([{"member_id": 3, "tier": "new"}])
    assert submitting.push("tuesday").number == 1  # its end stands, as for any push of a known id
    assert submitting.push("wednesday").number == 2
    assert submitting.push("computed", columns={"tier": "upper(tier)"}).number == 3


def test_equal_rows_are_pushed_again_where_the_current_version_cannot_stand_for_them(submitting: Submitting) -> None:
    def day(number: int) -> DataInterval:
        return DataInterval(*(datetime(2026, 1, at, tzinfo=timezone.utc) for at in (number, number + 1)))

    assert submitting.push("fifth", interval=day(5)).number == 1
    assert submitting.push("sixth", interval=day(6)).number == 1
    late = submitting.push("fourth", interval=day(4))
    assert (late.number, late.is_late) == (2, True)
    with pytest.raises(PushError, match="has 2 rows, and at least 3 are asked for"):
        submitting.push("seventh", interval=day(7), min_rows=3)


def test_an_incremental_push_takes_what_has_changed_since_the_current_version(submitting: Submitting) -> None:
    lake, files = submitting.lake, submitting.pushes.files
    submitting.push("monday")
    first = lake.version
    same = submitting.push("same", mode="incremental")
    assert (same.number, same.push_id, len(submitting.started)) == (1, "monday", 1)
    lake.append([{"member_id": 3, "tier": "new"}])
    tuesday = submitting.request(push_id="tuesday", mode="incremental")
    assert (tuesday.since, tuesday.lake and tuesday.lake.version) == (first, lake.version)
    assert f"changes since {lake.word} {first}, up to {lake.word} {lake.version} of {lake.kind}" in tuesday.source_text
    version = submitting.push("tuesday", mode="incremental")
    assert version.source == lake.source(**{lake.word: lake.version, "since": first})
    put(files, request_path(tuesday.handle), tuesday)
    lake.append([{"member_id": 4, "tier": "new"}])
    wednesday = submitting.request(push_id="wednesday", mode="incremental")
    put(files, request_path(wednesday.handle), wednesday)
    lake.append([{"member_id": 5, "tier": "new"}])
    thursday = submitting.push("thursday", mode="incremental")
    retried = submitting.request(push_id="wednesday", mode="incremental")  # its snapshot stays, and its base is newer
    assert (retried.source, retried.since) == (wednesday.source, thursday.source and thursday.source[lake.word])
    back = rollback(files, "log", "profiles-push", version.number, "back")
    assert submitting.request(push_id="after", mode="incremental").since == (back.source and back.source[lake.word])


def test_changes_that_are_not_certain_are_rejected_with_a_full_push_as_the_remedy(
    submitting: Submitting, tmp_path: Path
) -> None:
    lake = submitting.lake

    def rejected(**options: Any) -> str:
        said = submitting.rejected(push_id="changes", mode="incremental", **options)
        assert 'mode="full"' in said
        return said

    assert "table 'profiles' has no version yet" in rejected()
    elsewhere = replace(submitting.request(), push_id="elsewhere", source={"path": "/in"}, table_id=None)
    submitting.pushes.finish(submitting.pushes.stage(elsewhere, {1: "gold"}))
    assert "version 1, which is current, was pushed from elsewhere." in rejected()
    submitting.push("monday")
    computed = rejected(columns={"member_id": "member_id", "tier": "upper(tier)"})
    assert "was pushed with columns=None, and this push has others" in computed
    lake.append([{"member_id": 3, "tier": "new"}])
    lake.forget()
    assert "is not there any more" in rejected()
    submitting.lake = type(lake)(tmp_path / "anew", ROWS)
    assert "from a former table of this name, which was made anew since" in rejected()


@pytest.mark.parametrize("name", ["_change_type", "_Change_Type"])
def test_a_column_that_has_the_name_of_the_mark_of_changes_in_any_case_is_rejected(
    submitting: Submitting, name: str, tmp_path: Path
) -> None:
    rows = [{**row, name: "kept"} for row in ROWS]
    lake = submitting.lake = type(submitting.lake)(tmp_path / "marked", rows, COLUMNS.append(pa.field(name, "string")))
    options = {"columns": ["member_id", "tier"]}
    submitting.push("monday", **options)
    since = f"since the {lake.word} {lake.version} cannot be read"
    lake.append([{"member_id": 3, "tier": "new", name: "kept"}])
    said = submitting.rejected(push_id="tuesday", mode="incremental", **options)
    assert f"its column {name!r} has the name by which changes are marked (_change_type)." in said
    assert since in said
    assert 'Rename the column in the table; or push all rows each time, with mode="full".' in said
    assert submitting.push("wednesday", **options).number == 2


def test_a_column_that_has_the_name_of_the_mark_of_deletes_in_any_case_is_rejected(
    submitting: Submitting, tmp_path: Path
) -> None:
    rows = [{**row, "_Deleted": "no"} for row in ROWS]
    submitting.lake = type(submitting.lake)(tmp_path / "marked", rows, COLUMNS.append(pa.field("_Deleted", "string")))
    assert "has a column '_Deleted', which says what is deleted." in submitting.rejected()
    submitting.request(columns=["member_id", "tier"])


def test_changes_with_other_deletes_than_those_before_are_rejected(submitting: Submitting) -> None:
    lake, files = submitting.lake, submitting.pushes.files
    submitting.push("monday")
    lake.append([{"member_id": 3, "tier": "new"}])
    tuesday = submitting.push("tuesday", mode="incremental", deletes="tier = 'gone'")
    assert tuesday.deletes_where == "tier = 'gone'"
    for append in (False, True):  # without a change, too: rows of before would stay, or be missing
        if append:
            lake.append([{"member_id": 4, "tier": "new"}])
        for deletes, shown in (("tier = 'iron'", "\"tier = 'iron'\""), (None, "None")):
            said = submitting.rejected(push_id="wednesday", mode="incremental", deletes=deletes)
            assert f"""was pushed with deletes="tier = 'gone'", and this push has {shown}.""" in said
            assert 'mode="full"' in said
    rollback(files, "log", "profiles-push", tuesday.number, "back")
    assert "and this push has None" in submitting.rejected(push_id="wednesday", mode="incremental")
    assert submitting.push("wednesday", mode="incremental", deletes="tier = 'gone'").number == 4
    submitting.push("thursday")
    lake.append([{"member_id": 5, "tier": "new"}])
    assert submitting.push("friday", mode="incremental").deletes_where == ""
    assert "with no deletes=, and" in submitting.rejected(push_id="later", mode="incremental", deletes="tier = 'iron'")


def test_a_record_of_a_former_version_says_nothing_of_deletes(submitting: Submitting) -> None:
    submitting.push("monday")
    submitting.lake.append([{"member_id": 3, "tier": "new"}])
    version = submitting.push("tuesday", mode="incremental", deletes="tier = 'gone'")
    place = submitting.pushes.files.location(TableFolder("log", "profiles-push").version(version.number))
    record = json.loads(Path(place).read_text())
    assert record.pop("deletes_where") == "tier = 'gone'"
    Path(place).write_text(json.dumps(record))
    assert submitting.request(push_id="wednesday", mode="incremental", deletes="tier = 'iron'").since is not None


def test_a_table_that_was_made_anew_is_pushed_again_although_its_version_has_the_number(
    submitting: Submitting, tmp_path: Path
) -> None:
    assert submitting.push("monday").number == 1
    submitting.lake = type(submitting.lake)(tmp_path / "anew", ROWS)
    assert submitting.push("tuesday").number == 2


def test_a_clear_finds_the_version_that_stood_for_a_push_although_its_snapshot_has_expired(
    submitting: Submitting,
) -> None:
    lake = submitting.lake
    submitting.push("monday")
    assert submitting.push("tuesday", mode="incremental").push_id == "monday"
    lake.append([{"member_id": 3, "tier": "new"}])
    submitting.push("wednesday", mode="incremental")
    lake.forget()
    assert submitting.push("tuesday", mode="incremental").push_id == "monday"


def test_no_version_of_other_rows_stands_for_a_push_that_found_nothing_new(submitting: Submitting) -> None:
    submitting.push("monday")
    request = submitting.request(push_id="tuesday", mode="incremental")
    submitting.lake.append([{"member_id": 3, "tier": "new"}])
    submitting.push("wednesday")
    with pytest.raises(InterruptedError):
        submitting.submit(request)


def test_columns_are_those_of_the_version_whatever_was_asked_for_under_its_push_id_since(
    submitting: Submitting, caplog: pytest.LogCaptureFixture
) -> None:
    first = submitting.request(push_id="monday")
    submitting.push("monday")
    put(submitting.pushes.files, request_path(first.handle), first)
    submitting.push("monday")
    assert not caplog.messages
    columns = {"tier": "upper(tier)"}
    assert submitting.push("monday", columns=columns).number == 1  # somebody edits the Dag, and clears the task
    assert "The push monday of table profiles has made version 1 with columns=None. That version stands" in caplog.text
    said = submitting.rejected(push_id="tuesday", mode="incremental", columns=columns)
    assert "was pushed with columns=None, and this push has others" in said


def test_a_retry_reads_the_table_as_it_is_where_what_the_attempt_before_has_fixed_is_gone(
    submitting: Submitting, tmp_path: Path
) -> None:
    lake, files = submitting.lake, submitting.pushes.files
    first = submitting.request()
    put(files, request_path(first.handle), first)
    lake.append([{"member_id": 3, "tier": "new"}])
    lake.forget()
    assert submitting.request().source[lake.word] == lake.version
    put(files, request_path(first.handle), submitting.request())
    submitting.lake = type(lake)(tmp_path / "anew", ROWS, lake.schema)
    submitting.lake.append([{"member_id": 3, "tier": "new"}])  # a version of Delta has the same number
    assert submitting.request().table_id != first.table_id
