"""Control messages of both kinds for a consuming task: ends of its partitions, and watermarks.

The run loop of a task asks it what each message of its inputs has ended.
Source: control-messages, "the reconciliation process"; rules C4–C9.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_samza.control.end_of_stream import EndOfStreamBookkeeping, PartitionEnded
from airflow_samza.control.messages import EndOfStreamMessage, ProducerEnds, WatermarkMessage
from airflow_samza.control.watermarks import WatermarkAdvanced, WatermarkBookkeeping
from airflow_samza.records import understood


@dataclass(frozen=True)
class StreamEnded:
    """The end of all of a task's partitions of a stream.

    ``final`` False ends an input range, not the stream (rule C9).
    """

    stream: str
    final: bool = True


@dataclass(frozen=True)
class StreamWatermark:
    """The new watermark of a stream over all of the task's partitions of it: ``timestamp``, ms since the epoch, UTC."""

    stream: str
    timestamp: int


ControlEvent = WatermarkAdvanced | StreamWatermark | PartitionEnded | StreamEnded


class TaskControl:
    """Both bookkeepings of a task: ends and watermarks.

    Each message gives events in the order in which the task handles them.

    Watermarks come before ends: what time completes is out before a stream ends. Parameters as of the two bookkeepings.

    >>> control = TaskControl([("views", 0)])
    >>> control.update("views", 0, WatermarkMessage(None, 1, timestamp=5))[-1]
    StreamWatermark(stream='views', timestamp=5)
    """

    def __init__(
        self,
        partitions: Iterable[tuple[str, int]],
        producer_counts: Mapping[str, int] | None = None,
        *,
        idle_timeout_ms: int | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        owned = list(partitions)
        timing: dict[str, Any] = {} if clock is None else {"clock": clock}
        self.ends = EndOfStreamBookkeeping(owned, producer_counts)
        self.watermarks = WatermarkBookkeeping(owned, producer_counts, idle_timeout_ms=idle_timeout_ms, **timing)
        self._stream_watermarks = dict.fromkeys((stream for stream, _ in owned), -1)
        self.beside: Mapping[str, Collection[str]] = {}
        """The streams that each stream meets in a merge or a join."""

    def update(
        self, stream: str, partition: int, message: WatermarkMessage | EndOfStreamMessage, *, offset: object = None
    ) -> list[ControlEvent]:
        """Record one message and return its events; a contradiction is a ControlError."""
        ended = (
            self.ends.update(stream, partition, message, offset=offset)
            if isinstance(message, EndOfStreamMessage)
            else None
        )
        return self._events(self.watermarks.update(stream, partition, message, offset=offset), ended)

    def end(self, stream: str, partition: int, ends: ProducerEnds, *, offset: int) -> list[ControlEvent]:
        """Record ends one behind the other, as :meth:`update` would each.

        Those of all producers at once, as of a stream that is over, cost no more than one.
        """
        places = (self.ends, self.watermarks)
        if ends.messages[0].task_count == len(ends.tasks) and all(
            at.has_heard_none(stream, partition) for at in places
        ):
            ended = self.ends.end(stream, partition, ends, offset=offset)
            return self._events(self.watermarks.end(stream, partition, ends, offset=offset), ended)
        # All have one task count, so that only the first may contradict an earlier message.
        single = (self.update(stream, partition, end, offset=offset) for end in ends.messages)
        return [event for events in single for event in events]

    def _events(self, moved: WatermarkAdvanced | None, ended: PartitionEnded | None) -> list[ControlEvent]:
        moves = [] if moved is None else [moved]
        if moves and self.watermarks.leaves_out:  # what is left out follows at once: the end may be the next message
            moves += self.watermarks.leave_out_silent(self.beside)
        return [*self._moved(moves), *self._ended([] if ended is None else [ended])]

    def leave_out_idle(self) -> list[ControlEvent]:
        """Return the watermarks that move on because time has passed (rule C8)."""
        producers = self._moved(self.watermarks.leave_out_idle())
        return [*producers, *self._moved(self.watermarks.leave_out_silent(self.beside))]

    def checkpoint(self) -> dict[str, list[dict[str, Any]]]:
        """Return both bookkeepings as JSON, to be committed with the offsets (rule C6)."""
        return {"end_of_stream": self.ends.checkpoint(names_of_ended=False), "watermarks": self.watermarks.checkpoint()}

    @understood("of a task's checkpoint")
    def restore(self, checkpoint: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
        """Restore what :meth:`checkpoint` wrote."""
        self.watermarks.restore(checkpoint.get("watermarks", ()))
        self._stream_watermarks = {
            stream: self.watermarks.stream_watermark(stream) for stream in self._stream_watermarks
        }
        self.ends.restore(checkpoint.get("end_of_stream", ()))

    def _moved(self, moved: list[WatermarkAdvanced]) -> list[ControlEvent]:
        events: list[ControlEvent] = [*moved]
        for stream in dict.fromkeys(event.stream for event in moved):
            timestamp = self.watermarks.stream_watermark(stream)
            if timestamp > self._stream_watermarks[stream]:
                self._stream_watermarks[stream] = timestamp
                events.append(StreamWatermark(stream, timestamp))
        return events

    def _ended(self, ended: list[PartitionEnded]) -> list[ControlEvent]:
        streams = [
            stream for stream in dict.fromkeys(event.stream for event in ended) if self.ends.stream_ended(stream)
        ]
        return [*ended, *(StreamEnded(stream, self.ends.is_final(stream)) for stream in streams)]
