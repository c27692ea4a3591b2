"""Operators that send to a stream: partition_by, broadcast, send_to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.schema import Schema
from airflow_samza.task.messages.output_writers import OutputWriter, Sender
from airflow_samza.task.operators.operator import Operator

if TYPE_CHECKING:
    import pyarrow as pa


class SendTo(Operator[OperatorSpec]):
    """Sends every message to a stream, in the stream's declared schema if it has one."""

    takes_dictionaries = True

    def __init__(self, spec: OperatorSpec, inputs: Schema, declared: Schema, writer: OutputWriter) -> None:
        super().__init__(spec, inputs, None)
        self._sender = Sender(writer, inputs, declared, spec.title)

    def process(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Send the messages."""
        self._sender.send(batch)
        return ()
