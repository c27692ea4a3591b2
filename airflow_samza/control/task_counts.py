"""The numbers of tasks that write streams.

Every control message of a task says so, and all of them have to say the same (rule C3).
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_samza.control.messages import ControlMessage, EndOfStreamMessage
from airflow_samza.errors import ControlError


class TaskCounts:
    """The task counts of streams. ``producer_counts`` serve messages that carry none."""

    def __init__(self, producer_counts: Mapping[str, int] | None = None) -> None:
        self._producer_counts = dict(producer_counts or {})
        self._counts: dict[str, int] = {}

    def take(self, stream: str, partition: int, message: ControlMessage, offset: object) -> int:
        """Record and return the task count that a message gives.

        A :class:`~airflow_samza.errors.ControlError` where an earlier one gave another. ``partition`` and ``offset``
        say where the message lies.
        """
        total = message.task_count if message.task_count > 0 else self._producer_counts.get(stream, 0)
        if total > 0 and self._counts.setdefault(stream, total) == total:
            return total
        kind = "end-of-stream" if isinstance(message, EndOfStreamMessage) else "watermark"
        where = f"{stream}/{partition}" + ("" if offset is None else f" offset {offset}")
        said = f"has the task count {total or message.task_count}" + (
            f"; an earlier message said {self._counts[stream]}" if total else ""
        )
        raise ControlError(
            f"The {kind} message of {message.task_name!r} at {where} {said}.",
            hint=f"{'Two attempts with different plans have written the stream: clear' if total else 'Clear'} the "
            "stage that writes it.",
            stream=stream,
            partition=partition,
            offset=offset,
        )

    def of(self, stream: str) -> int | None:
        """Return the task count that messages have given; None when there was none yet."""
        return self._counts.get(stream)

    def restore(self, stream: str, total: int) -> None:
        """Restore a checkpoint's count, unless a message has given one."""
        self._counts.setdefault(stream, total)
