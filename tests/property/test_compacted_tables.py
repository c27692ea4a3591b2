"""Whatever is pushed, taken back, compacted and given up.

Each version of a pushed table is the dict that it was, for whoever reads it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_samza import stream_application
from airflow_samza.engine.tables import host_tables, warm_tables
from airflow_samza.engine.tables.table_compaction import compact_here
from airflow_samza.errors import NoSuchVersion
from airflow_samza.planner.planner import ExecutionPlanner
from airflow_samza.prepare.task_side_inputs import TOPIC_IDENTITY
from airflow_samza.runs.records.epoch_records import InputIntent, Intent
from airflow_samza.runs.records.run_plan import SIDE_INPUT, BoundStream
from airflow_samza.runs.tables import versions
from airflow_samza.runs.tables.folder import TableFolder
from airflow_samza.runs.tables.retention import expire_versions
from airflow_samza.runs.tables.versions import rollback
from airflow_samza.systems.log.maintenance import sweep
from airflow_samza.systems.system import SystemBinding
from airflow_samza.task.loop.side_tables import SideTables
from airflow_samza.task.program.stage_program import StageProgram, compile_stage
from tests.support.budgets import extended_but
from tests.support.pushes import PARTITIONS, SCHEMA, TOPIC, Pushes

PLACE = ("log", TOPIC.name)
MEMBERS = 25

Rows = dict[int, str | None]


@stream_application("looked-up-pushes", default_system="log")
def looked_up(app: Any) -> None:
    views = app.input_stream("views", schema="id bigint, page string", key="id", partitions=PARTITIONS)
    table = app.pushed_table("profiles", key="id", schema=SCHEMA.ddl(), partitions=PARTITIONS)
    views.join(table, how="left", id="join").send_to(app.output_stream("out"))


@pytest.fixture(scope="module")
def program() -> StageProgram:
    spec = looked_up.spec()
    plan = ExecutionPlanner({}, {"views": PARTITIONS, TOPIC.name: PARTITIONS}).plan(spec)
    return compile_stage(spec, plan, plan.stages[0].stage_id)


class Readers:
    """The tasks of one host: what their workers hold, and the folder of its stores."""

    def __init__(self, pushes: Pushes, program: StageProgram) -> None:
        self._pushes = pushes
        self._program = program
        self._bound = {TOPIC.name: BoundStream(TOPIC.name, SIDE_INPUT, "log", TOPIC)}
        self.restart()

    def restart(self) -> None:
        """Other processes."""
        self._tables = [SideTables(self._program, 0) for _ in range(PARTITIONS)]

    def read(self, slice_: Mapping[str, Any]) -> Rows:
        """The whole table."""
        told = {**slice_, "schema": SCHEMA.ddl(), TOPIC_IDENTITY: self._pushes.system.creation_time(TOPIC.name)}
        intent = Intent("views", "1.1", 0, PARTITIONS, {}, {}, side_inputs={TOPIC.name: InputIntent(TOPIC.name, told)})
        found: Rows = {}
        for task, tables in enumerate(self._tables):
            root = self._pushes.files.root
            warm_tables.EpochTables(
                root, "program", self._program, {"log": self._pushes.system}, self._bound, intent, task
            ).fill(tables)
            found.update({row["id"]: row["tier"] for row in tables.stores["profiles"].rows.to_pylist()})
        return found


@pytest.mark.parametrize("seed", extended_but(range(2), range(12)))
@pytest.mark.few(1)
def test_each_version_is_a_dict_for_every_reader(
    tmp_path: Path, program: StageProgram, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(host_tables, "_LITTLE", chance.choice([0, 1_000]))
    monkeypatch.setattr(host_tables, "_SHARE", chance.choice([1, 8, 1_000]))
    pushes = Pushes(tmp_path / "root")
    model: dict[int, Rows] = {}
    planned: dict[int, Mapping[str, Any]] = {}
    readers, keep = Readers(pushes, program), chance.randint(1, 5)
    for step in range(14):
        _push(chance, pushes, model, step)
        if chance.random() < 0.4:
            compact_here(
                pushes.files, SystemBinding("log", {"root": str(pushes.path)}), TableFolder(*PLACE), pushes.current()
            )
        if chance.random() < 0.2:
            current = versions.pin(pushes.files, *PLACE, pushes.current().number, f"scores/run-{step}")
            planned[current.number] = current.slice
        if chance.random() < 0.5:
            expire_versions(pushes.files, pushes.system, *PLACE, keep)
            sweep(pushes.files, "log", grace_ms=-1, staged_grace_ms=-1)
        if chance.random() < 0.3:
            readers.restart()
        number = pushes.current().number if chance.random() < 0.6 else chance.randint(1, max(model))
        try:
            slice_ = (
                planned[number]
                if number in planned and chance.random() < 0.5
                else versions.by_number(pushes.files, *PLACE, number).slice
            )
        except NoSuchVersion:
            continue
        assert readers.read(slice_) == model[number]
        assert versions.number_read(pushes.files, *PLACE, slice_) >= number
    gone = versions.expired_numbers(pushes.files, *PLACE)
    assert {
        found.number: pushes.rows_of(found)
        for found in versions.versions(pushes.files, *PLACE)
        if found.number not in gone
    } == {number: rows for number, rows in model.items() if number not in gone}


def _push(chance: random.Random, pushes: Pushes, model: dict[int, Rows], step: int) -> None:
    """A version more: a full one, changes, or a former one."""
    number = len(model) + 1
    kind = chance.choices(["full", "incremental", "rollback"], [1, 8, 1])[0] if model else "full"
    gone = versions.expired_numbers(pushes.files, *PLACE)
    left = [known for known in model if known not in gone]
    rows: Rows = {
        chance.randrange(MEMBERS): None if kind == "incremental" and chance.random() < 0.3 else f"{step}"
        for _ in range(chance.randint(0, 15))
    }
    if kind == "rollback":
        target = chance.choice(left)
        rollback(pushes.files, *PLACE, target, f"back-{step}")
        model[number] = model[target]
    else:
        pushes.push(f"push-{step}", rows, mode=kind, keep_versions=1_000)
        before = model[number - 1] if kind == "incremental" else {}
        model[number] = {member: tier for member, tier in {**before, **rows}.items() if tier is not None}
