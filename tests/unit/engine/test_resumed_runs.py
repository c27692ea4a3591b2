"""A run that was interrupted and is resumed: nobody takes its topics away, and no topic is made anew in silence.

No Spark.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

from airflow_samza.engine import stage_loop
from airflow_samza.errors import TopicError, UnknownName
from airflow_samza.launch import submission
from airflow_samza.runs.records.folders import RunFolder, write_once
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_runners import RunnerFolder, claim_runner
from airflow_samza.runs.upkeep.retention import sweep_log
from airflow_samza.runs.upkeep.run_removal import Removal
from airflow_samza.runs.upkeep.topic_expiry import own_topics
from airflow_samza.systems.log.index import read_floor
from airflow_samza.systems.log.maintenance import mark_expired, sweep
from airflow_samza.systems.system import StreamSpec
from tests.support.runs_here import Here

JOINING = "tests.support.carrying_apps:joining"
CLICK = pa.schema([("member", pa.int64()), ("page", pa.string()), ("n", pa.int64())])
VIEW = pa.schema([("member", pa.int64()), ("seconds", pa.int64())])


class Interrupted(Exception):
    """Stands for whatever ends a process in the middle of its work."""


@pytest.fixture
def here(tmp_path: Path) -> Here:
    made = Here(tmp_path)
    rows = [{"member": n % 7, "page": f"p{n}", "n": n} for n in range(700)]
    made.log.append("clicks", pa.Table.from_pylist(rows, CLICK), key=["member"], partitions=2)
    made.log.append(
        "views",
        pa.Table.from_pylist([{"member": n, "seconds": n} for n in range(7)], VIEW),
        key=["member"],
        partitions=1,
    )
    return made


def interrupted(here: Here, epochs: int = 3) -> RunPlan:
    """A run whose first stage has committed some epochs, and was closed then."""
    plan = here.plan(JOINING, "run-1", mode="pipelined", config={"job.epoch.max.messages": "60"})
    reached = iter(range(epochs))

    def reach(name: str) -> None:
        if name == "after-epoch" and next(reached, None) is None:
            raise Interrupted

    with mock.patch.object(stage_loop, "reach", reach), pytest.raises(Interrupted):
        here.stages(plan, "clicks")
    here.runtime.close(plan, succeeded=False)
    return plan


def resubmitted(here: Here, plan: RunPlan, stage: str = "clicks") -> None:
    """Submits a stage, with a runner that is there and does nothing."""

    def runner(files: object, run: object, settings: object) -> RunnerFolder:
        claimed = claim_runner(here.log.filesystem, folder_of(plan), "key")
        assert claimed is not None
        return claimed

    with mock.patch.object(submission, "ensure_runner", runner):
        here.runtime.submit(plan, stage)


def folder_of(plan: RunPlan):  # type: ignore[no-untyped-def]

    return RunFolder(plan.application, plan.run_id)


def marks(here: Here, plan: RunPlan) -> list[int | None]:
    there = here.log.topics()
    names = [name for _, name in own_topics(here.log.filesystem, plan) if name in there]
    assert names
    return [read_floor(here.log.topic(name)).expires_at for name in names]


def test_a_run_that_is_opened_again_keeps_no_mark_of_expiry(here: Here) -> None:
    plan = interrupted(here)
    assert all(marks(here, plan))
    resubmitted(here, plan)
    assert set(marks(here, plan)) == {None}
    assert sweep(here.log.filesystem, "log", time.time_ns() // 1_000_000 + 365 * 86_400_000).topics == []


def test_a_resumed_stage_whose_topic_is_gone_is_rejected_and_no_topic_is_made_anew(here: Here) -> None:
    plan = interrupted(here)
    _, name = next((system, name) for system, name in own_topics(here.log.filesystem, plan) if "clicks" in name)
    assert name in sweep(here.log.filesystem, "log", time.time_ns() // 1_000_000 + 8 * 86_400_000).topics
    with pytest.raises(
        TopicError, match=f"The topic '{name}' is not the one that was read or written before: it was deleted"
    ):
        here.stages(plan, "clicks")
    assert name not in here.log.topics()


def test_a_resumed_stage_does_not_write_to_a_topic_that_somebody_made_anew(here: Here) -> None:
    plan = interrupted(here)
    _, name = next((system, name) for system, name in own_topics(here.log.filesystem, plan) if "clicks" in name)
    schema = here.log.topic(name).schema
    partitions = here.log.topic(name).partitions
    here.log.filesystem.delete_tree(here.log.topic(name).directory)
    here.log.create([StreamSpec(name, partitions, schema)])
    with pytest.raises(TopicError, match="it was deleted and made anew"):
        here.stages(plan, "clicks")


def test_a_reader_with_a_checkpoint_rejects_a_topic_that_was_made_anew(here: Here) -> None:
    plan = here.plan(JOINING, "run-1")
    here.stages(plan, "clicks", "views")
    name = next(name for _, name in own_topics(here.log.filesystem, plan) if "clicks" in name)
    topic = here.log.topic(name)
    slice_ = here.log.slice(StreamSpec(name))
    here.log.filesystem.delete_tree(topic.directory)
    here.log.create([StreamSpec(name, topic.partitions, topic.schema)])
    with pytest.raises(
        TopicError, match="is not the one that was read or written before: it was deleted and made anew"
    ):
        here.log.consumer(StreamSpec(name), slice_)
    with pytest.raises(TopicError, match="it was deleted and made anew"):
        here.log.has_news(StreamSpec(name), slice_)


def test_topics_of_before_there_were_identities_are_read_as_ever(here: Here) -> None:
    path = here.root / "topics/clicks/topic.json"
    record = json.loads(path.read_text())
    del record["id"]
    path.write_text(json.dumps(record))
    slice_ = here.log.slice(StreamSpec("clicks"))
    assert "topic" not in slice_
    here.log.consumer(StreamSpec("clicks"), slice_)
    here.whole(JOINING, "run-1")
    here.whole(JOINING, "run-2")
    assert len(here.rows("joined")) == 700


def test_a_run_whose_records_are_being_deleted_is_not_opened_again(here: Here) -> None:
    plan = interrupted(here)
    write_once(here.log.filesystem, folder_of(plan).removing, Removal(0.0))
    with pytest.raises(
        UnknownName, match=r"The run 'run-1' of 'joining' is not kept any more: its records are being deleted\."
    ):
        resubmitted(here, plan)


def test_a_sweep_spares_topics_of_a_run_that_is_open(here: Here) -> None:
    plan = interrupted(here)
    name = next(name for _, name in own_topics(here.log.filesystem, plan) if "clicks" in name)
    here.log.filesystem.delete(folder_of(plan).closed)
    mark_expired(here.log.topic(name), 0)
    assert sweep_log(here.log.filesystem, here.log).topics == []
    assert name in here.log.topics()
    here.runtime.close(plan, keep_seconds=-1.0)
    assert name in sweep_log(here.log.filesystem, here.log).topics
