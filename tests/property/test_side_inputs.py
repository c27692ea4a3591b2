"""A table fed by several topics is a dict, whatever the epochs, restarts and other readers of the host in between."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from airflow_samza import stream_application
from airflow_samza.engine.tables import host_tables, warm_tables
from airflow_samza.planner.planner import ExecutionPlanner
from airflow_samza.prepare.task_side_inputs import TOPIC_IDENTITY
from airflow_samza.runs.records.epoch_records import InputIntent, Intent
from airflow_samza.runs.records.run_plan import SIDE_INPUT, BoundStream
from airflow_samza.runs.tables.table_version import DELETED
from airflow_samza.schema import Schema
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import StreamSpec, SystemBinding
from airflow_samza.task.loop.side_tables import SideTables
from airflow_samza.task.program.stage_program import StageProgram, compile_stage
from tests.support.budgets import extended_but

TOPICS = ("changes-a", "changes-b")
PROFILES = "member_id bigint, tier string"
COLUMNS = Schema.of(f"{PROFILES}, {DELETED} boolean")
MEMBERS = 12


@stream_application("looked-up", default_system="log")
def looked_up(app: Any) -> None:
    views = app.input_stream("views", schema="member_id bigint, page string", key="member_id", partitions=1)
    feeds = [app.side_input(topic, key="member_id", partitions=1) for topic in TOPICS]
    table = app.table("profiles", key="member_id", side_inputs=feeds, schema=PROFILES)
    views.join(table, how="left", id="join").send_to(app.output_stream("out"))


@pytest.fixture(scope="module")
def program() -> StageProgram:
    spec = looked_up.spec()
    plan = ExecutionPlanner({}, dict.fromkeys([*TOPICS, "views"], 1)).plan(spec)
    return compile_stage(spec, plan, plan.stages[0].stage_id)


class Host:
    """A log with both topics, and one task that looks them up."""

    def __init__(self, folder: Path, program: StageProgram) -> None:
        self._root = str(folder)
        self._program = program
        self.log = LogSystem("log", SystemBinding("log", {"root": self._root}))
        self._bound = {topic: BoundStream(topic, SIDE_INPUT, "log", StreamSpec(topic, 1)) for topic in TOPICS}
        for topic in TOPICS:
            self.send(topic, [])

    def send(self, topic: str, rows: list[dict[str, Any]]) -> None:
        self.log.append(topic, pa.Table.from_pylist(rows, COLUMNS.to_arrow()), key=["member_id"], partitions=1)

    def now(self) -> dict[str, Mapping[str, Any]]:
        """The messages that may be read."""
        return {
            topic: {**self.log.slice(StreamSpec(topic)), TOPIC_IDENTITY: self.log.creation_time(topic)}
            for topic in TOPICS
        }

    def filled(self, slices: Mapping[str, Mapping[str, Any]], tables: SideTables) -> dict[int, str]:
        """The table as of what is read."""
        intent = Intent(
            "views",
            "1.1",
            0,
            1,
            {},
            {},
            side_inputs={topic: InputIntent(topic, found) for topic, found in slices.items()},
        )
        warm_tables.EpochTables(self._root, "program", self._program, {"log": self.log}, self._bound, intent, 0).fill(
            tables
        )
        return {row["member_id"]: row["tier"] for row in tables.stores["profiles"].rows.to_pylist()}


@pytest.mark.parametrize("seed", extended_but(range(4), range(25)))
def test_a_table_of_several_topics_is_a_dict(tmp_path: Path, program: StageProgram, seed: int) -> None:
    chance = random.Random(seed)
    host = Host(tmp_path, program)
    model: dict[int, str] = {}
    known = [(host.now(), dict(model))]
    tables = SideTables(program, 0)
    for number in range(12):
        for topic in chance.sample(TOPICS, chance.randint(0, 2)):
            rows = [_change(chance, TOPICS.index(topic), number) for _ in range(chance.randint(1, 30))]
            for row in rows:
                if row["member_id"] is not None:
                    model.pop(row["member_id"], None)
                    if not row[DELETED]:
                        model[row["member_id"]] = row["tier"]
            host.send(topic, rows)
        known.append((host.now(), dict(model)))
        if chance.random() < 0.3:
            tables = SideTables(program, 0)  # another process
        # A retry, or a run that was planned earlier, reads what was there then.
        slices, expected = known[-1] if chance.random() < 0.7 else chance.choice(known)
        share, little = chance.choice([1, 8, 1_000]), chance.choice([0, 1_000])
        with mock.patch.object(host_tables, "_SHARE", share), mock.patch.object(host_tables, "_LITTLE", little):
            assert host.filled(slices, tables) == expected


def _change(chance: random.Random, topic: int, number: int) -> dict[str, Any]:
    """A change of one of the topic's own members: between topics nobody promises an order."""
    member = None if chance.random() < 0.1 else chance.randrange(MEMBERS // 2) * 2 + topic
    return {"member_id": member, "tier": f"{number}-{chance.randrange(1000)}", DELETED: chance.random() < 0.3}
