"""Runs that write older rows over those of later ones: previews and plans name the later ones, and the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.progress import run_list
from airflow_samza.runs.progress.clear_preview import RUNS_AGAIN, STAYS, clear_preview
from airflow_samza.runs.progress.later_writers import near
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.folders import RunFolder, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import CODE
from airflow_samza.runs.stages.stage_runners import StageRequest
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.state_upkeep import reset
from tests.support.upserting_apps import APPLICATION, SAID, Members

SAYS = (
    "The later {} written to 'history', 'members', and this run replaces newer rows there by older ones: clear {} "
    "behind it, too{}."
)


def said(*run_ids: str) -> tuple[str, ...]:
    named = ", ".join(repr(one) for one in run_ids)
    if len(run_ids) == 1:
        return (SAYS.format(f"run {named} has", "it", ""),)
    return (SAYS.format(f"runs {named} have", "them", ", in their order"),)


def day(number: int) -> DataInterval:
    start, end = (datetime(2026, 1, each, tzinfo=timezone.utc) for each in (number, number + 1))
    return DataInterval(start, end)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Members]:
    SAID.clear()
    yield Members(tmp_path)
    SAID.clear()


def warned(plan: RunPlan) -> tuple[str, ...]:
    return tuple(warning for warning in plan.plan.warnings if "written to" in warning)


def sentences(here: Members, run: RunPlan, *stages: str, **given: bool) -> tuple[str, ...]:
    found = clear_preview(here.log.filesystem, {}, run, stages, **given).sentences
    return tuple(one for one in found if not one.startswith("The run is over"))


def three_runs(here: Members) -> list[RunPlan]:
    plans = []
    for number, name in enumerate(("one", "two", "three"), 1):
        here.write(name, [("u", 1, f"tier {number}", number)])
        given = {"interval": day(number)} if SAID.get("dated") else {}
        plans.append(here.whole(APPLICATION, name, **given))
    return plans


def test_the_clear_of_a_stage_of_an_older_run_names_the_later_runs(here: Members) -> None:
    one, two, three = three_runs(here)
    assert [warned(each) for each in (one, two, three)] == [(), (), ()]
    assert sentences(here, one, "by-member") == said("two", "three")
    assert sentences(here, two, "by-member") == said("three")
    assert sentences(here, three, "by-member") == ()
    assert sentences(here, one, "changes") == ()  # it writes nothing outside


def test_the_sentence_is_true_and_the_remedy_helps(here: Members) -> None:
    one, two, three = three_runs(here)
    assert here.newest() == [(1, "tier 3")]
    here.stages(one, generation=2)
    assert here.newest() == [(1, "tier 1")]
    for plan in (two, three):
        here.stages(plan, generation=2)
    assert here.newest() == [(1, "tier 3")]


def test_a_run_that_is_planned_anew_behind_a_reset_warns(here: Members) -> None:
    one, *_ = three_runs(here)
    files = here.log.filesystem
    assert "airflow-samza state reset members --to 0" in sentences(here, one, plan=True, downstream=True)[0]
    reset(files, StateHistory("members", one.app_id), 0)
    assert sentences(here, one, plan=True, downstream=True) == said("two", "three")
    here.write("four", [("u", 1, "tier 0", 0)])
    again = here.plan(APPLICATION, "one", generation=2)
    assert warned(again) == said("two", "three")
    here.stages(again)
    here.runtime.close(again)
    assert warned(here.plan(APPLICATION, "two", generation=2)) == said("three")


def test_a_run_with_a_state_of_its_own_warns_by_its_interval(here: Members) -> None:
    SAID["dated"] = True
    three_runs(here)
    for number, later in ((1, said("two", "three")), (2, said("three")), (3, ()), (4, ())):
        preview = here.runtime.preview(
            RunRequest(APPLICATION, f"again-{number}", interval=day(number), state_from="fresh")
        )
        assert warned(preview) == later
        assert warned(here.plan(APPLICATION, f"again-{number}", interval=day(number), state_from="fresh")) == later


def test_without_state_or_interval_the_run_that_was_planned_later_is_later(
    here: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    SAID["input"] = {"slice": None}
    clock = iter(range(1, 100))
    monkeypatch.setattr(run_list, "time", SimpleNamespace(time=lambda: float(next(clock))))
    plans = []
    for name in ("first", "second"):
        here.write(name, [("u", 1, name, 1)])
        plans.append(here.plan(APPLICATION, name))
        run_list.note_origin(here.log.filesystem, RunFolder("members", name), {})
    here.stages(plans[1])
    assert sentences(here, plans[0], "by-member") == said("second")
    assert sentences(here, plans[1], "by-member") == ()
    here.write("third", [("u", 1, "third", 1)])
    assert warned(here.plan(APPLICATION, "first", generation=2)) == said("second")


def submitted(here: Members, run: RunPlan) -> None:
    """Run stages as if they had been submitted, so that their results say of which code they are."""
    for stage in run.plan.stages:
        handle = StageHandle(run.application, run.run_id, stage.stage_id, Generation(run.generation, 1))
        code = run.fingerprints[stage.stage_id][CODE]
        request = StageRequest(stage.stage_id, str(handle.generation), 1, code=code)
        write_once(here.log.filesystem, handle.folder.attempt(1, "request"), request)
    here.stages(run)
    here.runtime.close(run)


def test_a_later_run_that_is_cleared_behind_an_older_one_keeps_no_result(here: Members) -> None:
    SAID["dated"], SAID["input"] = True, {"slice": None, "path": "in/{ds}.json"}
    plans = {}
    for number in (1, 2, 3):
        here.write(f"2026-01-0{number}", [("u", 1, f"tier {number}", number)])
        plans[number] = here.plan(APPLICATION, f"day-{number}", interval=day(number))
        submitted(here, plans[number])

    def of_stage(number: int) -> tuple[str, str]:
        found = clear_preview(here.log.filesystem, {}, plans[number], [], plan=True, downstream=True)
        (stage,) = [one for one in found.stages if one.stage_id == "by-member"]
        return stage.effect, stage.why

    assert {of_stage(number)[0] for number in plans} == {STAYS}  # unless the new plan finds that something has changed
    here.write("2026-01-01", [("u", 1, "corrected", 4)])
    plans[1] = here.plan(APPLICATION, "day-1", interval=day(1), generation=2)
    assert warned(plans[1]) == said("day-2", "day-3")
    submitted(here, plans[1])
    assert here.newest() == [(1, "corrected")]
    why = "It runs by the new plan: the older run 'day-1' has written to history behind it."
    assert [of_stage(number) for number in (2, 3)] == [(RUNS_AGAIN, why)] * 2
    for number in (2, 3):
        plans[number] = here.plan(APPLICATION, f"day-{number}", interval=day(number), generation=2)
        assert not plans[number].reuse["by-member"].kept
        submitted(here, plans[number])
    assert here.newest() == [(1, "tier 3")]
    assert {of_stage(number)[0] for number in plans} == {STAYS}


def test_a_run_that_has_written_nothing_yet_is_not_named(here: Members) -> None:
    here.write("one", [("u", 1, "a", 1)])
    one = here.whole(APPLICATION, "one")
    two = here.plan(APPLICATION, "two")
    assert sentences(here, one, "by-member") == ()
    here.write("two", [("u", 1, "b", 2)])
    here.stages(two)
    assert sentences(here, one, "by-member") == said("two")


def test_an_output_with_another_id_at_the_same_table_is_the_same_output(here: Members) -> None:
    SAID["dated"] = True
    three_runs(here)
    SAID["id"] = "people"
    plan = here.plan(APPLICATION, "again", interval=day(2), state_from="fresh")
    assert [one.replace("people", "members") for one in warned(plan)] == [*said("three")]


def test_outputs_of_which_each_run_has_its_own_rows_need_no_word(here: Members) -> None:
    SAID["output"] = {"mode": "append"}
    one, *_ = three_runs(here)
    assert sentences(here, one, "by-member") == ()


DAYS = [f"dag-group-scheduled__20{year:02}-01-01T00-00-00-00-00-{year:06x}" for year in range(10, 90)]
MORE = [f"dag-group-backfill__20{year:02}-07-01T00-00-00-00-00-{year:06x}" for year in range(10, 90)]
BY_HAND = [f"by-hand-{number:03}" for number in range(150)]


def test_of_few_runs_all_may_be_later() -> None:
    assert near([*DAYS[:9], *BY_HAND[:9]], DAYS[3], later=True) == [*DAYS[:3], *DAYS[4:9], *BY_HAND[:9]]


@pytest.mark.parametrize("later", [True, False])
def test_of_many_runs_the_nearest_of_one_side_are_read_and_the_last_without_a_date(later: bool) -> None:
    own = DAYS[60]
    found = near([*DAYS, *MORE, *BY_HAND], own, later=later)
    behind, before = [*DAYS[61:], *MORE[60:]], [*DAYS[:60], *MORE[:60]]
    assert set(found[:-100]) <= set(behind if later else before)
    assert found[0] == (MORE[60] if later else MORE[59])
    assert len(found) == (39 if later else 100) + 100
    assert found[-100:] == BY_HAND[:49:-1]


def test_of_many_runs_the_last_may_be_later_than_one_without_a_date() -> None:
    found = near([*DAYS, *MORE, "by-hand"], "by-hand-2", later=True)
    assert found[0] == MORE[-1]
    assert len(found) == 101
    assert found[-1] == "by-hand"
