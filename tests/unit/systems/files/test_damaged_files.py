"""A file in which bits are other ones gives its rows or a sentence, never other rows where its format can know.

What a file says of itself, counts and checksums, is compared with what was read of it.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from airflow_samza.errors import SamzaError, TopicError
from airflow_samza.systems.files.formats.avro_blocks import ContainerWriter, long_bytes
from airflow_samza.systems.files.formats.file_format import InputFile, reading
from airflow_samza.systems.files.formats.orc import OrcTail
from tests.support.budgets import extended_but
from tests.support.flipped_files import FILES, ROWS, flips, read

STEP = int(os.environ.get("FLIPPED_BITS_STEP", "23"))
"""One bit in so many is turned over: of every place in a byte, in other bytes; 1 turns all."""

KNOWS_VALUES = [
    "snappy.avro",
    "bzip2.avro",
    "xz.avro",
    "ours.parquet",
    "others.parquet",
    "in.json.gz",
    "in.csv.gz",
    "in.json.bz2",
    "in.csv.zst",
]
"""Files with checksums of their values."""

KNOWS_COUNTS = ["null.avro", "deflate.avro", "zstandard.avro", "ours.orc"]
"""Files that say how many rows they have, and nothing of their values."""


def results(root: Path, name: str) -> list[dict[str, Any]]:
    """Return the lines of a reader in a process of its own, which a file may end."""
    program = str(Path(__file__).parents[3] / "support/flipped_files.py")
    done = subprocess.run(
        [sys.executable, program, name, str(root), str(STEP)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("name", extended_but(["snappy.avro", "ours.parquet", "in.json.gz"], KNOWS_VALUES))
@pytest.mark.few(1)
def test_one_bit_of_a_file_with_checksums_gives_its_rows_or_a_sentence(tmp_path: Path, name: str) -> None:
    *others, counts = results(tmp_path, name)
    assert others == []
    assert counts["rejected"] * 2 > counts["turned"] > 30


@pytest.mark.parametrize("name", extended_but(["deflate.avro", "ours.orc"], KNOWS_COUNTS))
@pytest.mark.few(1)
def test_one_bit_of_a_file_without_checksums_loses_and_adds_no_row(tmp_path: Path, name: str) -> None:
    *others, counts = results(tmp_path, name)
    assert [other for other in others if other.get("rows") != len(ROWS)] == []
    assert counts["rejected"] > 30


def container(*blocks: tuple[int, bytes], fields: Any = None) -> bytes:
    sink = io.BytesIO()
    fields = fields or [{"name": "id", "type": "long"}]
    writer = ContainerWriter(sink, {"type": "record", "name": "m", "fields": fields}, "null")
    for count, data in blocks:
        writer.write(count, data)
        writer.flush()
    return sink.getvalue()


def rejected(root: Path, data: bytes) -> str:
    (root / "in.avro").write_bytes(data)
    with pytest.raises(TopicError) as caught:
        read(root, "in.avro", "id bigint")
    assert "in.avro of stream 'in' cannot be read as avro" in caught.value.sentence
    return caught.value.sentence


def numbers(count: int) -> bytes:
    return b"".join(long_bytes(number) for number in range(count))


@pytest.mark.parametrize("claimed", [0, 1, 2, 9, 11, 40, 2**31, 2**62])
def test_a_block_of_avro_has_to_hold_the_records_that_it_claims_and_nothing_else(tmp_path: Path, claimed: int) -> None:
    data = container((10, numbers(10)))
    honest = long_bytes(10) + long_bytes(10)
    assert data.count(honest) == 1
    (tmp_path / "in.avro").write_bytes(data)
    assert [row["id"] for row in read(tmp_path, "in.avro", "id bigint")] == [*range(10)]
    assert "block 1" in rejected(tmp_path, data.replace(honest, long_bytes(claimed) + long_bytes(10)))


@pytest.mark.extended
def test_a_block_of_many_records_is_used_up_to_its_last_byte_as_well(tmp_path: Path) -> None:
    data = container((40_000, numbers(40_000)))
    (tmp_path / "in.avro").write_bytes(data)
    assert [row["id"] for row in read(tmp_path, "in.avro", "id bigint")] == [*range(40_000)]
    honest = long_bytes(40_000)
    assert "has bytes behind the 39999 records" in rejected(tmp_path, data.replace(honest, long_bytes(39_999), 1))
    assert "does not hold the 40001 records" in rejected(tmp_path, data.replace(honest, long_bytes(40_001), 1))


def test_an_avro_file_that_ends_within_a_block_or_its_counts_is_rejected(tmp_path: Path) -> None:
    first, whole = container((200, numbers(200))), container((200, numbers(200)), (100, numbers(100)))
    size = len(whole) - 16 - len(numbers(100)) - 4
    assert len(first) == size
    found, sentences = set(), set()
    for cut in range(1, len(whole)):
        (tmp_path / "in.avro").write_bytes(whole[:cut])
        try:
            found.add((cut, len(read(tmp_path, "in.avro", "id bigint"))))
        except SamzaError as error:
            sentences.add(error.sentence)
    assert all("cannot be read as avro" in sentence for sentence in sentences)
    header = len(container())
    assert found == {(header, 0), (size, 200)}  # where it ends behind its header or a block, nothing says more


def test_records_without_a_byte_are_read_up_to_a_number(tmp_path: Path) -> None:
    nothing = [{"name": "id", "type": "null"}]
    (tmp_path / "in.avro").write_bytes(container((70_000, b""), (3, b""), fields=nothing))
    assert read(tmp_path, "in.avro", "id bigint") == [{"id": None}] * 70_003
    data = container((2_000_000_000, b""), fields=nothing)
    assert len(data) < 250
    assert "claims 2000000000 records that take no bytes" in rejected(tmp_path, data)
    assert "take no bytes" in rejected(tmp_path, container(*[(2**19, b"")] * 3, fields=nothing))


def test_the_rows_of_stripes_have_to_be_those_of_the_file(tmp_path: Path) -> None:
    sink = io.BytesIO()
    orc.write_table(pa.table({"id": range(10)}), sink, compression="uncompressed")
    data = sink.getvalue()
    stripe, file = b"\x28\x0a", b"\x30\x0a"  # field 5 of a stripe, field 6 of the footer
    for field in (stripe, file):
        place = data.rindex(field)
        (tmp_path / "in.orc").write_bytes(data[: place + 1] + b"\x04" + data[place + 2 :])
        with pytest.raises(
            TopicError, match=r"in\.orc of stream 'in' cannot be read as orc: its tail has \d+ rows, and"
        ):
            read(tmp_path, "in.orc", "id bigint")


def test_the_pages_of_a_parquet_file_have_to_hold_the_rows_of_its_footer(tmp_path: Path) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": range(8191)}), sink, compression="none", use_dictionary=False, store_schema=False)
    data = sink.getvalue()
    size = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - size : -8].replace(b"\xfe\x7f", b"\x80\x80\x01")  # 8191 and 8192 as it writes them
    tail = footer + len(footer).to_bytes(4, "little") + b"PAR1"
    (tmp_path / "in.parquet").write_bytes(data[: -8 - size] + tail)
    with pytest.raises(TopicError, match=r"in\.parquet .* the footer has 1 rows more than the pages"):
        read(tmp_path, "in.parquet", "id bigint")


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_the_tail_of_an_orc_file_says_how_many_rows_and_how_much_text_there_are(codec: str) -> None:
    sink = io.BytesIO()
    table = pa.table({"id": range(5000), "s": ["x" * (n % 7) for n in range(5000)], "l": [["yy"], None] * 2500})
    orc.write_table(table, sink, compression=codec, stripe_size=4096)
    tail = OrcTail.read(orc.ORCFile(pa.BufferReader(sink.getvalue())))
    assert sum(tail.stripes) == 5000
    assert tail.text == {1: sum(n % 7 for n in range(5000)), 2: 5000}


@pytest.mark.parametrize("name", ["in.json", "in.csv"])
def test_text_that_ends_within_a_line_gives_the_lines_before_or_a_sentence(tmp_path: Path, name: str) -> None:
    """The last value of a CSV file may be longer than what is left of it; nothing says so."""
    data, sentences = FILES[name](), set()
    for cut in range(1, len(data), 5):
        (tmp_path / name).write_bytes(data[:cut])
        try:
            found = read(tmp_path, name)
        except SamzaError as error:
            sentences.add(error.sentence)
            continue
        whole = len(found) if name == "in.json" else max(0, len(found) - 1)
        assert repr(found[:whole]) == repr(ROWS[:whole])
        assert len(found) <= data[:cut].count(b"\n") + 1
    assert all(name in sentence for sentence in sentences)


@pytest.mark.parametrize(
    "name",
    extended_but(
        ["in.json.gz", "ours.orc"], ["in.json.gz", "in.csv.gz", "in.json.bz2", "in.csv.zst", "ours.parquet", "ours.orc"]
    ),
)
def test_a_file_that_was_cut_off_is_rejected(tmp_path: Path, name: str) -> None:
    data = FILES[name]()
    for cut in range(1, len(data), 17):
        (tmp_path / name).write_bytes(data[:cut])
        with pytest.raises(SamzaError, match=name):
            read(tmp_path, name)


def test_the_bits_that_are_turned_over_are_all_places_of_a_byte(tmp_path: Path) -> None:
    turned = {bit % 8 for bit, _ in flips(tmp_path, "null.avro", STEP)}
    assert turned == {*range(8)}


@pytest.mark.parametrize(
    ("error", "is_damage"),
    [(PermissionError(13, "Permission denied"), False), (OSError("bad magic"), True)],
    ids=["storage", "content"],
)
def test_what_the_storage_rejects_is_no_damage(error: OSError, is_damage: bool) -> None:
    file = InputFile(pafs.LocalFileSystem(), "/in/a.csv", 1, "/in/a.csv", "views")
    with pytest.raises(TopicError) as caught, reading(file, "csv"):
        raise error
    assert ("cannot be read as csv" in caught.value.sentence) == is_damage
