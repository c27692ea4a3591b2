"""Small files of every format, and what reading them gives with one bit turned over: rows, or a sentence.

``python flipped_files.py NAME DIRECTORY STEP`` prints a line of JSON for each bit whose rows differ from those of the
sound file, and last the counts; reading damaged files may end a process, so that it is one of its own.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_samza.errors import SamzaError
from airflow_samza.schema import Schema
from airflow_samza.systems.files.formats.file_format import open_format
from airflow_samza.systems.files.formats.options import FileOptions
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import MessageRun, StreamSpec, SystemBinding, SystemStreamPartition

DDL = "id bigint, s string, d double"

ROWS = [{"id": n, "s": f"text {n % 3}", "d": n / 4 if n % 4 else None} for n in range(10)]


def avro(codec: str) -> Callable[[], bytes]:
    import fastavro

    fields = [
        {"name": "id", "type": "long"},
        {"name": "s", "type": "string"},
        {"name": "d", "type": ["null", "double"]},
    ]
    schema = {"type": "record", "name": "m", "fields": fields}

    def made() -> bytes:
        sink = io.BytesIO()
        if codec in ("null", "deflate"):
            fastavro.writer(sink, schema, ROWS, codec=codec, sync_interval=60)
            return sink.getvalue()
        return ours("avro", codec)()

    return made


def ours(format_name: str, codec: str = "") -> Callable[[], bytes]:
    def made() -> bytes:
        sink = io.BytesIO()
        batch = pa.RecordBatch.from_pylist(ROWS, schema=Schema.of(DDL).to_arrow())
        writer = open_format(format_name).writer(sink, batch.schema, FileOptions(compression=codec))
        writer.write(batch)
        writer.close()
        return sink.getvalue()

    return made


def parquet_of_others() -> bytes:
    """Three row groups, pages with checksums, as Spark writes them."""
    sink = io.BytesIO()
    table = pa.Table.from_pylist(ROWS, schema=Schema.of(DDL).to_arrow())
    pq.write_table(table, sink, row_group_size=4, write_page_checksum=True, store_schema=False)
    return sink.getvalue()


def orc_of_others() -> bytes:
    from pyarrow import orc

    sink = io.BytesIO()
    orc.write_table(pa.Table.from_pylist(ROWS, schema=Schema.of(DDL).to_arrow()), sink, compression="zlib")
    return sink.getvalue()


def zstd_with_checksum(data: bytes) -> bytes:
    import zstandard

    return bytes(zstandard.ZstdCompressor(write_checksum=True).compress(data))


FILES: dict[str, Callable[[], bytes]] = {
    **{f"{codec}.avro": avro(codec) for codec in ("null", "deflate", "snappy", "zstandard", "bzip2", "xz")},
    "ours.parquet": ours("parquet"),
    "others.parquet": parquet_of_others,
    "ours.orc": ours("orc"),
    "in.json": ours("json"),
    "in.csv": ours("csv"),
    "in.json.gz": lambda: gzip.compress(ours("json")()),
    "in.csv.gz": lambda: gzip.compress(ours("csv")()),
    "in.json.bz2": lambda: bz2.compress(ours("json")()),
    "in.csv.zst": lambda: zstd_with_checksum(ours("csv")()),
}


def read(root: Path, name: str, ddl: str = DDL) -> list[dict[str, Any]]:
    """Return the rows of a file, as a run gets them."""
    system = FilesSystem("lake", SystemBinding("files", {"root": str(root)}))
    stream = StreamSpec("in", 1, ddl, path=name)
    consumer = system.consumer(stream, system.slice(stream))
    found = consumer.read(SystemStreamPartition("lake", "in", 0), None)
    return [row for run in found if isinstance(run, MessageRun) for row in run.batch.to_pylist()]


def flips(root: Path, name: str, step: int) -> Iterator[tuple[int, Any]]:
    """Yield the number of each bit (every so many), and what the file gives with that one turned over."""
    data = FILES[name]()
    for bit in range(0, len(data) * 8, step):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << (bit % 8)
        (root / name).write_bytes(changed)
        try:
            yield bit, read(root, name)
        except SamzaError as error:
            yield bit, error


def main(name: str, root: Path, step: int) -> None:
    """Print what differs, and last how many bits were turned, and how many gave a sentence."""
    (root / name).write_bytes(FILES[name]())
    assert read(root, name) == ROWS, read(root, name)
    turned = rejected = 0
    for bit, found in flips(root, name, step):
        turned += 1
        if isinstance(found, SamzaError):
            rejected += 1
            if name not in found.sentence or not found.hint:
                print(json.dumps({"bit": bit, "sentence": found.sentence}), flush=True)
        elif repr(found) != repr(ROWS):
            print(json.dumps({"bit": bit, "rows": len(found), "found": repr(found)[:300]}), flush=True)
    print(json.dumps({"turned": turned, "rejected": rejected}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
