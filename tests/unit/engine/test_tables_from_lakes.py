"""Tables that a lake feeds: at the version of the plan, or version after version; and by which keys. No Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_samza.application.loader import load_application
from airflow_samza.engine.tables import followed_tables
from airflow_samza.errors import PushError, SamzaError
from airflow_samza.launch.table_push import table_place
from airflow_samza.prepare.side_inputs import side_input_notes
from airflow_samza.systems.system import StreamSpec, SystemBinding
from airflow_samza.systems.tables import system as table_system
from tests.support.iceberg_lake import delete_positions, table_of
from tests.support.runs_here import Here
from tests.unit.engine.tables.test_followed_tables import running, view
from tests.unit.prepare.test_side_inputs import scored, views

BY_LAKE = "tests.support.side_input_apps:views_by_lake"
COLUMNS = pa.schema([("member_id", pa.int64()), ("tier", pa.string())])


class Lake:
    """The table of profiles in one kind of system, and runs that look members up in it."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.place = kind, folder / "lake"
        self.here = Here(folder / "root", bindings={"lake": SystemBinding(kind, {"root": str(self.place)})})
        self.here.log.create([StreamSpec("views", 2, "member_id bigint, page string")])
        if kind == "iceberg":
            self.place.mkdir()
            self.table = table_of(self.place, COLUMNS, name="web.profiles")

    def append(self, **tiers: str) -> None:
        rows = pa.table({"member_id": [int(m[1:]) for m in tiers], "tier": list(tiers.values())}, COLUMNS)
        if self.kind == "delta":
            write_deltalake(self.place / "web" / "profiles", rows, mode="append")
        else:
            self.table.refresh().append(rows)

    def delete(self, member: int) -> None:
        if self.kind == "delta":
            DeltaTable(self.place / "web" / "profiles").delete(f"member_id = {member}")
        else:
            self.table.refresh().delete(f"member_id = {member}")


