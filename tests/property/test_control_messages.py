"""For any interleaving, duplication and restart point each partition ends exactly once and watermarks never go backwards."""

from __future__ import annotations

import json

from hypothesis import given, strategies as st

from airflow_samza.control.end_of_stream import PartitionEnded
from airflow_samza.control.messages import EndOfStreamMessage, WatermarkMessage
from airflow_samza.control.task_control import ControlEvent, StreamEnded, StreamWatermark, TaskControl
from airflow_samza.control.watermarks import END_OF_TIME, WatermarkAdvanced

PLACES = [("I", 0), ("I", 1), ("J", 0)]


@st.composite
def deliveries(draw: st.DrawFn) -> list[tuple[str, int, WatermarkMessage | EndOfStreamMessage]]:
    """The messages of every producer to every partition, each in its order, interleaved, some of it twice."""
    count = draw(st.integers(1, 3))
    queues: list[list[tuple[str, int, WatermarkMessage | EndOfStreamMessage]]] = []
    for stream, partition in PLACES:
        for task in map(str, range(count)):
            sent: list[WatermarkMessage | EndOfStreamMessage] = [
                WatermarkMessage(task, count, timestamp=at) for at in draw(st.lists(st.integers(-1, 9), max_size=4))
            ]
            sent.append(EndOfStreamMessage(task, count, stream_id=stream))
            queues.append([(stream, partition, message) for message in sent for _ in range(draw(st.integers(1, 2)))])
    order = draw(st.permutations([number for number, queue in enumerate(queues) for _ in queue]))
    return [queues[number].pop(0) for number in order]


def outcome(
    messages: list[tuple[str, int, WatermarkMessage | EndOfStreamMessage]], restarts: set[int]
) -> list[ControlEvent]:
    control = TaskControl(PLACES)
    events: list[ControlEvent] = []
    for number, (stream, partition, message) in enumerate(messages):
        if number in restarts:
            saved = json.loads(json.dumps(control.checkpoint()))
            control = TaskControl(PLACES)
            control.restore(saved)
        events += control.update(stream, partition, message)
    assert control.ends.all_ended()
    return events


@given(deliveries(), st.sets(st.integers(0, 80)))
def test_each_partition_ends_once_watermarks_only_rise_and_a_restart_changes_nothing(
    messages: list[tuple[str, int, WatermarkMessage | EndOfStreamMessage]], restarts: set[int]
) -> None:
    events = outcome(messages, restarts)
    assert events == outcome(messages, set())
    for stream, partition in PLACES:
        assert events.count(PartitionEnded(stream, partition)) == 1
        assert events.count(StreamEnded(stream)) == 1
        places = [
            event
            for event in events
            if isinstance(event, WatermarkAdvanced) and (event.stream, event.partition) == (stream, partition)
        ]
        streams = [event for event in events if isinstance(event, StreamWatermark) and event.stream == stream]
        for times in ([event.timestamp for event in places], [event.timestamp for event in streams]):
            assert times == sorted(set(times))
            assert times[-1] == END_OF_TIME
