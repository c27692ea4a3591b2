"""Records that cannot be read, where whoever reads asks for them instead of an error: as they lie in the file, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from airflow_samza.errors import SchemaError
from airflow_samza.systems.files.conform import Conformer

_LONGEST = 1 << 20
"""Bytes of a record that are kept: a quote that is never closed makes the rest of a file one record."""


class Unreadable(NamedTuple):
    """One record: its text, and why it cannot be read."""

    text: str
    error: str


def fitting(conformer: Conformer, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch | Unreadable]:
    """The rows of a batch that fit the stream's schema, in pieces, and between them those that do not, as JSON.

    A column that no row could fit is an error all the same.
    """
    from airflow_samza.systems.dictionaries import decoded
    from airflow_samza.systems.files.json_values import to_lines

    try:
        made = conformer.apply(batch)
    except SchemaError as error:
        conformer.apply(batch.slice(0, 0))
        if batch.num_rows == 1:
            yield Unreadable(to_lines(decoded(batch)).decode().rstrip("\n"), error.sentence)
            return
        middle = batch.num_rows // 2
        yield from fitting(conformer, batch.slice(0, middle))
        yield from fitting(conformer, batch.slice(middle))
    else:
        yield made


def as_text(data: bytes) -> str:
    """A record's bytes without its line end, cut when it is very long; what is no UTF-8 is shown as such."""
    return data[:_LONGEST].rstrip(b"\r\n").decode(errors="backslashreplace")
