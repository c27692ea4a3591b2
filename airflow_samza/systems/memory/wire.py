"""Wire form of topics in memory, which then keep the bytes of messages as another system would send them.

The test driver pipes messages through it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_samza.systems.system import Envelope, SystemStreamPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_samza.application.descriptors import StreamDescriptor


@dataclass(frozen=True)
class WireForm:
    """Form of a topic's messages as bytes: its ``serde``, and whether a type byte precedes each (``in_band``).

    ``tolerant``: messages that cannot be read come as :class:`~airflow_samza.systems.system.UnreadableRun`.
    """

    serde: str
    in_band: bool = False
    tolerant: bool = False

    @classmethod
    def of(cls, stream: StreamDescriptor) -> WireForm | None:
        """Return the form that a stream's serde gives its messages; None where none is declared."""
        from airflow_samza.systems.serdes.binding import with_schema_file

        if stream.serde is None:
            return None
        module = stream.location.file if stream.location is not None else None
        return cls(with_schema_file(stream.serde, stream.stream_id, module), tolerant=stream.on_error is not None)


class Wire:
    """The wire form of one topic of these columns."""

    def __init__(self, form: WireForm, schema: pa.Schema, topic: str) -> None:
        from airflow_samza.systems.serdes.binding import bind_serde

        self._form = form
        self._topic = topic
        self._serde = bind_serde(form.serde, schema, topic)

    def encoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of messages as their bytes."""
        from airflow_samza.systems.serdes.wire import user_bytes

        return bytes_batch(user_bytes(batch, self._serde, stream=self._topic, in_band=self._form.in_band))

    def envelopes(self, ssp: SystemStreamPartition, offset: int, batch: pa.RecordBatch) -> Iterator[Envelope]:
        """Yield the messages that a batch of bytes holds, from an offset on."""
        from airflow_samza.systems.serdes.wire import envelopes

        form = self._form
        yield from envelopes(ssp, offset, batch.column(0), self._serde, in_band=form.in_band, tolerant=form.tolerant)


def bytes_batch(values: pa.Array) -> pa.RecordBatch:
    """Return the bytes of messages as a topic keeps them."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([values.cast(pa.binary())], ["value"])
