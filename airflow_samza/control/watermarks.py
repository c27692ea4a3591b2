"""Watermarks: the bookkeeping of a consuming task per producer and partition, and minima of streams and operators.

Tasks keep these books; their operators, and reports of progress, read the times.
Source: control-messages, "the reconciliation process"; rules C2–C6, C8, C9 (decision 104).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from airflow_samza.control.messages import EndOfStreamMessage, ProducerEnds, TaskCounts, WatermarkMessage
from airflow_samza.records import understood

NONE_YET = -1
END_OF_TIME = 2**63 - 1
"""The watermark of what has ended for good: it never holds anything back."""

EMITTED = "timestamp_of_last_emission"
"""The key of the last watermark of a partition in a checkpoint."""


SILENCE = ("heard", "holds", "left_out")
"""The keys of a partition's silence in :meth:`WatermarkBookkeeping.heard`: it goes on from run to run."""


@dataclass(frozen=True)
class WatermarkAdvanced:
    """The new watermark of one partition: ``timestamp``, ms since the epoch, UTC."""

    stream: str
    partition: int
    timestamp: int


class _Producer(NamedTuple):
    timestamp: int | None = None
    final: bool | None = None  # None: runs; False: its slice has ended and its watermark stays (rule C9)
    heard: int = 0

    @property
    def mark(self) -> int | None:
        return END_OF_TIME if self.final else self.timestamp


@dataclass
class _Partition:
    """State of a partition; times by the clock, in ms."""

    since: int
    producers: dict[str, _Producer] = field(default_factory=dict)
    emitted: int = NONE_YET
    lowest: int = NONE_YET
    """The minimum over all producers, idle ones too."""
    stood: int = 0
    """The time since which this minimum has not moved."""
    heard: int = 0
    """The time of the last message of any kind."""
    range_ended: int | None = None
    """The time at which its input range ended: what comes behind it is no silence (rule C9)."""
    holds: int | None = None
    """The time since which it holds back a stream that it meets; None: it holds back none."""
    left_out: bool = False

    def __post_init__(self) -> None:
        self.stood = self.heard = self.since


