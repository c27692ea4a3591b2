from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.control.messages import EndOfStreamMessage
from airflow_samza.errors import StageLost, TopicError
from airflow_samza.planner.plan import ExecutionPlan, Partitioning, PlannedStream, Stage
from airflow_samza.records import decode, encode
from airflow_samza.runs.finish import finish_stage
from airflow_samza.runs.records.epoch_records import (
    Commit,
    InputIntent,
    Intent,
    Manifest,
    Staged,
    control_entries,
    read_manifests,
)
from airflow_samza.runs.records.folders import RunFolder, StageFolder, must_read, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import BoundStream, RunPlan
from airflow_samza.runs.records.stage_result import StageResult, describe_result
from airflow_samza.runs.stages.stage_state import can_finish
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.system import Publication, StreamSpec

FIRST = Generation(1, 1)
FOLDER = RunFolder("views", "run-1").stage("views", FIRST)


class PublishingSystem:
    """Remembers what was published, and fails when told to."""

    def __init__(self) -> None:
        self.published: list[tuple[str, Publication]] = []
        self.failing = False

    def publish(self, stream: StreamSpec, publication: Publication) -> dict[str, Any]:
        if self.failing:
            raise TopicError("The storage rejected.")
        self.published.append((stream.name, publication))
        return {"path": "/warehouse/out", "files": ["a.parquet"]}


def planned(stream_id: str, role: str, partitions: int) -> PlannedStream:
    return PlannedStream(stream_id, role, None, partitions, "declared", Partitioning("unknown"), True)


@pytest.fixture
def files(tmp_path: Path) -> LocalFilesystem:
    return LocalFilesystem(tmp_path)


@pytest.fixture
def run() -> RunPlan:
    plan = ExecutionPlan(
        "views",
        "1",
        operators=(),
        streams=(planned("views", "input", 2), planned("by-member", "intermediate", 3), planned("out", "output", 1)),
        tables=(),
        join_groups=(),
        stages=(Stage("views", (), ("views",), ("by-member", "out"), task_count=2),),
    )
    streams = {
        stream.stream_id: BoundStream(
            stream.stream_id, stream.role, "log", StreamSpec(stream.stream_id, stream.partitions)
        )
        for stream in plan.streams
    }
    return RunPlan("views", "1", "module:app", "run-1", 1, plan, streams)


@pytest.fixture
def system() -> PublishingSystem:
    return PublishingSystem()


INTENT = Intent(
    stage="views",
    generation="1.1",
    epoch=0,
    tasks=2,
    inputs={"views": InputIntent("views", {"kind": "log", "partitions": 2, "offsets": [[0, 5], [0, 7]]})},
    outputs={"by-member": "views-1-by-member/run-1/1.1", "out": "out"},
)


def manifest(task: int, attempt: str = "first") -> Manifest:
    end = EndOfStreamMessage(f"task-{task}", 2, None, "by-member")
    return Manifest(
        task=task,
        epoch=0,
        attempt=attempt,
        seconds=1.5,
        read={"views": {"messages": 5 + 2 * task, "control": 1, "bytes": 100}},
        staged={
            "by-member": Staged({"segment": f"s{task}-{attempt}", "bytes": 50}, 4, control_entries([end])),
            "out": Staged({"segment": f"o{task}-{attempt}", "bytes": 10}, 1),
        },
        facts={"dropped_nulls": 2},
    )


def leave(files: LocalFilesystem, *manifests: Manifest) -> None:
    write_once(files, FOLDER.intent(0), INTENT)
    for one in manifests:
        write_once(files, FOLDER.manifest(0, one.task), one)


def finish(files: LocalFilesystem, system: PublishingSystem, run: RunPlan) -> StageResult:
    systems: Mapping[str, Any] = {"log": system}
    return finish_stage(files, systems, run, "views", FIRST, FOLDER)


def test_records_survive_json() -> None:
    assert decode(Intent, encode(INTENT), "i") == INTENT
    assert decode(Manifest, encode(manifest(1)), "m") == manifest(1)


