"""Reads damaged files in a process of its own, which may die of them.

``python hostile_reader.py FORMAT SEED FIRST SECONDS DIRECTORY``.

Each case follows from format, seed and number. ``progress`` in the directory says which one is being read, ``found``
what went wrong.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import resource
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_samza.errors import SamzaError
from airflow_samza.schema import Schema
from airflow_samza.systems.files.formats.file_format import open_format
from airflow_samza.systems.files.formats.options import FileOptions
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import (
    ColumnBound,
    MessageRun,
    StreamSpec,
    SystemBinding,
    SystemStreamPartition,
    UnreadableRun,
)

FLAT = (
    "id bigint, i int, f float, d double, s string, b boolean, dec decimal(10,2), ts timestamp, tn timestamp_ntz, "
    "dt date"
)
NESTED = FLAT + ", bin binary, arr array<int>, st struct<x:int,s:string>, m map<string,double>"
MEMORY = 2 << 30
"""Bytes of address space that reading a small file may take: more is a sentence, not the end of the process."""

PIECES = {
    "csv": [
        b'"',
        b'""',
        b",",
        b"\n",
        b"\r",
        b"\r\n",
        b"\xff",
        b"\0",
        b"0x1F",
        b"1e400",
        b"\\",
        b"\xef\xbb\xbf",
        b"nan",
        b"-",
        b'"a\nb"',
        b" ",
    ],
    "json": [
        *(
            b"null",
            b"\n",
            b"[",
            b"]",
            b"{",
            b"}",
            b'"',
            b",",
            b":",
            b"\xff",
            b"\\ud800",
            b"\\",
            b"NaN",
            b"Inf",
            b"1e400",
            b"1e9999999999999999999999",
        ),
        *(
            b"\0",
            b"\r",
            b"true",
            b"-0",
            b"\xed\xa0\x80",
            b"[" * 3000,
            b'{"a":' * 3000,
            b"9" * 5000,
            b'{"id":1}',
            b"null\n",
            b"[]\n",
            b'{"id":2,"id":3}\n',
        ),
    ],
}


def rows(rng: random.Random, ddl: str) -> pa.RecordBatch:
    schema = Schema.of(ddl).to_arrow()
    made = []
    for number in range(rng.choice([0, 1, 3, 40])):
        values = {
            "id": number,
            "i": rng.randrange(-5, 5),
            "f": rng.choice([1.5, float("nan"), None]),
            "d": rng.random(),
            "s": rng.choice(["", "a,b", 'q"q', "line\nend", "\\", "ü" * 9, None]),
            "b": rng.choice([True, False, None]),
            "bin": b"\0\xff",
            "arr": [1, None],
            "st": {"x": 1, "s": "y"},
            "m": [("k", 1.0)],
        }
        made.append({name: value for name, value in values.items() if name in schema.names})
    return pa.RecordBatch.from_pylist(made, schema=schema)


def file_of(rng: random.Random, format_name: str, ddl: str) -> bytes:
    sink = io.BytesIO()
    batch = rows(rng, ddl)
    writer = open_format(format_name).writer(sink, batch.schema, FileOptions())
    if batch.num_rows:
        writer.write(batch)
    writer.close()
    return sink.getvalue()


def damaged(rng: random.Random, data: bytes, format_name: str) -> bytes:
    found = bytearray(data)
    for _ in range(rng.choice([0, 1, 1, 2, 5])):
        near_end = format_name in ("parquet", "orc") and rng.random() < 0.7  # where such files describe themselves
        place = rng.randrange(max(0, len(found) - 2000) if near_end else 0, len(found) + 1)
        kind = rng.randrange(7)
        if kind == 0:
            del found[place:]
        elif kind == 1 and place < len(found):
            found[place] ^= 1 << rng.randrange(8)
        elif kind == 2 and place < len(found):
            found[place] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        elif kind == 3:
            del found[place : place + rng.randrange(1, 9)]
        elif kind == 4:
            end = min(len(found), place + rng.randrange(1, 40))
            found[place:place] = found[place:end]
        else:
            found[place:place] = (
                rng.choice(PIECES[format_name]) if format_name in PIECES else rng.randbytes(rng.randrange(1, 9))
            )
    return bytes(found)


def read(root: Path, stream: StreamSpec) -> int:
    system = FilesSystem("lake", SystemBinding("files", {"root": str(root)}))
    fixed = system.slice(stream)
    consumer = system.consumer(stream, fixed)
    count = 0
    bounds = [ColumnBound("id", ">", 1), ColumnBound("s", "<", "m")]
    for partition in range(fixed["partitions"]):
        for envelope in consumer.read(
            SystemStreamPartition("lake", "rows", partition), None, bounds=bounds, dictionaries=True
        ):
            if isinstance(envelope, UnreadableRun):
                assert all(envelope.errors)
            if isinstance(envelope, MessageRun):
                envelope.batch.validate(full=True)
                count += envelope.messages
    return count


def one(root: Path, format_name: str, seed: int, number: int) -> str | None:
    """Return the fault of reading a case, None when it was read or rejected by a sentence."""
    rng = random.Random(f"{format_name}-{seed}-{number}")
    ddl = FLAT if format_name == "csv" else NESTED
    data = damaged(rng, file_of(rng, format_name, ddl), format_name)
    name = f"case.{format_name}"
    if format_name in PIECES and rng.random() < 0.2:
        packed = gzip.compress(data)
        data, name = (damaged(rng, packed, "gzip") if rng.random() < 0.5 else packed), name + rng.choice([".gz", ".GZ"])
    (root / name).write_bytes(data)
    options = (("multiline", "false"),) if format_name == "csv" and rng.random() < 0.3 else ()
    partitions = rng.choice([1, 3])
    declared = ddl if rng.random() < 0.8 else None
    sliced: dict[str, Any] = (
        {"timestamp": rng.choice(["ts", "dt"]), "interval": (0, 10**16)} if declared and rng.random() < 0.5 else {}
    )
    for tolerant in (False, True):
        try:
            read(
                root,
                StreamSpec(
                    "rows",
                    partitions,
                    declared,
                    format=format_name,
                    path=name,
                    tolerant=tolerant,
                    options=options,
                    **sliced,
                ),
            )
        except SamzaError as error:
            if not error.sentence or not error.hint:
                return f"an error without a sentence and a hint: {error!r}"
        except BaseException:
            return traceback.format_exc()
    return None


def main(format_name: str, seed: int, first: int, seconds: float, root: Path) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
    until, number = time.monotonic() + seconds, first
    with open(root / "progress", "w") as progress:
        while time.monotonic() < until or number == first:
            progress.seek(0)
            progress.write(f"{number:12d}")
            progress.flush()
            wrong = one(root, format_name, seed, number)
            if wrong is not None:
                (root / "found").write_text(json.dumps({"case": number, "wrong": wrong}))
                return
            number += 1


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), Path(sys.argv[5]))
