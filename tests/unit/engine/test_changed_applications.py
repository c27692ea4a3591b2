"""Rule P10 over runs: an application that was changed finds its state again, or is rejected with the way out.

No Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza.errors import PlanChanged
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.state_upkeep import reset
from tests.support.changing_modules import ChangingModules
from tests.support.runs_here import Here

APPLICATION = """
from airflow_samza import stream_application

SCHEMA = "member bigint, n bigint"

@stream_application("changing", dropped={dropped})
def app(app):
    left = app.input_stream("left", system="log", schema=SCHEMA, slice="checkpoint").partition_by("member", {partition_by})
    right = app.input_stream("right", system="log", schema=SCHEMA, slice="checkpoint").partition_by("member", id="right-by-member")
    {more}
    joined = left.join(right, lambda one, other: {{"member": one.member, "left": one.n, "right": other.n}},
        {join}, key="member", ttl="1000 days", schema="member bigint, left bigint, right bigint")
    joined.send_to(app.output_stream("joined", system="log", key="member", partitions=1))
"""

Write = Callable[..., str]


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path / "root")


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    modules = ChangingModules(tmp_path, monkeypatch)

    def write(
        *, partition_by: str = 'id="left-by-member"', join: str = 'id="both"', more: str = "", dropped: str = "[]"
    ) -> str:
        modules.write(
            "changing_app", APPLICATION.format(partition_by=partition_by, join=join, more=more, dropped=dropped)
        )
        return "changing_app:app"

    return write


def append(here: Here, stream: str, *numbers: int, partitions: int = 1) -> None:
    rows = pa.table({"member": pa.array([1] * len(numbers), pa.int64()), "n": pa.array(numbers, pa.int64())})
    here.log.append(stream, rows, key=["member"], partitions=partitions)


def run(here: Here, application: str, run_id: str, config: dict[str, str] | None = None) -> RunPlan:
    return here.whole(application, run_id, config=config or {"job.intermediate.stream.partitions": "2"})


def pairs(here: Here) -> list[tuple[int, int]]:
    return sorted((row["left"], row["right"]) for row in here.rows("joined"))


def test_inferred_counts_are_pinned_with_the_reason(here: Here, written: Write) -> None:
    append(here, "left", 1)
    append(here, "right", 10)
    first = run(here, written(), "run-1")
    append(here, "right", 20)
    second = run(here, written(), "run-2", {"job.intermediate.stream.partitions": "5"})
    planned = second.plan.stream("left-by-member")
    assert (planned.partitions, planned.reason) == (2, f"pinned by plan {first.plan.fingerprint}")
    assert pairs(here) == [(1, 10), (1, 20)]


def test_an_input_with_another_partition_count_is_rejected_with_the_way_out(here: Here, written: Write) -> None:
    append(here, "left", 1)
    append(here, "right", 10)
    run(here, written(), "run-1")
    here.log.filesystem.delete_tree("topics/left")
    append(here, "left", 1, 2, partitions=3)
    with pytest.raises(PlanChanged, match=r"The stream 'left' has 3 partitions .* and had 1 in plan") as caught:
        run(here, written(), "run-2")
    assert "Give 'left' its 1 partitions back" in caught.value.hint
    reset(here.log.filesystem, StateHistory("changing"), 0)
    assert run(here, written(), "run-3").plan.stream("left").partitions == 3


def test_a_renamed_join_finds_its_state(here: Here, written: Write) -> None:
    append(here, "left", 1)
    append(here, "right")
    run(here, written(), "run-1")
    append(here, "right", 10)
    run(here, written(join='id="together", renamed_from="both"'), "run-2")
    assert pairs(here) == [(1, 10)]


def test_a_join_under_a_new_id_starts_anew_when_the_former_ones_state_is_dropped(here: Here, written: Write) -> None:
    append(here, "left", 1)
    append(here, "right")
    run(here, written(), "run-1")
    append(here, "left", 2)
    append(here, "right", 10)
    run(here, written(join='id="together"', dropped='["both"]'), "run-2")
    assert pairs(here) == [(2, 10)]


def test_a_renamed_partition_by_keeps_the_count_and_the_state_behind_it(here: Here, written: Write) -> None:
    append(here, "left", 1)
    append(here, "right")
    run(here, written(), "run-1")
    append(here, "right", 10)
    renamed = written(partition_by='id="lefts", renamed_from="left-by-member"')
    second = run(here, renamed, "run-2", {"job.intermediate.stream.partitions": "5"})
    assert second.plan.stream("lefts").partitions == 2
    assert pairs(here) == [(1, 10)]


def test_a_new_input_is_read_from_its_beginning(here: Here, written: Write) -> None:
    append(here, "left", 1)
    append(here, "right")
    run(here, written(), "run-1")
    append(here, "late", 7, 8)
    append(here, "right", 10)
    more = (
        'left = left.merge(app.input_stream("late", system="log", schema=SCHEMA, '
        'slice="checkpoint").partition_by("member", id="lates"))'
    )
    run(here, written(more=more), "run-2")
    assert pairs(here) == [(1, 10), (7, 10), (8, 10)]


COUNTED = """
from airflow_samza import stream_application, sum_, tumbling

