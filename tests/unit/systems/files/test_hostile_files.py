"""A few bytes of a file that stand for more than memory holds are a sentence, before or where they are read.

The sentence names file, column and place.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from airflow_samza.errors import SchemaError, TopicError
from airflow_samza.systems.files.formats import limits, orc as orc_format, parquet as parquet_format
from airflow_samza.systems.files.formats.parquet_checks import pages_of
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import MessageRun, StreamSpec, SystemBinding, SystemStreamPartition

MIB = 2**20


def batches(path: Path, ddl: str = "id bigint, s string", dictionaries: bool = False) -> list[pa.RecordBatch]:
    system = FilesSystem("lake", SystemBinding("files", {"root": str(path.parent)}))
    stream = StreamSpec("in", 1, ddl, path=path.name)
    found = system.consumer(stream, system.slice(stream)).read(
        SystemStreamPartition("lake", "in", 0), None, dictionaries=dictionaries
    )
    return [run.batch for run in found if isinstance(run, MessageRun)]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of 1 MiB for a value, 2 for a batch and 8 for a page or a stripe."""
    for module in (limits, parquet_format, orc_format):
        for name, size in (("LARGEST_VALUE", MIB), ("LARGEST_BATCH", 2 * MIB), ("LARGEST_PIECE", 8 * MIB)):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, size)


def write(path: Path, table: pa.Table, **more: Any) -> None:
    if path.suffix == ".parquet":
        pq.write_table(table, path, compression="zstd", **more)
    elif path.suffix == ".orc":
        orc.write_table(table, path, compression="zlib")
    elif path.suffix == ".json":
        import pandas as pd

        path.write_text(pd.DataFrame(table.to_pydict()).to_json(orient="records", lines=True))
    else:
        import fastavro

        fields = [{"name": "id", "type": "long"}, {"name": "s", "type": "string"}]
        with open(path, "wb") as file:
            fastavro.writer(file, {"type": "record", "name": "m", "fields": fields}, table.to_pylist(), codec="deflate")


