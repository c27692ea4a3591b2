"""Results that runs over several data intervals share, and reasons for which they do not."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from airflow_samza import stream_application
from airflow_samza.errors import ConfigError, InvalidApplication, StorageFull, TopicError
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.upkeep.keep import Keep
from airflow_samza.runs.upkeep.retention import sweep_application, sweep_root
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.system import SystemBinding
from tests.support.interval_apps import ALL_VALUES, LAST_DAYS, TWICE, Lake
from tests.support.runs_here import run_stage

ROWS = [("home", 1, 1.0), ("home", 2, 2.0), ("jobs", 3, 3.0)]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path)
    for day in range(1, 6):
        lake.write(day, "a", [*ROWS, ("day", day, float(day))])
    return lake


def kept(lake: Lake) -> list[Path]:
    return sorted((lake.folder / "root/partials").rglob("*.arrow"))


def note(lake: Lake, application: str, day: int = 4, **more: Any) -> str:
    interval = DataInterval.from_iso(f"2026-01-{day:02}", f"2026-01-{day + 1:02}")
    run = lake.here.runtime.preview(_request(application, interval, **more))
    return run.notes[run.plan.stages[0].stage_id]["views"]


def _request(application: str, interval: DataInterval, **more: Any) -> RunRequest:
    return RunRequest(application, "previewed", interval=interval, **more)


def test_a_run_reads_only_the_days_that_none_before_has_read(lake: Lake) -> None:
    assert lake.read(lake.run(4)) == (16, 0, 4)
    assert lake.read(lake.run(5)) == (4, 3, 1)


def test_a_late_file_is_read(lake: Lake) -> None:
    lake.run(4)
    lake.write(2, "late", ROWS)
    run = lake.run(4)
    assert lake.read(run) == (3, 4, 1)  # each partition has a file of the day now, of which one is as it was
    assert {row["page"]: row["views"] for row in lake.rows(run)} == {"home": 10, "jobs": 5, "day": 4}


def test_a_cleared_stage_uses_what_its_first_try_has_left(lake: Lake) -> None:
    run = lake.run(4)
    before = lake.rows(run)
    for path in lake.days.rglob("*.parquet"):
        path.unlink()
    for stage in run.plan.stages:
        run_stage(str(lake.here.root), run, stage.stage_id, 2, lake.bindings)
    assert lake.rows(run) == before


def test_a_damaged_result_is_computed_again(lake: Lake) -> None:
    before = lake.rows(lake.run(4))
    damaged, cut = kept(lake)[:2]
    content = damaged.read_bytes()
    damaged.write_bytes(content[:40] + bytes([content[40] ^ 1]) + content[41:])
    cut.write_bytes(cut.read_bytes()[:20])
    run = lake.run(4)
    assert lake.rows(run) == before
    assert lake.read(run)[1:] == (2, 2)
    assert lake.read(lake.run(4))[1:] == (4, 0)


def test_a_result_that_cannot_be_kept_fails_no_task(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    put = LocalFilesystem.put_if_absent

    def full(files: LocalFilesystem, path: str, data: bytes, *, durable: bool = True) -> bool:
        if path.startswith("partials/"):
            raise StorageFull("There is no room left.")
        return put(files, path, data, durable=durable)

    monkeypatch.setattr(LocalFilesystem, "put_if_absent", full)
    run = lake.run(4)
    assert kept(lake) == []
    assert {row["page"]: row["views"] for row in lake.rows(run)} == {"home": 8, "jobs": 4, "day": 4}


def test_the_plan_says_how_many_results_are_kept(lake: Lake) -> None:
    assert "reads 4 data intervals; partial results of 0 are kept, and of 4 are computed" in note(lake, LAST_DAYS)
    lake.run(4)
    lake.forget(3)
    said = note(lake, LAST_DAYS, 5)
    assert "reads 4 data intervals, 1 without files; partial results of 2 are kept, and of 1 are computed" in said


def test_the_plan_says_why_results_are_not_kept(lake: Lake) -> None:
    said = note(lake, ALL_VALUES)
    assert "all of them in every run: results of collect in aggregate 'per-page' cannot be merged" in said
    lake.run(4, ALL_VALUES)
    assert lake.read(lake.run(4, ALL_VALUES)) == (16, 0, 0)
    assert "the stage runs epoch by epoch" in note(lake, LAST_DAYS, mode="pipelined")


def test_a_pipelined_run_reads_all_days(lake: Lake) -> None:
    staged = lake.run(4)
    pipelined = lake.run(4, mode="pipelined")
    views = [{row["page"]: row["views"] for row in lake.rows(run)} for run in (staged, pipelined)]
    assert views[0] == views[1] == {"home": 8, "jobs": 4, "day": 4}


def test_results_go_with_the_last_run_that_names_them(lake: Lake) -> None:
    files = open_filesystem(str(lake.here.root))
    systems_of = lake.here.runtime.upkeep.systems_of
    lake.run(4)
    lake.run(5)
    assert len(kept(lake)) == 5
    in_two_days = time.time() + 2 * 86400
    sweep_application(files, systems_of, "last-days", Keep(runs=2), now=in_two_days)
    assert len(kept(lake)) == 5
    swept = sweep_application(files, systems_of, "last-days", Keep(runs=1), now=in_two_days)
    assert len(swept.runs) == 1
    assert len(kept(lake)) == 4
    assert lake.read(lake.run(5)) == (0, 4, 0)


def test_results_that_no_run_names_are_swept(lake: Lake) -> None:
    files = open_filesystem(str(lake.here.root))
    lake.run(4)
    stranger = kept(lake)[0].with_name("0" * 32 + "-0.arrow")
    stranger.write_bytes(b"")
    (lake.folder / "root/partials/gone-1/meaning").mkdir(parents=True)
    (lake.folder / "root/partials/gone-1/meaning/0-0.arrow").write_bytes(b"")
    systems_of = lake.here.runtime.upkeep.systems_of
    dry = sweep_root(files, [], systems_of, Keep(), dry=True)
    assert len([path for path in dry.runs.leftovers if path.startswith("partials/")]) == 2
    assert stranger.exists()
    sweep_root(files, [], systems_of, Keep())
    assert not stranger.exists()
    assert len(kept(lake)) == 4


def test_all_outputs_of_a_stage_are_kept(lake: Lake) -> None:
    lake.run(4, TWICE)
    assert len(kept(lake)) == 8
    kept(lake)[0].unlink()
    run = lake.run(4, TWICE)
    assert lake.read(run)[1:] == (3, 1)
    assert {row["page"]: row["views"] for row in lake.rows(run)} == {"home": 8, "jobs": 4, "day": 4}


def test_a_plan_holds_the_files_of_all_intervals(lake: Lake) -> None:
    run = lake.run(4)
    slice_ = run.stream("views").slice or {}
    assert [Path(file["path"]).parent.name for file in slice_["files"]] == [f"2026-01-0{day}" for day in range(1, 5)]
    assert json.dumps(slice_)  # a record


def test_a_file_of_two_intervals_is_rejected(lake: Lake) -> None:
    with pytest.raises(TopicError, match="is in the paths of two data intervals"):
        lake.run(4, "tests.support.interval_apps:overlapping")


def test_systems_without_files_reject_intervals(lake: Lake) -> None:
    lake.here.bindings = {"lake": SystemBinding("log", {"root": str(lake.folder / "log")})}
    with pytest.raises((ConfigError, TopicError)):
        lake.run(4)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"intervals": 0}, "intervals=0"),
        ({"intervals": True}, "intervals=True"),
        ({"path": "in/all"}, "names no time"),
        ({"path": None}, "names no time"),
        ({"slice": "checkpoint"}, "slice='checkpoint'"),
    ],
)
def test_contradictions_are_rejected_where_they_are_declared(more: dict[str, Any], why: str) -> None:
    @stream_application("wrong")
    def wrong(app: Any) -> None:
        app.input_stream("views", schema="page string", **{"path": "in/{ds}", "intervals": 3, **more})

    with pytest.raises(InvalidApplication, match=why):
        wrong.spec()
