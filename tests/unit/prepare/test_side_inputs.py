"""Tables fed by side inputs, as stages on Spark read them: what the plan fixes, and what each epoch holds. No Spark."""

from __future__ import annotations

import logging
import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.engine.stage_context import StageContext
from airflow_samza.engine.stage_setup import StageSetup
from airflow_samza.engine.stage_task import StageTask
from airflow_samza.errors import SamzaError, TopicError
from airflow_samza.runs.records.epoch_records import read_manifest
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.schema import Schema
from airflow_samza.spark.standbys import StandbyTask
from airflow_samza.storage import host_files
from airflow_samza.storage.local_store import default_folder
from airflow_samza.systems.log.maintenance import expire
from tests.support.local_engine import LocalEngine, LocalStage
from tests.support.runs_here import Here
from tests.support.side_input_apps import PROFILES, VIEWS

SCORED = "tests.support.side_input_apps:scored_views"


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def send(here: Here, topic: str, schema: str, rows: list[dict[str, Any]], partitions: int = 2) -> None:
    """Appends rows by their first column."""
    table = pa.Table.from_pylist(rows, Schema.of(schema).to_arrow())
    here.log.append(topic, table, key=Schema.of(schema).names[:1], partitions=partitions)


def views(here: Here, *members: int) -> None:
    send(here, "views", VIEWS, [{"member_id": member, "page": "p"} for member in members])


def profiles(here: Here, **tiers: str) -> None:
    """Changes of profiles: ``m1="gold"``."""
    send(
        here,
        "profile-changes",
        PROFILES,
        [{"member_id": int(member[1:]), "tier": tier} for member, tier in tiers.items()],
    )


def scored(here: Here) -> list[tuple[int, str | None]]:
    return sorted(((row["member_id"], row["tier"]) for row in here.rows("scored")), key=str)


def test_a_table_holds_what_the_side_input_held_when_the_run_was_planned(here: Here) -> None:
    profiles(here, m1="gold", m2="silver")
    profiles(here, m1="bronze")
    views(here, 1, 2, 3)
    plan = here.plan(SCORED, "run-1")
    profiles(here, m2="too late")
    here.stages(plan)
    assert scored(here) == [(1, "bronze"), (2, "silver"), (3, None)]


@pytest.mark.parametrize(
    ("priorities", "last"), [({}, "second"), ({"task.chooser.priorities.log.second": "1"}, "first")]
)
def test_configured_priorities_of_side_inputs_are_by_the_system_where_they_lie(
    here: Here, priorities: dict[str, str], last: str
) -> None:
    for topic in ("first", "second"):
        send(here, topic, PROFILES, [{"member_id": 1, "tier": topic}])
    views(here, 1)
    here.whole(
        SCORED.replace("scored", "configured"),
        "run-1",
        config={"stores.profiles.side.inputs": "first,second", **priorities},
    )
    assert scored(here) == [(1, last)]


def test_the_plan_says_how_much_is_read_of_a_side_input(here: Here) -> None:
    profiles(here, m1="gold", m2="silver", m3="gold")
    views(here, 1)
    plan = here.plan(SCORED, "run-1")
    assert plan.stream("profile-changes").role == "side_input"
    assert "reads 3 offsets up to the latest offset at plan" in plan.notes["views"]["profile-changes"]


def test_rejects_a_side_input_that_does_not_exist(here: Here) -> None:
    views(here, 1)
    with pytest.raises(TopicError, match="side input 'profile-changes' of the table 'profiles' does not exist"):
        here.plan(SCORED, "run-1")


# -- what a host has read already --------------------------------------------------------------------------------------


def read_of(here: Here, plan: RunPlan, stream: str = "profile-changes") -> int:
    """The messages of a side input that the tasks of a run's last epoch read from its topic."""
    folder = StageHandle(plan.application, plan.run_id, "views", Generation(plan.generation, 1)).folder
    files = here.log.filesystem
    epoch = max(int(name) for name in files.list(folder.epochs))
    manifests = [read_manifest(files, folder, task, epoch) for task in range(2)]
    return sum(manifest.read_aside.get(stream, {}).get("messages", 0) for manifest in manifests)


def many(here: Here, tier: str, first: int = 0) -> None:
    profiles(here, **{f"m{n}": tier for n in range(first, first + 100)})


def test_the_next_run_on_a_host_reads_only_what_is_new(here: Here) -> None:
    many(here, "gold")
    views(here, 1, 2)
    assert read_of(here, here.whole(SCORED, "run-1")) == 100
    assert read_of(here, here.whole(SCORED, "run-2")) == 0
    profiles(here, m1="silver")
    assert read_of(here, here.whole(SCORED, "run-3")) == 1
    assert scored(here) == [(1, "gold"), (1, "gold"), (1, "silver"), (2, "gold"), (2, "gold"), (2, "gold")]


