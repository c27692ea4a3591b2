"""The starts of a run's tasks cost what these tasks have left, not the square of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza import stream_application
from airflow_samza.task.checkpoint import TaskCheckpoint
from tests.support.runs_here import Here

STAGES, TASKS = 12, 2


@stream_application("chain")
def chain(app: Any) -> None:
    found = app.input_stream("rows", system="log", schema="k string", slice="checkpoint")
    for number in range(STAGES - 1):
        found = found.partition_by("k", id=f"by-{number}").where("k <> ''", id=f"w-{number}")
    found.send_to(app.output_stream("out", system="log", partitions=TASKS, key="k"))


def test_what_a_task_has_left_is_prepared_once_for_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Here(tmp_path / "root")
    here.log.append("rows", pa.table({"k": ["a", "b"]}), key=["k"], partitions=TASKS)
    run = here.plan(f"{__name__}:chain", "one")
    here.stages(run)
    here.runtime.close(run)
    prepared: list[TaskCheckpoint] = []
    for_next_run = TaskCheckpoint.for_next_run

    def counted(self: TaskCheckpoint, external: Any) -> TaskCheckpoint:
        prepared.append(self)
        return for_next_run(self, external)

    monkeypatch.setattr(TaskCheckpoint, "for_next_run", counted)
    here.plan(f"{__name__}:chain", "two")
    assert len(prepared) == STAGES * TASKS
