"""A run that is over marks its own topics to expire, and no others."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from airflow_samza.planner.plan import ExecutionPlan, Partitioning, PlannedStream, Stage
from airflow_samza.runs.records.folders import RunFolder, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import BoundStream, RunPlan
from airflow_samza.runs.upkeep.topic_expiry import Slimmed, expire_topics, forget_dead_slimming
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.filesystems.trash import YOUNG_SECONDS
from airflow_samza.systems.log.index import read_floor
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.memory.system import MemorySystem
from airflow_samza.systems.system import StreamSpec, SystemBinding


@pytest.fixture
def log(tmp_path: Path) -> LogSystem:
    return LogSystem("log", SystemBinding("log"), str(tmp_path))


def planned(stream_id: str, role: str) -> PlannedStream:
    return PlannedStream(stream_id, role, None, 1, "declared", Partitioning("unknown"), True)


def run_plan(system: str, generation: int = 1) -> RunPlan:
    """A run of two stages, with a topic of its own between input and output."""
    plan = ExecutionPlan(
        "views",
        "1",
        operators=(),
        streams=(planned("views", "input"), planned("by-member", "intermediate"), planned("out", "output")),
        tables=(),
        join_groups=(),
        stages=(
            Stage("first", (), ("views",), ("by-member",), task_count=1),
            Stage("second", (), ("by-member",), ("out",), task_count=1),
        ),
    )
    streams = {
        stream.stream_id: BoundStream(stream.stream_id, stream.role, system, StreamSpec(stream.stream_id, 1))
        for stream in plan.streams
    }
    return RunPlan("views", "1", "module:app", "run-1", generation, plan, streams)


def make(log: LogSystem, run: RunPlan, *writers: Generation) -> list[str]:
    """Makes a run's topics; gives the names of its own."""
    own = [run.intermediate("by-member", writer).spec for writer in writers]
    log.create([StreamSpec("views", 1), StreamSpec("out", 1), *own])
    for writer in writers:
        log.filesystem.put(f"{RunFolder('views', 'run-1').stage('first', writer).path}/intent.json", b"{}")
    return [spec.name for spec in own]


def expires_at(log: LogSystem, name: str) -> int | None:
    return read_floor(log.topic(name)).expires_at


def test_the_topics_of_every_generation_of_a_stage_expire_and_inputs_and_outputs_stay(log: LogSystem) -> None:
    run = run_plan("log")
    own = make(log, run, Generation(1, 1), Generation(1, 2))
    assert expire_topics(log.filesystem, {"log": log}, run, 60.0) == own
    assert [expires_at(log, name) for name in own] == [60_000, 60_000]
    assert (expires_at(log, "views"), expires_at(log, "out")) == (None, None)


def test_the_topics_of_another_plan_of_the_run_stay(log: LogSystem) -> None:
    run = run_plan("log", generation=2)
    former, own = make(log, run, Generation(1, 1), Generation(2, 1))
    assert expire_topics(log.filesystem, {"log": log}, run, 60.0) == [own]
    assert expires_at(log, former) is None


def test_a_topic_that_was_never_made_or_lies_elsewhere_is_passed_over(log: LogSystem) -> None:
    assert expire_topics(log.filesystem, {"log": log}, run_plan("log"), 60.0) == []
    assert expire_topics(log.filesystem, {"memory": MemorySystem()}, run_plan("memory"), 60.0) == []


@pytest.mark.parametrize(("age", "lives"), [(0.0, True), (2 * YOUNG_SECONDS, False)])
def test_the_note_of_a_deletion_counts_while_its_process_may_live(tmp_path: Path, age: float, lives: bool) -> None:
    files, folder = LocalFilesystem(tmp_path), RunFolder("views", "monday")
    assert not forget_dead_slimming(files, folder)
    write_once(files, folder.slimming, Slimmed(time.time() - age))
    assert forget_dead_slimming(files, folder) is lives
    assert files.exists(folder.slimming) is lives
