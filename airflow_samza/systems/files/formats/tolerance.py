"""Rows that do not fit the stream's schema, where the reader asks for them instead of an error."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from airflow_samza.errors import SchemaError
from airflow_samza.systems.dictionaries import decoded
from airflow_samza.systems.files.formats.conform import Conformer
from airflow_samza.systems.files.formats.json_values import to_lines
from airflow_samza.systems.files.formats.unreadable import Unreadable
from airflow_samza.systems.files.formats.utf8 import is_text


def fitting(conformer: Conformer, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch | Unreadable]:
    """Yield the rows of a batch that fit the stream's schema, in pieces, and between them those that do not, as JSON.

    A column that no row could fit is an error all the same.
    """
    try:
        made = conformer.apply(batch)
    except SchemaError as error:
        conformer.apply(batch.slice(0, 0))
        if batch.num_rows == 1:
            yield Unreadable(to_lines(_shown(decoded(batch))).decode().rstrip("\n"), error.sentence)
            return
        middle = batch.num_rows // 2
        yield from fitting(conformer, batch.slice(0, middle))
        yield from fitting(conformer, batch.slice(middle))
    else:
        yield made


def _shown(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a row as it can be shown.

    Bytes that are no text are escaped, and nested values that hold some are left out.
    """
    columns = []
    for column in batch.columns:
        if is_text(column):
            columns.append(column)
        elif column.type.num_fields:
            columns.append(pa.array(["(text that is no UTF-8)"]))
        else:
            columns.append(pa.array([column.cast(pa.binary())[0].as_py().decode(errors="backslashreplace")]))
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
