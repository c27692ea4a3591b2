"""Results that a new plan may keep: those of stages whose inputs and callables can be compared."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.runs.kept_results import NOT_COMPARABLE, standing_result, why_never
from airflow_samza.runs.records.folders import RunFolder, must_read, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import CODE, StageResult
from airflow_samza.runs.stages.run_ends import EndRequest
from tests.support.runs_here import Here

MEETING = "tests.support.carrying_apps:meeting"
CLICKS = pa.schema([("member", pa.int64()), ("page", pa.string()), ("n", pa.int64())])


class Ground:
    """A run whose first stage has a result that a plan may keep."""

    def __init__(self, root: Path) -> None:
        self.here = Here(root)
        self.files = self.here.log.filesystem
        rows = [{"member": n % 3, "page": f"p{n}", "n": n} for n in range(6)]
        self.here.log.append("clicks", pa.Table.from_pylist(rows, CLICKS), key=["member"], partitions=2)
        self.run = self.here.plan(MEETING, "run-1")
        self.folder = RunFolder("meeting", "run-1")
        self.here.stages(self.run, "clicks")
        found = must_read(self.files, self.folder.stage("clicks", Generation(1, 1)).result, StageResult)
        self.result = dataclasses.replace(found, fingerprint={CODE: "abc", "plan": "def"})

    def why(self, run: RunPlan | None = None, result: Any = "as it is") -> str:
        run = run or self.run
        stage = run.plan.stage("clicks")
        return why_never(self.files, run, stage, self.result if result == "as it is" else result)


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def test_a_result_with_a_fingerprint_may_be_kept(ground: Ground) -> None:
    assert ground.why() == ""


@pytest.mark.parametrize(
    ("fingerprint", "why"), [({}, "its result has no fingerprint"), ({"plan": "def", CODE: ""}, NOT_COMPARABLE)]
)
def test_a_result_that_cannot_be_compared_is_never_kept(ground: Ground, fingerprint: dict[str, str], why: str) -> None:
    assert ground.why(result=dataclasses.replace(ground.result, fingerprint=fingerprint)) == why


def test_a_stage_that_has_not_finished_has_nothing_to_keep(ground: Ground) -> None:
    assert ground.why(result=None) == "it has not finished"


def test_results_that_go_on_from_state_are_never_kept(ground: Ground) -> None:
    said = "it goes on from state, which a new plan begins anew"
    assert ground.why(dataclasses.replace(ground.run, mode="continuous")) == said


@pytest.mark.parametrize("how", ["stop", "drain"])
def test_a_result_of_a_run_that_was_ended_before_its_inputs_is_never_kept(ground: Ground, how: str) -> None:
    write_once(ground.files, getattr(ground.folder, how)(2), EndRequest("somebody", 1.0))
    assert ground.why() == ""  # another plan was ended
    write_once(ground.files, getattr(ground.folder, how)(1), EndRequest("somebody", 1.0))
    assert ground.why() == "it was ended before its inputs were"


def test_what_spark_reads_may_have_changed(ground: Ground) -> None:
    run = dataclasses.replace(ground.run, systems={"log": {"kind": "spark"}})
    assert ground.why(run) == "it reads clicks through Spark, which does not say whether that has changed"


def test_the_standing_result_is_that_of_the_newest_generation(ground: Ground) -> None:
    standing = standing_result(ground.files, ground.folder, "clicks")
    assert standing is not None
    assert standing.generation == "1.1"
    assert standing_result(ground.files, ground.folder, "by-member") is None
    ground.files.make_dirs(ground.folder.stage("clicks", Generation(1, 2)).attempts)
    assert standing_result(ground.files, ground.folder, "clicks") is None  # its output may be half there
