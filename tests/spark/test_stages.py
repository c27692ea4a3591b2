"""Stages on a real Spark, end to end."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

import pytest

from airflow_samza.errors import InvalidApplication, MessageError, StageCancelled, StageError, UnsupportedShape
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.failpoints import VARIABLE
from airflow_samza.runs.records.folders import RunFolder, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.stage_result import describe_result
from airflow_samza.runs.stages.stage_state import CANCELLED, RUNNING, newest_attempt
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from tests.spark.conftest import APPLICATION, APPS, VIEWS
from tests.support.waiting import until

if TYPE_CHECKING:
    from tests.spark.conftest import Lake

# The first stage waits for a Spark to start, which takes a minute where eight people share two cores.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def test_two_stages_give_what_the_test_driver_gives(lake: Lake) -> None:
    first = lake.runtime.run_stage(lake.run, "views")
    second = lake.runtime.run_stage(lake.run, "by-country")
    assert lake.rows("per-country") == lake.driven("per-country")
    assert first.inputs[0].messages == len(VIEWS)
    assert (
        first.outputs[0].messages == second.inputs[0].messages == 2 * 2
    )  # partial results: of two tasks for two countries each
    assert first.outputs[0].unit == second.inputs[0].unit == "partial results"
    assert first.outputs[0].control == 2 * 2  # two tasks, each to both partitions
    assert second.inputs[0].control == 4
    assert "sent" in describe_result(first)[2]
    assert "wrote" in describe_result(second)[2]


def test_submitting_again_runs_nothing_again(lake: Lake) -> None:
    handle = lake.runtime.submit(lake.run, "views")
    lake.runtime.wait(handle)
    result = lake.runtime.finish(handle)
    again = lake.runtime.submit(lake.run, "views")
    assert again == handle
    assert lake.runtime.finish(again) == result
    assert newest_attempt(open_filesystem(str(lake.folder / "root")), handle.folder) == 1


def test_a_newer_generation_supersedes_the_former_output(lake: Lake) -> None:
    lake.runtime.run_stage(lake.run, "views")
    before = lake.runtime.run_stage(lake.run, "by-country")
    rows = lake.rows("per-country")
    after = lake.runtime.run_stage(lake.run, "by-country", generation=2)
    assert (before.generation, after.generation) == ("1.1", "1.2")
    assert lake.rows("per-country") == rows
    with pytest.raises(StageError, match=r"superseded by 1\.2"):
        lake.runtime.submit(lake.run, "by-country", generation=1)


def test_a_reader_binds_to_its_writers_newest_generation(lake: Lake) -> None:
    lake.runtime.run_stage(lake.run, "views")
    lake.runtime.run_stage(lake.run, "views", generation=2)
    result = lake.runtime.run_stage(lake.run, "by-country", generation=3)
    assert result.inputs[0].stream.endswith("/1.2")


def test_cancel_cancels_one_stage_and_no_other(lake: Lake) -> None:
    waiting = lake.runtime.submit(lake.run, "for-waiting")
    until(lake.entered.exists)
    lake.runtime.run_stage(lake.run, "for-sql", generation=2)
    assert lake.runtime.status(waiting).state == RUNNING
    lake.runtime.cancel(waiting)
    assert lake.runtime.wait(waiting).state == CANCELLED
    with pytest.raises(StageCancelled, match="was cancelled"):
        lake.runtime.finish(waiting)
    lake.flag.touch()
    assert lake.runtime.run_stage(lake.run, "for-waiting").outputs[0].messages == 1
    assert len(lake.rows("waited")) == 1


def test_an_error_of_a_callable_reaches_the_caller_with_file_and_line(lake: Lake) -> None:
    with pytest.raises(MessageError, match="no thirteen") as caught:
        lake.runtime.run_stage(lake.run, "for-error")
    source = (APPS / "samza_spark_apps" / "views.py").read_text().splitlines()
    assert caught.value.facts["file"] == str(APPS / "samza_spark_apps" / "views.py")
    assert "no thirteen" in source[int(str(caught.value.facts["line"])) - 1]
    assert "member_id=13" in str(caught.value)
    assert "java" not in str(caught.value)


def test_sql_outside_the_subset_runs_in_catalyst(lake: Lake) -> None:
    result = lake.runtime.run_stage(lake.run, "for-sql", generation=2)
    wanted = [
        {"country": view["country"], "next": view["member_id"] + 1, "shown": view["country"].replace("n", "N")}
        for view in VIEWS
        if view["country"] in ("nl", "de") and view["member_id"] % 2 == 1
    ]
    assert lake.rows("by-sql") == sorted(wanted, key=repr)
    assert result.inputs[0].messages == len(VIEWS)


def test_a_condition_that_is_never_true_still_ends_the_stream(lake: Lake) -> None:
    first = lake.runtime.run_stage(lake.run, "for-nothing")
    assert first.inputs[0].messages == len(VIEWS)
    assert first.outputs[0].control == 4
    assert lake.runtime.run_stage(lake.run, "nothing").outputs[0].messages == 0


def test_a_transform_runs_between_two_sections(lake: Lake) -> None:
    lake.runtime.run_stage(lake.run, "for-transform")
    lake.runtime.run_stage(lake.run, "by-initial")
    long = [view["country"][0] for view in VIEWS if view["dwell_ms"] > 1000]
    assert lake.rows("per-initial") == [
        {"initial": initial, "views": long.count(initial)} for initial in sorted(set(long))
    ]


def test_a_shuffle_in_a_transform_is_rejected_with_the_partition_by(lake: Lake) -> None:
    with pytest.raises(
        (UnsupportedShape, InvalidApplication), match=r"transform 'counted'.*moves rows between partitions"
    ) as caught:
        lake.runtime.run_stage(lake.run, "for-wide")
    assert "partition_by('country', id=…)" in caught.value.hint


def test_a_stage_before_its_upstream_is_rejected(lake: Lake) -> None:
    second = lake.runtime.prepare(RunRequest(APPLICATION, "run 1", generation=2, reuse=False))
    with pytest.raises(StageError, match="which the stage 'views' has not finished in this run") as caught:
        lake.runtime.run_stage(second, "by-country")
    assert "clear 'by-country' with its upstream" in caught.value.hint


def test_a_topic_without_end_of_stream_does_not_complete_a_stage(lake: Lake) -> None:
    third = lake.runtime.prepare(RunRequest(APPLICATION, "run 1", generation=3, reuse=False))
    log = LogSystem("log", SystemBinding("log", {"root": str(lake.folder / "root")}))
    topic = third.intermediate("by-country", Generation(3, 1)).spec.name
    import pyarrow as pa

    log.append(topic, pa.table({"country": ["NL"], "views": [1], "dwell": [2000]}), key=["country"])
    done = lake.runtime.run_stage(lake.run, "views", generation=2)
    files = open_filesystem(str(lake.folder / "root"))
    folder = RunFolder("spark-views", "run 1").stage("views", Generation(3, 1))
    write_once(
        files, folder.result, dataclasses.replace(done, generation="3.1")
    )  # as if the writer had ended without saying so in band
    with pytest.raises(StageError, match="has no end-of-stream"):
        lake.runtime.run_stage(third, "by-country")


def test_a_worker_that_dies_after_its_manifest_doubles_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.runtime.close(lake.run, wait_seconds=120)  # so that the next runner inherits the failpoint
    died = lake.folder / "worker-died"
    monkeypatch.setenv(VARIABLE, f"task-after-manifest@{died}")
    result = lake.runtime.run_stage(lake.run, "for-nothing", generation=2)
    assert died.exists()
    assert result.inputs[0].messages == len(VIEWS)
    assert result.outputs[0].control == 4


@pytest.mark.extended
def test_the_runner_ends_when_the_run_is_closed_and_its_topics_are_marked(lake: Lake) -> None:
    run = lake.runtime.prepare(RunRequest(APPLICATION, "run 4"))
    lake.runtime.run_stage(run, "views")
    assert len(lake.runtime.live_runners(run)) == 1
    marked = lake.runtime.close(run, wait_seconds=120)
    assert lake.runtime.live_runners(run) == []
    assert any(re.fullmatch(r"spark-views-1-by-country/run-4-[0-9a-f]{6}/1\.1", topic) for topic in marked)