@pytest.mark.parametrize("name", ["in.parquet", "in.orc", "in.avro", "in.json"])
@pytest.mark.usefixtures("small")
def test_a_value_beyond_the_limit_is_named_with_file_column_and_place(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write(path, pa.table({"id": range(5), "s": ["a", "b" * MIB, "c", "d", "e"]}))
    assert sum(batch.num_rows for batch in batches(path)) == 5
    write(path, pa.table({"id": range(5), "s": ["a", "b", "c", "d" * (MIB + 1), "e"]}))
    with pytest.raises(SchemaError) as caught:
        batches(path)
    assert f"File {path} of stream 'in' has a value of 1.0 MiB in column 's' (row 4 of those" in caught.value.sentence
    assert "Leave 's' out of the declared schema" in str(caught.value.hint)
    assert sum(batch.num_rows for batch in batches(path, "id bigint")) == 5


@pytest.mark.parametrize(
    ("name", "place"),
    [("in.parquet", "a page of 9 MiB for 1 value in column 's' (row group 0)"), ("in.orc", "9 MiB of text")],
)
@pytest.mark.usefixtures("small")
def test_what_would_have_to_be_unpacked_as_a_whole_is_rejected_before_it_is(
    tmp_path: Path, name: str, place: str
) -> None:
    path = tmp_path / name
    write(path, pa.table({"id": [1], "s": ["x" * 9 * MIB]}))
    assert path.stat().st_size < MIB
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(SchemaError) as caught:
        batches(path)
    assert place in caught.value.sentence
    assert pa.default_memory_pool().max_memory() <= max(before, 9 * MIB), "it was unpacked"


@pytest.mark.parametrize("dictionaries", [False, True])
@pytest.mark.usefixtures("small")
@pytest.mark.extended
def test_a_long_value_that_is_repeated_from_a_dictionary_comes_in_batches_that_fit(
    tmp_path: Path, dictionaries: bool
) -> None:
    path = tmp_path / "in.parquet"
    write(path, pa.table({"id": range(3000), "s": pa.array(["x" * 100_000] * 3000)}))
    assert path.stat().st_size < 200_000
    ids = []
    for batch in batches(path, dictionaries=dictionaries):
        column = batch.column(1)
        decoded = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        assert decoded.nbytes <= 2 * MIB + 8 * len(decoded)
        ids += batch.column(0).to_pylist()
    assert ids == [*range(3000)]


@pytest.mark.usefixtures("small")
def test_rows_of_large_values_come_in_batches_of_few(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    texts = [chr(65 + n) * (MIB // 2 if n < 10 else MIB // 4) for n in range(40)]
    write(path, pa.table({"id": range(40), "s": texts}), use_dictionary=False, data_page_size=4096, write_batch_size=1)
    found = batches(path)
    assert [text for batch in found for text in batch.column(1).to_pylist()] == texts
    assert max(batch.nbytes for batch in found) <= 2 * MIB + MIB


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_the_pages_of_a_column_are_found_by_their_headers(tmp_path: Path, version: str) -> None:
    path = tmp_path / "in.parquet"
    table = pa.table({"s": [f"text {n % 5000}" for n in range(20_000)], "l": [["a", "b"]] * 20_000})
    write(path, table, data_page_size=4096, data_page_version=version, use_dictionary=["s"], write_page_checksum=True)
    group = pq.ParquetFile(path).metadata.row_group(0)
    with pa.OSFile(str(path)) as source:
        for place in (0, 1):
            column = group.column(place)
            pages = list(pages_of(source, column))
            assert sum(page.values for page in pages if not page.is_dictionary) == column.num_values
            assert [page.values for page in pages if page.is_dictionary] == ([5000] if place == 0 else [])
            assert 0 < sum(page.size for page in pages) <= column.total_uncompressed_size


@pytest.mark.extended
def test_a_file_that_takes_more_memory_than_a_task_has_is_named(tmp_path: Path) -> None:
    write(
        tmp_path / "in.parquet", pa.table({"id": range(2_000_000), "s": ["x" * 150] * 2_000_000}), use_dictionary=False
    )
    program = f"""
import resource
from pathlib import Path
from airflow_samza.errors import SamzaError
from tests.unit.systems.files.test_hostile_files import batches
path = Path({str(tmp_path / "in.parquet")!r})
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (120 << 20), resource.RLIM_INFINITY))
try:
    batches(path)
except SamzaError as error:
    print(error.sentence)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert "in.parquet of stream 'in' takes more memory to be read than its task may have" in done.stdout, done.stderr


@pytest.mark.parametrize("kind", ["list<string>", "map<string,string>", "struct<x:string>"])
def test_a_value_inside_of_another_is_found_with_its_row(kind: str) -> None:
    inner = ["y" * (limits.LARGEST_VALUE + 1)]
    value: Any = {"list": inner, "map": [("k", inner[0])], "struct": {"x": inner[0]}}[kind.partition("<")[0]]
    arrow = {
        "list": pa.list_(pa.string()),
        "map": pa.map_(pa.string(), pa.string()),
        "struct": pa.struct([("x", pa.string())]),
    }[kind.partition("<")[0]]
    batch = pa.record_batch({"v": pa.array([None, None, value, None], arrow)})
    with pytest.raises(SchemaError, match=r"in column 'v' \(row 13 of those that were read\)"):
        limits.check_values(batch, 10, "f", "in")
    limits.check_values(batch.slice(0, 2), 10, "f", "in")


def test_an_avro_file_of_a_few_bytes_that_claims_any_number_of_records_ends_in_a_sentence(tmp_path: Path) -> None:
    from tests.unit.systems.files.test_damaged_files import container

    nothing = [{"name": "id", "type": "null"}]
    (tmp_path / "in.avro").write_bytes(container((2_000_000_000, b""), fields=nothing))
    with pytest.raises(TopicError, match=r"in\.avro of stream 'in' cannot be read as avro: block 1 claims 2000000000"):
        batches(tmp_path / "in.avro", "id bigint")
