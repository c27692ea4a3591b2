"""Scheduled catch-up: each run reads what came since the one before, and goes on from its state. No Spark."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza.errors import ConfigError, StateBusy, TopicError
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.epoch_records import StageStart
from airflow_samza.runs.records.folders import must_read
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.state_upkeep import abandon, reset
from airflow_samza.runs.state_history.versions import version_of_run
from tests.support.budgets import extended_but
from tests.support.runs_here import Here, slice_of

COUNTING = "tests.support.carrying_apps:counting"
JOINING = "tests.support.carrying_apps:joining"


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def clicks(here: Here, first: int, count: int) -> list[tuple[int, str]]:
    """Appends clicks of three members; each as (member, page)."""
    rows = [{"member": n % 3, "page": f"p{n}", "n": n} for n in range(first, first + count)]
    here.log.append("clicks", pa.Table.from_pylist(rows, SCHEMA), key=["member"], partitions=2)
    return [(n % 3, f"p{n}") for n in range(first, first + count)]


SCHEMA = pa.schema([("member", pa.int64()), ("page", pa.string()), ("n", pa.int64())])


def numbered(here: Here) -> list[tuple[int, str, int]]:
    return sorted((row["member"], row["page"], row["number"]) for row in here.rows("numbered"))


def expected(count: int) -> list[tuple[int, str, int]]:
    return sorted((n % 3, f"p{n}", n // 3 + 1) for n in range(count))


def test_each_run_reads_what_is_new_and_goes_on_from_the_state(here: Here) -> None:
    for run in range(3):
        clicks(here, run * 10, 10)
        plan = here.whole(COUNTING, f"run-{run}")
        assert sum(end - start for start, end in slice_of(plan, "clicks")["offsets"]) == 10
    assert numbered(here) == expected(30)


def test_a_run_without_news_ends_all_the_same(here: Here) -> None:
    clicks(here, 0, 5)
    here.whole(COUNTING, "run-1")
    here.whole(COUNTING, "run-2")
    clicks(here, 5, 5)
    here.whole(COUNTING, "run-3")
    assert numbered(here) == expected(10)


def test_two_stages_and_two_inputs_carry_on(here: Here) -> None:
    view = pa.schema([("member", pa.int64()), ("seconds", pa.int64())])
    for run in range(3):
        clicks(here, run * 4, 4)
        rows = [{"member": (n + 1) % 3, "seconds": n} for n in range(run * 4, run * 4 + 4)]
        here.log.append("views", pa.Table.from_pylist(rows, view), key=["member"], partitions=1)
        here.whole(JOINING, f"run-{run}")
    wanted = sorted((n % 3, f"p{n}", m) for n in range(12) for m in range(12) if (m + 1) % 3 == n % 3)
    assert sorted((row["member"], row["page"], row["seconds"]) for row in here.rows("joined")) == wanted


def test_a_retried_stage_starts_from_the_same_version(here: Here) -> None:
    clicks(here, 0, 6)
    here.whole(COUNTING, "run-1")
    clicks(here, 6, 6)
    plan = here.plan(COUNTING, "run-2")
    clicks(here, 12, 6)
    here.stages(plan)
    here.stages(plan, generation=2)
    assert numbered(here) == expected(12)
    here.runtime.close(plan)
    here.whole(COUNTING, "run-3")
    assert numbered(here) == expected(18)


def test_a_run_that_is_planned_anew_replaces_its_output_and_state(here: Here) -> None:
    clicks(here, 0, 6)
    here.whole(COUNTING, "run-1")
    clicks(here, 6, 6)
    here.whole(COUNTING, "run-2")
    clicks(here, 12, 6)
    here.whole(COUNTING, "run-2", generation=2)
    assert numbered(here) == expected(18)


def test_the_first_run_may_start_at_the_head(here: Here) -> None:
    clicks(here, 0, 6)
    here.whole(COUNTING, "run-1", config={"streams.clicks.samza.offset.default": "upcoming"})
    assert "numbered" in here.log.topics()
    assert numbered(here) == []
    clicks(here, 6, 3)
    here.whole(COUNTING, "run-2")
    assert [(member, page) for member, page, _ in numbered(here)] == [(0, "p6"), (1, "p7"), (2, "p8")]


def test_a_backfill_has_a_state_of_its_own(here: Here) -> None:
    clicks(here, 0, 6)
    here.whole(COUNTING, "run-1")
    backfill = here.whole(COUNTING, "backfill", state_from="fresh")
    assert sum(end - start for start, end in slice_of(backfill, "clicks")["offsets"]) == 6
    assert numbered(here) == sorted(expected(6) * 2)
    clicks(here, 6, 6)
    here.whole(COUNTING, "run-2")
    assert numbered(here) == sorted(expected(6) + expected(12))


def test_a_run_may_start_from_the_state_of_a_named_one(here: Here) -> None:
    clicks(here, 0, 6)
    here.whole(COUNTING, "run-1")
    clicks(here, 6, 6)
    here.whole(COUNTING, "run-2")
    again = here.whole(COUNTING, "again", state_from="run-1")
    assert sum(end - start for start, end in slice_of(again, "clicks")["offsets"]) == 6
    assert numbered(here) == sorted(expected(12) + [row for row in expected(12) if row not in expected(6)])
    left = version_of_run(here.log.filesystem, StateHistory("counting"), "again")
    assert left is not None
    assert left.parent == 1


@pytest.mark.extended
def test_a_run_that_finds_the_state_busy_is_told_how_to_wait_in_airflow_and_on_the_command_line(here: Here) -> None:
    clicks(here, 0, 6)
    here.plan(COUNTING, "run-1")
    with pytest.raises(StateBusy) as caught:
        here.plan(COUNTING, "run-2")
    assert caught.value.hint == (
        "Try again when it is over, or wait for it: in Airflow with wait_for_state=True (the default), on the command "
        "line with --config job.state.lease.wait.ms=600000 (ten minutes)."
    )
    told: list[str] = []
    patient = RunRequest(COUNTING, "run-2", config={"job.state.lease.wait.ms": "3000"})
    with pytest.raises(StateBusy):
        here.runtime.prepare(patient, on_wait=told.append)
    assert [text for text in told if "is held by the run 'run-1'" in text]


def test_a_run_is_rejected_while_another_has_not_finished(here: Here) -> None:
    clicks(here, 0, 6)
    first = here.plan(COUNTING, "run-1")
    with pytest.raises(StateBusy, match="is held by the run 'run-1', which is planned and about to start"):
        here.plan(COUNTING, "run-2")
    here.stages(first)
    second = here.plan(COUNTING, "run-2")  # the first is rolled forward, though nobody closed it
    assert second.state is not None
    assert second.state.version == 1


def test_an_input_that_was_made_anew_is_rejected(here: Here) -> None:
    clicks(here, 0, 60)
    here.whole(COUNTING, "run-1")
    here.log.filesystem.delete_tree("topics/clicks")
    clicks(here, 0, 6)
    with pytest.raises(
        TopicError, match=r"The input 'clicks' ends at offset .* and was read up to .*: it was created again"
    ) as caught:
        here.plan(COUNTING, "run-2")
    assert "airflow-samza state reset" in caught.value.hint


def test_what_cannot_be_planned_holds_no_lease(here: Here) -> None:
    clicks(here, 0, 6)
    with pytest.raises(ConfigError, match=r"offset\.default is 'first'"):
        here.plan(COUNTING, "run-1", config={"streams.clicks.samza.offset.default": "first"})
    assert here.plan(COUNTING, "run-2").state is not None


def test_an_abandoned_runs_slice_is_read_by_the_next(here: Here) -> None:
    clicks(here, 0, 6)
    here.plan(COUNTING, "run-1")
    abandon(here.log.filesystem, StateHistory("counting"), "run-1", force=True)
    here.whole(COUNTING, "run-2")
    assert numbered(here) == expected(6)


def test_a_start_record_names_the_version(here: Here) -> None:
    clicks(here, 0, 6)
    here.whole(COUNTING, "run-1")
    plan = here.plan(COUNTING, "run-2")
    path = plan.start_of("clicks")
    assert path is not None
    record = must_read(here.log.filesystem, path, StageStart)
    assert record.version == 1
    assert set(record.tasks) == {0, 1}


@pytest.mark.parametrize("seed", extended_but(range(1), range(8)))
@pytest.mark.few(1, 3)
def test_any_sequence_of_runs_gives_what_one_run_gives(here: Here, seed: int) -> None:
    """Runs, backfills, retries, clears and runs that die after some stages, in random order."""
    rng = random.Random(seed)
    total = number = 0
    for _ in range(8):
        if rng.random() < 0.8:
            total += len(clicks(here, total, rng.randint(1, 7)))
        number += 1
        run_id = f"run-{number}"
        if not total:
            continue
        plan = here.plan(COUNTING, run_id)
        fate = rng.choice(["whole", "retried", "cleared stage", "planned anew", "never ran", "not closed"])
        if fate == "never ran":
            abandon(here.log.filesystem, StateHistory("counting"), run_id, force=True)
            continue
        here.stages(plan)
        if fate == "retried":
            here.stages(plan)
        elif fate == "cleared stage":
            here.stages(plan, generation=2)
        elif fate == "planned anew":
            total += len(clicks(here, total, 2))
            plan = here.plan(COUNTING, run_id, generation=2)
            here.stages(plan)
        if fate != "not closed":
            here.runtime.close(plan)
    if total:
        here.whole(COUNTING, "last")
        assert numbered(here) == expected(total)


def test_runs_of_many_epochs_leave_whole_states_and_keep_the_one_they_started_from(here: Here) -> None:
    config = {"job.epoch.max.messages": "2"}
    clicks(here, 0, 30)
    here.whole(COUNTING, "run-1", config=config)
    clicks(here, 30, 30)
    second = here.plan(COUNTING, "run-2", config=config)
    here.stages(second)
    assert len(here.log.filesystem.list(f"runs/counting/{second.run_id}/stages/clicks/1.1/epochs")) > 5
    here.stages(second, generation=2)  # from the version before, of which nothing may be gone
    here.runtime.close(second)
    clicks(here, 60, 1)
    here.whole(COUNTING, "run-3", config=config)
    assert numbered(here) == expected(61)


def test_the_plan_says_what_is_read_since_which_run(here: Here) -> None:
    clicks(here, 0, 5)
    assert here.whole(COUNTING, "run-1").notes["clicks"]["clicks"].endswith("reads 5 offsets of the first run")
    clicks(here, 5, 1)
    assert (
        here.plan(COUNTING, "run-2")
        .notes["clicks"]["clicks"]
        .endswith("reads 1 offset since the run run-1 (version 1)")
    )


def test_a_plan_after_a_reset_names_the_reset_and_no_run(here: Here) -> None:
    clicks(here, 0, 5)
    here.whole(COUNTING, "run-1")
    reset(here.log.filesystem, StateHistory("counting", "1"), 1)
    assert here.plan(COUNTING, "run-2").notes["clicks"]["clicks"].endswith("since the reset (version 2)")
