"""Rule C10: a shared stream's runs are sections, each with bookkeeping of its own."""

from __future__ import annotations

import pytest

from airflow_samza.control.messages import ControlMessage, EndOfStreamMessage, WatermarkMessage
from airflow_samza.control.sections import SectionBookkeeping
from airflow_samza.errors import ControlError


def end(task: str, count: int, *, final: bool = True) -> EndOfStreamMessage:
    return EndOfStreamMessage(task, count, "ignored", "shared", final)


def at(task: str, count: int, timestamp: int) -> WatermarkMessage:
    return WatermarkMessage(task, count, "ignored", timestamp)


def book(*runs: str) -> SectionBookkeeping:
    return SectionBookkeeping("shared", 0, runs)


def open_runs(sections: SectionBookkeeping) -> list[str]:
    return [run for run, section in sections._sections.items() if not section.ends.all_ended()]


def ended(*, final: bool = True) -> list[ControlMessage]:
    return [EndOfStreamMessage(None, 1, None, "shared", final)]


def test_the_partition_ends_with_the_last_task_of_its_only_section() -> None:
    sections = book("monday")
    assert sections.update("monday", end("task-0", 2)) == []
    assert sections.update("monday", end("task-1", 2)) == ended()


def test_runs_with_different_task_counts_do_not_meet() -> None:
    sections = book("monday", "tuesday")
    assert sections.update("monday", end("task-0", 1)) == []
    assert sections.update("tuesday", end("task-0", 2)) == []
    assert open_runs(sections) == ["tuesday"]
    assert sections.update("tuesday", end("task-1", 2)) == ended()


def test_within_a_section_a_task_count_must_not_change() -> None:
    sections = book("monday")
    sections.update("monday", end("task-0", 2))
    with pytest.raises(ControlError, match="has the task count 3; an earlier message said 2"):
        sections.update("monday", end("task-1", 3))


def test_other_runs_change_nothing() -> None:
    sections = book("monday")
    assert sections.update("sunday", end("task-0", 1)) == []
    assert sections.update("sunday", at("task-0", 1, 5)) == []
    assert open_runs(sections) == ["monday"]


def test_duplicates_end_nothing_twice() -> None:
    sections = book("monday")
    assert sections.update("monday", end("task-0", 1)) == ended()
    assert sections.update("monday", end("task-0", 1)) == []


def test_the_slowest_open_section_holds_the_time() -> None:
    sections = book("monday", "tuesday")
    assert sections.update("monday", at("task-0", 1, 50)) == []
    assert sections.update("tuesday", at("task-0", 1, 20)) == [WatermarkMessage(None, 1, timestamp=20)]
    assert sections.update("tuesday", at("task-0", 1, 90)) == [WatermarkMessage(None, 1, timestamp=50)]


def test_a_section_that_has_ended_holds_nothing_back() -> None:
    sections = book("monday", "tuesday")
    sections.update("monday", at("task-0", 1, 10))
    sections.update("tuesday", at("task-0", 1, 90))
    assert sections.update("monday", end("task-0", 1)) == [WatermarkMessage(None, 1, timestamp=90)]


def test_the_end_of_a_section_is_not_the_end_of_time() -> None:
    sections = book("monday")
    sections.update("monday", at("task-0", 1, 10))
    assert sections.update("monday", end("task-0", 1)) == ended()


def test_it_is_final_only_if_every_section_ended_for_good() -> None:
    sections = book("monday", "tuesday")
    sections.update("monday", end("task-0", 1, final=False))
    assert sections.update("tuesday", end("task-0", 1)) == ended(final=False)
