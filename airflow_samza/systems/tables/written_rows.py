"""Rows of data files that a task has staged for a table, whether or not they are committed since."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_samza.systems.capabilities import rows_missing
from airflow_samza.systems.files.failures import is_missing, storage_errors
from airflow_samza.systems.files.formats.file_format import BATCH_ROWS
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.system import StreamSpec
from airflow_samza.systems.tables.output_target import OutputTarget
from airflow_samza.systems.tables.projection import constant


def written_rows(
    folder: Location, stream: StreamSpec, target: OutputTarget, described: Mapping[str, Any]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of what a task has described, with the names that columns have in the table.

    The column that tells runs apart is left out: it differs in all rows.
    """
    for file in described["files"]:
        place = folder / str(file["path"]).rpartition("/")[2]
        with storage_errors(path=str(place), stream=stream.name, doing="read"):
            try:
                opened = pq.ParquetFile(place.filesystem.open_input_file(place.path))
            except OSError as error:
                if not is_missing(error):
                    raise
                raise rows_missing(stream.name, str(place)) from error
            with opened:
                for batch in opened.iter_batches(BATCH_ROWS):
                    yield _as_of_table(batch, target, file)


def _as_of_table(batch: pa.RecordBatch, target: OutputTarget, file: Mapping[str, Any]) -> pa.RecordBatch:
    found = dict(zip((column.id for column in target.columns_of_files), batch.columns, strict=True))
    if not target.in_files:
        for (_, column), value in zip(target.partition_columns, file["partition"], strict=True):
            found[column.id] = constant(column, value, batch.num_rows)
    shown = [column for column in target.columns if column.name != target.run_column]
    return pa.RecordBatch.from_arrays([found[column.id] for column in shown], [column.name for column in shown])
