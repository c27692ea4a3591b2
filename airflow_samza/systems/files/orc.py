"""ORC: read by stripes, with column projection; written with zlib."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO

import pyarrow as pa
from pyarrow import orc

from airflow_samza.systems.files.formats import BATCH_ROWS, InputFile, TimeRange, changed
from airflow_samza.systems.files.options import FileOptions
from airflow_samza.systems.files.packing import Unit


class OrcFormat:
    """The format ``orc``."""

    extension = "orc"

    def open(self, file: InputFile, wanted: pa.Schema | None, options: FileOptions) -> OrcInput:
        """Opens the file and reads its tail."""
        return OrcInput(file)

    def units(self, number: int, file: InputFile, within: TimeRange | None, options: FileOptions) -> list[Unit]:
        """A unit for each stripe; its size is an equal share, as the tail's sizes are not told."""
        opened = OrcInput(file)
        try:
            count = opened.orc.nstripes
        finally:
            opened.close()
        return [Unit(number, stripe, stripe + 1, max(1, file.size // count)) for stripe in range(count)]

    def check(self, schema: pa.Schema, stream: str) -> None:
        """ORC holds every column."""

    def writer(self, sink: IO[bytes] | pa.NativeFile, schema: pa.Schema, options: FileOptions) -> OrcOutput:
        """A writer to an open sink."""
        return OrcOutput(sink, schema, options.compression or "zlib")


class OrcInput:
    """An open ORC file."""

    def __init__(self, file: InputFile) -> None:
        self.file = file
        self.source = file.random_access()
        self.orc = orc.ORCFile(self.source)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the file."""
        return self.orc.schema

    def batches(self, start: int, end: int | None, names: Sequence[str], within: TimeRange | None) -> Iterator[pa.RecordBatch]:
        """The rows of stripes [start, end)."""
        count = self.orc.nstripes
        if end is not None and end > count:
            raise changed(self.file.shown, self.file.stream, f"it has {count} stripes, the plan reads up to {end}")
        # Without any column a stripe would not tell its rows: read the first one and drop it.
        wanted = list(names) or self.orc.schema.names[:1]
        for stripe in range(start, count if end is None else end):
            batch = self.orc.read_stripe(stripe, columns=wanted).select(list(names))
            for row in range(0, batch.num_rows, BATCH_ROWS):
                yield batch.slice(row, BATCH_ROWS)

    def close(self) -> None:
        """Gives the file back."""
        self.source.close()


class OrcOutput:
    """Writes batches to stripes."""

    def __init__(self, sink: IO[bytes] | pa.NativeFile, schema: pa.Schema, compression: str) -> None:
        self.schema = schema
        self.writer = orc.ORCWriter(sink, compression=compression)
        self.writer.write(schema.empty_table())

    def write(self, batch: pa.RecordBatch) -> None:
        """Appends rows."""
        self.writer.write(pa.Table.from_batches([batch], self.schema))

    def close(self) -> None:
        """Writes the tail."""
        self.writer.close()