@stream_application("counted")
def app(app):
    rows = app.input_stream("rows", system="log", schema="member bigint, n bigint, at timestamp", timestamp="at",
        max_delay=0, slice="checkpoint")
    rows.partition_by("member", id="by").window(tumbling("1 hour"), key="member", total=sum_("n"), id="hourly").send_to(
        app.output_stream("out", system="log", partitions=1))
"""
SECOND = 1_000_000


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    modules = ChangingModules(tmp_path, monkeypatch)

    def write() -> str:
        modules.write("counted_app", COUNTED)
        return "counted_app:app"

    return write


def come(here: Here, *rows: tuple[int, int], topic: str = "rows", partitions: int = 1) -> None:
    """Append a row per member and second; each counts for one."""
    columns = {
        "member": pa.array([member for member, _ in rows], pa.int64()),
        "n": pa.array([1] * len(rows), pa.int64()),
        "at": pa.array([second * SECOND for _, second in rows], pa.timestamp("us", "UTC")),
    }
    here.log.append(topic, pa.table(columns), key=["member"], partitions=partitions)


def drained(here: Here, application: str, run_id: str, partitions: int) -> RunPlan:
    plan = here.plan(application, run_id, mode="continuous", config=parted(partitions))
    here.runtime.drain(plan)
    here.stages(plan)
    here.runtime.close(plan)
    return plan


def parted(partitions: int) -> dict[str, str]:
    return {"job.intermediate.stream.partitions": str(partitions)}


def totals(here: Here) -> list[tuple[int, int]]:
    return sorted((row["member"], row["total"]) for row in here.rows("out"))


@pytest.mark.parametrize("later", [2, 5])
def test_after_a_drain_the_partitions_may_change(here: Here, counted: Write, later: int) -> None:
    come(here, *[(member, 1) for member in range(8)])
    drained(here, counted(), "run-1", 3)
    assert totals(here) == [(member, 1) for member in range(8)]
    come(here, *[(member, 7300) for member in range(8)], (0, 15000))
    second = run(here, counted(), "run-2", parted(later))
    assert second.plan.stream("by").partitions == later
    assert totals(here) == sorted([(member, 1) for member in range(8)] * 2)


def test_after_a_drain_windows_close_by_the_watermarks_of_later_runs(here: Here, counted: Write) -> None:
    come(here, (1, 1))
    drained(here, counted(), "run-1", 3)
    for number, second in enumerate((7300, 15000, 30000), 2):
        come(here, (1, second))
        run(here, counted(), f"run-{number}", parted(3))
    assert [row["window_start"].hour for row in here.rows("out")] == [0, 2, 4]


@pytest.mark.parametrize("later", [2, 5])
def test_a_run_without_messages_leaves_nothing_that_lies_by_partitions(here: Here, counted: Write, later: int) -> None:
    come(here, (1, 1))
    drained(here, counted(), "run-1", 3)
    run(here, counted(), "run-2", parted(3))  # it leaves times, at which no window has come
    assert run(here, counted(), "run-3", parted(later)).plan.stream("by").partitions == later


def test_state_that_lies_by_partitions_keeps_them(here: Here, counted: Write) -> None:
    come(here, (1, 1))
    first = run(here, counted(), "run-1", parted(3))
    assert (
        run(here, counted(), "run-2", parted(5)).plan.stream("by").reason == f"pinned by plan {first.plan.fingerprint}"
    )


def test_windows_that_have_closed_keep_the_partitions_in_which_they_did(here: Here, counted: Write) -> None:
    come(here, (1, 1), (1, 7300))
    first = run(here, counted(), "run-1", parted(3))
    come(here, (1, 8000))
    second = run(here, counted(), "run-2", parted(5))
    assert second.plan.stream("by").reason == f"pinned by plan {first.plan.fingerprint}"


def test_the_rejection_of_another_count_names_the_drain(here: Here, written: Write) -> None:
    append(here, "left", 1)
    append(here, "right", 10)
    run(here, written(), "run-1")
    here.log.filesystem.delete_tree("topics/left")
    append(here, "left", 1, 2, partitions=3)
    with pytest.raises(PlanChanged) as caught:
        run(here, written(), "run-2")
    assert 'or drain a run first (mode="continuous"), which leaves no state by partitions' in caught.value.hint
