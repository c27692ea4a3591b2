"""Pushes from tables of lakes by operator, hook and command line: each sees that the current version has the rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection
from typer.testing import CliRunner

from airflow_samza.cli.app import app
from airflow_samza.launch import submission
from airflow_samza.launch.table_push import prepare_push
from airflow_samza.provider.hooks.samza import SamzaHook
from airflow_samza.provider.lineage.task_lineage import push_lineage
from airflow_samza.provider.operators.table_push import SamzaTablePushOperator
from tests.support.pushed_lakes import LAKES, Lake
from tests.support.pushes import Pushes

APPLICATION = "tests.support.side_input_apps:pushed_views"


@pytest.fixture(params=LAKES, ids=lambda lake: lake.kind)
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A table whose snapshot is version 1 of profiles; nothing can start a runner."""
    made: Lake = request.param(tmp_path / "lake", [{"member_id": 1, "tier": "gold"}])
    pushes = Pushes(tmp_path / "root")
    monday = prepare_push(pushes.files, made.bindings, APPLICATION, "profiles", made.source(), "monday", None)
    pushes.finish(pushes.stage(monday, {1: "gold"}))
    extras = {"samza_default": ("samza", tmp_path / "root"), "lake": (made.kind, tmp_path / "lake")}
    monkeypatch.setattr(
        SamzaHook,
        "get_connection",
        staticmethod(
            lambda name: Connection(
                conn_id=name, conn_type=extras[name][0], extra=json.dumps({"root": str(extras[name][1])})
            )
        ),
    )
    monkeypatch.setattr(submission, "ensure_runner", lambda *_: pytest.fail("Spark is started"))
    return made


@pytest.mark.parametrize(("deferrable", "mode"), [(False, "full"), (True, "incremental")])
def test_the_operator_returns_the_version_that_stands(
    lake: Lake, make_context: Any, deferrable: bool, mode: str
) -> None:
    operator = SamzaTablePushOperator(
        task_id="push",
        application=APPLICATION,
        table="profiles",
        source=lake.source(),
        systems={"lake": "lake"},
        deferrable=deferrable,
        mode=mode,
        data_interval="2126-01-01/2126-01-02",
    )
    result = operator.execute(make_context(operator))
    assert (result["version"], result["push_id"], result["is_new"]) == (1, "monday", False)
    assert result["source"] == lake.source(**{lake.word: lake.version})


def test_the_hook_returns_the_version_that_stands(lake: Lake) -> None:
    hook = SamzaHook(systems={"lake": "lake"})
    handle = hook.push(APPLICATION, "profiles", lake.source(), "tuesday")
    assert hook.finish_push(handle).push_id == "monday"
    changes = hook.push(APPLICATION, "profiles", lake.source(), "wednesday", mode="incremental")
    assert hook.finish_push(changes).push_id == "monday"
    assert hook.finish_push(hook.push(APPLICATION, "profiles", lake.source(), "tuesday")).push_id == "monday"


def test_the_command_line_says_that_the_version_stands(lake: Lake, tmp_path: Path) -> None:
    place = ["--root", str(tmp_path / "root"), "--system", f"lake={lake.kind}:{lake.folder}"]
    arguments = ["tables", "push", APPLICATION, "profiles", json.dumps(lake.source()), "--push-id", "tuesday"]
    arguments += ["--mode", "incremental"]
    done = CliRunner().invoke(app, [*arguments, *place])
    assert done.exit_code == 0, done.stderr
    assert "The push tuesday makes no version, and reads nothing" in done.stdout
    assert f"from {lake.word} {lake.version} of {lake.kind} table web.members of system 'lake'" in done.stdout


def test_lineage_names_the_table_by_where_it_lies(lake: Lake) -> None:
    lineage = push_lineage(SamzaHook(systems={"lake": "lake"}), APPLICATION, "profiles", None, lake.source())
    assert lineage is not None
    assert lineage.source is not None
    assert lineage.source[:2] == ("file", f"{lake.folder}/web/members")