def test_a_run_plan_survives_json(run: RunPlan) -> None:
    assert decode(RunPlan, encode(run), "r") == run


def test_finishes_from_intent_and_manifests_alone(
    files: LocalFilesystem, system: PublishingSystem, run: RunPlan
) -> None:
    leave(files, manifest(0), manifest(1))
    result = finish(files, system, run)
    assert [name for name, _ in system.published] == ["views-1-by-member/run-1/1.1", "out"]
    publication = system.published[0][1]
    assert (publication.producer, publication.generation, publication.epoch) == ("views/run-1/views", "1.1", 0)
    assert publication.control == tuple(EndOfStreamMessage(f"task-{task}", 2, None, "by-member") for task in (0, 1))
    assert result.inputs[0].messages == 12
    assert [output.messages for output in result.outputs] == [8, 2]
    assert result.outputs[0].control == 2 * 3  # two tasks, three partitions
    assert result.task_facts == {"dropped_nulls": 4}


def test_finishing_again_publishes_nothing_again(
    files: LocalFilesystem, system: PublishingSystem, run: RunPlan
) -> None:
    leave(files, manifest(0), manifest(1))
    first = finish(files, system, run)
    assert finish(files, system, run) == first
    assert len(system.published) == 2


def test_goes_on_after_publishing_failed(files: LocalFilesystem, system: PublishingSystem, run: RunPlan) -> None:
    leave(files, manifest(0), manifest(1))
    system.failing = True
    with pytest.raises(TopicError, match="rejected"):
        finish(files, system, run)
    committed = must_read(files, FOLDER.commit(0), Commit)
    system.failing = False
    finish(files, system, run)
    assert must_read(files, FOLDER.commit(0), Commit) == committed
    assert len(system.published) == 2


def test_a_later_attempt_adopts_the_manifest_that_stands(
    files: LocalFilesystem, system: PublishingSystem, run: RunPlan
) -> None:
    leave(files, manifest(0), manifest(1), manifest(0, "second"))
    finish(files, system, run)
    assert system.published[0][1].staged[0]["segment"] == "s0-first"


def test_does_not_commit_while_a_manifest_is_missing(
    files: LocalFilesystem, system: PublishingSystem, run: RunPlan
) -> None:
    leave(files, manifest(1))
    with pytest.raises(StageLost, match="1 of 2 tasks have left no manifest, the first is task 0"):
        finish(files, system, run)
    assert not files.exists(FOLDER.commit(0))
    assert not system.published


def test_a_stage_that_never_started_is_lost(files: LocalFilesystem, system: PublishingSystem, run: RunPlan) -> None:
    with pytest.raises(StageLost, match="has not started"):
        finish(files, system, run)


def test_a_damaged_manifest_is_named(files: LocalFilesystem) -> None:
    leave(files, manifest(0))
    files.put(FOLDER.manifest(0, 1), b"{half a mani}")
    with pytest.raises(TopicError, match=r"manifests/0/1\.json is damaged"):
        read_manifests(files, StageFolder(FOLDER.path), INTENT)


def test_the_description_says_what_was_read_sent_and_written(
    files: LocalFilesystem, system: PublishingSystem, run: RunPlan
) -> None:
    leave(files, manifest(0), manifest(1))
    lines = describe_result(finish(files, system, run))
    assert "2 tasks" in lines[0]
    assert lines[1].split() == [
        "read",
        "views",
        "12",
        "messages",
        "200",
        "B",
        "in",
        "memory",
        "2",
        "control",
        "messages",
        "log.views",
    ]
    assert "6 control messages (2 to each of 3 partitions)" in lines[2]
    assert lines[2].split()[:2] == ["sent", "by-member"]
    assert lines[3].strip() == "a.parquet"
    assert lines[4].split()[:2] == ["wrote", "out"]
    assert lines[4].endswith("/warehouse/out")
    assert lines[5].strip() == "a.parquet"


