"""The order of offsets (whole numbers, in each of our systems), and the heads of partitions when a task starts.

Source: rules M3 and M5; message-chooser, "Sorting strings that contains longs".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_samza.chooser.message_chooser import Partition
from airflow_samza.errors import TopicError


def whole_number(offset: Any) -> int:
    """Return an offset as a whole number, also when it is written as text.

    >>> whole_number("2") < whole_number("100")
    True
    """
    try:
        return int(offset)
    except (TypeError, ValueError):
        raise TopicError(
            f"The offset {offset!r} is not a whole number.",
            hint="Correct the offset.",
            offset=offset,
        ) from None


def is_known(offset: Any) -> bool:
    """Return whether an offset is known: None and the empty text are not."""
    return offset is not None and offset != ""


@dataclass(frozen=True)
class PartitionHead:
    """The end of a partition, taken at start: the offset of its ``newest`` message, None when it holds none.

    ``oldest`` is that of its first message, where the system knows it.
    """

    newest: Any
    oldest: Any = None

    @classmethod
    def between(cls, oldest: int, upcoming: int) -> PartitionHead:
        """Return the head of a partition with the offsets ``oldest`` to ``upcoming`` (the next one to be written)."""
        return cls(upcoming - 1, oldest) if upcoming > oldest else cls(None)

    @property
    def is_empty(self) -> bool:
        """Return whether the partition holds no message."""
        return not is_known(self.newest)


def unknown_head(ssp: Partition) -> TopicError:
    """Make the error for a partition that has to be read to its head when its head is not known."""
    return TopicError(
        f"The head of {ssp} is not known, and it has to be read to its head first.",
        hint="Check that the stream exists and its system answers, or take its bootstrap "
        "(task.chooser.wait.for.head) away.",
        system=ssp.system,
        stream=ssp.stream,
        partition=ssp.partition,
    )
