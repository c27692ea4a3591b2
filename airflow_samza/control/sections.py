"""Sections of a stream that several applications share: each run that writes it is one, with bookkeeping of its own.

Control messages of different runs never meet: a task count of one says nothing about another, and a run that ends
leaves the others open. What a consumer sees of them together is what a source would say. Source: rule C10 (and rules
C2–C6 within a section) (decision 21). Readers of shared streams keep the runs apart by it.
"""

from __future__ import annotations

from collections.abc import Iterable

from airflow_samza.control.messages import EndOfStreamMessage, WatermarkMessage
from airflow_samza.control.task_control import TaskControl
from airflow_samza.control.watermarks import END_OF_TIME, NONE_YET, WatermarkAdvanced


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
        self._sections = {run: TaskControl([(stream, partition)]) for run in runs}
        self._reached = dict.fromkeys(self._sections, NONE_YET)  # by each section, before it ended
        self._watermark = NONE_YET
        self._ended = False

    def update(
        self, run: str, message: WatermarkMessage | EndOfStreamMessage, *, offset: object = None
    ) -> list[WatermarkMessage | EndOfStreamMessage]:
        """Record a message of a run; return what the partition as a whole then says, as from a source (rule C2)."""
        section = self._sections.get(run)
        if section is None or self._ended:
            return []
        for event in section.update(self._stream, self._partition, message, offset=offset):
            if isinstance(event, WatermarkAdvanced) and event.timestamp < END_OF_TIME:
                self._reached[run] = event.timestamp
        return self._news()

    def _news(self) -> list[WatermarkMessage | EndOfStreamMessage]:
        news: list[WatermarkMessage | EndOfStreamMessage] = []
        still = [self._reached[run] for run, section in self._sections.items() if not section.ends.all_ended()]
        reached = min(still) if still else max(self._reached.values())
        if reached > self._watermark:
            self._watermark = reached
            news.append(WatermarkMessage(None, 1, timestamp=reached))
        if not still:
            self._ended = True
            final = all(section.ends.is_final(self._stream) for section in self._sections.values())
            news.append(EndOfStreamMessage(None, 1, stream_id=self._stream, final=final))
        return news
