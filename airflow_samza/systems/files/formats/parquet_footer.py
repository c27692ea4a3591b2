"""Checks of a Parquet file's footer: a mistake is an error here, while Arrow would end the process.

``metadata.row_group(…).column(…)`` calls code that throws at a damaged or encrypted column, and pyarrow does not catch
that. The reader of batches does. So a reader is made over a file that holds nothing: it takes all columns into account,
and fails when it asks for bytes.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

_NOTHING = "nothing is read here"


def check_columns(metadata: pq.FileMetaData, size: int) -> None:
    """Raise the ``OSError`` that Arrow has for a footer that describes columns that cannot be."""
    if not metadata.num_row_groups or not metadata.num_columns:
        return
    try:
        opened = pq.ParquetFile(pa.PythonFile(_Nothing(size), mode="r"), metadata=metadata, pre_buffer=True)
        next(opened.iter_batches(1, row_groups=list(range(metadata.num_row_groups)), use_threads=False), None)
    except OSError as error:
        if _NOTHING not in str(error):
            raise
        # Arrow keeps the error with what it has read ahead, and the frames of its traceback keep that: a circle that
        # nobody would open.
        error.__traceback__ = None


def check_counts(metadata: pq.FileMetaData, schema: pq.ParquetSchema) -> None:
    """Raise a ``ValueError`` where the counts of rows that a footer has at several places differ."""
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    rows = sum(group.num_rows for group in groups)
    if metadata.num_rows not in (rows, 0):  # 0: some writers leave it out, and it is not what is read
        raise ValueError(f"its footer has {metadata.num_rows} rows, and its row groups have {rows}")
    flat = [place for place in range(metadata.num_columns) if not schema.column(place).max_repetition_level]
    for number, group in enumerate(groups):
        for place in flat:
            values = group.column(place).num_values
            if values != group.num_rows:
                raise ValueError(
                    f"row group {number} has {group.num_rows} rows, and {values} "
                    f"values of column {group.column(place).path_in_schema!r}"
                )


class _Nothing:
    """A file of a size, of which no byte can be read."""

    closed = False

    def __init__(self, size: int) -> None:
        self._size = size
        self._place = 0

    def seek(self, place: int, whence: int = 0) -> int:
        self._place = place + (0, self._place, self._size)[whence]
        return self._place

    def tell(self) -> int:
        return self._place

    def read(self, size: int = -1) -> bytes:
        raise OSError(_NOTHING)

    def close(self) -> None:
        """Do nothing: no file is open."""
