"""The newest generation of a stage under a plan, before and after it is submitted."""

from __future__ import annotations

from pathlib import Path

from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.stages.newest_stages import finished_stage, newest_handle, newest_submitted
from tests.support.slot_runs import Outputs


def test_a_stage_that_was_not_submitted_is_named_by_its_first_generation(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path)
    outputs.day(1, 1, 2)
    plan, files = (
        outputs.plan(run_id="one", day=1, application="tests.support.compared_apps:sales"),
        outputs.here.log.filesystem,
    )
    (stage, *_) = plan.plan.stages
    assert newest_submitted(files, plan, stage.stage_id) is None
    assert newest_handle(files, plan, stage.stage_id).generation == Generation(1, 1)
    outputs.here.stages(plan)
    assert finished_stage(files, plan, stage.stage_id) == newest_handle(files, plan, stage.stage_id)
