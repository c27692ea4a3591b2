"""``airflow-samza state``: what each command prints and rejects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from airflow_samza.cli.app import app
from airflow_samza.runs.records.folders import write_once
from airflow_samza.runs.stages.run_ends import RunEnd
from tests.support.carried import Carried


@pytest.fixture
def carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Carried:
    """Two finished runs, and one that is half done."""
    monkeypatch.chdir(tmp_path)
    carried = Carried(tmp_path / "root")
    carried.whole("monday")
    carried.whole("tuesday")
    carried.run_stage(carried.plan("wednesday"), "views")
    write_once(carried.files, carried.folder("wednesday").closed, RunEnd(False, 0.0))
    return carried


def call(*arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, ["state", *arguments, "--root", "root"], input=answer)


def test_show_tells_versions_and_holder(carried: Carried) -> None:
    done = call("show", "app")
    heading, first, second, held = done.stdout.splitlines()
    assert heading.split() == ["VERSION", "FROM", "LEFT", "BY", "AT", "(UTC)", "OFFSETS", "BYTES"]
    assert first.split()[:2] == ["1", "monday"]
    assert second.split()[:3] == ["2", "1", "tuesday"]
    assert second.split()[-3:] == ["views", "20", "2"]
    assert held == "The run 'wednesday' holds it (fence 3); it has committed a part of its work (1 of 2 stages done)."


def test_show_as_json_has_what_the_text_shows(carried: Carried) -> None:
    found = json.loads(call("show", "app", "--json").stdout)
    assert [(version["version"], version["parent"], version["run"]) for version in found["versions"]] == [
        (1, None, "monday"),
        (2, 1, "tuesday"),
    ]
    assert sum(found["versions"][1]["offsets"]["views"]) == 20
    assert found["holder"]["run"] == "wednesday"


def test_show_of_an_application_without_state(carried: Carried) -> None:
    assert call("show", "other").stdout == "No run of 'other' has left a state here.\n"
    assert json.loads(call("show", "other", "--json").stdout)["versions"] == []


def test_abandon_asks_first(carried: Carried) -> None:
    assert call("abandon", "app", "wednesday", answer="n\n").exit_code != 0
    done = call("abandon", "app", "wednesday", answer="y\n")
    assert "The run 'wednesday' is given up; the next run of 'app' may start." in done.stdout
    assert carried.plan("thursday").state.version == 2  # type: ignore[union-attr]


def test_reset_goes_back(carried: Carried) -> None:
    call("abandon", "app", "wednesday", "--yes")
    done = call("reset", "app", "--to", "1", "--yes")
    assert done.stdout == "The state of 'app' is that of version 1 again (version 3).\n"
    assert "reset to 1" in call("show", "app").stdout


def test_a_section_is_said_as_stream_and_run(carried: Carried) -> None:
    done = CliRunner().invoke(
        app, ["run", "tests.support.carrying_apps:summing", "--root", "root", "--section", "shared-clicks"]
    )
    assert done.exit_code == 2
    assert "Error: --section 'shared-clicks' does not say whose section is read." in done.stderr


def test_a_run_of_the_command_line_may_name_the_section_and_the_state(carried: Carried) -> None:
    arguments = ["--root", "root", "--section", "shared-clicks=monday", "--state-from", "fresh"]
    done = CliRunner().invoke(app, ["run", "tests.support.carrying_apps:following", *arguments])
    assert done.exit_code == 1
    assert "The shared stream 'shared-clicks' does not exist yet" in done.stderr


@pytest.mark.parametrize("options", [(), ("--to", "1")])
def test_reset_rejects_an_application_of_which_nothing_is_there(carried: Carried, options: tuple[str, ...]) -> None:
    done = call("reset", "ap", *options, "--yes")
    assert done.exit_code == 2
    assert (
        f"No run of 'ap' has left a state under {carried.files.location('')}, so there is nothing to set back."
        in done.stderr
    )
    assert carried.files.list("state") == ["app-1"]
