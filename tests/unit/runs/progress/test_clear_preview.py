"""The preview of a clear: which stages go again, which have to, and why."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza.runs.progress.clear_preview import MUST, RUNS_AGAIN, STAYS, ClearPreview, clear_preview
from airflow_samza.runs.records.folders import RunFolder, replace, write_once
from airflow_samza.runs.records.liveness import identity
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.runs.stages.stage_runners import Claim, Heartbeat, RunnerFolder, RunnerPlace, StageRequest
from airflow_samza.runs.stages.stage_state import FAILED, RUNNING, StatusRecord
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.state_upkeep import reset
from tests.support.runs_here import Here

APPS = "tests.support.carrying_apps:"
CLICKS = pa.schema([("member", pa.int64()), ("page", pa.string()), ("n", pa.int64())])
FIRST, FEW, MORE, MET = "clicks", "by-member", "by-n", "few-by-page-and-more-by-page"


class Previews:
    """A run of four stages, the second and third of which read the first, and the fourth both."""

    def __init__(self, root: Path, application: str = "meeting") -> None:
        self.here = Here(root)
        self.files = self.here.log.filesystem
        self.clicks()
        self.run = self.here.plan(APPS + application, "run-1")
        self.stages = [stage.stage_id for stage in self.run.plan.stages]

    def clicks(self) -> None:
        rows = [{"member": n % 3, "page": f"p{n}", "n": n} for n in range(6)]
        self.here.log.append("clicks", pa.Table.from_pylist(rows, CLICKS), key=["member"], partitions=2)

    def preview(self, cleared: Collection[str], **given: bool) -> ClearPreview:
        return clear_preview(self.files, {"log": self.here.log}, self.run, cleared, **given)

    def effects(self, cleared: Collection[str], **given: bool) -> dict[str, str]:
        return {stage.stage_id: stage.effect for stage in self.preview(cleared, **given).stages}

    def why(self, stage_id: str, cleared: Collection[str], **given: bool) -> str:
        return next(stage.why for stage in self.preview(cleared, **given).stages if stage.stage_id == stage_id)

    def delete_topic(self, stream_id: str) -> None:
        bound = self.run.intermediate(stream_id, Generation(1, 1))
        self.files.delete_tree(self.here.log.topic(bound.spec.name).directory)


@pytest.fixture
def previews(tmp_path: Path) -> Previews:
    return Previews(tmp_path)


def test_stages_that_have_read_what_a_cleared_one_wrote_must_run_again(previews: Previews) -> None:
    previews.here.stages(previews.run)
    assert previews.effects([FIRST]) == {FIRST: RUNS_AGAIN, FEW: MUST, MORE: MUST, MET: MUST}
    assert previews.effects([FEW]) == {FIRST: STAYS, FEW: RUNS_AGAIN, MORE: STAYS, MET: MUST}
    assert previews.effects([MET]) == {FIRST: STAYS, FEW: STAYS, MORE: STAYS, MET: RUNS_AGAIN}


def test_the_nearest_cleared_producers_are_named_each_once(previews: Previews) -> None:
    previews.here.stages(previews.run)
    said = "It has read what {} wrote before, and keeps that until it is cleared, too."
    assert previews.why(MET, [FIRST]) == said.format(FIRST)  # by two ways
    assert previews.why(MET, [FIRST, FEW]) == said.format(FEW)
    assert previews.why(MET, [FEW, MORE]) == said.format(f"{FEW}, {MORE}")
    assert previews.why(FIRST, [MET]) == "It reads nothing that is written anew."


def test_a_stage_that_has_not_begun_reads_what_is_written_anew(previews: Previews) -> None:
    previews.here.stages(previews.run, FIRST)
    assert previews.effects([FIRST]) == {FIRST: RUNS_AGAIN, FEW: STAYS, MORE: STAYS, MET: STAYS}
    assert previews.why(FEW, [FIRST]) == f"It has not begun, and will read what {FIRST} writes anew."


def test_a_stage_that_airflow_has_left_behind_a_failed_one_must_be_cleared_too(previews: Previews) -> None:
    previews.here.stages(previews.run, FIRST)
    stage = RunFolder(previews.run.application, "run-1").stage(FEW, Generation(1, 1))
    write_once(previews.files, stage.attempt(1, "request"), StageRequest(FEW, "1.1", 1, runner=RunnerPlace("key", 1)))
    replace(previews.files, stage.attempt(1, "status"), StatusRecord(FAILED, at=1.0))
    assert previews.effects([FEW]) == {FIRST: STAYS, FEW: RUNS_AGAIN, MORE: STAYS, MET: MUST}
    assert previews.why(MET, [FEW]) == ("It has not begun, and Airflow starts it only when it is cleared, too.")
    assert previews.effects([], plan=True) == {FIRST: MUST, FEW: MUST, MORE: STAYS, MET: MUST}
    assert previews.effects([FEW], downstream=True)[MET] == RUNS_AGAIN


def test_a_cleared_stage_does_not_run_before_what_has_failed_before_it_is_cleared_too(previews: Previews) -> None:
    previews.here.stages(previews.run, FIRST, MORE)
    stage = RunFolder(previews.run.application, "run-1").stage(FEW, Generation(1, 1))
    write_once(previews.files, stage.attempt(1, "request"), StageRequest(FEW, "1.1", 1, runner=RunnerPlace("key", 1)))
    replace(previews.files, stage.attempt(1, "status"), StatusRecord(FAILED, at=1.0))
    assert previews.effects([MET]) == {FIRST: STAYS, FEW: MUST, MORE: STAYS, MET: STAYS}
    assert previews.why(MET, [MET]) == (
        f"Airflow does not start it behind {FEW}, which has not succeeded, until that is cleared, too."
    )
    assert previews.effects([MORE], downstream=True) == {FIRST: STAYS, FEW: MUST, MORE: RUNS_AGAIN, MET: STAYS}
    assert previews.effects([MORE]) == {FIRST: STAYS, FEW: MUST, MORE: RUNS_AGAIN, MET: MUST}
    assert previews.effects([FEW, MET]) == {FIRST: STAYS, FEW: RUNS_AGAIN, MORE: STAYS, MET: RUNS_AGAIN}


def test_a_stage_of_a_run_that_is_over_must_be_cleared_too(previews: Previews) -> None:
    previews.here.stages(previews.run, FIRST)
    write_once(previews.files, RunFolder(previews.run.application, "run-1").closed, RunEnd(False, 0.0))
    assert previews.effects([FIRST]) == {FIRST: RUNS_AGAIN, FEW: MUST, MORE: MUST, MET: MUST}


def test_a_stage_at_work_stops_when_what_it_reads_is_cleared(previews: Previews) -> None:
    previews.here.stages(previews.run, FIRST)
    runner = RunnerFolder(RunFolder(previews.run.application, "run-1"), "key", 1)
    write_once(previews.files, runner.claim, Claim(**identity(), claimed_at=1.0))
    replace(previews.files, runner.heartbeat, Heartbeat(1e12))
    stage = runner.run.stage(FEW, Generation(1, 1))
    write_once(previews.files, stage.attempt(1, "request"), StageRequest(FEW, "1.1", 1, runner=RunnerPlace("key", 1)))
    replace(previews.files, stage.attempt(1, "status"), StatusRecord(RUNNING, at=1.0))
    assert previews.effects([FIRST])[FEW] == MUST
    assert previews.why(FEW, [FIRST]) == (
        f"It is at work on what {FIRST} writes, and stops with an error when that is cleared."
    )


def test_downstream_clears_the_readers_too(previews: Previews) -> None:
    previews.here.stages(previews.run)
    assert previews.effects([FEW], downstream=True) == {FIRST: STAYS, FEW: RUNS_AGAIN, MORE: STAYS, MET: RUNS_AGAIN}
    assert set(previews.effects([FIRST], downstream=True).values()) == {RUNS_AGAIN}


def test_a_stage_shows_what_its_last_result_has(previews: Previews) -> None:
    previews.here.stages(previews.run, FIRST)
    first, few, *_ = previews.preview([FIRST]).stages
    assert (first.messages, few.messages, few.seconds) == (6, None, None)
    assert first.seconds is not None


def test_a_cleared_stage_whose_input_is_deleted_needs_those_that_write_it(previews: Previews) -> None:
    previews.here.stages(previews.run)
    for stream_id in ("by-member", "few-by-page"):
        previews.delete_topic(stream_id)
    assert previews.effects([MET]) == {FIRST: MUST, FEW: MUST, MORE: MUST, MET: RUNS_AGAIN}
    assert previews.why(FEW, [MET]) == (
        "Its output 'few-by-page' is deleted by now, and a cleared stage has to read it."
    )
    assert previews.effects([FIRST]) == {FIRST: RUNS_AGAIN, FEW: MUST, MORE: MUST, MET: MUST}


def test_a_topic_that_nobody_has_written_is_not_missed(previews: Previews) -> None:
    previews.here.stages(previews.run, FIRST)
    assert previews.effects([MET]) == {FIRST: STAYS, FEW: STAYS, MORE: STAYS, MET: RUNS_AGAIN}


def test_a_new_plan_leaves_what_has_run_by_the_former_one_and_runs_the_rest(previews: Previews) -> None:
    previews.here.stages(previews.run, FIRST)
    assert previews.effects([], plan=True) == {FIRST: MUST, FEW: STAYS, MORE: STAYS, MET: STAYS}
    assert previews.why(FIRST, [], plan=True).startswith("It was run by the former plan")
    assert previews.why(FEW, [], plan=True) == "It has not begun, and will run by the new plan."


def test_a_new_plan_with_all_stages_runs_those_whose_results_it_cannot_keep(previews: Previews) -> None:
    previews.here.stages(previews.run)
    assert set(previews.effects([], plan=True, downstream=True).values()) == {RUNS_AGAIN}
    assert previews.why(FIRST, [], plan=True, downstream=True).startswith("It runs by the new plan: ")


def test_a_run_that_is_over_is_opened_again(previews: Previews) -> None:
    assert previews.preview([FIRST]).sentences == ()
    write_once(previews.files, RunFolder(previews.run.application, "run-1").closed, RunEnd(True, 0.0))
    assert previews.preview([FIRST], downstream=True).sentences == (
        "The run is over, and is opened again; cleanup runs again behind it.",
    )
    assert previews.preview([FIRST]).sentences == (
        "The run is over, and is opened again; clear cleanup, too: Airflow does not run it again.",
    )


# -- state, and other applications -------------------------------------------------------------------------------------


def test_later_runs_that_went_on_from_the_state_have_to_be_undone_before_a_new_plan(tmp_path: Path) -> None:
    previews = Previews(tmp_path, "counting")
    previews.here.stages(previews.run)
    previews.here.runtime.close(previews.run)
    over = "The run is over, and is opened again; cleanup runs again behind it."
    assert previews.preview([], plan=True, downstream=True).sentences == (over,)
    for run_id in ("run-2", "run-3"):
        previews.clicks()
        previews.here.whole(APPS + "counting", run_id)
    _, said = previews.preview([], plan=True, downstream=True).sentences
    assert said == (
        "Later runs ('run-2', 'run-3') have continued from the state that this run left (version 1): undo them first "
        "(airflow-samza state reset counting --to 0), and clear them behind it, too, in their order."
    )
    assert previews.preview(previews.stages, downstream=True).sentences == (
        over,
    )  # it writes again what it wrote, and no state
    reset(previews.files, StateHistory(previews.run.application, previews.run.app_id), 0)
    assert previews.preview([], plan=True, downstream=True).sentences == (over,)  # they are undone


def test_runs_of_other_applications_that_hold_what_was_written_are_named(tmp_path: Path) -> None:
    previews = Previews(tmp_path, "producing")
    previews.here.stages(previews.run)
    previews.here.runtime.close(previews.run)
    assert previews.preview(previews.stages).readers == ()
    previews.here.whole(APPS + "following", "follower")
    (reader,) = previews.preview(previews.stages).readers
    assert (reader.application, reader.run_id, reader.stream_id) == ("following", "follower", "shared-clicks")
    assert previews.preview(previews.stages[:1]).readers == ()  # another stage writes it
    assert previews.preview([], plan=True).readers == (reader,)
