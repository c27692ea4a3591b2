"""CSV without quotes: what cannot be told apart when it is read is escaped or rejected when it is written."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.errors import SchemaError
from airflow_samza.systems.files.formats.csv_values import CsvOutput
from airflow_samza.systems.files.formats.options import FileOptions
from airflow_samza.systems.system import StreamSpec
from tests.support.file_rows import file_rows

MARK = "\ufeff"


def written(columns: dict[str, list[Any]], **options: str) -> bytes:
    """Return the bytes of a file without quotes."""
    batch = pa.RecordBatch.from_pydict({name: pa.array(values, pa.string()) for name, values in columns.items()})
    sink = io.BytesIO()
    stream = StreamSpec("out", path="out.csv", format="csv", options=(("quote", ""), *options.items()))
    output = CsvOutput(sink, batch.schema, FileOptions.of(stream))
    output.write(batch)
    output.close()
    return sink.getvalue()


@pytest.mark.parametrize("header", ["true", "false"])
def test_rejects_text_at_the_beginning_of_a_file_that_begins_like_the_file_of_others(header: str) -> None:
    marked, plain = ({f"{MARK}a": ["x"]}, {"a": [f"{MARK}x"]}) if header == "true" else ({"a": [f"{MARK}x"]}, {})
    with pytest.raises(SchemaError, match="has a byte order mark at the beginning"):
        written(marked, header=header)
    second = {"b": ["y"], **marked}
    assert written(second, header=header).count(MARK.encode()) == 1
    assert not plain or MARK.encode() in written(plain, header=header)


@pytest.mark.parametrize(
    "columns", [{f"{MARK}a": ["x", "y"], "b": ["1", "2"]}, {"b": ["1", "2"], f"{MARK}a": ["x", "y"]}]
)
def test_a_mark_that_is_escaped_is_read_back(tmp_path: Path, columns: dict[str, list[Any]]) -> None:
    data = written(columns, escape="\\")
    ddl = ", ".join(f"`{name}` string" for name in columns)
    assert file_rows(tmp_path, data, ddl, name="in.csv", quote="", escape="\\") == [
        *zip(*columns.values(), strict=True)
    ]


@pytest.mark.parametrize(("value", "said"), [("a,b", "the delimiter ','"), ("a\nb", "a line end"), ("-", "like null")])
def test_rejects_text_that_would_be_read_as_something_else(value: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        written({"a": [value]}, null_value="-")


def test_text_with_an_escape_is_read_back(tmp_path: Path) -> None:
    values = ["a,b", "a\\b", "\\", ",", "", "plain", None]
    data = written({"a": values}, escape="\\", null_value="-")
    rows = file_rows(tmp_path, data, "a string", name="in.csv", quote="", escape="\\", null_value="-")
    assert rows == [(value,) for value in values]
