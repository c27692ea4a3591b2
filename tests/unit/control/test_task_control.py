"""Rules C4, C6, C8, C9: one object takes control messages of both kinds and says what they bring about."""

from __future__ import annotations

import json

from airflow_samza.control.end_of_stream import PartitionEnded
from airflow_samza.control.messages import EndOfStreamMessage, WatermarkMessage
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
    assert after.restore(json.loads(json.dumps(before.checkpoint()))) == []
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
