"""Ranges of new files in chunks: every row lies in one of them, whatever was read before."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from airflow_samza.systems.files import slicing
from airflow_samza.systems.files.packing import Unit, pack, pack_chunks
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import MessageRun, OffsetRange, StreamSpec, SystemBinding, SystemStreamPartition
from tests.support.budgets import share

UNITS = st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=15)


@given(sizes=UNITS, partitions=st.integers(1, 5), most=st.integers(1, 40))
def test_chunks_have_what_packing_gives_each_partition(
    sizes: list[tuple[int, bool]], partitions: int, most: int
) -> None:
    units = [Unit(number, 0, size if cut else None, size, cut) for number, (size, cut) in enumerate(sizes)]
    packed, chunks = pack(units, partitions), pack_chunks(units, partitions, most)
    for partition in range(partitions):
        found = [split for chunk in chunks for split in chunk[partition]]
        joined = [found[0]] if found else []
        for split in found[1:]:
            if split.file == joined[-1].file and split.start == joined[-1].end:
                joined[-1] = joined[-1]._replace(end=split.end)
            else:
                joined.append(split)
        assert joined == packed[partition]
        for chunk in chunks:
            found_sizes = [(split.end or sizes[split.file][0]) - split.start for split in chunk[partition]]
            assert sum(found_sizes) <= most or sum(size > 0 for size in found_sizes) == 1


@pytest.mark.parametrize("kind", ["json", "parquet"])
@settings(max_examples=share(15), deadline=None)
@given(seed=st.integers(0, 10_000), partitions=st.integers(1, 4))
def test_a_range_is_read_once_in_any_pieces(
    kind: str, tmp_path_factory: pytest.TempPathFactory, seed: int, partitions: int
) -> None:
    chance = random.Random(seed)
    root, number, rows = tmp_path_factory.mktemp("lake"), 0, list[int]()
    stream = StreamSpec("views", partitions, "n bigint", format=kind, path="in")
    system = FilesSystem("lake", SystemBinding("files", {"root": str(root)}))
    (root / "in").mkdir()
    known: dict[str, Any] | None = None
    first = 0
    for _ in range(3):
        for _ in range(chance.randrange(4)):
            count, number = chance.randrange(60), number + 1
            _write(root / "in" / f"{number}.{kind}", range(len(rows), len(rows) + count), number)
            rows += range(len(rows), len(rows) + count)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(slicing, "CHUNK_BYTES", 150)
            range_ = json.loads(json.dumps(system.arrived(stream, known, first_chunk=first)))
        known, first = range_["known"], first + len(range_["chunks"])
        found = [
            row for partition in range(partitions) for row in _read_in_pieces(system, stream, range_, partition, chance)
        ]
        assert sorted(found) == list(range(len(rows)))[len(rows) - len(found) :]
    assert known is not None
    assert known["files"] == number


def _write(path: Path, rows: range, at: int) -> None:
    if path.suffix == ".json":
        path.write_text("".join(json.dumps({"n": n}) + "\n" for n in rows))
    else:
        pq.write_table(pa.table({"n": pa.array(rows, pa.int64())}), path, row_group_size=7)
    os.utime(path, (at, at))


def _read_in_pieces(
    system: FilesSystem, stream: StreamSpec, range_: dict[str, object], partition: int, chance: random.Random
) -> list[int]:
    """Read as tasks do: from where the last epoch stopped, some rows, or all that are left."""
    place = SystemStreamPartition("lake", "views", partition)
    at, end = range_["offsets"][partition]  # type: ignore[index]
    found: list[int] = []
    while at < end:
        limit = chance.choice([3, 11, 1000])
        for run in system.consumer(stream, range_).read(place, OffsetRange(at, end)):
            assert isinstance(run, MessageRun)
            taken = run.slice(0, min(limit, run.messages))
            found += taken.batch.column("n").to_pylist()
            at, limit = taken.offset + taken.messages, limit - taken.messages
            if limit <= 0:
                break
        else:
            at = end
    return found
