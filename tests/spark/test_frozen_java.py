"""A Java that is frozen for real: its runner notices, whoever waits is told, and another Spark takes its place."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from airflow_samza.errors import StageLost
from airflow_samza.launch import own_process
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.folders import read
from airflow_samza.runs.stages.stage_runners import Claim, Heartbeat
from airflow_samza.runs.stages.stage_state import FAILED, SUCCEEDED
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from tests.support.topic_rows import topic_rows
from tests.support.waiting import until

pytestmark = [pytest.mark.extended, pytest.mark.spark, pytest.mark.timeout(600)]

PATIENCE = 120.0

APPLICATION = """
import os, time
from airflow_samza import stream_application

def kept(row):
    open(HELD, "w").close()
    while os.path.exists(HOLD):
        time.sleep(0.05)
    return True

@stream_application("holding")
def holding(app):
    numbers = app.input_stream("numbers", system="log", schema="n bigint", partitions=2)
    numbers.filter(kept).send_to(app.output_stream("same", system="log", schema="n bigint", partitions=2, key="n"))
"""


@pytest.mark.nightly
def test_a_frozen_java_is_noticed_and_replaced_while_a_busy_one_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow as pa

    hold, held = tmp_path / "hold", tmp_path / "held"
    hold.touch()
    source = APPLICATION.replace("HELD", repr(str(held))).replace("HOLD", repr(str(hold)))
    (tmp_path / "holding_app.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("holding_app", None)
    monkeypatch.setattr(own_process, "RUNNER_MODULE", "tests.support.quick_runner")
    runtime = SparkRuntime(str(tmp_path / "root"), master="local[2]")
    files = open_filesystem(runtime.root)
    log = LogSystem("log", SystemBinding("log", {"root": runtime.root}))
    log.append("numbers", pa.table({"n": list(range(50))}), key=["n"], partitions=2)
    run = runtime.prepare(RunRequest("holding_app:holding", "run"))
    (stage,) = [stage.stage_id for stage in run.plan.stages]
    handle = runtime.submit(run, stage)
    until(held.exists)  # the job runs
    (runner,) = runtime.live_runners(run)

    def answered_at() -> float:
        beat = read(files, runner.heartbeat, Heartbeat)
        assert beat is not None
        return beat.spark_answered_at or 0.0

    first = answered_at()
    until(lambda: answered_at() > first)  # a job that runs keeps nobody from an answer
    claim = read(files, runner.claim, Claim)
    assert claim is not None
    process = psutil.Process(claim.pid)
    java = next(child for child in process.children(recursive=True) if child.name() == "java")
    java.suspend()
    assert runtime.wait(handle, timeout=PATIENCE).state == FAILED
    with pytest.raises(
        StageLost, match=rf"Spark \(local\[2\]\) has not answered since .* UTC, while the stage {stage} ran: it is"
    ):
        runtime.finish(handle)
    java.wait(PATIENCE)
    process.wait(PATIENCE)
    hold.unlink()
    again = runtime.submit(run, stage)
    assert runtime.wait(again, timeout=PATIENCE).state == SUCCEEDED
    runtime.finish(again)
    assert sorted(row["n"] for row in topic_rows(log, "same")) == list(range(50))
    runtime.close(run, wait_seconds=30)
