"""A task of a push: which rows of its partition it stages, and what it says of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza.engine.push_task import PushTask
from airflow_samza.launch.bindings import bindings_to_json
from airflow_samza.quoting import show_messages
from airflow_samza.runs.tables.table_version import DELETED
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import StreamSpec, SystemBinding


def task_of(root: Path, column: str) -> PushTask:
    stream = StreamSpec("t-push", 1, f"k {column}, {DELETED} boolean", ("k",))
    LogSystem("log", SystemBinding("log", {"root": str(root)})).create([stream])
    bindings = bindings_to_json({"log": SystemBinding("log", {"root": str(root)})})
    return PushTask(
        str(root), bindings, "log", dataclasses.asdict(stream), ("k",), (), "runs/a/push/stages/push/1.1", 0, "monday"
    )


@pytest.mark.parametrize(
    ("column", "keys"),
    [
        ("double", [0.5, math.nan, math.nan]),
        ("double", [-0.0, 0.0, math.nan]),
        ("string", ["", "é", "é"]),
        ("boolean", [False, True, True]),
        ("binary", [b"", b"\xff", b"\xff"]),
    ],
)
def test_a_key_that_comes_twice_is_counted_and_staged_once(tmp_path: Path, column: str, keys: list[object]) -> None:
    types = {"double": pa.float64(), "string": pa.string(), "boolean": pa.bool_(), "binary": pa.binary()}
    batch = pa.RecordBatch.from_pydict({"k": pa.array(keys, types[column]), DELETED: [False] * 3})
    manifest = task_of(tmp_path, column).run(0, iter([batch.slice(0, 2), batch.slice(2)]))
    assert (manifest.rows, manifest.duplicates) == (2, 1)


def test_a_task_that_spark_runs_again_keeps_what_its_first_try_has_staged(tmp_path: Path) -> None:
    task = task_of(tmp_path, "string")

    def batches(key: str) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"k": [key], DELETED: [False]})

    first = task.run(0, batches("first"))
    assert task.run(0, batches("again")).staged["segment"] == first.staged["segment"]
    slow = batches("slow")
    late = dataclasses.replace(task, epoch=1)

    def overtaken() -> Iterator[pa.RecordBatch]:
        late.run(0, batches("quick"))
        yield from slow

    assert late.run(0, overtaken()).rows == 1
    assert len(list((tmp_path / "topics" / "t-push" / "segments").iterdir())) == 2


def test_examples_of_keys_are_not_told_where_no_message_is_shown(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pydict({"k": ["secret", "secret"], DELETED: [False, False]})
    task = task_of(tmp_path, "string")
    assert task.run(0, iter([batch])).examples == ("secret",)
    try:
        hidden = dataclasses.replace(task, messages_shown=False, epoch=1)
        assert hidden.run(0, iter([batch])).examples == ("(not shown)",)
    finally:
        show_messages(True)
