"""Rule C8 by the code of the stage runner: an input that falls silent, in continuous and in scheduled runs. No Spark."""

from __future__ import annotations

import functools
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_state import StageHandle
from tests.support.runs_here import Here
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(240)

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
TIMEOUT = {"task.watermark.idle.timeout.ms": "300"}


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path / "root")


def speak(here: Here, stream: str, *minutes: int) -> None:
    at = pa.array([NOON + timedelta(minutes=minute) for minute in minutes], pa.timestamp("us", "UTC"))
    here.log.append(
        stream, pa.table({"k": pa.array([0] * len(minutes), pa.int64()), "at": at}), key=["k"], partitions=1
    )


def has_read(here: Here, plan: RunPlan, messages: int) -> bool:
    """Return whether the last stage has read so many messages."""
    last = StageHandle(plan.application, plan.run_id, plan.plan.stages[-1].stage_id, Generation(plan.generation, 1))
    return here.runtime.progress(last).read >= messages


def minutes(here: Here) -> list[int]:
    return [row["window_start"].minute for row in here.rows("minutes")]


@pytest.mark.parametrize("application", ["merged", "merged_behind_topics"])
@pytest.mark.few(1)
def test_a_continuous_run_leaves_an_input_out_that_falls_silent_and_takes_it_in_again(
    here: Here, application: str
) -> None:
    speak(here, "silent", 0)
    speak(here, "spoken", 0)
    plan = here.plan(f"tests.support.silent_apps:{application}", "run", mode="continuous", config=TIMEOUT)
    threads = [
        threading.Thread(target=here.stages, args=(plan, stage.stage_id), daemon=True) for stage in plan.plan.stages
    ]
    for thread in threads:
        thread.start()
    until(functools.partial(has_read, here, plan, 2), 60)  # what speaks last is not left out: both have spoken by then
    speak(here, "spoken", *range(1, 8))
    until(lambda: 6 in minutes(here), 60)
    speak(here, "silent", 7)
    here.runtime.drain(plan)
    for thread in threads:
        thread.join(120)
    here.runtime.close(plan)
    assert minutes(here) == list(range(8))
    assert [row["n"] for row in here.rows("minutes")] == [2, 1, 1, 1, 1, 1, 1, 2]


def test_a_scheduled_run_that_finds_nothing_of_an_input_leaves_it_out(here: Here) -> None:
    application = "tests.support.silent_apps:merged"
    speak(here, "silent", 0)
    speak(here, "spoken", *range(4))
    here.whole(application, "first", config=TIMEOUT)
    assert minutes(here) == []
    threading.Event().wait(0.5)  # longer than the time-out
    speak(here, "spoken", *range(4, 8))
    here.whole(application, "second", config=TIMEOUT)
    assert minutes(here) == list(range(7))
    speak(here, "spoken", 8)
    speak(here, "silent", 7)
    here.whole(application, "third", config=TIMEOUT)
    assert minutes(here) == list(range(7))  # it has spoken again, and holds the minute open
