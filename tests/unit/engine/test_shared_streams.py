"""Rule C10.

An application split over two Dags, whose consumer ends by the end-of-stream in the topic between them. No Spark.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.control.messages import EndOfStreamMessage
from airflow_samza.errors import SectionOpen, StateError, UnknownName, UnsupportedShape
from airflow_samza.systems.system import ControlEnvelope, StreamSpec, SystemStreamPartition
from tests.support.runs_here import Here, slice_of

APPS = "tests.support.carrying_apps"
PRODUCING, SUMMING, FOLLOWING = f"{APPS}:producing", f"{APPS}:summing", f"{APPS}:following"
SCHEMA = pa.schema([("member", pa.int64()), ("page", pa.string()), ("n", pa.int64())])


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def clicks(here: Here, first: int, count: int) -> None:
    rows = [{"member": n % 3, "page": f"p{n}", "n": n} for n in range(first, first + count)]
    here.log.append("clicks", pa.Table.from_pylist(rows, SCHEMA), key=["member"], partitions=2)


def produce(here: Here, run_id: str, first: int, count: int) -> None:
    clicks(here, first, count)
    here.whole(PRODUCING, run_id)


def sums(here: Here) -> list[tuple[int, int]]:
    return sorted((row["member"], row["clicks"]) for row in here.rows("sums"))


def numbered(here: Here) -> list[tuple[str, int]]:
    return sorted((row["page"], row["number"]) for row in here.rows("numbered"))


def test_the_producer_ends_its_section_under_the_name_of_its_run(here: Here) -> None:
    produce(here, "monday", 0, 6)
    consumer = here.log.consumer(StreamSpec("shared-clicks"))
    found = [
        e.message
        for e in consumer.read(SystemStreamPartition("log", "shared-clicks", 0))
        if isinstance(e, ControlEnvelope)
    ]
    assert {message.run for message in found} == {"monday"}
    ends = [message for message in found if isinstance(message, EndOfStreamMessage)]
    assert sorted(str(message.task_name) for message in ends) == [f"task-{n}" for n in range(ends[0].task_count)]


def test_a_consumer_of_one_section_ends_by_its_end_of_stream(here: Here) -> None:
    produce(here, "monday", 0, 6)
    produce(here, "tuesday", 6, 3)
    plan = here.whole(SUMMING, "of-monday", sections={"shared-clicks": "monday"})
    assert plan.options["sections"] == {"shared-clicks": "monday"}
    assert slice_of(plan, "shared-clicks")["sections"] == [
        {"run": "producing/monday", "producer": "producing/monday/by-member", "generation": "1.1"}
    ]
    assert plan.notes["shared-clicks"]["shared-clicks"].endswith("reads the section of producing/monday")
    assert sums(here) == [(0, 2), (1, 2), (2, 2)]
    here.whole(SUMMING, "of-tuesday", sections={"shared-clicks": "tuesday"})
    assert sums(here) == sorted([(0, 2), (1, 2), (2, 2), (0, 1), (1, 1), (2, 1)])


def test_without_a_name_all_complete_sections_are_read(here: Here) -> None:
    produce(here, "monday", 0, 6)
    produce(here, "tuesday", 6, 3)
    here.whole(SUMMING, "all")
    assert sums(here) == [(0, 3), (1, 3), (2, 3)]


def test_a_consumer_that_goes_on_reads_the_sections_that_are_new(here: Here) -> None:
    produce(here, "monday", 0, 3)
    here.whole(FOLLOWING, "follow-1")
    assert numbered(here) == [("p0", 1), ("p1", 1), ("p2", 1)]
    here.whole(FOLLOWING, "follow-2")
    produce(here, "tuesday", 3, 3)
    produce(here, "wednesday", 6, 3)
    here.whole(FOLLOWING, "follow-3")
    assert numbered(here) == [(f"p{n}", n // 3 + 1) for n in range(9)]


def test_interleaved_producers_are_told_apart(here: Here) -> None:
    clicks(here, 0, 6)
    plans = [here.plan(PRODUCING, run_id, state_from="fresh") for run_id in ("monday", "tuesday")]
    for stage in (stage.stage_id for stage in plans[0].plan.stages):
        here.stages(plans[0], stage)
        if stage == "clicks":
            here.stages(plans[1])  # all of tuesday lies between
    here.whole(SUMMING, "of-monday", sections={"shared-clicks": "monday"})
    assert sums(here) == [(0, 2), (1, 2), (2, 2)]


def test_a_section_that_is_not_complete_is_rejected_for_a_later_try(here: Here) -> None:
    clicks(here, 0, 6)
    plan = here.plan(PRODUCING, "monday")
    with pytest.raises(
        SectionOpen, match=r"The run 'monday' has not written its section .*: it has written nothing yet"
    ) as caught:
        here.plan(SUMMING, "of-monday", sections={"shared-clicks": "monday"})
    assert caught.value.retryable
    here.stages(plan)
    here.whole(SUMMING, "of-monday", sections={"shared-clicks": "monday"})
    assert sums(here) == [(0, 2), (1, 2), (2, 2)]


def test_a_consumer_that_is_started_early_waits_for_the_section(here: Here) -> None:
    clicks(here, 0, 6)
    plan = here.plan(PRODUCING, "monday")
    made: list[Any] = []
    early = threading.Thread(
        target=lambda: made.append(
            here.plan(SUMMING, "of-monday", sections={"shared-clicks": "monday"}, wait_seconds=60)
        )
    )
    early.start()
    time.sleep(0.3)
    assert made == []
    here.stages(plan)
    early.join()
    here.stages(made[0])
    assert sums(here) == [(0, 2), (1, 2), (2, 2)]


def test_a_stream_that_no_producer_has_made_yet_is_worth_another_try(here: Here) -> None:
    with pytest.raises(SectionOpen, match="The shared stream 'shared-clicks' does not exist yet"):
        here.plan(SUMMING, "of-monday")


def test_a_cleared_producer_supersedes_its_section(here: Here) -> None:
    clicks(here, 0, 6)
    plan = here.plan(PRODUCING, "monday")
    here.stages(plan)
    here.stages(plan, "by-member", generation=2)
    read = here.whole(SUMMING, "of-monday", sections={"shared-clicks": "monday"})
    assert [section["generation"] for section in slice_of(read, "shared-clicks")["sections"]] == ["1.2"]
    assert sums(here) == [(0, 2), (1, 2), (2, 2)]


def test_a_section_of_what_is_not_shared_is_rejected(here: Here) -> None:
    with pytest.raises(UnknownName, match="A section is named for 'clicks', which is no shared stream"):
        here.plan(PRODUCING, "monday", sections={"clicks": "sunday"})


def test_a_shared_output_has_one_writing_stage(here: Here) -> None:
    clicks(here, 0, 6)
    with pytest.raises(
        UnsupportedShape, match=r"The shared output 'shared-clicks' is written by 2 stages \(clicks, by-member\)"
    ):
        here.plan(f"{APPS}:two_writers", "monday")


def test_a_section_that_the_state_holds_is_not_read_twice(here: Here) -> None:
    produce(here, "monday", 0, 3)
    here.whole(FOLLOWING, "follow-1", sections={"shared-clicks": "monday"})
    here.whole(FOLLOWING, "follow-2", sections={"shared-clicks": "monday"})
    assert numbered(here) == [("p0", 1), ("p1", 1), ("p2", 1)]


def test_a_section_that_was_written_anew_is_not_added_to_a_state_that_holds_the_former_one(here: Here) -> None:
    clicks(here, 0, 3)
    plan = here.plan(PRODUCING, "monday")
    here.stages(plan)
    here.whole(FOLLOWING, "follow-1", sections={"shared-clicks": "monday"})
    here.stages(plan, "by-member", generation=2)
    with pytest.raises(StateError, match=r"has rewritten its section .* \(generation 1\.2\)") as caught:
        here.plan(FOLLOWING, "follow-2", sections={"shared-clicks": "monday"})
    assert "Clear the run that read it" in caught.value.hint
    here.whole(FOLLOWING, "follow-1", generation=2, sections={"shared-clicks": "monday"})
    assert numbered(here) == [("p0", 1), ("p1", 1), ("p2", 1)]


@pytest.mark.parametrize("mode", ["staged", "pipelined"])
@pytest.mark.few(1)
def test_a_consumer_of_many_epochs_ends_where_the_section_does(here: Here, mode: str) -> None:
    produce(here, "monday", 0, 20)
    produce(here, "tuesday", 20, 3)
    produce(here, "wednesday", 23, 4)
    more = {"mode": mode, "config": {"job.epoch.max.messages": "2"}}
    here.whole(FOLLOWING, "follow-1", sections={"shared-clicks": "tuesday"}, **more)
    here.whole(FOLLOWING, "follow-2", **more)  # monday lies before tuesday, and was not read yet
    assert sorted(page for page, _ in numbered(here)) == sorted(f"p{n}" for n in range(27))
    assert sorted(number for _, number in numbered(here)) == sorted(n // 3 + 1 for n in range(27))
