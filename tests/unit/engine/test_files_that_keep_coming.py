"""Runs over files that keep coming: each reads what is new since the one before, exactly once. No Spark."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from airflow_samza.application.declarations.streams import declared_stream
from airflow_samza.application.descriptors import StreamRole
from airflow_samza.cli.app import app as command_line
from airflow_samza.errors import ConfigError, StateError, TopicError
from airflow_samza.prepare.carried_state import carried_slice
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.state_upkeep import abandon, reset
from airflow_samza.systems.files import slicing
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import Publication, StreamSpec
from tests.support import file_apps
from tests.support.file_lake import APPLICATION, COPIES, STOPPING, Lake, expected, names


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    file_apps.OPTIONS.clear()
    yield Lake(tmp_path)
    file_apps.OPTIONS.clear()


def test_each_run_reads_the_files_that_are_new_and_goes_on_from_the_state(lake: Lake) -> None:
    lake.file("c.json", 0)
    lake.file("a.json", 3)
    assert lake.whole("run-1") == ["c.json", "a.json"]  # in the order of their times
    lake.file("day=2/b.json", 6)
    assert lake.whole("run-2") == ["b.json"]
    assert lake.whole("run-3") == []
    lake.file("d.json", 9)
    assert lake.whole("run-4") == ["d.json"]
    assert lake.numbered() == expected(12)


def test_a_retried_stage_reads_the_same_files_even_if_new_ones_came(lake: Lake) -> None:
    lake.file("a.json", 0)
    plan = lake.plan("run-1")
    lake.file("b.json", 3)
    lake.stages(plan)
    lake.stages(plan, generation=2)
    assert lake.numbered() == expected(3)
    lake.runtime.close(plan)
    lake.whole("run-2")
    assert lake.numbered() == expected(6)


def test_a_run_that_is_planned_anew_reads_its_files_again_and_those_that_came(lake: Lake) -> None:
    lake.file("a.json", 0)
    lake.whole("run-1")
    lake.file("b.json", 3)
    lake.whole("run-2")
    lake.file("c.json", 6)
    assert lake.whole("run-2", generation=2) == ["b.json", "c.json"]
    assert lake.numbered() == expected(9)


def test_the_files_of_a_run_that_was_given_up_are_read_by_the_next(lake: Lake) -> None:
    lake.file("a.json", 0)
    lake.plan("run-1")
    abandon(lake.here.log.filesystem, StateHistory(APPLICATION), "run-1", force=True)
    lake.file("b.json", 3)
    assert lake.whole("run-2") == ["a.json", "b.json"]
    assert lake.numbered() == expected(6)


def test_a_reset_brings_the_record_of_files_back(lake: Lake) -> None:
    lake.file("a.json", 0)
    lake.whole("run-1")
    lake.file("b.json", 3)
    lake.whole("run-2")
    reset(lake.here.log.filesystem, StateHistory(APPLICATION), 1)
    assert lake.whole("run-3") == ["b.json"]
    reset(lake.here.log.filesystem, StateHistory(APPLICATION), 0)
    assert lake.whole("run-4") == ["a.json", "b.json"]


def test_a_backfill_reads_by_a_record_of_its_own(lake: Lake) -> None:
    lake.file("a.json", 0)
    lake.whole("run-1")
    lake.file("b.json", 3)
    assert lake.whole("fresh", state_from="fresh") == ["a.json", "b.json"]
    assert lake.whole("from", state_from="run-1") == ["b.json"]
    assert lake.whole("run-2") == ["b.json"]


def test_two_applications_have_a_record_each(lake: Lake) -> None:
    lake.file("a.json", 0)
    lake.whole("run-1")
    lake.file("b.json", 3)
    assert lake.whole("run-1", COPIES) == ["a.json", "b.json"]
    assert lake.whole("run-2") == ["b.json"]
    assert lake.copied() == sorted([*range(6), *range(6)])


def test_the_first_run_may_leave_out_what_is_there(lake: Lake) -> None:
    lake.file("a.json", 0)
    assert lake.whole("run-1", config={"streams.views.samza.offset.default": "upcoming"}) == []
    lake.file("b.json", 3)
    assert lake.whole("run-2") == ["b.json"]


def test_epochs_of_few_messages_read_every_row_once(lake: Lake) -> None:
    for number in range(10):
        lake.file(f"{number}.json", number * 30, 30)
    lake.whole("run-1", config={"job.epoch.max.messages": "7"})
    assert lake.numbered() == expected(300)


def test_every_stage_that_reads_the_files_reads_each_once(lake: Lake) -> None:
    for run in range(3):
        for number in range(4):
            lake.file(f"{run}-{number}.json", run * 20 + number * 5, 5)
        lake.whole(f"run-{run}", COPIES)
        assert lake.copied() == sorted([*range((run + 1) * 20)] * 2)


@pytest.mark.parametrize("mode", ["staged", "continuous"])
def test_files_that_a_task_left_unread_are_read_by_the_next_run(
    lake: Lake, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slicing, "CHUNK_BYTES", 40)  # two files in each
    monkeypatch.setattr(file_apps, "STOPS_AT", [4])
    for number in range(6):
        lake.file(f"{number}.json", number * 3)
    assert len(lake.whole("run-1", STOPPING, mode=mode)) == 6
    assert lake.copied() == [0, 1, 2, 3, 4]
    monkeypatch.setattr(file_apps, "STOPS_AT", [])
    left = lake.whole("run-2", STOPPING)
    assert left[-4:] == ["2.json", "3.json", "4.json", "5.json"]
    assert set(lake.copied()) == set(range(18))
    assert lake.whole("run-3", STOPPING) == []


def test_rejects_a_file_that_was_written_again_after_it_was_read(lake: Lake) -> None:
    lake.file("a.json", 0)
    lake.whole("run-1")
    lake.file("a.json", 3)
    with pytest.raises(
        StateError, match=r"a.json of stream 'views' was written again .* its content or its time has changed"
    ):
        lake.plan("run-2")
    file_apps.OPTIONS["on_rewrite"] = "ignore"
    assert lake.whole("run-2") == []
    assert lake.whole("run-3") == []
    file_apps.OPTIONS["on_rewrite"] = "read"
    lake.file("a.json", 3, 6)
    assert lake.whole("run-4") == ["a.json"]
    assert [n for n, _ in lake.numbered()] == list(range(9))


def test_rejects_output_that_took_the_place_of_what_was_read(lake: Lake) -> None:
    writer = FilesSystem("lake", lake.bindings["lake"])
    out = StreamSpec("out", 1, file_apps.VIEW, format="json", path="in", written=True)

    def publish(first: int, run: str, generation: str) -> None:
        producer = writer.producer(out, f"{run}-{generation}")
        producer.write(0, pa.record_batch({"member": pa.array([first % 3]), "n": pa.array([first])}))
        writer.publish(out, Publication(f"app/{run}/stage", generation, 0, {0: producer.finish()}))

    publish(0, "monday", "1.1")
    assert len(lake.whole("run-1", COPIES)) == 1
    publish(1, "tuesday", "1.1")  # another run adds its files
    assert len(lake.whole("run-2", COPIES)) == 1
    publish(0, "monday", "1.2")  # its stage was cleared
    with pytest.raises(
        StateError,
        match="takes the place of what an earlier generation of its writer, or an earlier run for the same interval, had written",
    ):
        lake.plan("run-3", COPIES)
    file_apps.OPTIONS["on_rewrite"] = "ignore"
    assert lake.whole("run-4", COPIES) == []
    assert lake.copied() == [0, 0, 1, 1]


def test_a_file_that_is_removed_after_it_was_read_changes_nothing(lake: Lake) -> None:
    path = lake.file("a.json", 0)
    lake.whole("run-1")
    kept = path.read_bytes(), path.stat().st_mtime
    path.unlink()
    assert lake.whole("run-2") == []
    path.write_bytes(kept[0])
    os.utime(path, (kept[1], kept[1]))
    assert lake.whole("run-3") == []  # it is the one that was read


def test_rejects_a_file_that_is_rewritten_between_plan_and_read(lake: Lake) -> None:
    lake.file("a.json", 0)
    plan = lake.plan("run-1")
    lake.file("a.json", 0, 4)
    with pytest.raises(TopicError, match=r"a.json of stream 'views' changed since the plan: it has \d+ bytes"):
        lake.stages(plan)


def test_a_file_is_left_alone_until_it_is_old_enough(lake: Lake) -> None:
    file_apps.OPTIONS["min_age"] = "1 hour"
    lake.file("new.json", 0, at=int(time.time()) - 60)
    lake.file("ahead.json", 0, at=int(time.time()) + 600)
    lake.file("old.json", 3, at=int(time.time()) - 7200)
    assert lake.whole("run-1") == ["old.json"]
    os.utime(lake.folder / "new.json", (time.time() - 3700,) * 2)
    assert lake.whole("run-2") == ["new.json"]


def test_a_file_is_left_alone_until_its_folder_is_marked(lake: Lake) -> None:
    file_apps.OPTIONS["marker"] = "_SUCCESS"
    lake.file("day=1/x=1/a.json", 0)
    lake.file("day=2/b.json", 3)
    (lake.folder / "day=1" / "_SUCCESS").touch()
    assert lake.whole("run-1") == ["a.json"]
    (lake.folder / "_SUCCESS").touch()
    assert lake.whole("run-2") == ["b.json"]


def test_a_file_is_left_alone_until_a_marker_lies_beside_it(lake: Lake) -> None:
    file_apps.OPTIONS["marker"] = "*.done"
    lake.file("a.json", 0)
    lake.file("b.json", 3)
    (lake.folder / "a.json.done").touch()
    assert lake.whole("run-1") == ["a.json"]
    (lake.folder / "b.json.done").touch()
    assert lake.whole("run-2") == ["b.json"]


def test_a_run_takes_no_more_files_than_asked_for(lake: Lake) -> None:
    file_apps.OPTIONS["max_files"] = 2
    for number in range(5):
        lake.file(f"{9 - number}.json", number * 3)
    assert lake.whole("run-1") == ["9.json", "8.json"]
    assert lake.whole("run-2") == ["7.json", "6.json"]
    assert lake.whole("run-3") == ["5.json"]
    assert lake.numbered() == expected(15)


def test_files_may_be_read_in_the_order_of_their_names(lake: Lake) -> None:
    file_apps.OPTIONS["order"] = "name"
    lake.file("b.json", 0)
    lake.file("a.json", 3)
    assert lake.whole("run-1") == ["a.json", "b.json"]
    file_apps.OPTIONS["order"] = "time"
    with pytest.raises(StateError, match="were read in the order of their names before"):
        lake.plan("run-2")


def test_what_comes_too_late_is_left_and_said(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    file_apps.OPTIONS["remember"] = 2
    for number in range(5):
        lake.file(f"{number}.json", number * 3)
    assert len(lake.whole("run-1")) == 5
    assert lake.whole("run-2") == []
    assert "too late" not in caplog.text
    lake.file("late.json", 15, at=1_600_000_000)
    plan = lake.plan("run-3")
    assert names(plan) == []
    assert "1 file(s) came too late and stay unread" in caplog.text
    assert "1 too late, and unread" in " ".join(note for notes in plan.notes.values() for note in notes.values())
    lake.stages(plan)
    lake.runtime.close(plan)
    caplog.clear()
    assert lake.whole("run-4") == []
    assert "too late" not in caplog.text  # said once


def test_the_command_line_shows_what_was_read(lake: Lake) -> None:
    file_apps.OPTIONS["remember"] = 2
    for number in range(3):
        lake.file(f"{number}.json", number * 3)
    lake.whole("run-1")

    def shown(command: str) -> list[str]:
        done = CliRunner().invoke(command_line, ["state", command, APPLICATION, "--root", str(lake.here.root)])
        assert done.exit_code == 0, done.output
        return done.stdout.splitlines()

    assert "views 3 files" in shown("show")[1]
    heading, *files, total = shown("files")
    assert heading.split() == ["INPUT", "FILE", "BYTES", "CHANGED", "(UTC)"]
    assert [line.split()[:2] for line in files] == [["views", "in/1.json"], ["views", "in/2.json"]]
    assert total.endswith("were read; files up to in/0.json in the order of times count as read.")


def test_rejects_a_checkpoint_where_neither_offsets_nor_files_are_counted() -> None:
    stream = declared_stream("views", StreamRole.INPUT, slice="checkpoint")
    with pytest.raises(ConfigError, match="its system counts no offsets, so nobody knows what is new"):
        carried_slice(stream, {"offsets": None}, None, {})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"order": "size"}, "Option 'order' of stream 'views' is 'size', which is not known"),
        ({"min_age": "-5 minutes"}, "Option 'min_age' of stream 'views' is '-5 minutes', which is no length of time"),
        (
            {"min_age": "1 day", "marker": "_OK"},
            "'views' has the options min_age and marker, and each of them alone says",
        ),
        ({"marker": "a/b"}, "Option 'marker' of stream 'views' is 'a/b', which names no file"),
        ({"remember": 0}, "Option 'remember' of stream 'views' is '0', which is no number of files"),
        ({"on_rewrites": "read"}, "Stream 'views' has the unknown option 'on_rewrites'"),
    ],
)
def test_rejects_options_that_mean_nothing(lake: Lake, options: dict[str, object], sentence: str) -> None:
    lake.file("a.json", 0)
    file_apps.OPTIONS.update(options)
    with pytest.raises(ConfigError, match=sentence):
        lake.plan("run-1")
