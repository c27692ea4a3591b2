"""However the runs that write a shared stream are interleaved and repeated, it ends once, and its time only rises."""

from __future__ import annotations

from hypothesis import given, strategies as st

from airflow_samza.control.messages import EndOfStreamMessage, WatermarkMessage
from airflow_samza.control.sections import SectionBookkeeping
from airflow_samza.control.task_control import StreamWatermark, TaskControl
from airflow_samza.control.watermarks import END_OF_TIME

Message = WatermarkMessage | EndOfStreamMessage
RUNS = ("monday", "tuesday", "wednesday")


@st.composite
def sent(draw: st.DrawFn) -> list[tuple[str, Message]]:
    """The messages of the tasks of every run, each in its order, interleaved, some of it twice.

    Every run has a task count of its own.
    """
    queues: list[list[tuple[str, Message]]] = []
    for run in RUNS:
        count = draw(st.integers(1, 3))
        for task in map(str, range(count)):
            messages: list[Message] = [
                WatermarkMessage(task, count, run, at) for at in draw(st.lists(st.integers(-1, 9), max_size=3))
            ]
            messages.append(EndOfStreamMessage(task, count, run, "shared", draw(st.booleans())))
            queues.append([(run, message) for message in messages for _ in range(draw(st.integers(1, 2)))])
    order = draw(st.permutations([number for number, queue in enumerate(queues) for _ in queue]))
    return [queues[number].pop(0) for number in order]


def outcome(messages: list[tuple[str, Message]], read: tuple[str, ...]) -> list[Message]:
    sections = SectionBookkeeping("shared", 0, read)
    news = [told for run, message in messages for told in sections.update(run, message)]
    assert all(section.ends.all_ended() for section in sections._sections.values())
    return news


@given(sent())
def test_a_shared_stream_ends_once_at_last_and_its_time_only_rises(messages: list[tuple[str, Message]]) -> None:
    news = outcome(messages, RUNS)
    assert [isinstance(message, EndOfStreamMessage) for message in news] == [False] * (len(news) - 1) + [True]
    times = [message.timestamp for message in news if isinstance(message, WatermarkMessage)]
    assert times == sorted(set(times))
    final = all(message.final for _, message in messages if isinstance(message, EndOfStreamMessage))
    assert isinstance(news[-1], EndOfStreamMessage)
    assert news[-1].final == final


@given(sent(), st.sampled_from(RUNS))
def test_a_section_alone_is_what_a_stream_of_its_own_would_be(messages: list[tuple[str, Message]], run: str) -> None:
    control = TaskControl([("shared", 0)])
    own = [control.update("shared", 0, message) for other, message in messages if other == run]
    wanted = [event.timestamp for events in own for event in events if isinstance(event, StreamWatermark)]
    told = [message.timestamp for message in outcome(messages, (run,)) if isinstance(message, WatermarkMessage)]
    assert told == [timestamp for timestamp in wanted if timestamp != END_OF_TIME]
