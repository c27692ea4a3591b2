"""Deletions at the end of a run, by a command and by a scheduled task.

Runs by number and age, and never what somebody still needs. No Spark.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza.errors import TopicError, UnknownName
from airflow_samza.runs.progress.run_list import newest_runs
from airflow_samza.runs.records.folders import RunFolder, read, replace, write_once
from airflow_samza.runs.records.liveness import identity
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import StageResult
from airflow_samza.runs.stages.stage_runners import Claim, Heartbeat, RunnerFolder
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.versions import find_version
from airflow_samza.runs.upkeep import run_removal
from airflow_samza.runs.upkeep.keep import Keep
from airflow_samza.runs.upkeep.kept_runs import SILENT_SECONDS
from airflow_samza.runs.upkeep.retention import OpenTopics, sweep_application, sweep_root
from airflow_samza.runs.upkeep.run_removal import SweptRuns
from airflow_samza.runs.upkeep.topic_expiry import own_topics
from airflow_samza.systems.filesystems import trash
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.log import maintenance
from airflow_samza.systems.log.maintenance import mark_expired
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import StreamSpec, SystemBinding
from tests.support.budgets import extended_but
from tests.support.faulty_filesystem import FaultyFilesystem, FolderlessFilesystem
from tests.support.looked_at import LookedAt
from tests.support.runs_here import Here

APPS = "tests.support.carrying_apps"
COUNTING, READING, PRODUCING, SUMMING = (
    f"{APPS}:{name}" for name in ("counting", "recounting", "producing", "summing")
)
SCHEMA = pa.schema([("member", pa.int64()), ("page", pa.string()), ("n", pa.int64())])
FEW = Keep(runs=2, days=30.0)


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def clicks(here: Here, run: int, count: int = 6) -> None:
    rows = [{"member": n % 3, "page": f"p{n}", "n": n} for n in range(run * count, (run + 1) * count)]
    here.log.append("clicks", pa.Table.from_pylist(rows, SCHEMA), key=["member"], partitions=2)


def runs(here: Here, application: str, count: int, first: int = 0) -> list[RunPlan]:
    """So many runs of an application, whose topics may go at once."""
    done = []
    for run in range(first, first + count):
        clicks(here, run)
        plan = here.plan(application, f"run-{run}")
        here.stages(plan)
        here.runtime.close(plan, keep_seconds=-1.0)
        done.append(plan)
    return done


def on_record(here: Here, application: str) -> list[str]:
    return here.log.filesystem.list(f"runs/{application}")


def sweep(here: Here, application: str, keep: Keep = FEW, **more: object) -> SweptRuns:
    return sweep_application(here.log.filesystem, here.runtime.upkeep.systems_of, application, keep, **more)  # type: ignore[arg-type]


@pytest.mark.extended
def test_runs_are_kept_by_number_and_their_topics_go_with_them(here: Here) -> None:
    runs(here, SUMMING.replace("summing", "producing"), 9)
    swept = sweep(here, "producing", Keep(runs=6))
    assert swept.runs == [f"producing/run-{n}" for n in range(3)]
    assert on_record(here, "producing") == [f"run-{n}" for n in range(3, 9)]
    assert not any(name.startswith("producing-") for name in here.log.topics())
    assert here.log.filesystem.list("trash") == []
    assert len(here.rows("shared-clicks")) == 54


@pytest.mark.extended
def test_runs_beyond_their_days_go_however_few_they_are(here: Here) -> None:
    runs(here, PRODUCING, 7)
    swept = sweep(here, "producing", Keep(runs=100, days=30.0), now=time.time() + 31 * 86400)
    assert swept.runs == ["producing/run-0", "producing/run-1"]
    assert set(swept.kept.values()) == {f"it left version {n} of the state" for n in range(3, 8)}


def test_what_the_state_holds_keeps_its_run_so_that_a_clear_can_undo_it(here: Here) -> None:
    plans = runs(here, COUNTING, 7)
    assert sweep(here, "counting", Keep(runs=1)).runs == ["counting/run-0", "counting/run-1"]
    again = here.plan(COUNTING, "run-6", generation=2)
    assert again.state is not None
    assert plans[-1].state is not None
    assert again.state.version == plans[-1].state.version
    here.stages(again)
    here.runtime.close(again)
    assert sorted(row["page"] for row in here.rows("numbered")) == sorted(f"p{n}" for n in range(42))


def test_of_a_slim_run_a_sweep_of_the_root_reads_two_records_and_no_plan(here: Here) -> None:
    runs(here, PRODUCING, 3)
    upkeep = here.runtime.upkeep
    upkeep.sweep_root(Keep())
    files = LookedAt(here.root)
    sweep_root(files, [here.log], upkeep.systems_of, Keep())
    two = [f"run-{n}/{name}" for n in range(3) for name in ("closed.json", "slimmed.json")]
    assert files.below("runs/producing") == two
    assert sweep(here, "producing", Keep(runs=1)).kept  # what is old is looked at all the same


def test_topics_of_open_runs_are_told_by_the_plans_of_their_own_run(here: Here) -> None:
    clicks(here, 0)
    plan = here.plan(PRODUCING, "run-0")
    here.plan(COUNTING, "other")
    files = LookedAt(here.root)
    (own, *_) = [name for _, name in own_topics(files, plan)]
    files.paths.clear()
    assert OpenTopics(files).holds(own)
    assert not OpenTopics(files).holds("clicks")
    assert not [path for path in files.paths if path.startswith("runs/counting/other")]


def test_a_run_that_is_open_stays(here: Here) -> None:
    runs(here, PRODUCING, 7)
    here.log.filesystem.delete(RunFolder("producing", "run-0").closed)
    assert sweep(here, "producing", Keep(runs=1)).runs == ["producing/run-1"]
    assert "run-0" in on_record(here, "producing")


@pytest.mark.extended
def test_a_run_that_nobody_closed_goes_a_month_after_its_last_sign_of_life(here: Here) -> None:
    runs(here, PRODUCING, 7)
    here.log.filesystem.delete(RunFolder("producing", "run-0").closed)
    later = time.time() + SILENT_SECONDS + 60
    assert "producing/run-0" in sweep(here, "producing", Keep(runs=100, days=1.0), now=later).runs


def test_a_run_whose_topics_are_kept_stays_with_them(here: Here) -> None:
    runs(here, PRODUCING, 6)
    clicks(here, 6)
    failed = here.plan(PRODUCING, "failed")
    here.stages(failed, "clicks")
    here.runtime.close(failed, succeeded=False)
    later = time.time() + 3 * 86400
    swept = sweep(here, "producing", Keep(runs=1, days=1.0), now=later)
    assert "producing/failed" not in swept.runs
    here.stages(failed)
    here.runtime.close(failed)


def test_a_run_whose_output_another_application_has_not_read_stays(here: Here) -> None:
    runs(here, COUNTING, 1)
    here.whole(READING, "read-0")
    runs(here, COUNTING, 7, first=1)
    swept = sweep(here, "counting", Keep(runs=1))
    assert swept.runs == ["counting/run-0"]
    assert swept.kept["counting/run-1"] == "'recounting' has not read what it wrote"
    here.whole(READING, "read-1")
    assert "counting/run-1" in sweep(here, "counting", Keep(runs=1)).runs


def test_the_code_and_the_second_copy_of_state_go_when_a_run_is_over(here: Here) -> None:
    plan = runs(here, COUNTING, 1)[0]
    folder = RunFolder("counting", "run-0")
    here.log.filesystem.put(f"{folder.code}/abc.zip", b"zip")
    states = list(here.root.glob("runs/counting/run-0/stages/*/*/state/**/*.arrow"))
    assert states
    swept = sweep(here, "counting")
    assert folder.code in swept.leftovers
    assert not [path for path in states if path.exists()]
    version = find_version(here.log.filesystem, StateHistory("counting"), 1)
    assert version is not None
    assert sweep(here, "counting").leftovers == []
    runs(here, COUNTING, 1, first=1)
    assert sorted(row["number"] for row in here.rows("numbered")) == sorted(n // 3 + 1 for n in range(12))
    assert plan.state is not None


def test_state_of_a_run_that_was_abandoned_half_way_goes(here: Here) -> None:
    runs(here, COUNTING, 2)
    orphan = here.root / StateHistory("counting").version_files(1)
    version = here.root / StateHistory("counting").version(1)
    version.unlink()  # a process died between the version and its files
    assert orphan.is_dir()
    assert f"{StateHistory('counting').version_files(1)}" in sweep(here, "counting").leftovers
    assert not orphan.exists()


def test_nothing_is_deleted_by_a_dry_sweep_and_the_same_is_named(here: Here) -> None:
    runs(here, PRODUCING, 8)
    before = sorted(str(path) for path in here.root.rglob("*"))
    told = sweep_root(here.log.filesystem, [here.log], here.runtime.upkeep.systems_of, FEW, dry=True)
    assert sorted(str(path) for path in here.root.rglob("*")) == before
    done = sweep_root(here.log.filesystem, [here.log], here.runtime.upkeep.systems_of, FEW)
    assert (told.runs.runs, told.runs.topics) == (done.runs.runs, done.runs.topics)
    assert done.runs.runs == [f"producing/run-{n}" for n in range(3)]


def test_a_sweep_that_has_no_time_left_leaves_the_rest_to_the_next_one(here: Here) -> None:
    runs(here, PRODUCING, 8)
    assert sweep(here, "producing", seconds=0.0).runs == []
    assert sweep(here, "producing").runs == [f"producing/run-{n}" for n in range(3)]


def test_what_dead_writers_left_half_written_goes_after_a_week(here: Here) -> None:
    runs(here, PRODUCING, 1)
    left = here.root / "runs/producing/run-0/stages/.tmp-dead"
    left.write_bytes(b"half")
    sweep_root(here.log.filesystem, [here.log], here.runtime.upkeep.systems_of, FEW)
    assert left.exists()
    os.utime(left, (0, 0))
    later = time.time() + 8 * 86400
    sweep_root(here.log.filesystem, [here.log], here.runtime.upkeep.systems_of, FEW, now=later)
    assert not left.exists()
    files = LookedAt(here.root)
    sweep_root(files, [here.log], here.runtime.upkeep.systems_of, FEW, now=later)
    assert files.below("runs/producing") == ["run-0/closed.json", "run-0/slimmed.json"]


def test_topics_of_a_run_that_was_never_planned_to_its_end_go_after_a_week(here: Here) -> None:
    plan = runs(here, PRODUCING, 1)[0]
    clicks(here, 1)
    lost = here.plan(PRODUCING, "run-1")
    here.log.filesystem.delete_tree(RunFolder("producing", "run-1").path)
    own = [name for name in here.log.topics() if "run-1" in name]
    assert own
    sweep_root(here.log.filesystem, [here.log], here.runtime.upkeep.systems_of, FEW)
    assert set(own) <= set(here.log.topics())
    sweep_root(here.log.filesystem, [here.log], here.runtime.upkeep.systems_of, FEW, now=time.time() + 8 * 86400)
    assert not set(own) & set(here.log.topics())
    assert plan.run_id != lost.run_id


def test_topics_of_a_run_that_is_open_stay_however_long_it_takes(here: Here) -> None:
    clicks(here, 0)
    here.plan(PRODUCING, "open")
    own = [name for name in here.log.topics() if "open" in name]
    assert own
    sweep_root(here.log.filesystem, [here.log], here.runtime.upkeep.systems_of, FEW, now=time.time() + 8 * 86400)
    assert set(own) <= set(here.log.topics())


def test_a_topic_that_is_gone_already_keeps_no_other_one(here: Here) -> None:
    clicks(here, 0)
    plan = here.plan(f"{APPS}:meeting", "run-0")
    here.stages(plan)
    own = sorted(name for name in here.log.topics() if name.startswith("meeting-"))
    assert len(own) == 4
    first = here.log.topic(own_topics(here.log.filesystem, plan)[0][1])
    here.log.filesystem.delete_tree(first.directory)
    here.runtime.close(plan, keep_seconds=-1.0)
    sweep(here, "meeting", Keep(runs=100))
    assert [name for name in here.log.topics() if name.startswith("meeting-")] == []
    assert on_record(here, "meeting") == ["run-0"]


def test_a_topic_is_open_as_long_as_its_run_or_a_process_of_it(here: Here) -> None:
    plan = runs(here, SUMMING.replace("summing", "producing"), 1)[0]
    files, folder = here.log.filesystem, RunFolder(plan.application, plan.run_id)
    (own,) = (name for _, name in own_topics(files, plan))
    assert OpenTopics(files).open_run("clicks") is None
    assert OpenTopics(files).open_run(own) is None
    for number, started in ((1, 1.0), (2, identity()["started"]), (3, 1.0)):  # two are not there any more
        runner = RunnerFolder(folder, "key", number)
        write_once(files, runner.claim, Claim(**{**identity(), "started": started}, claimed_at=1.0))
        replace(files, runner.heartbeat, Heartbeat(time.time() + 1e6))
    assert OpenTopics(files).open_run(own) == folder
    assert not OpenTopics(files).holds(own)
    files.delete(folder.closed)
    assert OpenTopics(files).holds(own)


class Killed(BaseException):
    """Stands for a process that is killed."""


@pytest.mark.parametrize("stride", extended_but([18], [18, 9, 3]))
def test_a_sweep_that_is_killed_anywhere_shows_nobody_a_half_and_the_next_one_finishes(
    here: Here, tmp_path: Path, stride: int
) -> None:
    runs(here, PRODUCING, 8)
    whole = tmp_path.with_name(f"{tmp_path.name}-whole")
    shutil.copytree(tmp_path, whole)
    clean = Here(tmp_path.with_name(f"{tmp_path.name}-clean"))
    shutil.copytree(whole, clean.root)
    sweep(clean, "producing")
    wanted = (on_record(clean, "producing"), clean.log.topics(), clean.log.filesystem.list("trash"))

    def killed(operation: str, path: str) -> None:
        raise Killed

    counted = FaultyFilesystem(here.root)
    sweep_application(counted, here.runtime.upkeep.systems_of, "producing", FEW)
    steps = len(counted.operations)
    assert steps > 20
    for at in range(1, steps + 1, stride):
        shutil.rmtree(here.root)
        shutil.copytree(whole, here.root)
        faulty = FaultyFilesystem(here.root, at, killed)

        def systems_of(plan: RunPlan, faulty: FaultyFilesystem = faulty) -> dict[str, LogSystem]:
            return {name: LogSystem(name, SystemBinding("log"), filesystem=faulty) for name in ("log", *plan.systems)}

        with contextlib.suppress(Killed):
            sweep_application(faulty, systems_of, "producing", FEW)
        for run_id in on_record(here, "producing"):  # whoever is on record is whole
            plan = here.runtime.load_plan("producing", run_id)
            assert all(read(here.log.filesystem, handle.folder.result, StageResult) for handle in _handles(plan))
        for name in here.log.topics():
            here.log.metadata([StreamSpec(name)])
        sweep_application(here.log.filesystem, here.runtime.upkeep.systems_of, "producing", FEW, now=time.time() + 700)
        assert (on_record(here, "producing"), here.log.topics(), here.log.filesystem.list("trash")) == wanted, (
            f"killed at step {at}"
        )


@pytest.mark.parametrize("stride", [*extended_but([36], [36, 12]), pytest.param(1, marks=pytest.mark.nightly)])
@pytest.mark.extended
def test_where_folders_are_not_renamed_a_sweep_that_is_killed_anywhere_shows_nobody_a_half_either(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stride: int
) -> None:
    runs(here, PRODUCING, 8)
    whole = tmp_path.with_name(f"{tmp_path.name}-whole")
    shutil.copytree(tmp_path, whole)

    def killed(operation: str, path: str) -> None:
        raise Killed

    def swept(files: FolderlessFilesystem) -> None:
        def systems_of(plan: RunPlan) -> dict[str, LogSystem]:
            return {name: LogSystem(name, SystemBinding("log"), filesystem=files) for name in ("log", *plan.systems)}

        sweep_application(files, systems_of, "producing", FEW)

    def what_is_there() -> tuple[list[str], list[str]]:
        known = [run.run_id for run in newest_runs(here.log.filesystem, "producing")]
        return known, here.log.topics()

    def files_left() -> list[str]:
        return sorted(str(p.relative_to(here.root)) for p in here.root.rglob("*.*") if p.name[0] != ".")

    counted = FolderlessFilesystem(here.root)
    swept(counted)
    wanted = what_is_there()
    steps, files = len(counted.operations), files_left()
    assert steps > 60
    for at in range(1, steps + 1, stride):
        shutil.rmtree(here.root)
        shutil.copytree(whole, here.root)
        with contextlib.suppress(Killed):
            swept(FolderlessFilesystem(here.root, at, killed, lasting=True))
        for run in newest_runs(here.log.filesystem, "producing"):  # whoever is on record is whole
            plan = here.runtime.load_plan("producing", run.run_id)
            assert all(read(here.log.filesystem, handle.folder.result, StageResult) for handle in _handles(plan))
        for name in here.log.topics():
            here.log.metadata([StreamSpec(name)])
        with monkeypatch.context() as later:
            for module in (maintenance, trash):
                later.setattr(module, "YOUNG_SECONDS", 0.0)
            swept(FolderlessFilesystem(here.root))
        assert what_is_there() == wanted, f"killed at step {at}"
        assert files_left() == files, f"killed at step {at}"


def _handles(plan: RunPlan) -> list[StageHandle]:
    return [StageHandle(plan.application, plan.run_id, stage.stage_id, Generation(1, 1)) for stage in plan.plan.stages]


@pytest.mark.extended
def test_the_id_of_a_run_that_is_not_kept_any_more_is_not_used_again_in_silence(here: Here) -> None:
    runs(here, PRODUCING, 8)
    sweep(here, "producing")
    with pytest.raises(UnknownName, match="has no plan"):
        here.runtime.load_plan("producing", "run-0")
    said = r"The run 'run-0' of 'producing' has written to the output 'shared-clicks' before \(generation 1\.1\)"
    with pytest.raises(TopicError, match=said):
        here.plan(PRODUCING, "run-0")
    here.whole(PRODUCING, "run-0", generation=2)


def test_a_run_that_is_opened_again_while_it_is_to_go_stays(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    runs(here, PRODUCING, 8)

    def opened_meanwhile(files: Filesystem, path: str, record: dict[str, object]) -> bool:
        here.log.filesystem.delete(RunFolder("producing", "run-0").closed)
        return write_once(files, path, record)

    monkeypatch.setattr(run_removal, "write_once", opened_meanwhile)
    swept = sweep(here, "producing")
    assert "producing/run-0" not in swept.runs
    assert not here.log.filesystem.exists(RunFolder("producing", "run-0").removing)
    assert read(here.log.filesystem, RunFolder("producing", "run-0").plan(1), RunPlan)


def test_a_run_that_is_damaged_stays_and_stops_no_other(here: Here) -> None:
    runs(here, PRODUCING, 9)
    (here.root / "runs/producing/run-1/plan/1.json").write_text("{")
    swept = sweep(here, "producing")
    assert swept.runs == ["producing/run-0", "producing/run-2", "producing/run-3"]
    assert swept.kept["producing/run-1"].startswith("it cannot be looked at: ")


def fill_disk(monkeypatch: pytest.MonkeyPatch, *, for_good: bool) -> None:
    """Leave no room for a file, for good or until something in the trash is deleted."""
    is_full = True

    def step(self: LocalFilesystem, operation: str, path: str) -> None:
        nonlocal is_full
        if operation == "delete" and path.startswith("trash/"):
            is_full = for_good
        if operation in ("create", "write") and is_full:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(LocalFilesystem, "step", step)


@pytest.mark.extended
def test_on_a_full_disk_topics_go_first_and_make_room_for_the_notes_of_runs_that_go(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(here, PRODUCING, 9)
    fill_disk(monkeypatch, for_good=False)
    swept = sweep(here, "producing")
    assert swept.runs == [f"producing/run-{n}" for n in range(4)]
    assert on_record(here, "producing") == [f"run-{n}" for n in range(4, 9)]
    assert not any(name.startswith("producing-") for name in here.log.topics())


@pytest.mark.extended
def test_a_run_whose_deletion_cannot_be_noted_on_a_full_disk_stays_without_its_topics_and_stops_no_other(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = runs(here, PRODUCING, 9)
    with monkeypatch.context() as patch:
        fill_disk(patch, for_good=True)
        swept = sweep(here, "producing")
    assert swept.runs == []
    place = here.root / "runs/producing/run-0/removing.json"
    assert swept.kept["producing/run-0"] == (
        f"not all of it can be deleted on a full disk: There is no room left to write {place}"
    )
    assert "producing/run-8" not in swept.kept
    assert not any(name.startswith("producing-") for name in here.log.topics())
    assert here.runtime.load_plan("producing", "run-0") == plans[0]
    assert sweep(here, "producing").runs == [f"producing/run-{n}" for n in range(4)]


@pytest.mark.extended
def test_on_a_full_disk_topics_of_a_run_that_is_open_stay(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    runs(here, PRODUCING, 9)
    here.log.filesystem.delete(RunFolder("producing", "run-0").closed)
    topics = [name for name in here.log.topics() if "/run-0/" in name]
    fill_disk(monkeypatch, for_good=True)
    later = time.time() + SILENT_SECONDS + 60  # the run is over, but whoever opens it again leaves no trace of that
    assert "producing/run-0" in sweep(here, "producing", now=later).kept
    assert topics
    assert set(topics) <= set(here.log.topics())


@pytest.mark.extended
def test_the_trash_stays_so_that_a_full_disk_needs_no_new_folder(here: Here) -> None:
    runs(here, PRODUCING, 1)
    sweep(here, "producing")
    assert (here.root / "trash").is_dir()
    runs(here, PRODUCING, 8, first=1)
    assert sweep(here, "producing").runs
    assert list((here.root / "trash").iterdir()) == []


@pytest.mark.extended
def test_the_end_of_a_run_never_fails_by_its_sweep(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    runs(here, PRODUCING, 8)
    told: list[str] = []
    here.runtime.upkeep.sweep_after("producing", FEW, told.append)
    assert told == ["Deleted what has expired of producing: 3 runs, 8 topics."]

    def full(*given: object, **more: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr("airflow_samza.launch.root_upkeep.sweep_application", full)
    here.runtime.upkeep.sweep_after("producing", FEW, told.append)
    assert (
        told[1] == "What has expired of producing could not be deleted, and stays for the next sweep: the disk is gone"
    )


PLANTED = {
    "the segments of a topic": "topics/clicks/segments",
    "the commits of a topic": "topics/clicks/commits",
    "a topic": "topics/planted",
    "a part of a topic's name": "topics/planted/deep",
    "a place in the trash": "trash/planted",
    "the trash": "trash",
    "an application": "runs/planted",
    "a run": "runs/count/planted",
    "a lineage": "state/planted",
    "a table": "tables/planted",
}


@pytest.mark.parametrize("where", PLANTED)
def test_a_sweep_deletes_nothing_behind_a_link_and_still_deletes_the_rest(
    here: Here, tmp_path_factory: pytest.TempPathFactory, where: str
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    for name in ("diary.txt", "a.arrow", ".tmp-a", "commits/a.json", "deep/x/topic.json"):
        (outside / name).parent.mkdir(parents=True, exist_ok=True)
        (outside / name).write_text("mine")
        os.utime(outside / name, (0, 0))
    clicks(here, 0)
    here.log.append("gone", pa.table({"n": [1]}), key=["n"], partitions=1)
    mark_expired(here.log.topic("gone"), 0)
    root = Path(here.log.filesystem.location("."))
    link = root / PLANTED[where]
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.is_dir():
        link.rename(tmp_path_factory.mktemp("x") / "former")
    link.symlink_to(outside)
    swept = sweep_root(
        here.log.filesystem, [here.log], here.runtime.upkeep.systems_of, Keep(), now=time.time() + 30 * 86400
    )
    assert sorted(path.name for path in outside.rglob("*") if path.is_file()) == sorted(
        ["diary.txt", "a.arrow", ".tmp-a", "a.json", "topic.json"]
    )
    assert swept.logs["log"].topics == ["gone"]
    assert (root / "topics/gone").exists() is False


def test_a_sweep_leaves_files_alone_that_are_no_segments(here: Here) -> None:
    clicks(here, 0)
    folder = Path(here.log.filesystem.location("topics/clicks/segments"))
    for name in ("diary.txt", "left.arrow"):
        (folder / name).write_text("")
        os.utime(folder / name, (0, 0))
    swept = sweep_root(here.log.filesystem, [here.log], here.runtime.upkeep.systems_of, Keep())
    assert swept.logs["log"].files == 1
    assert (folder / "diary.txt").exists()
    assert not (folder / "left.arrow").exists()


def test_a_pipe_among_the_commits_of_a_topic_is_named_and_hangs_no_sweep(here: Here) -> None:
    clicks(here, 0)
    os.mkfifo(here.log.filesystem.location("topics/clicks/commits/00000000000000000001.json"))
    swept = sweep_root(here.log.filesystem, [here.log], here.runtime.upkeep.systems_of, Keep())
    assert "is no regular file, and is not read" in swept.logs["log"].damaged["clicks"].sentence
