"""All from which a process makes a stage's program, on its way through a file to the workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_samza.engine.stage_run import bind_inputs
from airflow_samza.engine.stage_setup import program_source
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.bound_systems import bind_systems, run_bindings
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.records import from_plain, plain
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from airflow_samza.task.program.stage_program import ProgramSource

APPLICATION = """
from airflow_samza import count, stream_application

@stream_application("sourced")
def app(app):
    lines = app.input_stream("lines", system="log", partitions=2)
    (
        lines.where("n > 0 AND regexp_replace(word, 'a', 'b') = 'b'")
        .partition_by("word", id="by-word")
        .aggregate("word", lines=count(), id="per-word")
        .send_to(app.output_stream("counts", system="log", partitions=2, key="word"))
    )
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPlan:
    import pyarrow as pa

    (tmp_path / "sourced_app.py").write_text(APPLICATION)
    monkeypatch.syspath_prepend(str(tmp_path))
    log = LogSystem("log", SystemBinding("log", {"root": str(tmp_path / "root")}))
    log.append("lines", pa.table({"word": ["a"], "n": pa.array([1], pa.int64())}), key=["word"], partitions=2)
    return SparkRuntime(str(tmp_path / "root")).prepare(RunRequest("sourced_app:app", "run"))


def source_of(run: RunPlan, tmp_path: Path) -> ProgramSource:
    files = open_filesystem(str(tmp_path / "root"))
    systems = bind_systems(run_bindings(run.systems, {}), files.root)
    handle = StageHandle(run.application, run.run_id, "lines", Generation(1, 1), 1)
    return program_source(systems, run, "lines", bind_inputs(files, systems, run, handle))


def test_a_source_comes_back_from_its_json_as_it_was(run: RunPlan, tmp_path: Path) -> None:
    source = source_of(run, tmp_path)
    assert source.schemas["lines"] == "word string, n bigint"
    assert from_plain(ProgramSource, plain(source)) == source


def test_a_worker_makes_the_same_program_of_it(run: RunPlan, tmp_path: Path) -> None:
    source = source_of(run, tmp_path)
    here, there = source.load(), from_plain(ProgramSource, plain(source)).load()
    assert {op: (c.engine, c.reason, c.schema) for op, c in there.operators.items()} == {
        op: (c.engine, c.reason, c.schema) for op, c in here.operators.items()
    }
    assert [(section.kind, section.operators) for section in there.sections] == [
        (s.kind, s.operators) for s in here.sections
    ]
    assert len(there.sections) > 1
