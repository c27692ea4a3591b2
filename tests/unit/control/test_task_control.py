"""Rules C4, C6, C8, C9: one object takes control messages of both kinds and says what they bring about."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from airflow_samza.control.end_of_stream import PartitionEnded
from airflow_samza.control.messages import EndOfStreamMessage, ProducerEnds, WatermarkMessage
from airflow_samza.control.task_control import StreamEnded, StreamWatermark, TaskControl
from airflow_samza.control.watermarks import END_OF_TIME, WatermarkAdvanced

PLACES = [("I", 0), ("I", 1)]


def mark(task: str, timestamp: int) -> WatermarkMessage:
    return WatermarkMessage(task, 2, timestamp=timestamp)


def end(task: str | None, *, final: bool = True) -> EndOfStreamMessage:
    return EndOfStreamMessage(task, 2, stream_id="I", final=final)


def test_a_stream_moves_on_when_its_last_partition_does() -> None:
    control = TaskControl(PLACES)
    for partition, task, at in ((0, "a", 5), (0, "b", 6), (1, "a", 9)):
        assert StreamWatermark("I", 5) not in control.update("I", partition, mark(task, at))
    assert control.update("I", 1, mark("b", 8)) == [WatermarkAdvanced("I", 1, 8), StreamWatermark("I", 5)]


def test_a_final_end_ends_the_time_and_then_the_partition_and_the_stream() -> None:
    control = TaskControl(PLACES)
    assert control.update("I", 0, end(None)) == [WatermarkAdvanced("I", 0, END_OF_TIME), PartitionEnded("I", 0)]
    assert control.update("I", 1, end(None)) == [
        WatermarkAdvanced("I", 1, END_OF_TIME),
        StreamWatermark("I", END_OF_TIME),
        PartitionEnded("I", 1),
        StreamEnded("I"),
    ]
    assert control.update("I", 1, end(None)) == []


def test_the_end_of_a_slice_moves_no_watermark() -> None:
    control = TaskControl([("I", 0)])
    assert control.update("I", 0, end(None, final=False)) == [
        PartitionEnded("I", 0, final=False),
        StreamEnded("I", final=False),
    ]


def test_a_restart_between_two_messages_tells_nothing_twice() -> None:
    before = TaskControl([("I", 0)])
    for message in (mark("a", 5), mark("b", 6), end("a")):
        before.update("I", 0, message)
    after = TaskControl([("I", 0)])
    after.restore(json.loads(json.dumps(before.checkpoint())))
    assert after.update("I", 0, mark("b", 6)) == []
    assert after.update("I", 0, end("b"))[-1] == StreamEnded("I")


def test_an_idle_producer_moves_the_stream_on_when_time_passes() -> None:
    now = [0]
    control = TaskControl([("I", 0)], idle_timeout_ms=100, clock=lambda: now[0])
    control.update("I", 0, mark("a", 5))
    now[0] = 50
    control.update("I", 0, mark("b", 8))
    now[0] = 149
    assert control.leave_out_idle() == []
    now[0] = 150
    assert control.leave_out_idle() == [WatermarkAdvanced("I", 0, 8), StreamWatermark("I", 8)]


def ends_of(names: Iterable[str], count: int, *, final: bool = True) -> ProducerEnds:
    return ProducerEnds(tuple(EndOfStreamMessage(name, count, stream_id="I", final=final) for name in names))


@pytest.mark.parametrize("final", [True, False])
@pytest.mark.parametrize("before", [(), (mark("a", 5),), (end("b"),)], ids=["first", "after a mark", "after an end"])
@pytest.mark.parametrize("names", ["ab", "a", "abc"])
def test_ends_one_behind_the_other_are_as_each_by_itself(
    names: str, before: tuple[WatermarkMessage | EndOfStreamMessage, ...], final: bool
) -> None:
    together, single = TaskControl(PLACES), TaskControl(PLACES)
    for message in before:
        assert together.update("I", 0, message) == single.update("I", 0, message)
    ends = ends_of(names, 2, final=final)
    events = [event for place, one in enumerate(ends.messages) for event in single.update("I", 0, one, offset=place)]
    assert together.end("I", 0, ends, offset=0) == events
    assert together.checkpoint() == single.checkpoint()


def test_ends_of_a_partition_that_is_not_the_tasks_change_nothing() -> None:
    control = TaskControl(PLACES)
    assert control.end("I", 7, ends_of("ab", 2), offset=0) == []
    assert control.checkpoint() == TaskControl(PLACES).checkpoint()


def test_messages_are_ends_together_where_only_their_tasks_differ() -> None:
    ends = ends_of("ab", 2)
    assert ProducerEnds.of(ends.messages) == ends
    assert ProducerEnds.of([]) is None
    for other in (mark("c", 1), end(None), end("a"), end("c", final=False), EndOfStreamMessage("c", 3, stream_id="I")):
        assert ProducerEnds.of([*ends.messages, other]) is None
