"""Sections of a stream that several applications share: each run that writes it is one, with bookkeeping of its own.

Control messages of different runs never meet: a task count of one says nothing about another, and a run that ends
leaves the others open. What a consumer sees of them together is what a source would say. Source: rule C10 (and rules
C2–C6 within a section) (decision 21). Readers of shared streams keep the runs apart by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_samza.control.end_of_stream import EndOfStreamBookkeeping
from airflow_samza.control.messages import EndOfStreamMessage, WatermarkMessage
from airflow_samza.control.watermarks import END_OF_TIME, NONE_YET, WatermarkBookkeeping


@dataclass
class _Section:
    ends: EndOfStreamBookkeeping
    marks: WatermarkBookkeeping
    watermark: int = NONE_YET  # the last one before the section ended
    ended: bool = False


class SectionBookkeeping:
    """The control messages of one partition of a shared stream, of the ``runs`` that a consumer reads.

    Others change nothing.

    The watermark is the minimum over the sections that are open; when all have ended, the greatest that any of them had
    reached. The partition ends with the last of its sections, and for good only if all of them did. Each is told once,
    and time never goes back.

    >>> sections = SectionBookkeeping("shared", 0, ["monday", "tuesday"])
    >>> sections.update("monday", EndOfStreamMessage("task-0", 1, "monday", "shared"))
    []
    >>> sections.update("tuesday", EndOfStreamMessage("task-0", 1, "tuesday", "shared"))
    [EndOfStreamMessage(task_name=None, task_count=1, run=None, stream_id='shared', final=True)]
    """

    def __init__(self, stream: str, partition: int, runs: Iterable[str]) -> None:
        self._stream = stream
        self._partition = partition
        place = [(stream, partition)]
        self._sections = {run: _Section(EndOfStreamBookkeeping(place), WatermarkBookkeeping(place)) for run in runs}
        self._watermark = NONE_YET
        self._ended = False

    def update(
        self, run: str, message: WatermarkMessage | EndOfStreamMessage, *, offset: object = None
    ) -> list[WatermarkMessage | EndOfStreamMessage]:
        """Record a message of a run; return what the partition as a whole then says, as from a source (rule C2)."""
        section = self._sections.get(run)
        if section is None or self._ended:
            return []
        moved = section.marks.update(self._stream, self._partition, message, offset=offset)
        if moved is not None and moved.timestamp < END_OF_TIME:
            section.watermark = moved.timestamp
        if isinstance(message, EndOfStreamMessage):
            section.ended = (
                section.ends.update(self._stream, self._partition, message, offset=offset) is not None or section.ended
            )
        return self._news()

    def _news(self) -> list[WatermarkMessage | EndOfStreamMessage]:
        news: list[WatermarkMessage | EndOfStreamMessage] = []
        sections = self._sections.values()
        still = [section.watermark for section in sections if not section.ended]
        reached = min(still) if still else max(section.watermark for section in sections)
        if reached > self._watermark:
            self._watermark = reached
            news.append(WatermarkMessage(None, 1, timestamp=reached))
        if not still:
            self._ended = True
            final = all(section.ends.is_final(self._stream) for section in sections)
            news.append(EndOfStreamMessage(None, 1, stream_id=self._stream, final=final))
        return news
