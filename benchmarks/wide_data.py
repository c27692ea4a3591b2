"""Page views with a payload of random bytes, which no compression makes smaller: as large on the disk as in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PAYLOAD_BYTES = 1000
GROUP_ROWS = 16_384
FILE_GROUPS = 16
"""Row groups of a file: 16 MB each, 256 MB in all."""
ROW_BYTES = PAYLOAD_BYTES + 30
"""About what a row takes, in memory and on the disk alike."""


def wide_views(rows: int, *, first: int = 0, pages: int = 10_000, seed: int = 7) -> pa.RecordBatch:
    """Rows with random payloads; ``first`` numbers the first one."""
    random = np.random.default_rng([seed, first])
    offsets = pa.py_buffer((np.arange(rows + 1) * PAYLOAD_BYTES).astype("int32").tobytes())
    payload = pa.Array.from_buffers(
        pa.binary(), rows, [None, offsets, pa.py_buffer(random.bytes(rows * PAYLOAD_BYTES))]
    )
    countries = pa.array([f"{chr(65 + number // 10)}{chr(65 + number % 10)}" for number in range(50)])
    return pa.RecordBatch.from_arrays(
        [
            pa.array(random.integers(0, 1_000_000, rows)),
            pa.array(random.integers(0, pages, rows).astype("int32")),
            pa.array(1_767_225_600_000 + np.arange(first, first + rows)),
            countries.take(pa.array(random.integers(0, 50, rows))),
            pa.array(np.minimum(random.exponential(1500, rows), 600_000).astype("int32")),
            payload,
        ],
        ["member_id", "page_id", "ts", "country", "dwell_ms", "payload"],
    )


def write_wide_views(directory: Path, rows: int) -> Path:
    """Writes so many rows as Parquet files below a directory of that size, a row group at a time.

    Nothing if they are there.
    """
    place = directory / f"wide-{rows}"
    if place.exists():
        return place
    draft = directory / f"wide-{rows}.draft"
    draft.mkdir(parents=True, exist_ok=True)
    written = 0
    for number in range(-(-rows // (GROUP_ROWS * FILE_GROUPS))):
        writer: pq.ParquetWriter | None = None
        for _ in range(FILE_GROUPS):
            if written == rows:
                break
            batch = wide_views(min(GROUP_ROWS, rows - written), first=written)
            if writer is None:
                writer = pq.ParquetWriter(draft / f"views-{number:05d}.parquet", batch.schema, compression="snappy")
            writer.write_batch(batch)
            written += batch.num_rows
        if writer is not None:
            writer.close()
    draft.rename(place)
    return place