@pytest.fixture(params=["iceberg", "delta"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return Lake(request.param, tmp_path)


def test_a_table_holds_the_version_of_the_plan_with_its_deletes(lake: Lake) -> None:
    lake.append(**{f"m{n}": f"t{n % 7}" for n in range(200)})
    if lake.kind == "iceberg":
        (file,) = lake.table.refresh().inspect.files()["file_path"].to_pylist()
        delete_positions(lake.table, {file: [3, 5]})
    lake.delete(9)
    views(lake.here, *range(0, 300, 3), 5)
    plan = lake.here.plan(BY_LAKE, "run-1", config={"bounded": "yes"})
    lake.append(m999="late", m9="late")
    lake.here.stages(plan)
    gone = [3, 5, 9] if lake.kind == "iceberg" else [9]
    profiles = pa.table({"id": [n for n in range(200) if n not in gone]})  # noqa: F841  # DuckDB reads it
    members = pa.table({"id": [*range(0, 300, 3), 5]})
    expected: list[Any] = (
        duckdb.connect()
        .execute(
            "SELECT m.id, CASE WHEN p.id IS NULL THEN NULL ELSE 't' || (m.id % 7) END FROM members m LEFT JOIN profiles p "
            "USING (id)"
        )
        .fetchall()
    )
    assert members.num_rows == len(expected)
    assert scored(lake.here) == sorted(expected, key=str)


@pytest.mark.parametrize("bounded", ["yes", "no"])
@pytest.mark.few(1)
def test_a_continuous_run_takes_over_the_newest_version_or_keeps_that_of_its_plan(
    bounded: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_tables, "VERSION_SECONDS", 0.0)
    monkeypatch.setattr(table_system, "LOOK_SECONDS", 0.0)
    lake.append(m1="gold", m2="silver")
    with running(lake.here, BY_LAKE, config={"follows": "yes", "bounded": bounded}):
        seen = [[view(lake.here, member) for member in (1, 2, 3)]]
        lake.delete(1)
        lake.append(m3="new")
        seen.append([view(lake.here, member) for member in (1, 2, 3)])
    planned, newest = ["gold", "silver", None], [None, "silver", "new"]
    assert seen == [planned, planned if bounded == "yes" else newest]


def test_a_lake_does_not_have_the_rows_of_a_key_in_one_partition_whatever_is_declared(lake: Lake) -> None:
    lake.append(m1="gold")
    views(lake.here, 1)
    with pytest.raises(SamzaError, match=r"'profile-changes' .* is not keyed .*") as rejected:
        lake.here.plan(BY_LAKE, "run-1", config={"keyed": "yes", "bounded": "yes"})
    assert "have every task read all of it (broadcast=True" in str(rejected.value)


def test_a_table_of_files_has_all_their_rows_in_each_task_and_no_key_shares_them_out(tmp_path: Path) -> None:
    lake = SystemBinding("files", {"root": str(tmp_path / "lake")})
    here = Here(tmp_path / "root", bindings={"lake": lake})
    here.log.create([StreamSpec("views", 2, "member_id bigint, page string")])
    tiers = {member: f"t{member % 7}" for member in range(100)}
    (tmp_path / "lake" / "profiles").mkdir(parents=True)
    rows = pa.table({"member_id": list(tiers), "tier": list(tiers.values())}, COLUMNS)
    for number in range(2):  # members of both partitions of views in both files
        pq.write_table(rows.slice(50 * number, 50), tmp_path / "lake" / "profiles" / f"{number}.parquet")
    views(here, *range(120))
    config = {"files": "yes", "bounded": "yes"}
    with pytest.raises(SamzaError, match=r"'profile-changes' .* is not keyed .*key=, and files lie as they came"):
        here.plan(BY_LAKE, "run-1", config={**config, "keyed": "yes"})
    here.whole(BY_LAKE, "run-1", config=config)
    assert dict(scored(here)) == {member: tiers.get(member) for member in range(120)}


IS_TABLE = {"is_table": "yes"}


def test_a_pushed_table_that_is_a_table_of_a_lake_has_the_snapshot_of_the_plan(lake: Lake) -> None:
    lake.append(m1="gold", m2="silver")
    views(lake.here, 1, 2, 3)
    first = lake.here.plan(BY_LAKE, "run-1", config=IS_TABLE)
    lake.append(m3="new")
    lake.here.stages(first)
    assert dict(scored(lake.here)) == {1: "gold", 2: "silver", 3: None}
    word = "snapshot" if lake.kind == "iceberg" else "version"
    version = str((first.side_input("profiles").slice or {})[word])
    assert any(f"{word} {version} of web.profiles" in note for _, _, note in side_input_notes(first))
    assert first.tables == {}
    for request, members in (("current", 3), (version, 2)):
        plan = lake.here.plan(BY_LAKE, f"run-{members}", config=IS_TABLE, input_versions={"profiles": request})
        assert (plan.side_input("profiles").slice or {})["rows"] == members


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(1, "a"), (2, "b"), (1, "c")], r"has 1 row whose key \(member_id\) came before, such as 1\."),
        ([(1, "a"), (None, "b")], r"has 1 row whose key \(member_id\) is null\."),
    ],
)
def test_keys_of_a_table_of_a_lake_are_checked_as_pushes_check_theirs(
    lake: Lake, rows: list[tuple[int | None, str]], said: str
) -> None:
    lake.append(m7="gold")
    more = pa.table({"member_id": [one for one, _ in rows], "tier": [tier for _, tier in rows]}, COLUMNS)
    if lake.kind == "delta":
        write_deltalake(lake.place / "web" / "profiles", more, mode="append")
    else:
        lake.table.refresh().append(more)
    views(lake.here, 1)
    with pytest.raises(SamzaError, match=rf"The table web\.profiles, which fills the table 'profiles', {said}"):
        lake.here.whole(BY_LAKE, "run-1", config=IS_TABLE)


def test_a_table_of_a_lake_has_no_pushes_and_no_versions_but_its_own(lake: Lake) -> None:
    lake.append(m1="gold")
    spec = load_application(BY_LAKE).spec(IS_TABLE)
    with pytest.raises(
        PushError, match=r"'profiles' .* is the table web\.profiles of the system 'lake': it has no pushes"
    ):
        table_place(spec, "profiles", {}, None)
    with pytest.raises(
        SamzaError, match=r"its versions are the snapshots of web\.profiles.*\n?.*--input-version profiles="
    ):
        lake.here.plan(BY_LAKE, "run-1", config=IS_TABLE, tables={"profiles": "monday"})
