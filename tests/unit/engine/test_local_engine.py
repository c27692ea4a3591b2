"""The engine that runs stages in this process: what it runs, and what it leaves to Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_samza import stream_application
from airflow_samza.engine.stage_context import StageContext
from airflow_samza.engine.stage_run import run_stage
from airflow_samza.engine.stage_setup import StageSetup
from airflow_samza.errors import MessageError, RuntimeMissing, StageCancelled
from airflow_samza.prepare.bound_systems import run_bindings
from airflow_samza.runs.records.epoch_records import Intent
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.system import SystemBinding
from tests.support.local_engine import LocalEngine, LocalStage
from tests.support.runs_here import Here
from tests.support.stand_ins import Attempt
from tests.support.topic_rows import topic_rows

HERE = "tests.unit.engine.test_local_engine:"


@stream_application("copying", default_system="log")
def copying(app: Any) -> None:
    app.input_stream("numbers", schema="n bigint", partitions=3).send_to(app.output_stream("copies"))


@stream_application("narrow", default_system="log")
def narrow(app: Any) -> None:
    numbers = app.input_stream("numbers", schema="n bigint", partitions=3)
    numbers.transform(lambda frame: frame.where("n > 1")).send_to(app.output_stream("copies"))


@stream_application("failing", default_system="log")
def failing(app: Any) -> None:
    numbers = app.input_stream("numbers", schema="n bigint", partitions=3)
    numbers.map(lambda row: 1 // 0, schema="n bigint").send_to(app.output_stream("copies"))


@pytest.fixture
def here(tmp_path: Path) -> Here:
    import pyarrow as pa

    made = Here(tmp_path)
    made.log.append("numbers", pa.table({"n": pa.array(range(9), pa.int64())}), key=["n"], partitions=3)
    return made


def test_every_task_of_a_stage_runs_and_its_output_is_published(here: Here) -> None:
    here.whole(f"{HERE}copying", "run-1")
    assert sorted(row["n"] for row in topic_rows(here.log, "copies")) == list(range(9))


def test_rejects_what_only_catalyst_runs(here: Here) -> None:
    with pytest.raises(RuntimeMissing, match="there is no Spark here"):
        here.whole(f"{HERE}narrow", "run-1")


def test_a_failure_of_a_task_is_the_error_of_the_stage(here: Here) -> None:
    with pytest.raises(MessageError, match="ZeroDivisionError"):
        here.whole(f"{HERE}failing", "run-1")


def test_a_cancelled_attempt_starts_no_further_task(here: Here) -> None:
    plan = here.plan(f"{HERE}copying", "run-1")
    attempt = Attempt(StageHandle(plan.application, plan.run_id, "numbers", Generation(plan.generation, 1)))
    started: list[int] = []

    class Cancelled(LocalStage):
        def run_epoch(self, intent: Intent, messages: int | None) -> None:
            asked = attempt.cancel_requested

            def cancel_requested() -> bool:
                started.append(1)
                attempt.is_cancelled = len(started) > 2  # before the epoch, before its first task, before its second
                return asked()

            attempt.cancel_requested = cancel_requested  # type: ignore[method-assign]
            super().run_epoch(intent, messages)

    class Engine(LocalEngine):
        def stage(self, context: StageContext, setup: StageSetup) -> LocalStage:
            return Cancelled(context, setup)

    files = here.log.filesystem
    with pytest.raises(StageCancelled):
        run_stage(Engine(), files, run_bindings(plan.systems, {}), attempt, {})
    assert files.list(attempt.handle.folder.manifests(0)) == ["0.json"]


@stream_application("to-files", default_system="log")
def to_files(app: Any) -> None:
    app.input_stream("numbers", schema="n bigint", partitions=3).send_to(app.output_stream("out", system="files"))


def synced_manifests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that fills with the manifests for which a disk is waited for."""
    synced: list[str] = []

    def step(_: LocalFilesystem, operation: str, path: str) -> None:
        if operation == "sync" and "/manifests/" in path:
            synced.append(path)

    monkeypatch.setattr(LocalFilesystem, "step", step)
    return synced


def test_the_manifests_of_a_stage_whose_topics_wait_for_no_disk_wait_for_none(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = synced_manifests(monkeypatch)
    here.whole(f"{HERE}copying", "run-1")
    assert synced == []


@pytest.mark.parametrize("output", ["durable topic", "files"])
def test_the_manifests_of_a_stage_whose_output_survives_a_power_failure_survive_it(
    here: Here, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    here.bindings = {
        "log": SystemBinding("log", {"durable": "true"}),
        "files": SystemBinding("files", {"root": str(here.root.parent / "files")}),
    }
    synced = synced_manifests(monkeypatch)
    here.whole(f"{HERE}{'to_files' if output == 'files' else 'copying'}", "run-1")
    assert len(synced) == 3
