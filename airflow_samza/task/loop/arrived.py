"""Envelopes as choosers see them.

Under the names of configuration, with messages that are made when a chooser looks at them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_samza.schema import Schema
from airflow_samza.systems.dictionaries import decoded
from airflow_samza.systems.system import Envelope, MessageRun, SystemStreamPartition, UnreadableRun
from airflow_samza.task.messages.conform import SchemaConformer
from airflow_samza.task.messages.messages import CHUNK, MessageReader

if TYPE_CHECKING:
    import pyarrow as pa


class Arrived:
    """An envelope of the stream ``stream_id`` under the name by which configuration knows its partition."""

    __slots__ = ("_conformer", "_first", "_made", "envelope", "messages", "offset", "source", "ssp")

    def __init__(self, ssp: SystemStreamPartition, source: Any, envelope: Envelope, conformer: SchemaConformer) -> None:
        self.ssp = ssp
        self.source = source
        self.envelope = envelope
        self.offset = envelope.offset
        self.messages = envelope.messages
        self._conformer = conformer
        self._first = 0
        self._made: list[Any] = []

    @property
    def schema(self) -> Schema | None:
        """The columns of its messages; None for a control message."""
        return self._conformer.schema if isinstance(self.envelope, MessageRun) else None

    def message_at(self, place: int) -> Any:
        """One of its messages.

        None for a control message, and for one that cannot be read: it is rejected when its turn comes.
        """
        if not isinstance(self.envelope, MessageRun) or isinstance(self.envelope, UnreadableRun):
            return None
        if not self._first <= place < self._first + len(self._made):
            self._first = place - place % CHUNK
            self._made = _readable(self.envelope.batch.slice(self._first, CHUNK), self._conformer)
        return self._made[place - self._first]

    def slice(self, first: int, count: int) -> Arrived:
        """``count`` messages of it, from message ``first`` on."""
        return Arrived(self.ssp, self.source, self.envelope.slice(first, count), self._conformer)


def _readable(batch: pa.RecordBatch, conformer: SchemaConformer) -> list[Any]:
    """The messages of a batch, None for each that does not fit."""
    try:
        return MessageReader(conformer.schema).read(decoded(conformer.conform(batch)))
    except Exception:  # also an error of the user's own class: reading the message for good raises it again
        if batch.num_rows == 1:
            return [None]
        return [message for row in range(batch.num_rows) for message in _readable(batch.slice(row, 1), conformer)]
