"""Streams with a serde in the test driver.

Their messages are kept as bytes there, as a system of bytes would send them.
"""

from __future__ import annotations

from airflow_samza.application.descriptors import StreamDescriptor
from airflow_samza.systems.memory.wire import WireForm
from airflow_samza.systems.serdes.binding import with_schema_file


def wire_form(stream: StreamDescriptor) -> WireForm | None:
    """Return the serde of a stream's messages; None where none is declared."""
    if stream.serde is None:
        return None
    module = stream.location.file if stream.location is not None else None
    return WireForm(with_schema_file(stream.serde, stream.stream_id, module), tolerant=stream.on_error is not None)
