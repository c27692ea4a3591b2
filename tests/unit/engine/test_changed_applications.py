"""Rule P10 over runs: an application that was changed finds its state again, or is rejected with the way out.

No Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza.errors import PlanChanged
from airflow_samza.runs.lineage.folder import LineageFolder
from airflow_samza.runs.lineage.state_upkeep import reset
from airflow_samza.runs.records.run_plan import RunPlan
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
    reset(here.log.filesystem, LineageFolder("changing"), 0)
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
