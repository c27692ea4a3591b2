"""Wire form of topics in memory, which then keep the bytes that another system would send.

Each message as its serde's bytes, control messages in the wire form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_samza.control.messages import ControlMessage, encode
from airflow_samza.systems.system import Envelope, SystemStreamPartition, is_unreadable, run_of

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class WireForm:
    """Form of a topic's messages as bytes: its ``serde``, and whether a type byte precedes each (``in_band``).

    ``tolerant``: messages that cannot be read come as :class:`~airflow_samza.systems.system.UnreadableRun`.
    """

    serde: str
    in_band: bool = False
    tolerant: bool = False


class Wire:
    """The wire form of one topic of these columns."""

    def __init__(self, form: WireForm, schema: pa.Schema, topic: str) -> None:
        from airflow_samza.systems.serdes.binding import bind_serde

        self._form = form
        self._topic = topic
        self._serde = bind_serde(form.serde, schema, topic)

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of messages as their bytes."""
        from airflow_samza.systems.serdes.wire import user_bytes

        return kept(user_bytes(batch, self._serde, stream=self._topic, in_band=self._form.in_band))

    def envelopes(
        self,
        ssp: SystemStreamPartition,
        offset: int,
        batches: Iterable[pa.RecordBatch],
        control: Iterable[ControlMessage],
    ) -> Iterator[Envelope]:
        """Yield what is kept, read again, from an offset on."""
        import pyarrow as pa

        from airflow_samza.systems.serdes.wire import envelopes

        ends = [encode(message) for message in control]
        for batch in [*batches, *([kept(pa.array(ends, pa.binary()))] if ends else [])]:
            if is_unreadable(batch):
                yield run_of(ssp, offset, batch)
            else:
                form = self._form
                yield from envelopes(
                    ssp, offset, batch.column(0), self._serde, in_band=form.in_band, tolerant=form.tolerant
                )
            offset += batch.num_rows

    def values(self, batches: Iterable[pa.RecordBatch], control: Iterable[ControlMessage]) -> list[bytes]:
        """Return what is kept of one partition of a commit, as it is sent."""
        users = [value for batch in batches if not is_unreadable(batch) for value in batch.column(0).to_pylist()]
        return [*users, *(encode(message) for message in control)]


def kept(values: pa.Array) -> pa.RecordBatch:
    """Return bytes as a topic keeps them."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([values.cast(pa.binary())], ["value"])
