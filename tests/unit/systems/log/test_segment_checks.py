"""The unpacked size of Arrow messages is known before memory is allocated; Arrow itself is the reference."""

from __future__ import annotations

import contextlib
import io
import json
import random
import struct
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.errors import TopicError
from airflow_samza.systems.log.segment_checks import check_unpacked, unpacked_bytes
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from tests.support.budgets import share
from tests.support.runs_here import Here


def file_of(*batches: pa.RecordBatch, compression: str | None = "zstd") -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def body_of(data: bytes) -> bytes:
    """The messages of a file, without its footer (which begins with an end-of-stream mark)."""
    return data[: -10 - struct.unpack("<i", data[-10:-6])[0] - 8]


def batch(rows: int, text: str = "country") -> pa.RecordBatch:
    numbers = pa.array([None if n % 7 == 0 else n for n in range(rows)], pa.int64())
    columns = {
        "n": numbers,
        "t": [text] * rows,
        "l": [[n] for n in range(rows)],
        "d": pa.array([text] * rows).dictionary_encode(),
    }
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("rows", [0, 1, 1000])
def test_tells_what_a_batch_unpacks_to(compression: str | None, rows: int) -> None:
    found = batch(rows)
    told = unpacked_bytes(body_of(file_of(found, found, compression=compression)))
    buffers = [b.size for column in found.columns for b in column.buffers() if b is not None]
    dictionary = sum(b.size for b in found.column("d").dictionary.buffers() if b is not None) if rows else 0
    assert 2 * sum(buffers) <= told + 64 * 2 * len(buffers)
    assert told <= 2 * (sum(buffers) + dictionary) + 64 * 4 * (len(buffers) + 4)


@pytest.mark.extended
def test_rejects_a_batch_that_unpacks_to_a_thousand_times_its_size() -> None:
    bomb = body_of(
        file_of(pa.RecordBatch.from_pydict({"n": pa.array([0], pa.int64()).take(pa.array([0] * (10 << 20)))}))
    )
    assert len(bomb) < 100_000
    with pytest.raises(ValueError, match=r"unpack to 83,886,08\d, and at most 255 times as many are read"):
        check_unpacked(bomb)


@pytest.mark.extended
def test_takes_a_large_batch_of_ordinary_data() -> None:
    numbers = pa.array(random.Random(1).choices(range(1 << 40), k=1 << 16), pa.int64()).take(
        pa.array(list(range(1 << 16)) * 160)
    )
    check_unpacked(body_of(file_of(pa.RecordBatch.from_pydict({"n": numbers}), compression="lz4")))


@pytest.mark.random
def test_whatever_the_bytes_are_it_tells_or_says_that_it_cannot() -> None:
    sound = body_of(file_of(batch(20)))
    for seed in range(share(2000)):
        rng = random.Random(seed)
        data = bytearray(sound)
        for _ in range(rng.randint(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        with contextlib.suppress(ValueError):
            assert unpacked_bytes(bytes(data[: rng.randrange(len(data))] if rng.random() < 0.3 else data)) >= 0


def hostile(root: Path, data: bytes, rows: int) -> LogSystem:
    """A topic of another team whose only segment is an Arrow file of theirs, with a commit that fits it."""
    here = Here(root)
    here.log.append("theirs", pa.table({"t": ["a"]}), partitions=1)
    folder = root / "topics" / "theirs"
    commit = folder / "commits" / f"{0:020}.json"
    record: Any = json.loads(commit.read_text())
    (segment,) = record["segments"]
    end = len(body_of(data))
    segment |= {
        "bytes": len(data),
        "ends": [end, len(data)],
        "checksums": [zlib.crc32(data[:end]), zlib.crc32(data[end:])],
    }
    segment["rows"] = record["next"] = [rows]
    commit.write_text(json.dumps(record))
    (folder / "segments" / f"{segment['segment']}.arrow").write_bytes(data)
    return LogSystem("log", SystemBinding("log", {"root": str(root)}))


def test_a_foreign_segment_whose_offsets_lie_is_rejected_before_a_row_is_read(tmp_path: Path) -> None:
    data = file_of(pa.RecordBatch.from_pydict({"t": ["hello", "world"]}), compression=None)
    true, lying = (b"".join(n.to_bytes(4, "little") for n in (0, 5, end)) for end in (10, 1 << 30))
    assert data.count(true) == 1
    hostile(tmp_path, data.replace(true, lying), 2)
    with pytest.raises(TopicError, match="cannot be read at batch 0"):
        Here(tmp_path).rows("theirs")


def test_a_foreign_text_that_is_no_unicode_is_rejected(tmp_path: Path) -> None:
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 2)))
    torn = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(b"\xff\xfe"))
    hostile(tmp_path, file_of(pa.RecordBatch.from_arrays([torn], ["t"]), compression=None), 1)
    with pytest.raises(TopicError, match="UTF8"):
        Here(tmp_path).rows("theirs")


@pytest.mark.extended
def test_a_foreign_segment_that_unpacks_to_far_more_than_it_is_is_rejected(tmp_path: Path) -> None:
    rows = 10 << 20
    bomb = pa.RecordBatch.from_arrays([pa.array([0], pa.int64()).take(pa.array([0] * rows))], ["t"])
    hostile(tmp_path, file_of(bomb), rows)
    with pytest.raises(TopicError, match="at most 255 times as many are read"):
        Here(tmp_path).rows("theirs")