class WatermarkBookkeeping:
    """Watermarks of a task's partitions: the minimum over the producer tasks, once each has sent one.

    It never goes back.

    ``partitions`` are all that the task owns; side inputs are not among them (rule C5). ``producer_counts`` serve
    messages that carry no task count. ``idle_timeout_ms`` is the time by ``clock`` (ms) after which an idle producer or
    a silent stream no longer holds the time back; None: it always does (rule C8). When all are idle the watermark
    stays.

    >>> marks = WatermarkBookkeeping([("views", 0)])
    >>> marks.update("views", 0, WatermarkMessage("task-0", 2, timestamp=6))
    >>> marks.update("views", 0, WatermarkMessage("task-1", 2, timestamp=3))
    WatermarkAdvanced(stream='views', partition=0, timestamp=3)
    """

    def __init__(
        self,
        partitions: Iterable[tuple[str, int]],
        producer_counts: Mapping[str, int] | None = None,
        *,
        idle_timeout_ms: int | None = None,
        clock: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self._clock = clock
        self._idle_timeout = idle_timeout_ms
        self._partitions = {place: _Partition(clock()) for place in partitions}
        self._counts = TaskCounts(producer_counts)

    def update(
        self, stream: str, partition: int, message: WatermarkMessage | EndOfStreamMessage, *, offset: object = None
    ) -> WatermarkAdvanced | None:
        """Takes one message into account.

        Returns the event when it moves the partition's watermark on, and None otherwise.

        An end-of-stream message with ``final`` counts as a watermark that never holds back (rule C4). A task count that
        contradicts an earlier one of the same stream is a :class:`~airflow_samza.errors.ControlError` (rule C3).
        """
        state = self._partitions.get((stream, partition))
        if state is None:
            return None
        if isinstance(message, WatermarkMessage) or message.final:
            self.take_note(stream, partition)
        elif state.range_ended is None:
            state.range_ended = self._clock()
        if message.task_name is None:  # from a source, or aggregated: it speaks for all producers (rule C2)
            if isinstance(message, WatermarkMessage):
                return self._emit(stream, partition, state, message.timestamp)
            return self._emit(stream, partition, state, END_OF_TIME) if message.final else None
        self._counts.take(stream, partition, message, offset)
        timestamp, final, _ = former = state.producers.get(message.task_name, _Producer())
        if isinstance(message, WatermarkMessage):
            timestamp = max(message.timestamp, NONE_YET if timestamp is None else timestamp)
        else:
            final = message.final and final is not False
        state.producers[message.task_name] = _Producer(timestamp, final, self._clock())
        if self._others_hold_back(stream, state, former.mark):
            return None
        return self._emit(stream, partition, state, self._minimum(stream, state))

    def has_heard_none(self, stream: str, partition: int) -> bool:
        """Return whether a partition of this task has got no message of a producer yet, and silence plays no part."""
        state = self._partitions.get((stream, partition))
        return state is not None and not state.producers and self._idle_timeout is None

    def end(
        self, stream: str, partition: int, ends: ProducerEnds, *, offset: object = None
    ) -> WatermarkAdvanced | None:
        """Take the ends of all producers, the first messages of their partition, as :meth:`update` would each."""
        state, final = self._partitions[stream, partition], ends.messages[0].final
        self._counts.take(stream, partition, ends.messages[0], offset)
        now = self._clock()
        state.producers = dict.fromkeys(ends.tasks, _Producer(None, final, now))
        if not final:
            state.range_ended = now if state.range_ended is None else state.range_ended
            return None
        self.take_note(stream, partition)
        state.lowest, state.stood = END_OF_TIME, now
        return self._emit(stream, partition, state, END_OF_TIME)

    def _others_hold_back(self, stream: str, state: _Partition, before: int | None) -> bool:
        """Return whether the minimum stays whatever a producer says that stood at ``before``, without a look at all.

        Of thousands of producers each message would otherwise look at each.
        """
        if self._is_idle(state.stood, self._clock()):
            return False
        return len(state.producers) < (self._counts.of(stream) or 0) or (before is not None and before > state.lowest)

    def take_note(self, stream: str, partition: int) -> None:
        """Note that a partition is not silent: messages of it came, or wait to be read."""
        state = self._partitions.get((stream, partition))
        if state is not None:
            state.heard, state.holds, state.left_out = self._clock(), None, False

    @property
    def leaves_out(self) -> bool:
        """Return whether a silent stream is left out of those that it meets."""
        return any(state.left_out for state in self._partitions.values())

    def leave_out_silent(self, beside: Mapping[str, Collection[str]]) -> list[WatermarkAdvanced]:
        """Return the watermarks of silent streams that follow those which they hold back (rule C8).

        ``beside`` has the streams that each stream meets: in a merge, or in a join.
        """
        events: list[WatermarkAdvanced] = []
        for (stream, partition), reached in self.note_who_holds_back(beside).items():
            state = self._partitions[stream, partition]
            if not state.left_out and self._is_silent(stream):
                assert state.holds is not None
                state.left_out = self._is_idle(state.holds, self._clock())
            if state.left_out and (event := self._emit(stream, partition, state, reached)) is not None:
                events.append(event)
        return events

    def note_who_holds_back(self, beside: Mapping[str, Collection[str]]) -> dict[tuple[str, int], int]:
        """Note since when partitions hold back the streams that they meet, and return how far these have come.

        A silent stream that spoke before another one does not hold it back.
        """
        holders: dict[tuple[str, int], int] = {}
        if self._idle_timeout is None:
            return holders
        silent = {stream for stream in beside if self._is_silent(stream)}
        heard = {name: state.heard for (name, _), state in sorted(self._partitions.items(), key=lambda p: p[1].heard)}
        for (stream, partition), state in sorted(self._partitions.items()):
            spoke = [other for other in beside.get(stream, ()) if other not in silent or heard[other] > heard[stream]]
            marks = [self.stream_watermark(other) for other in spoke]
            reached = min((mark for mark in marks if mark < END_OF_TIME), default=NONE_YET)
            if reached <= state.emitted:
                state.holds = None
                continue
            state.holds = self._clock() if state.holds is None else state.holds
            holders[stream, partition] = reached
        return holders

    def _is_silent(self, stream: str) -> bool:
        """Return whether nothing has come of any of a stream's partitions for the time-out."""
        now = self._clock()
        states = [state for (name, _), state in self._partitions.items() if name == stream]
        return all(
            self._is_idle(state.heard, now if state.range_ended is None else state.range_ended) for state in states
        )

    def leave_out_idle(self) -> list[WatermarkAdvanced]:
        """Return the watermarks that move on because time has passed (rule C8); called now and then."""
        events = (
            self._emit(*place, state, self._minimum(place[0], state))
            for place, state in sorted(self._partitions.items())
        )
        return [event for event in events if event is not None]

    def stream_watermark(self, stream: str) -> int:
        """Return the minimum over this task's partitions of a stream; :data:`END_OF_TIME` where it owns none."""
        return min(
            (state.emitted for (name, _), state in self._partitions.items() if name == stream), default=END_OF_TIME
        )

    def checkpoint(self) -> list[dict[str, Any]]:
        """Return the state as JSON, one object per partition that anything is known of (rule C6)."""
        return [
            {
                "stream": stream,
                "partition": partition,
                "total_tasks": self._counts.of(stream),
                "tasks_to_event_time": {
                    name: producer.timestamp
                    for name, producer in sorted(state.producers.items())
                    if producer.timestamp is not None
                },
                "ended": {
                    name: producer.final
                    for name, producer in sorted(state.producers.items())
                    if producer.final is not None
                },
                EMITTED: state.emitted,
            }
            for (stream, partition), state in sorted(self._partitions.items())
            if state.producers or state.emitted != NONE_YET
        ]

    def restore(self, checkpoint: Iterable[Mapping[str, Any]]) -> None:
        """Restore what :meth:`checkpoint` wrote; producers count as heard now."""
        for entry in checkpoint:
            stream, partition = str(entry["stream"]), int(entry["partition"])
            state = self._partitions.get((stream, partition))
            if state is None:
                continue
            if entry.get("total_tasks") is not None:
                self._counts.restore(stream, int(entry["total_tasks"]))
            times, ended = entry.get("tasks_to_event_time", {}), entry.get("ended", {})
            state.since = state.stood = state.heard = self._clock()
            state.producers = {
                name: _Producer(times.get(name), ended.get(name), state.since) for name in {*times, *ended}
            }
            state.lowest = self._lowest(stream, state, _never)
            emitted = entry.get(EMITTED)
            # A checkpoint without it was taken with the offsets behind the messages that it names: what they give was
            # emitted.
            state.emitted = max(NONE_YET, self._minimum(stream, state) if emitted is None else int(emitted))

    def heard(self) -> list[dict[str, Any]]:
        """Return when each producer was last heard, as JSON: after a restart nobody waits for idle ones anew."""
        return [
            {
                "stream": stream,
                "partition": partition,
                "since": state.since,
                "producers": {name: producer.heard for name, producer in sorted(state.producers.items())},
                "stood": state.stood,
                "heard": state.heard,
                "holds": state.holds,
                "left_out": state.left_out,
                "range_ended": state.range_ended,
            }
            for (stream, partition), state in sorted(self._partitions.items())
        ]

    @understood("of a task's checkpoint")
    def restore_heard(self, heard: Iterable[Mapping[str, Any]]) -> None:
        """Restore what :meth:`heard` gave, after :meth:`restore`."""
        for entry in heard:
            state = self._partitions.get((str(entry["stream"]), int(entry["partition"])))
            if state is None:
                continue
            state.since = int(entry.get("since", state.since))
            for name, at in entry.get("producers", {}).items():
                if name in state.producers:
                    state.producers[name] = state.producers[name]._replace(heard=int(at))
            state.stood = int(entry.get("stood", state.stood))
            state.heard = int(entry.get("heard", state.heard))
            holds, range_ended = entry.get("holds"), entry.get("range_ended")
            state.holds = None if holds is None else int(holds)
            state.range_ended = None if range_ended is None else int(range_ended)
            state.left_out = bool(entry.get("left_out", False))

    def _minimum(self, stream: str, state: _Partition) -> int:
        """Return the minimum of all producers, or where it has stood for the time-out that of those which are not idle.

        −1 when one is not known, or all that are left are idle.
        """
        now = self._clock()
        lowest = self._lowest(stream, state, _never)
        if lowest > state.lowest:
            state.lowest, state.stood = lowest, now
        if not self._is_idle(state.stood, now):
            return lowest
        return max(lowest, self._lowest(stream, state, lambda since: self._is_idle(since, now)))

    def _lowest(self, stream: str, state: _Partition, is_idle: Callable[[int], bool]) -> int:
        total = self._counts.of(stream)
        if total is None:
            return NONE_YET
        spoken = [(producer, mark) for producer in state.producers.values() if (mark := producer.mark) is not None]
        if len(spoken) < total and not is_idle(state.since):
            return NONE_YET
        if any(p.mark is None and (p.final is False or not is_idle(p.heard)) for p in state.producers.values()):
            return NONE_YET
        # An ended slice is not idle: its watermark stays. Nor is the one that spoke last: others were silent before it.
        last = max((producer.heard for producer, _ in spoken if producer.final is None), default=0)
        left = [
            mark
            for producer, mark in spoken
            if producer.final is not None or producer.heard == last or not is_idle(producer.heard)
        ]
        lowest = min(left, default=NONE_YET)
        # Only ended producers are left beside idle ones: these may still send, so the time has not ended.
        return NONE_YET if lowest == END_OF_TIME and len(left) < max(total, len(state.producers)) else lowest

    def _is_idle(self, since: int, now: int) -> bool:
        return self._idle_timeout is not None and now - since >= self._idle_timeout

    def _emit(self, stream: str, partition: int, state: _Partition, timestamp: int) -> WatermarkAdvanced | None:
        if timestamp <= state.emitted:
            return None
        state.emitted = timestamp
        return WatermarkAdvanced(stream, partition, timestamp)


def _never(since: int) -> bool:
    """Leave no producer out."""
    return False


def input_watermark(upstream_outputs: Iterable[int]) -> int:
    """Return an operator's input watermark: the minimum over its upstream operators.

    Those that this task does not use are not among them.
    """
    return min(upstream_outputs, default=END_OF_TIME)
