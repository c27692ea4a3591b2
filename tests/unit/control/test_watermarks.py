"""Rules C2–C6, C8, C9: the bookkeeping of watermarks."""

from __future__ import annotations

import json

import pytest

from airflow_samza.control.messages import EndOfStreamMessage, WatermarkMessage
from airflow_samza.control.watermarks import END_OF_TIME, WatermarkAdvanced, WatermarkBookkeeping, input_watermark
from airflow_samza.errors import ControlError


def mark(task: str | None, timestamp: int, count: int = 2) -> WatermarkMessage:
    return WatermarkMessage(task, count, timestamp=timestamp)


def end(task: str | None, *, final: bool = True) -> EndOfStreamMessage:
    return EndOfStreamMessage(task, 2, stream_id="I", final=final)


def test_an_ended_producer_does_not_hold_back_and_a_final_end_of_all_ends_the_time() -> None:
    marks = WatermarkBookkeeping([("I", 0)])
    marks.update("I", 0, mark("a", 5))
    assert marks.update("I", 0, end("b")) == WatermarkAdvanced("I", 0, 5)
    assert marks.update("I", 0, end("a")) == WatermarkAdvanced("I", 0, END_OF_TIME)


def test_the_end_of_a_slice_leaves_the_watermark_where_it_is() -> None:
    marks = WatermarkBookkeeping([("I", 0)])
    for message in (mark("a", 5), mark("b", 7), end("a", final=False), end("b"), end(None, final=False)):
        marks.update("I", 0, message)
    assert marks.stream_watermark("I") == 5


def test_an_idle_producer_is_left_out_until_it_speaks_and_all_idle_ones_leave_the_watermark() -> None:
    now = [0]
    marks = WatermarkBookkeeping([("I", 0)], idle_timeout_ms=100, clock=lambda: now[0])
    marks.update("I", 0, mark("a", 5))
    now[0] = 99
    assert marks.update("I", 0, mark("b", 8)) == WatermarkAdvanced("I", 0, 5)
    now[0] = 100
    assert marks.leave_out_idle() == [WatermarkAdvanced("I", 0, 8)]
    now[0] = 1000
    assert marks.leave_out_idle() == []
    assert marks.update("I", 0, mark("a", 6)) is None
    assert marks.update("I", 0, mark("a", 9)) == WatermarkAdvanced("I", 0, 9)


def test_a_producer_that_never_spoke_is_left_out_when_the_timeout_is_over_and_only_then() -> None:
    now = [0]
    marks = WatermarkBookkeeping([("I", 0)], idle_timeout_ms=100, clock=lambda: now[0])
    now[0] = 50
    assert marks.update("I", 0, mark("a", 5)) is None
    now[0] = 100
    assert marks.leave_out_idle() == [WatermarkAdvanced("I", 0, 5)]


def test_idle_producers_beside_ended_ones_do_not_end_the_time() -> None:
    now = [0]
    marks = WatermarkBookkeeping([("I", 0)], idle_timeout_ms=100, clock=lambda: now[0])
    marks.update("I", 0, end("a"))
    marks.update("I", 0, mark("b", 5))
    now[0] = 500
    assert (marks.leave_out_idle(), marks.stream_watermark("I")) == ([], 5)


def test_a_restart_keeps_producers_ends_and_the_last_emission() -> None:
    before = WatermarkBookkeeping([("I", 0)])
    for message in (mark("a", 5), mark("b", 7), end("b")):
        before.update("I", 0, message)
    after = WatermarkBookkeeping([("I", 0)])
    after.restore(json.loads(json.dumps(before.checkpoint())))
    assert after.checkpoint() == before.checkpoint()
    assert after.update("I", 0, mark("a", 5)) is None
    assert after.update("I", 0, mark("a", 9)) == WatermarkAdvanced("I", 0, 9)


@pytest.mark.parametrize("count", [0, 3])
def test_a_task_count_that_changes_or_is_none_is_an_error_that_names_the_place(count: int) -> None:
    marks = WatermarkBookkeeping([("I", 0)])
    if count:
        marks.update("I", 0, mark("a", 5))
    with pytest.raises(ControlError, match=rf"watermark message of 'b' at I/0 offset 7 has the task count {count}"):
        marks.update("I", 0, mark("b", 5, count), offset=7)


def test_an_operator_takes_the_minimum_and_streams_that_a_task_does_not_own_never_hold_back() -> None:
    assert [input_watermark(outputs) for outputs in ([7, 5], [7, -1], [])] == [5, -1, END_OF_TIME]
    assert WatermarkBookkeeping([]).stream_watermark("I") == END_OF_TIME
    assert WatermarkBookkeeping([("I", 0)]).update("profiles", 0, mark(None, 5)) is None
