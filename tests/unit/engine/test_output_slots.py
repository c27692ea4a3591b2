"""Slots of outputs, from run to run: what a run writes for its interval takes the place of what an earlier one wrote."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_samza.errors import ConfigError, InvalidApplication, StateError, TopicError
from airflow_samza.runs.failpoints import VARIABLE
from airflow_samza.runs.progress.clear_preview import clear_preview
from airflow_samza.runs.upkeep.keep import Keep
from airflow_samza.runs.upkeep.retention import sweep_application
from airflow_samza.systems.files.fsck import fsck_output
from airflow_samza.systems.files.location import open_location
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.system import SystemBinding
from tests.support import slot_apps
from tests.support.budgets import extended_but
from tests.support.runs_here import Here
from tests.support.slot_runs import DELTA, FILES, LOG, OTHERS, TABLE, Outputs, days, notes

APPS = "tests.support.slot_apps"
everywhere = pytest.mark.parametrize("application", extended_but([FILES, TABLE], [FILES, LOG, TABLE, DELTA]))


@pytest.fixture
def outputs(tmp_path: Path) -> Iterator[Outputs]:
    yield Outputs(tmp_path)
    slot_apps.OUTPUT.clear()


@everywhere
def test_another_run_of_an_interval_replaces_what_the_former_one_wrote(outputs: Outputs, application: str) -> None:
    outputs.day(1, 1, 2)
    outputs.run(application, "scheduled", 1)
    outputs.day(2, 3)
    outputs.run(application, "scheduled-2", 2)
    outputs.day(1, 1, 2, 9)
    assert notes(outputs.run(application, "by-hand", 1)) == (
        "replaces what the run 'scheduled' wrote for the data interval "
        "[2013-01-01T00:00:00+00:00, 2013-01-02T00:00:00+00:00)"
    )
    assert outputs.rows(application) == [1, 2, 3, 9]
    if application == FILES:
        assert outputs.found_by_others() == [1, 2, 3, 9]


@everywhere
def test_a_plan_says_nothing_of_a_slot_that_nobody_has_written(outputs: Outputs, application: str) -> None:
    outputs.day(1, 1)
    assert notes(outputs.plan(application, "scheduled", 1)) == ""
    outputs.run(application, "scheduled", 1)
    again = outputs.plan(application, "scheduled", 1, generation=2)
    assert notes(again) == ""  # its own


@everywhere
def test_a_preview_says_what_a_run_would_replace(outputs: Outputs, application: str) -> None:
    from airflow_samza.prepare.run_request import RunRequest

    outputs.day(1, 1)
    outputs.run(application, "scheduled", 1)
    found = outputs.here.runtime.preview(RunRequest(application, "preview", interval=days(1)))
    assert "replaces what the run 'scheduled' wrote" in notes(found)


@everywhere
def test_the_files_of_another_application_are_rejected_by_the_plan(outputs: Outputs, application: str) -> None:
    outputs.day(1, 1)
    outputs.day(2, 2)
    outputs.run(OTHERS[application], "theirs", 1)
    said = r"The output 'out' of stream 'out' holds what the run 'theirs' of the application 'others(-log|-table|-delta)?' wrote for"
    with pytest.raises(TopicError, match=said) as caught:
        outputs.plan(application, "ours", 1)
    assert 'mode="append"' in caught.value.hint
    assert caught.value.facts["run"] == "theirs"
    outputs.run(application, "ours", 2)
    assert outputs.rows(application) == [1, 2]
    slot_apps.OUTPUT["mode"] = "append"
    outputs.run(application, "beside", 1)
    assert outputs.rows(application) == [1, 1, 2]


@everywhere
def test_overlapping_intervals_are_rejected_by_the_plan(outputs: Outputs, application: str) -> None:
    outputs.day(1, 1)
    outputs.day(2, 2)
    outputs.run(application, "two-days", interval=days(1, 2))
    with pytest.raises(
        TopicError, match=r"the run 'two-days' wrote for the data interval .*, which overlaps"
    ) as caught:
        outputs.plan(application, "second", 2)
    assert "{ds}" in caught.value.hint
    outputs.day(3, 3)
    outputs.run(application, "third", 3)
    assert outputs.rows(application) == [1, 3]


@everywhere
def test_a_run_that_was_planned_before_the_other_one_published_is_rejected_when_it_publishes(
    outputs: Outputs, application: str
) -> None:
    outputs.day(1, 1)
    planned = outputs.plan(application, "ours", 1)
    outputs.run(OTHERS[application], "theirs", 1)
    with pytest.raises(TopicError, match="the run 'theirs' of the application"):
        outputs.here.stages(planned)
    assert outputs.rows(application) == [1]


@everywhere
@pytest.mark.parametrize("way", ["parameter", "option"])
@pytest.mark.few(1)
def test_an_output_with_mode_append_adds_and_the_plan_says_so(outputs: Outputs, application: str, way: str) -> None:
    slot_apps.OUTPUT.update({"mode": "append"} if way == "parameter" else {"options": {"mode": "append"}})
    outputs.day(1, 1)
    outputs.run(application, "scheduled", 1)
    told = notes(outputs.run(application, "by-hand", 1))
    assert told.startswith('mode="append": adds to what is there')
    assert outputs.rows(application) == [1, 1]
    slot_apps.OUTPUT.clear()
    told = notes(outputs.run(application, "replacing", 1))
    assert "the runs 'by-hand', 'scheduled' wrote for it stays beside it" in told
    assert outputs.rows(application) == [1, 1, 1]
    outputs.run(application, "replacing-again", 1)
    assert outputs.rows(application) == [1, 1, 1]


@everywhere
def test_an_unknown_mode_is_rejected(outputs: Outputs, application: str) -> None:
    outputs.day(1, 1)
    slot_apps.OUTPUT["mode"] = "apend"
    with pytest.raises(ConfigError, match=r"The output 'out' has mode='apend', which is not known") as caught:
        outputs.plan(application, "scheduled", 1)
    assert caught.value.hint.startswith("Did you mean 'append'? The modes are replace, append")
    slot_apps.OUTPUT["options"] = {"mode": "append"}
    with pytest.raises(InvalidApplication, match=r"mode='apend', and the option mode='append'"):
        outputs.plan(application, "scheduled", 1)


def test_intervals_in_folders_of_their_own_are_replaced_there(outputs: Outputs) -> None:
    slot_apps.OUTPUT["path"] = "out/day={ds}"
    for day in (1, 2):
        outputs.day(day, day)
        outputs.run(FILES, f"scheduled-{day}", day)
    outputs.day(1, 7)
    outputs.run(FILES, "by-hand", 1)
    assert outputs.found_by_others("out/day=2013-01-01") == [7]
    assert outputs.rows(path="out") == [2, 7]


def test_runs_without_an_interval_add_their_files(outputs: Outputs) -> None:
    outputs.day(1, 1)
    for run_id in ("one", "two"):
        outputs.run(f"{APPS}:undated", run_id)
    assert outputs.rows() == [1, 1]
    outputs.run(f"{APPS}:undated", "three", 1)
    outputs.run(f"{APPS}:undated", "four", 1)
    assert outputs.rows() == [1, 1, 1]


def test_runs_that_go_on_from_each_others_state_add_their_files(outputs: Outputs) -> None:
    outputs.day(1, 1)
    plan = outputs.run(f"{APPS}:catching_up", "first", 1)
    assert plan.slot is None
    outputs.day(2, 2)
    outputs.run(f"{APPS}:catching_up", "second", 1)  # even of the same interval
    outputs.run(f"{APPS}:catching_up", "third", interval=days(1, 5))  # or of one that overlaps
    assert outputs.rows() == [1, 2]


def test_a_partition_key_is_a_slot(outputs: Outputs) -> None:
    outputs.day(1, 1)
    for run_id, key in (("nl", "nl"), ("be", "be")):
        outputs.run(f"{APPS}:undated", run_id, partition_key=key)
    assert outputs.rows() == [1, 1]
    outputs.day(1, 2)
    assert notes(outputs.run(f"{APPS}:undated", "nl-again", partition_key="nl")) == (
        "replaces what the run 'nl' wrote for the partition key 'nl'"
    )
    assert outputs.rows() == [1, 2]


@everywhere
def test_runs_with_another_configuration_of_the_application_stand_beside_each_other(
    outputs: Outputs, application: str
) -> None:
    outputs.day(1, 1)
    outputs.run(application, "nl", 1, config={"region": "nl"})
    told = notes(outputs.run(application, "be", 1, config={"region": "be"}))
    assert told == "what the run 'nl' wrote for it with another configuration stays beside it"
    assert outputs.rows(application) == [1, 1]
    outputs.day(1, 2)
    outputs.run(application, "nl-again", 1, config={"region": "nl", "job.epoch.max.ms": "5000"})
    assert outputs.rows(application) == [1, 2]


@everywhere
def test_a_run_that_was_replaced_replaces_in_turn_when_it_is_cleared(outputs: Outputs, application: str) -> None:
    outputs.day(1, 1)
    scheduled = outputs.run(application, "scheduled", 1)
    outputs.day(1, 2)
    outputs.run(application, "by-hand", 1)
    assert outputs.rows(application) == [2]
    outputs.day(1, 1)
    os.utime(outputs.lake / "in/2013-01-01.jsonl", ns=(0, scheduled.stream("rows").slice["files"][0]["mtime"]))  # type: ignore[index]
    outputs.here.stages(scheduled, generation=2)
    assert outputs.rows(application) == [1]
    told = notes(outputs.plan(application, "by-hand", 1, generation=2))
    assert "replaces what the run 'scheduled' wrote" in told


@everywhere
def test_the_preview_of_a_clear_names_the_run_that_would_be_replaced_in_turn(
    outputs: Outputs, application: str
) -> None:
    outputs.day(1, 1)
    plan = outputs.run(application, "scheduled", 1)
    files = open_filesystem(str(outputs.here.root))
    systems = outputs.here.runtime.upkeep.systems_of(plan)
    said = "In the stage rows, the run 'by-hand' has replaced what it wrote to out: the clear replaces that in turn."
    assert said not in clear_preview(files, systems, plan, ["rows"]).sentences
    outputs.run(application, "by-hand", 1)
    assert said in clear_preview(files, systems, plan, ["rows"]).sentences
    assert said in clear_preview(files, systems, plan, [], plan=True, downstream=True).sentences
    assert said not in clear_preview(files, systems, plan, []).sentences


def test_two_stages_of_a_run_share_its_slot(outputs: Outputs) -> None:
    outputs.day(1, 5, 5)
    first = outputs.run(f"{APPS}:counting", "scheduled", 1)
    assert outputs.rows() == [5, 5, 1002]
    outputs.day(1, 7)
    second = outputs.plan(f"{APPS}:counting", "by-hand", 1)
    stages = [stage.stage_id for stage in second.plan.stages]
    outputs.here.stages(second, stages[0])
    assert outputs.rows() == [7]  # of one run only
    outputs.here.stages(second, *stages[1:])
    assert outputs.rows() == [7, 1001]
    outputs.here.stages(second, stages[-1], generation=2)
    assert outputs.rows() == outputs.found_by_others() == [7, 1001]
    with pytest.raises(TopicError, match="the run 'by-hand' has replaced"):
        outputs.here.stages(first, stages[-1], generation=2)
    assert outputs.rows() == [7, 1001]
    outputs.day(1, 5, 5)
    outputs.run(f"{APPS}:counting", "scheduled", 1, generation=2)
    assert outputs.rows() == outputs.found_by_others() == [5, 5, 1002]


@everywhere
@pytest.mark.few(1)
def test_a_pipelined_run_replaces_too(outputs: Outputs, application: str) -> None:
    outputs.day(1, *range(10))
    outputs.run(application, "scheduled", 1)
    outputs.run(application, "pipelined", 1, mode="pipelined", config={"job.epoch.max.messages": "3"})
    assert outputs.rows(application) == list(range(10))
    outputs.day(1, 1)
    outputs.run(application, "staged", 1)
    assert outputs.rows(application) == [1]


@everywhere
def test_what_a_run_of_a_former_version_wrote_stays_and_the_plan_names_it(outputs: Outputs, application: str) -> None:
    outputs.day(1, 1)
    former = outputs.plan(application, "former", 1)
    record = outputs.here.root / f"runs/{former.application}/former/plan/1.json"
    known = json.loads(record.read_text())
    del known["slot"]  # as a version that knew none has planned it
    record.write_text(json.dumps(known))
    former = outputs.here.runtime.load_plan(former.application, "former")
    outputs.here.stages(former)
    outputs.here.runtime.close(former)
    assert notes(outputs.run(application, "now", 1)) == (
        "what the run 'former' wrote for it stays beside it: with mode=\"append\", or by a version that replaced nothing"
    )
    assert outputs.rows(application) == [1, 1]
    outputs.here.stages(former, generation=2)  # its clear is still its own
    assert outputs.rows(application) == [1, 1]
    outputs.run(application, "former", 1, generation=2, reuse=False)  # and with a new plan it has the slot
    assert outputs.rows(application) == [1]


EVERY_STEP = ("before-commit", "after-commit", "after-first-publish", "before-result", "after-result")


@pytest.mark.parametrize("place", extended_but(["after-first-publish"], EVERY_STEP))
@everywhere
@pytest.mark.few(1, 10)
def test_a_process_that_dies_while_it_replaces_is_rolled_forward(
    outputs: Outputs, application: str, place: str, tmp_path: Path
) -> None:
    outputs.day(1, 1)
    outputs.run(application, "scheduled", 1)
    outputs.day(1, 2)
    plan = outputs.plan(application, "by-hand", 1)
    environment = {
        **os.environ,
        VARIABLE: f"{place}@{tmp_path / 'struck'}",
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }
    program = (
        "import sys; from tests.support.runs_here import run_stage; from airflow_samza.launch.runtime import SparkRuntime;"
        "from airflow_samza.systems.system import SystemBinding;"
        "root, lake, tables, deltas, name = sys.argv[1:];"
        "plan = SparkRuntime(root).load_plan(name, 'by-hand');"
        "run_stage(root, plan, 'rows', 1, {'lake': SystemBinding('files', {'root': lake}),"
        "'tables': SystemBinding('iceberg', {'root': tables}),"
        "'deltas': SystemBinding('delta', {'root': deltas})})"
    )
    roots = [str(outputs.bindings[name].options["root"]) for name in ("lake", "tables", "deltas")]
    arguments = [sys.executable, "-c", program, str(outputs.here.root), *roots, plan.application]
    assert subprocess.run(arguments, env=environment, check=False).returncode == -9
    assert outputs.rows(application) in ([1], [2])
    outputs.here.stages(plan)
    assert outputs.rows(application) == [2]


@everywhere
def test_deleting_an_old_run_deletes_nothing_of_the_run_that_has_replaced_it(
    outputs: Outputs, application: str
) -> None:
    outputs.day(1, 1)
    old = outputs.run(application, "old", 1)
    outputs.day(1, 2)
    outputs.run(application, "new", 1)
    files = open_filesystem(str(outputs.here.root))
    systems_of = outputs.here.runtime.upkeep.systems_of
    swept = sweep_application(files, systems_of, old.application, Keep(runs=1, days=30))
    assert (swept.runs, swept.kept) == ([f"{old.application}/old"], {})
    assert outputs.rows(application) == [2]
    with pytest.raises(TopicError, match="has written to the output 'out' before"):
        outputs.plan(application, "old", 1)
    outputs.run(application, "newer", 1)
    assert outputs.rows(application) == [2]


@pytest.mark.parametrize(
    ("application", "mode"),
    [
        (FILES, "replace"),
        pytest.param(FILES, "append", marks=pytest.mark.extended),
        pytest.param(TABLE, "append", marks=pytest.mark.extended),
        (DELTA, "replace"),
        (LOG, "replace"),
        pytest.param(LOG, "append", marks=pytest.mark.extended),
    ],
)
def test_a_run_of_the_same_name_under_another_root_is_rejected_and_loses_no_rows_in_silence(
    outputs: Outputs, application: str, mode: str
) -> None:
    slot_apps.OUTPUT.update({"mode": mode} if mode == "append" else {})
    outputs.day(1, 1, 2)
    if application == LOG:  # of a root of its own, as streams are that applications share
        outputs.bindings["log"] = SystemBinding("log", {"root": str(outputs.here.root)})
    other = Here(outputs.lake.parent / "other", bindings=outputs.bindings)
    planned_before = other.plan(application, "scheduled", interval=days(1))
    plan = outputs.run(application, "scheduled", 1)
    said = "generation .* of .*/scheduled/.* has committed, .* under another root, whose identity is"
    with pytest.raises(TopicError, match=said):
        other.stages(planned_before)
    again = Here(outputs.lake.parent / "again", bindings=outputs.bindings)
    for generation in (1, 2):
        with pytest.raises(TopicError, match=said):
            again.plan(application, "scheduled", interval=days(1), generation=generation)
    assert outputs.rows(application) == [1, 2]
    outputs.here.stages(plan, generation=2)  # a clear of the stage
    assert outputs.rows(application) == [1, 2]
    outputs.day(1, 3)
    outputs.run(application, "scheduled", 1, generation=2)  # a clear of the plan
    assert outputs.rows(application) == [3]
    shutil.copy(outputs.here.root / "identity.json", again.root)
    again.whole(application, "scheduled", interval=days(1), generation=3)
    assert outputs.rows(application) == [3]


def test_fsck_finds_a_replaced_folder_sound(outputs: Outputs) -> None:
    outputs.day(1, 1)
    for run_id in ("one", "two", "three"):
        outputs.run(FILES, run_id, 1)
    assert list(fsck_output(open_location(str(outputs.lake / "out")))) == []


def test_a_reader_that_goes_on_by_offsets_names_the_run_that_replaced_what_it_has_read(outputs: Outputs) -> None:
    outputs.day(1, 1)
    outputs.run(LOG, "scheduled", 1)
    outputs.run(f"{APPS}:reading", "read-1")
    outputs.day(1, 2)
    outputs.run(LOG, "by-hand", 1)
    said = r"The run 'by-hand' of 'daily-log' has replaced another run's part of the input 'out' \(generation 1\.1\)"
    with pytest.raises(StateError, match=said) as caught:
        outputs.plan(f"{APPS}:reading", "read-2")
    assert "Clear the run that read it, 'read-1'" in caught.value.hint
    outputs.run(f"{APPS}:reading", "read-1", generation=2)
    outputs.run(f"{APPS}:reading", "read-2")
    assert sorted(row["n"] for row in outputs.here.rows("copied")) == [2]


def test_a_reader_of_sections_names_the_run_that_replaced_one_that_it_has_read(outputs: Outputs) -> None:
    outputs.day(1, 1)
    outputs.run(f"{APPS}:sharing", "scheduled", 1)
    outputs.run(f"{APPS}:taking", "take-1")
    outputs.day(1, 2)
    outputs.run(f"{APPS}:sharing", "by-hand", 1)
    said = "The run 'by-hand' of 'sharing' has replaced another run's section of the shared stream 'shared'"
    with pytest.raises(StateError, match=said) as caught:
        outputs.plan(f"{APPS}:taking", "take-2")
    assert "Clear the run that read it, 'take-1'" in caught.value.hint
    outputs.run(f"{APPS}:taking", "take-1", generation=2)
    outputs.run(f"{APPS}:taking", "take-2")
    assert [row["n"] for row in outputs.here.rows("taken")] == [2]
    with pytest.raises(TopicError, match="that the run 'scheduled' wrote is not there any more") as gone:
        outputs.plan(f"{APPS}:taking", "take-3", sections={"shared": "scheduled"})
    assert "name 'by-hand'" in gone.value.hint


def test_a_section_that_was_replaced_before_it_was_read_is_not_read(outputs: Outputs) -> None:
    for run_id, row in (("scheduled", 1), ("by-hand", 2)):
        outputs.day(1, row)
        outputs.run(f"{APPS}:sharing", run_id, 1)
    outputs.run(f"{APPS}:taking", "take-1")
    assert [row["n"] for row in outputs.here.rows("taken")] == [2]


@everywhere
def test_a_date_key_is_another_name_of_its_interval(outputs: Outputs, application: str) -> None:
    outputs.day(1, 1)
    outputs.day(2, 2)
    planned = outputs.run(application, "by-key", partition_key="2013-01-01")
    assert planned.interval == days(1).iso()
    outputs.run(application, "second", partition_key="2013-01-02")
    assert outputs.rows(application) == [1, 2]
    outputs.day(1, 3)
    assert "replaces what the run 'by-key' wrote for" in notes(
        outputs.run(application, "again", partition_key="2013-01-01")
    )
    assert outputs.rows(application) == [2, 3]
    outputs.day(1, 4)
    assert "replaces what the run 'again' wrote for" in notes(outputs.run(application, "scheduled", 1))
    assert outputs.rows(application) == [2, 4]
    with pytest.raises(TopicError, match=r"which overlaps the data interval \[2013-01-01.*, 2013-02-01"):
        outputs.plan(application, "month", partition_key="2013-01")