# -- several epochs ----------------------------------------------------------------------------------------------------


def epoch(number: int, *, active: tuple[int, ...] = (0, 1), standing: dict[int, int] | None = None) -> Intent:
    return dataclasses.replace(INTENT, epoch=number, whole=False, active=active, standing=standing or {})


def leave_epoch(files: LocalFilesystem, intent: Intent, *, ended: tuple[int, ...] = ()) -> None:
    write_once(files, FOLDER.intent(intent.epoch), intent)
    for task in intent.running:
        left = dataclasses.replace(manifest(task), epoch=intent.epoch, ended=task in ended, checkpoint={"offsets": {}})
        write_once(files, FOLDER.manifest(intent.epoch, task), left)


def test_an_epoch_in_which_tasks_go_on_is_published_and_is_not_the_end(
    files: LocalFilesystem, system: PublishingSystem, run: RunPlan
) -> None:
    leave_epoch(files, epoch(0), ended=(1,))
    assert not can_finish(files, FOLDER)
    with pytest.raises(StageLost, match="1 epochs are committed, and 1 of its 2 tasks go on"):
        finish(files, system, run)
    assert [publication.final for _, publication in system.published] == [False, False]
    assert not files.exists(FOLDER.result)


def test_the_result_sums_up_all_epochs(files: LocalFilesystem, system: PublishingSystem, run: RunPlan) -> None:
    leave_epoch(files, epoch(0), ended=(1,))
    with pytest.raises(StageLost):
        finish(files, system, run)
    leave_epoch(files, epoch(1, active=(0,), standing={0: 0, 1: 0}), ended=(0,))
    assert can_finish(files, FOLDER)
    result = finish(files, system, run)
    assert result.epochs == 2
    assert result.inputs[0].messages == 5 + 7 + 5
    assert [output.messages for output in result.outputs] == [12, 3]
    assert result.task_facts == {"dropped_nulls": 6}
    assert [(publication.epoch, publication.final) for _, publication in system.published] == [
        (0, False),
        (0, False),
        (1, True),
        (1, True),
    ]
    assert "2 epochs" in describe_result(result)[0]


def test_an_epoch_that_adds_nothing_is_not_published(
    files: LocalFilesystem, system: PublishingSystem, run: RunPlan
) -> None:
    write_once(files, FOLDER.intent(0), epoch(0))
    for task in (0, 1):
        idle = dataclasses.replace(
            manifest(task), staged={"by-member": Staged({}, 0), "out": Staged({}, 0)}, ended=False
        )
        write_once(files, FOLDER.manifest(0, task), idle)
    with pytest.raises(StageLost):
        finish(files, system, run)
    assert system.published == []


def test_an_epoch_whose_intent_was_never_written_is_none(
    files: LocalFilesystem, system: PublishingSystem, run: RunPlan
) -> None:
    leave_epoch(files, epoch(0), ended=(0, 1))
    files.make_dirs(f"{FOLDER.epochs}/1")
    assert finish(files, system, run).epochs == 1


class TellingSystem(PublishingSystem):
    """Remembers how far it was told that its streams are read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[tuple[str, dict[int, int]]] = []

    def describe_reading(self, stream: StreamSpec) -> str | None:
        return None

    def tell_read(self, stream: StreamSpec, offsets: Mapping[int, int]) -> None:
        self.read.append((stream.name, dict(offsets)))


def test_a_partition_that_several_tasks_read_is_read_as_far_as_the_slowest_of_them(
    files: LocalFilesystem, run: RunPlan
) -> None:
    system = TellingSystem()
    offsets: list[dict[str, int]] = [{"0": 5, "1": 3}, {"0": 4, "1": 7}]
    told = [{"inputs": {"views": {"next_offsets": by_partition}}} for by_partition in offsets]
    leave(files, *(dataclasses.replace(manifest(task), report=told[task]) for task in range(2)))
    finish(files, system, run)
    assert system.read == [("views", {0: 4, 1: 3})]
