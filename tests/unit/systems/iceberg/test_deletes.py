"""Rows that are deleted by position: files of deletes, deletion vectors, and what is rejected."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import FileFormat

from airflow_samza.errors import TopicError
from airflow_samza.systems.iceberg.reading import puffin_vectors
from airflow_samza.systems.system import ColumnBound
from airflow_samza.systems.tables.vectors import bitmap_positions, kept_rows, vector_positions
from tests.support.iceberg_lake import (
    add_files,
    data_file,
    delete_equal,
    delete_positions,
    puffin,
    rows_of,
    stream,
    system_at,
    table_of,
    vector,
)

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize(
    "positions",
    [
        [],
        [0],
        [5, 65535, 65536, 1 << 20],
        list(range(10_000)),
        [*range(0, 200_000, 3), *range(1 << 18, (1 << 18) + 70_000)],
        [1, (1 << 32) + 7, (5 << 32) + 9],
    ],
    ids=["none", "one", "containers", "a run", "bits and runs", "beyond 32 bits"],
)
def test_a_vector_is_read_as_it_was_written(positions: list[int], runs: bool) -> None:
    assert vector_positions(vector(positions, runs=runs), len(positions)).tolist() == positions


def test_random_vectors_are_read_as_they_were_written() -> None:
    chance = random.Random(7)
    for _ in range(30):
        most = chance.choice([100, 70_000, 1 << 20])
        positions = sorted(chance.sample(range(most), chance.randrange(1, min(most, 20_000))))
        assert vector_positions(vector(positions, runs=chance.random() < 0.5), most).tolist() == positions


def test_damaged_vectors_are_errors() -> None:
    good = vector([1, 2, 3])
    for bad in (good[:-1], good[:4] + b"abcd" + good[8:], b""):
        with pytest.raises(ValueError, match="no deletion vector"):
            vector_positions(bad, 3)


def test_a_puffin_file_names_its_vectors() -> None:
    data = puffin({"a": [1], "b": [2, 3]})
    found = list(puffin_vectors(pa.BufferReader(data), len(data)))
    assert [name for name, _, _ in found] == ["a", "b"]
    for (_, offset, length), positions in zip(found, ([1], [2, 3]), strict=True):
        assert vector_positions(data[offset : offset + length], 2).tolist() == positions
    with pytest.raises(ValueError, match="no Puffin file"):
        list(puffin_vectors(pa.BufferReader(b"x" * 40), 40))


def test_kept_rows_count_from_the_first_of_a_batch() -> None:
    deleted = np.array([0, 7, 9], np.int64)
    assert kept_rows(deleted, 1, 6) is None
    found = kept_rows(deleted, 5, 5)
    assert found is not None
    assert found.to_pylist() == [True, True, False, True, False]


@pytest.mark.parametrize("vectors", [False, True])
def test_deleted_rows_are_not_read_in_any_part_of_a_file(vectors: bool, tmp_path: Path) -> None:
    table = table_of(tmp_path, SCHEMA)
    columns = schema_to_pyarrow(table.schema())
    rows = pa.table({"id": range(100), "name": [f"n{n}" for n in range(100)]}).cast(columns)
    files = [data_file(table, rows.slice(0, 60), row_group_size=7), data_file(table, rows.slice(60))]
    add_files(table, *files)
    delete_positions(table, {files[0].file_path: [0, 6, 7, 30, 59], files[1].file_path: [39]}, vectors=vectors)
    delete_positions(table, {files[0].file_path: [30, 31]}, vectors=vectors)
    left = [number for number in range(100) if number not in (0, 6, 7, 30, 31, 59, 99)]
    system = system_at(tmp_path)
    for partitions in (1, 3):
        spec = stream(partitions=partitions)
        assert sorted(row["id"] for row in rows_of(system, spec)) == left
        assert len(rows_of(system, spec, columns=[])) == len(left)
        some = rows_of(system, spec, [ColumnBound("id", "<", 10)])
        assert {row["id"] for row in some} >= {number for number in left if number < 10}
        assert not {row["id"] for row in some} - set(left)
    if not vectors:  # the library reads vectors, too, of tables of format 3
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == left


def test_deletes_of_another_file_change_nothing(tmp_path: Path) -> None:
    table = table_of(tmp_path, SCHEMA, [{"id": 1, "name": "a"}])
    delete_positions(table, {"file:///elsewhere": [0]})
    assert [row["id"] for row in rows_of(system_at(tmp_path), stream())] == [1]


def test_equality_deletes_are_rejected_by_the_plan_whatever_is_read(tmp_path: Path) -> None:
    table = table_of(tmp_path, SCHEMA, [{"id": 1, "name": "a"}])
    delete_equal(table, pa.table({"id": pa.array([1], pa.int64())}), [1])
    with pytest.raises(TopicError, match=r"web\.views of stream 'views' has equality deletes, which are not") as error:
        system_at(tmp_path).slice_within(stream(), [ColumnBound("id", "=", 99)])
    assert "a system of kind spark" in error.value.hint


def test_deletes_of_another_format_are_rejected_with_the_table_and_the_file(tmp_path: Path) -> None:
    table = table_of(tmp_path, SCHEMA, [{"id": 1, "name": "a"}])
    delete_positions(table, {"file:///elsewhere": [0]}, said=FileFormat.ORC)
    with pytest.raises(TopicError, match=r"web\.views of stream 'views' has deletes in ORC, .*-deletes\.parquet\)"):
        rows_of(system_at(tmp_path), stream())


ROARING = b"\xd1\xd3\x39\x64"


def of_runs(containers: int, runs: int = 1, *, said: int = 65_536) -> bytes:
    """Return a bitmap whose containers each have runs over all of it, and say that they have so many positions."""
    heads = b"".join(key.to_bytes(2, "little") + (said - 1).to_bytes(2, "little") for key in range(containers))
    flags = b"\xff" * ((containers + 7) // 8)
    offsets = bytes(4 * containers) if containers >= 4 else b""
    bodies = (runs.to_bytes(2, "little") + b"\0\0\xff\xff" * runs) * containers
    bitmap = ((containers - 1) << 16 | 12347).to_bytes(4, "little") + flags + heads + offsets + bodies
    return (1).to_bytes(8, "little") + (0).to_bytes(4, "little") + bitmap


@pytest.mark.parametrize(
    "bitmap",
    [
        of_runs(1),
        of_runs(900),
        of_runs(1, 3, said=1),
        of_runs(900, said=1),
        (2).to_bytes(8, "little") + 2 * of_runs(1, said=1)[8:],
        (1).to_bytes(8, "little") + bytes(4) + (12346).to_bytes(4, "little") + b"\xff" * 8,
    ],
    ids=["a container", "many", "runs that overlap", "heads that say less", "two bitmaps", "a count without an end"],
)
def test_a_vector_with_more_positions_than_rows_is_an_error_before_it_is_unfolded(bitmap: bytes) -> None:
    with pytest.raises(ValueError, match=r"rows of a data file that has 1000$|is no roaring bitmap"):
        bitmap_positions(ROARING + bitmap, 1000)


@pytest.mark.parametrize("vectors", [False, True])
def test_deletes_of_more_rows_than_the_data_file_has_are_rejected(vectors: bool, tmp_path: Path) -> None:
    table = table_of(tmp_path, SCHEMA, [{"id": 1, "name": "a"}])
    (file,) = [task.file.file_path for task in table.scan().plan_files()]
    delete_positions(table, {file: range(70_000)}, vectors=vectors)
    with pytest.raises(TopicError, match=r"deletes [0-9]+ rows of a data file that has 1\."):
        rows_of(system_at(tmp_path), stream())


def test_a_vector_that_is_not_all_in_its_file_is_an_error(tmp_path: Path) -> None:
    table = table_of(tmp_path, SCHEMA, [{"id": 1, "name": "a"}])
    (file,) = [task.file.file_path for task in table.scan().plan_files()]
    delete_positions(table, {file: [0]}, vectors=True)
    system = system_at(tmp_path)
    fixed = system.slice_within(stream(), ())
    fixed["deletes"][0]["length"] = 1 << 40
    with pytest.raises(TopicError, match="has no 1099511627776 bytes from byte 4 on"):
        rows_of(system, stream(), range_=fixed)