def test_a_standby_host_has_read_what_a_task_that_comes_to_it_needs(
    here: Here, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stages: list[StageTask] = []

    class Seen(LocalEngine):
        def stage(self, context: StageContext, setup: StageSetup) -> LocalStage:
            stages.append(setup.task)
            return super().stage(context, setup)

    here.engine = Seen()
    config = {"job.store.local.dir": "$THIS_HOST"}
    many(here, "gold")
    views(here, 1)
    monkeypatch.setenv("THIS_HOST", str(tmp_path / "host-a"))
    here.whole(SCORED, "run-1", config=config)
    monkeypatch.setenv("THIS_HOST", str(tmp_path / "host-b"))
    work = StandbyTask(stages[0], 0, ())
    assert all(work.fetch(task, 0) > 0 for task in range(2))
    assert read_of(here, here.whole(SCORED, "run-2", config=config)) == 0


def test_a_table_is_written_again_when_much_of_it_is_new(here: Here) -> None:
    many(here, "gold")
    views(here, 1)
    here.whole(SCORED, "run-1")
    many(here, "silver")
    assert read_of(here, here.whole(SCORED, "run-2")) == 100
    assert read_of(here, here.whole(SCORED, "run-3")) == 0
    assert scored(here) == [(1, "gold"), (1, "silver"), (1, "silver")]


def stored(here: Here, name: str) -> list[Path]:
    return sorted(Path(default_folder(str(here.root))).glob(f"profiles-*/*/{name}"))


def test_of_tasks_that_all_read_a_broadcast_one_fills_the_table_of_the_host(here: Here) -> None:
    app = SCORED.replace("scored", "toured")
    send(here, "profile-changes", PROFILES, [{"member_id": n, "tier": "gold"} for n in range(100)], partitions=1)
    views(here, 1, 2)
    assert read_of(here, here.whole(app, "run-1")) == 100
    assert read_of(here, here.whole(app, "run-2")) == 0
    send(here, "profile-changes", PROFILES, [{"member_id": 1, "tier": "silver"}], partitions=1)
    assert read_of(here, here.whole(app, "run-3")) == 2  # so little that no task writes it down for the others
    assert scored(here) == [(1, "gold"), (1, "gold"), (1, "silver"), (2, "gold"), (2, "gold"), (2, "gold")]


@pytest.mark.parametrize("damaged", ["OFFSETS-*", "*/rows.arrow", "*/store.json"])
def test_a_damaged_local_store_is_built_again_with_a_warning(
    here: Here, damaged: str, caplog: pytest.LogCaptureFixture
) -> None:
    many(here, "gold")
    views(here, 1)
    here.whole(SCORED, "run-1")
    found = stored(here, damaged)
    assert len(found) == 2
    for path in found:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0xFF
        path.chmod(0o644)
        path.write_bytes(bytes(content))
        path.touch()
    host_files._checksums.clear()  # as another process would
    profiles(here, m1="silver", m2="silver", m3="silver", m4="silver")
    with caplog.at_level(logging.WARNING):
        assert read_of(here, here.whole(SCORED, "run-2")) == 104
    assert "built again" in caplog.text
    assert scored(here) == [(1, "gold"), (1, "silver")]
    assert read_of(here, here.whole(SCORED, "run-3")) == 0


def test_a_store_that_has_missed_expired_messages_is_built_again(here: Here) -> None:
    many(here, "gold")
    views(here, 1)
    here.whole(SCORED, "run-1")
    many(here, "silver", 100)
    time.sleep(0.002)
    expire(here.log.topic("profile-changes"), time.time_ns() // 1_000_000)
    many(here, "bronze", 200)
    assert read_of(here, here.whole(SCORED, "run-2")) == 100
    assert scored(here) == [(1, "gold"), (1, None)]  # who had read it does not go on with what nobody else can know


def test_a_store_of_a_topic_that_was_made_anew_is_built_again(here: Here) -> None:
    many(here, "gold")
    views(here, 1, 2)
    here.whole(SCORED, "run-1")
    shutil.rmtree(here.root / "topics" / "profile-changes")
    time.sleep(0.002)
    for _ in range(3):  # its offsets go on beyond those of the former one
        many(here, "silver", 1000)
    profiles(here, m1="new")
    here.whole(SCORED, "run-2")
    assert scored(here) == [(1, "gold"), (1, "new"), (2, "gold"), (2, None)]


def test_rejects_a_side_input_that_vanished_after_the_plan(here: Here) -> None:
    many(here, "gold")
    views(here, 1)
    plan = here.plan(SCORED, "run-1")
    shutil.rmtree(here.root / "topics" / "profile-changes")
    with pytest.raises(SamzaError, match="cannot be read as it was planned: There is no topic"):
        here.stages(plan)


def test_rejects_a_side_input_that_was_made_anew_after_the_plan(here: Here) -> None:
    many(here, "gold")
    views(here, 1)
    plan = here.plan(SCORED, "run-1")
    shutil.rmtree(here.root / "topics" / "profile-changes")
    time.sleep(0.002)
    many(here, "silver")
    many(here, "silver")
    with pytest.raises(SamzaError, match="was created again since the run was planned"):
        here.stages(plan)
