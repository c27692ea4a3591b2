"""``airflow-samza gc``: says what it deletes, and with ``--dry-run`` what it would."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from airflow_samza.cli import gc_command
from airflow_samza.cli.app import app
from airflow_samza.runs.upkeep.retention import SweptRoot
from tests.support.runs_here import Here

PRODUCING = "tests.support.carrying_apps:producing"
SCHEMA = pa.schema([("member", pa.int64()), ("page", pa.string()), ("n", pa.int64())])


@pytest.fixture
def here(tmp_path: Path) -> Here:
    made = Here(tmp_path)
    for run in range(7):
        rows = [{"member": n % 3, "page": f"p{n}", "n": n} for n in range(3)]
        made.log.append("clicks", pa.Table.from_pylist(rows, SCHEMA), key=["member"], partitions=2)
        plan = made.plan(PRODUCING, f"run-{run}")
        made.stages(plan)
        made.runtime.close(plan, keep_seconds=-1.0)
    return made


def gc(here: Here, *options: str) -> str:
    done = CliRunner().invoke(app, ["gc", "--root", str(here.root), *options])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_it_tells_what_it_would_delete_and_then_deletes_just_that(here: Here) -> None:
    told = gc(here, "--dry-run", "--keep-runs", "1")
    assert "Would delete the run producing/run-0." in told
    assert "Kept 4 runs of producing: it left version … of the state (--kept lists them)." in told
    assert "Kept the run producing/run-2: it left version 3 of the state." in gc(
        here, "--dry-run", "--keep-runs", "1", "--kept"
    )
    assert here.log.filesystem.exists("runs/producing/run-0")
    done = gc(here, "--keep-runs", "1")
    assert done == told.replace("Would delete", "Deleted")
    assert here.log.filesystem.list("runs/producing") == [f"run-{n}" for n in range(2, 7)]
    assert gc(here, "--keep-runs", "1").endswith("Deleted 0 runs, 0 topics and 0 other folders.\n")


@pytest.mark.extended
def test_a_run_that_is_kept_because_it_is_damaged_is_named_in_one_sentence(here: Here) -> None:
    (here.root / "runs/producing/run-0/plan/1.json").write_text("{")
    (line,) = [line for line in gc(here, "--keep-runs", "1").splitlines() if "the run producing/run-0" in line]
    assert line.startswith("Kept the run producing/run-0: it cannot be looked at: The record ")
    assert line.endswith(" is damaged: it is not a JSON object.")


def test_runs_that_are_kept_for_one_reason_are_counted_unless_they_are_asked_for() -> None:
    swept = SweptRoot()
    swept.runs.kept = {f"daily/run-{n}": f"it left version {n} of the state" for n in range(1501)}
    swept.runs.kept |= {"daily/broken": "it cannot be looked at", "hourly/run-1": "it left version 1 of the state"}
    told = list(gc_command.swept_lines(swept, dry=True))
    assert told[:3] == [
        "Kept the run daily/broken: it cannot be looked at.",
        "Kept 1,501 runs of daily: it left version … of the state (--kept lists them).",
        "Kept the run hourly/run-1: it left version 1 of the state.",
    ]
    assert len(list(gc_command.swept_lines(swept, dry=True, kept=True))) == 1504


@pytest.mark.extended
def test_programs_get_json_of_what_is_or_would_be_deleted(here: Here) -> None:
    would = json.loads(gc(here, "--dry-run", "--keep-runs", "1", "--json"))
    assert would["dry_run"]
    assert would["runs"] == ["producing/run-0", "producing/run-1"]
    assert would["kept"]["producing/run-2"] == "it left version 3 of the state"
    assert json.loads(gc(here, "--keep-runs", "1", "--json")) == {**would, "dry_run": False}


@pytest.mark.extended
def test_a_number_that_keeps_nothing_is_rejected(here: Here) -> None:
    done = CliRunner().invoke(app, ["gc", "--root", str(here.root), "--keep-runs", "0"])
    assert done.exit_code != 0
    assert "--keep-runs is 0." in done.output
