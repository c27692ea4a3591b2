"""``airflow-samza tables``: what each command prints and rejects."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from airflow_samza.cli.app import app
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from tests.support.pushes import Pushes


@pytest.fixture
def pushes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pushes:
    """Two full versions, and a change."""
    monkeypatch.chdir(tmp_path)
    found = Pushes(tmp_path / "root")
    found.push("monday", {1: "gold", 2: "iron"}, interval=("2026-01-05T00:00:00+00:00", "2026-01-06T00:00:00+00:00"))
    found.push("tuesday", {1: "gold"}, interval=("2026-01-06T00:00:00+00:00", "2026-01-07T00:00:00+00:00"))
    found.push("more", {2: None}, mode="incremental", keep_versions=2)
    return found


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["tables", *arguments, "--root", "root"])


def test_list_tells_the_current_version_of_each_table(pushes: Pushes) -> None:
    heading, row = call("list").stdout.splitlines()
    assert heading.split()[:4] == ["TABLE", "SYSTEM", "STREAM", "VERSION"]
    assert row.split()[:6] == ["profiles", "log", "profiles-push", "3", "incremental", "1"]


def test_versions_tell_who_made_them_and_from_when_on_they_were_current(pushes: Pushes) -> None:
    _, first, second, third = call("versions", "profiles").stdout.splitlines()
    assert first.split() == ["1", "full", "2", "0", first.split()[4], "2026-01-06", "00:00:00", "monday", "expired"]
    assert second.split()[-1] == "tuesday"
    assert third.split()[:4] == ["3", "incremental", "0", "1"]
    assert third.split()[-1] == "current"


def test_versions_as_json_are_one_object_a_line(pushes: Pushes) -> None:
    found = [json.loads(line) for line in call("versions", "profiles", "--json").stdout.splitlines()]
    assert [(version["number"], version["current"], version["expired"]) for version in found] == [
        (1, False, True),
        (2, False, False),
        (3, True, False),
    ]


def test_a_table_that_was_not_pushed_is_said_so(pushes: Pushes) -> None:
    assert call("versions", "nobody").stdout == "Nothing was pushed to table 'nobody'.\n"
    assert CliRunner().invoke(app, ["tables", "list", "--root", "elsewhere"]).stdout == "No table was pushed.\n"


def test_rollback_goes_back(pushes: Pushes) -> None:
    assert (
        call("rollback", "profiles").stdout == "Table profiles: version 4 reads what version 2 read, and is current.\n"
    )
    assert "rollback to 2" in call("versions", "profiles").stdout


def test_rollback_to_an_expired_version_is_rejected(pushes: Pushes) -> None:
    done = call("rollback", "profiles", "--to", "1")
    assert done.exit_code != 0
    assert "Version 1 of table 'profiles' (push 'monday') has expired" in done.stderr


def test_compact_writes_the_current_version_as_one_section(pushes: Pushes) -> None:
    before = pushes.rows_of(pushes.current())
    assert call("compact", "profiles").stdout.startswith(
        "Table profiles: version 3 is compacted: 2 sections to one of 1 rows, "
    )
    assert call("compact", "profiles").stdout.startswith("Table profiles: version 3 was already compacted: 2 sections")
    assert call("versions", "profiles").stdout.splitlines()[-1].endswith("current, compacted")
    assert pushes.rows_of(pushes.current()) == before == {1: "gold"}
    pushes.push("wednesday", {1: "gold"})
    assert call("compact", "profiles").stdout == "Table profiles: version 4 is one section already.\n"


def test_there_is_nothing_to_compact_before_the_first_push(pushes: Pushes) -> None:
    assert "The table of push stream 'nobody-push' (system 'log') has no version." in call("compact", "nobody").stderr


def test_the_rows_of_versions_are_not_expired_by_their_age(pushes: Pushes) -> None:
    done = CliRunner().invoke(
        app, ["topics", "expire", "profiles-push", "--older-than", "1 day", "--yes", "--root", "root"]
    )
    assert "holds the versions of table 'profiles', of which 3 is current" in done.stderr


def test_a_source_that_is_half_json_is_rejected(pushes: Pushes) -> None:
    done = call("push", "tests.unit.provider.provider_applications:with_table", "t", "{half")
    assert "SOURCE '{half' is not JSON" in done.stderr


def test_a_run_of_the_command_line_may_name_the_version_that_it_reads(pushes: Pushes) -> None:
    system = LogSystem("log", SystemBinding("log", {"root": "root"}))
    system.append("views", pa.table({"member_id": [1], "page": ["a"]}), key=["member_id"], partitions=2)
    arguments = ["run", "tests.support.side_input_apps:pushed_views", "--root", "root", "--table"]
    done = CliRunner().invoke(app, [*arguments, "profiles=sunday"])
    assert done.exit_code == 2, done.stderr
    assert "'sunday'" in done.stderr
    done = CliRunner().invoke(app, [*arguments, "profiles"])
    assert done.exit_code == 2
    assert "Error: --table 'profiles' does not say which version of which table is read." in done.stderr
    done = CliRunner().invoke(app, [*arguments, "profiles=current", "--table", "profiles=sunday"])
    assert "--table says both profiles=current and profiles=sunday" in done.stderr


def test_a_rollback_that_is_asked_for_again_says_what_is_current(pushes: Pushes) -> None:
    for _ in range(2):
        assert (
            "version 4 reads what version 2 read, and is current."
            in call("rollback", "profiles", "--push-id", "back").stdout
        )
    pushes.push("wednesday", {1: "gold"})
    assert (
        "version 4 reads what version 2 read, and version 5 is current since."
        in call("rollback", "profiles", "--push-id", "back").stdout
    )


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("in/profiles.parquet", "HERE/in/profiles.parquet"),
        ('{"path": "in.txt", "format": "csv"}', {"path": "HERE/in.txt", "format": "csv"}),
        ("/data/profiles.parquet", "/data/profiles.parquet"),
        ("hdfs:///profiles", "hdfs:///profiles"),
        ('{"query": "SELECT 1"}', {"query": "SELECT 1"}),
    ],
)
def test_the_path_of_a_source_is_looked_for_from_the_current_folder_on(
    pushes: Pushes, monkeypatch: pytest.MonkeyPatch, given: str, meant: object
) -> None:
    found: list[object] = []
    monkeypatch.setattr(SparkRuntime, "push", lambda *arguments, **options: found.append(arguments[3]))
    call("push", "m:app", "profiles", given)
    assert json.dumps(found).replace(str(Path.cwd()), "HERE") == json.dumps([meant])


def test_a_push_takes_the_master_that_the_command_names(pushes: Pushes) -> None:
    done = call(
        "push", "tests.unit.provider.provider_applications:with_table", "t", "/in", "--master", "mesos://here:5050"
    )
    assert "mesos://here:5050" in done.output
    done = call(
        "push",
        "tests.unit.provider.provider_applications:with_table",
        "t",
        "/in",
        "--master",
        "yarn",
        "--deploy-mode",
        "sideways",
    )
    assert "sideways" in done.output
