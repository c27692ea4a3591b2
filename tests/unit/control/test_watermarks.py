"""Rules C2–C6, C8, C9: the bookkeeping of watermarks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_samza.control.messages import EndOfStreamMessage, WatermarkMessage
from airflow_samza.control.watermarks import (
    END_OF_TIME,
    NONE_YET,
    SILENCE,
    WatermarkAdvanced,
    WatermarkBookkeeping,
    input_watermark,
)
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
    now[0] = 198
    assert marks.leave_out_idle() == []  # it has been silent for long, and holds the others back since 99
    now[0] = 199
    assert marks.leave_out_idle() == [WatermarkAdvanced("I", 0, 8)]
    now[0] = 1000
    assert marks.leave_out_idle() == []
    assert marks.update("I", 0, mark("a", 6)) is None
    assert marks.update("I", 0, mark("a", 9)) is None  # now it is b that holds back
    now[0] = 1100
    assert marks.leave_out_idle() == [WatermarkAdvanced("I", 0, 9)]


def test_a_producer_whose_slice_ended_without_a_mark_is_not_left_out() -> None:
    now = [0]
    marks = WatermarkBookkeeping([("I", 0)], idle_timeout_ms=100, clock=lambda: now[0])
    marks.update("I", 0, end("a", final=False))
    now[0] = 1000
    assert marks.update("I", 0, mark("b", 8)) is None
    assert marks.leave_out_idle() == []


def test_a_producer_that_never_spoke_is_left_out_when_the_timeout_is_over_and_only_then() -> None:
    now = [0]
    marks = WatermarkBookkeeping([("I", 0)], idle_timeout_ms=100, clock=lambda: now[0])
    now[0] = 50
    assert marks.update("I", 0, mark("a", 5)) is None
    now[0] = 100
    assert marks.leave_out_idle() == [WatermarkAdvanced("I", 0, 5)]


def test_a_stream_of_which_nothing_has_come_has_no_watermark_however_long_it_is_silent() -> None:
    now = [0]
    marks = WatermarkBookkeeping([("I", 0)], idle_timeout_ms=100, clock=lambda: now[0])
    assert marks.leave_out_idle() == []
    now[0] = 1000
    assert marks.leave_out_idle() == []
    assert marks.stream_watermark("I") == NONE_YET


def test_an_idle_producer_that_holds_nobody_back_is_not_left_out() -> None:
    now = [0]
    marks = WatermarkBookkeeping([("I", 0)], idle_timeout_ms=100, clock=lambda: now[0])
    marks.update("I", 0, mark("ahead", 100))
    for now[0], time in ((0, 20), (90, 40), (180, 60), (500, 80)):
        assert marks.update("I", 0, mark("slow", time)) == WatermarkAdvanced("I", 0, time)
    assert marks.update("I", 0, mark("slow", 300)) == WatermarkAdvanced("I", 0, 100)  # its next message may be of 100
    now[0] = 599
    assert marks.update("I", 0, mark("slow", 310)) is None
    now[0] = 600
    assert marks.leave_out_idle() == [WatermarkAdvanced("I", 0, 310)]
    assert marks.update("I", 0, mark("slow", 320)) == WatermarkAdvanced("I", 0, 320)
    assert marks.update("I", 0, mark("ahead", 330)) is None
    assert marks.update("I", 0, mark("slow", 400)) == WatermarkAdvanced("I", 0, 330)


def test_a_restart_does_not_wait_for_idle_producers_anew() -> None:
    now = [0]
    before = WatermarkBookkeeping([("I", 0)], idle_timeout_ms=100, clock=lambda: now[0])
    for message in (mark("a", 5), mark("b", 8)):
        before.update("I", 0, message)
    for now[0] in range(10, 100, 10):
        after = WatermarkBookkeeping([("I", 0)], idle_timeout_ms=100, clock=lambda: now[0])
        after.restore(json.loads(json.dumps(before.checkpoint())))
        after.restore_heard(json.loads(json.dumps(before.heard())))
        assert after.leave_out_idle() == []
        before = after
    now[0] = 100
    before.update("I", 0, mark("b", 9))
    assert before.stream_watermark("I") == 9


def test_what_was_kept_of_a_stream_that_is_read_no_more_is_passed_over() -> None:
    now = [0]
    before = WatermarkBookkeeping([("A", 0), ("I", 0)], idle_timeout_ms=100, clock=lambda: now[0])
    for message in (mark("a", 5), mark("b", 8)):
        before.update("I", 0, message)
    now[0] = 90
    after = WatermarkBookkeeping([("I", 0)], idle_timeout_ms=100, clock=lambda: now[0])
    after.restore(before.checkpoint())
    after.restore_heard(before.heard())
    now[0] = 150
    assert after.update("I", 0, mark("b", 9)) == WatermarkAdvanced("I", 0, 9)


def test_what_a_former_version_kept_of_silence_is_understood() -> None:
    now = [0]
    marks = WatermarkBookkeeping([("I", 0)], idle_timeout_ms=100, clock=lambda: now[0])
    for message in (mark("a", 5), mark("b", 8)):
        marks.update("I", 0, message)
    kept = [{name: entry[name] for name in ("stream", "partition", "since", "producers")} for entry in marks.heard()]
    now[0] = 50
    after = WatermarkBookkeeping([("I", 0)], idle_timeout_ms=100, clock=lambda: now[0])
    after.restore(marks.checkpoint())
    after.restore_heard(kept)
    now[0] = 150
    assert after.update("I", 0, mark("b", 9)) == WatermarkAdvanced("I", 0, 9)


MET = {"A": {"B"}, "B": {"A"}}


def test_a_silent_stream_is_left_out_where_it_holds_others_back_until_it_speaks() -> None:
    now = [0]
    marks = WatermarkBookkeeping([("A", 0), ("B", 0)], idle_timeout_ms=100, clock=lambda: now[0])
    marks.update("A", 0, mark(None, 5))
    now[0] = 500
    marks.update("B", 0, mark(None, 9))
    assert marks.leave_out_silent(MET) == []  # silent for long, and holds B back since now
    now[0] = 600
    assert marks.leave_out_silent(MET) == [WatermarkAdvanced("A", 0, 9)]
    marks.update("B", 0, mark(None, 20))
    assert marks.leave_out_silent(MET) == [WatermarkAdvanced("A", 0, 20)]  # at once, while it is left out
    marks.take_note("A", 0)
    marks.update("B", 0, mark(None, 30))
    assert marks.leave_out_silent(MET) == []
    now[0] = 2_000
    assert marks.leave_out_silent(MET) == []  # when all are silent, time stands still


def test_a_stream_that_has_ended_or_has_no_watermark_moves_no_silent_one() -> None:
    now = [0]
    marks = WatermarkBookkeeping([("A", 0), ("B", 0)], idle_timeout_ms=100, clock=lambda: now[0])
    marks.update("A", 0, mark(None, 5))
    now[0] = 500
    marks.take_note("B", 0)
    assert (marks.leave_out_silent(MET), marks.leave_out_silent({"A": set(), "B": set()})) == ([], [])
    marks.update("B", 0, end(None))
    now[0] = 590
    assert (marks.leave_out_silent(MET), marks.stream_watermark("A")) == ([], 5)


def test_what_comes_behind_an_input_range_is_no_silence_and_a_range_of_nothing_is() -> None:
    now = [0]
    first = WatermarkBookkeeping([("A", 0), ("B", 0)], idle_timeout_ms=100, clock=lambda: now[0])
    first.update("A", 0, mark(None, 5))
    first.update("A", 0, end(None, final=False))
    for now[0] in range(0, 1_000, 50):
        first.update("B", 0, mark(None, now[0] + 10))
        assert first.leave_out_silent(MET) == []
    second = WatermarkBookkeeping([("A", 0), ("B", 0)], idle_timeout_ms=100, clock=lambda: now[0])
    now[0] = 5_000
    second.restore(first.checkpoint())
    second.restore_heard([{name: entry[name] for name in ("stream", "partition", *SILENCE)} for entry in first.heard()])
    second.update("A", 0, end(None, final=False))  # nothing came of it since 0
    second.update("B", 0, mark(None, 5_000))
    assert second.leave_out_silent(MET) == [WatermarkAdvanced("A", 0, 5_000)]


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


def test_a_message_looks_at_all_producers_only_where_it_may_move_the_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[object] = []
    lowest = WatermarkBookkeeping._lowest

    def counted(*given: Any) -> int:
        looks.append(given)
        return lowest(*given)

    monkeypatch.setattr(WatermarkBookkeeping, "_lowest", counted)
    marks, names = WatermarkBookkeeping([("I", 0)]), [f"task-{number}" for number in range(100)]
    moved = [marks.update("I", 0, mark(name, at, 100)) for at in (1, 2, 3) for name in names]
    assert [event.timestamp for event in moved if event is not None] == [1, 2, 3]
    assert len(looks) < 3 * len(names)
    looks.clear()
    moved = [marks.update("I", 0, mark(name, 10, 100)) for name in reversed(names[1:])]
    assert moved == [None] * 99
    assert marks.update("I", 0, mark("task-0", 9, 100)) == WatermarkAdvanced("I", 0, 9)
    assert len(looks) <= 100
