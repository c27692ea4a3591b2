"""CSV as others write it: what is a header, a record, a number.

The same rows wherever blocks are cut; bad records one by one.
"""

from __future__ import annotations

import gzip
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from airflow_samza.errors import ConfigError, SchemaError, TopicError
from airflow_samza.systems.files.formats import csv
from airflow_samza.systems.files.formats.csv_records import Dialect, last_line
from airflow_samza.systems.files.formats.lines import Block
from airflow_samza.systems.files.formats.options import FileOptions
from tests.support.budgets import share
from tests.support.file_rows import file_rows

read = partial(file_rows, name="in.csv")


@pytest.mark.parametrize("tolerant", [False, True])
@pytest.mark.parametrize("multiline", ["true", "false"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("beginning", ["", "\ufeff", "{end}", "\ufeff{end}{end}", " {end}"])
def test_a_header_is_the_first_line_that_is_not_blank(
    tmp_path: Path, beginning: str, end: str, multiline: str, tolerant: bool
) -> None:
    text = beginning.replace("{end}", end) + end.join(["b,a", "x,1", "", "y,2", ""])
    for partitions in (1, 3):
        assert read(tmp_path, text.encode(), multiline=multiline, tolerant=tolerant, partitions=partitions) == [
            (1, "x"),
            (2, "y"),
        ]


def test_a_quoted_line_end_may_stand_in_a_header(tmp_path: Path) -> None:
    assert read(tmp_path, b'"a","b\nb",c\n1,"x\ny",2\n3,z,4\n', "a bigint, `b\nb` string") == [(1, "x\ny"), (3, "z")]


@pytest.mark.parametrize("text", ["\n", "\n\n", "x", "x\n", "x\n\n"])
def test_in_a_file_of_one_column_an_empty_line_is_a_row_that_is_null(tmp_path: Path, text: str) -> None:
    rows = [(line or None,) for line in text.splitlines()]
    assert read(tmp_path, f"a\n{text}".encode(), "a string") == rows


@pytest.mark.parametrize("name", ["in.csv.gz", "in.CSV.GZ", "IN.Csv.Gz"])
def test_a_compressed_file_is_unpacked_whatever_the_letter_case_of_its_name(tmp_path: Path, name: str) -> None:
    assert read(tmp_path, gzip.compress(b"a,b\n1,x\n"), name=name) == [(1, "x")]


@pytest.mark.parametrize(
    ("beginning", "said"),
    [
        (gzip.compress(b"a,b\n1,x\n", mtime=0), "compressed with gzip"),
        (b"PK\x03\x04", "compressed with zip"),
        ("a,b\n1,x\n".encode("utf-16"), "text in UTF-16"),
        (b"PAR1", "it is Parquet"),
        (b"a\xff,b\n", "can't decode byte 0xff"),
        (b'"a,b\n1,x\n', "its first record has a quote that is never closed"),
        (b"x" * (2 << 20), "its first record has more than 1 MiB"),
    ],
)
def test_rejects_a_file_whose_beginning_is_no_csv_in_utf8(tmp_path: Path, beginning: bytes, said: str) -> None:
    for tolerant in (False, True):
        with pytest.raises(TopicError, match=said):
            read(tmp_path, beginning, tolerant=tolerant)


# What Spark's CSV reader (4.0) takes for these types; None is a malformed record there.
NUMBERS: dict[str, tuple[Any, Any, Any]] = {
    # text: as bigint, as double, as decimal(10,2)
    "1": (1, 1.0, "1.00"),
    "+1": (1, 1.0, "1.00"),
    "-0": (0, -0.0, "0.00"),
    "01": (1, 1.0, "1.00"),
    "0x1F": (None, None, None),
    "0X1f": (None, None, None),
    "-0x1F": (None, None, None),
    "1_000": (None, None, None),
    "1 000": (None, None, None),
    "++1": (None, None, None),
    "-": (None, None, None),
    " 1": (None, 1.0, None),
    "1 ": (None, 1.0, None),
    "1e3": (None, 1000.0, "1000.00"),
    "1.0": (None, 1.0, "1.00"),
    "1.": (None, 1.0, "1.00"),
    ".5": (None, 0.5, "0.50"),
    "NaN": (None, float("nan"), None),
    "Infinity": (None, float("inf"), None),
    "-Inf": (None, float("-inf"), None),
    "99999999999999999999": (None, 1e20, None),
    "true": (None, None, None),
    "2024-01-01": (None, None, None),
}


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_have_the_forms_that_spark_reads(tmp_path: Path, text: str) -> None:
    for kind, expected in zip(("bigint", "double", "decimal(10,2)"), NUMBERS[text], strict=True):
        (found,) = read(tmp_path, f'v,b\n"{text}",x\n'.encode(), f"v {kind}, b string", tolerant=True)
        wanted = f'"{text}",x' if expected is None else str(expected)
        assert (found if isinstance(found, str) else str(found[0])) == wanted


@pytest.mark.parametrize(
    ("kind", "text"),
    [("double", "1e400"), ("double", "-1e400"), ("float", "1e39"), ("tinyint", "128"), ("decimal(3,1)", "1.25")],
)
def test_a_number_that_is_too_large_or_too_exact_is_no_value(tmp_path: Path, kind: str, text: str) -> None:
    assert read(tmp_path, f"a,b\n1,x\n{text},y\n".encode(), f"a {kind}, b string", tolerant=True) == [
        (1, "x"),
        f"{text},y",
    ]
    with pytest.raises(SchemaError, match=f"value that does not fit column 'a' in line 3 .*: '{text}', which is no"):
        read(tmp_path, f"a,b\n1,x\n{text},y\n".encode(), f"a {kind}, b string")


def test_hexadecimal_digits_are_no_type_of_column(tmp_path: Path) -> None:
    assert read(tmp_path, b"a,b,c\n0x1F,1,1e3\n2,,nan\n", None) == [
        ("0x1F", 1, 1000.0),
        ("2", None, pytest.approx(float("nan"), nan_ok=True)),
    ]


def test_bytes_that_are_no_text_are_a_bad_record(tmp_path: Path) -> None:
    assert read(tmp_path, b"a,b\n1,\xff\n2,y\n", tolerant=True) == ["1,\\xff", (2, "y")]
    with pytest.raises(TopicError, match="invalid UTF8 data"):
        read(tmp_path, b"a,b\n1,\xff\n2,y\n")


@pytest.mark.parametrize("rest", ["", "\n", "\n2,y\n"])
def test_a_quote_that_is_never_closed_is_a_bad_record_also_where_the_columns_would_do(
    tmp_path: Path, rest: str
) -> None:
    data = f'a,b\n0,w\n1,"x{rest}'.encode()
    assert read(tmp_path, data, tolerant=True) == [(0, "w"), f'1,"x{rest}'.rstrip()]
    with pytest.raises(TopicError, match="a quote that is never closed"):
        read(tmp_path, data)


def test_a_quote_in_the_middle_of_a_value_opens_none(tmp_path: Path) -> None:
    assert read(tmp_path, b'a,b\n1,5"\nq,b\n2,6" x\n3,"7\n"\n', tolerant=True) == [
        (1, '5"'),
        "q,b",
        (2, '6" x'),
        (3, "7\n"),
    ]


def test_without_multiline_a_quoted_line_end_is_bad_and_what_follows_is_read(tmp_path: Path) -> None:
    data = b'a,b\n1,"x\ny"\n2,z\n'
    assert read(tmp_path, data, multiline="false", tolerant=True) == ['1,"x', 'y"', (2, "z")]
    with pytest.raises(TopicError, match=r"a quote that is not closed on its line \(multiline=false\)"):
        read(tmp_path, data, multiline="false")


def test_a_record_that_is_too_long_is_bad_and_what_follows_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv, "LONGEST_RECORD", 2000)
    monkeypatch.setattr(csv, "BLOCK_BYTES", 500)
    for long in ("x" * 3000, "x\n" * 1500, '""\n' * 1000, "a,b\n" * 800):
        data = f'a,b\n1,u\n2,"{long}"\n3,v\n'.encode()
        found = read(tmp_path, data, tolerant=True)
        assert (found[0], len(found), found[-1]) == ((1, "u"), 3, (3, "v"))
        with pytest.raises(TopicError, match=r"a record of more than|a quote that is never closed"):
            read(tmp_path, data)


@pytest.mark.extended
def test_a_small_file_that_unpacks_to_an_endless_line_takes_little_memory(tmp_path: Path) -> None:
    packed = b"".join(gzip.compress(part) for part in (b"a,b\n1,x\n", *[b"x" * (32 << 20)] * 8, b"\n2,y\n"))
    assert len(packed) < 400_000
    before, most = pa.total_allocated_bytes(), 0

    def watched(*arguments: Any, **named: Any) -> Any:
        nonlocal most
        most = max(most, pa.total_allocated_bytes() - before)
        return original(*arguments, **named)

    original = pacsv.read_csv
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pacsv, "read_csv", watched)
        found = read(tmp_path, packed, name="in.csv.gz", tolerant=True)
    assert (found[0], len(found), found[-1]) == ((1, "x"), 3, (2, "y"))
    assert most < 64 << 20


SETTINGS = settings(max_examples=share(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
PARTS = st.lists(
    st.sampled_from(["a", "1", ",", '"', '""', '"x\ny"', "\n", "\r", "\r\n", "\\", "'", "z,z\n"]), max_size=14
).map("".join)


@SETTINGS
@given(
    text=PARTS,
    options=st.sampled_from([{}, {"escape": "\\"}, {"quote": ""}, {"quote": "", "escape": "\\"}, {"quote": "'"}]),
)
def test_records_end_where_arrow_ends_them(text: str, options: dict[str, str]) -> None:
    dialect = Dialect(FileOptions(**options))  # type: ignore[arg-type]
    data = text.encode()
    records = [record.data for record in dialect.records(Block(0, data))]
    assert b"".join(records) == data
    cut = dialect.closed(data)
    ended = [record for record in records if dialect.has_ended(record) and record.endswith((b"\n", b"\r"))]
    assert data[:cut] == b"".join(ended)
    parse = pacsv.ParseOptions(
        quote_char=dialect.quote or False,
        escape_char=dialect.escape or False,
        newlines_in_values=True,
        invalid_row_handler=lambda row: "skip",
    )
    for record in ended:
        if record.strip(b"\r\n"):
            try:
                rows = pacsv.read_csv(
                    pa.BufferReader(record + record), pacsv.ReadOptions(autogenerate_column_names=True), parse
                ).num_rows
            except pa.ArrowInvalid:
                continue  # no UTF-8 name, an empty file
            assert rows == 2


@SETTINGS
@given(
    text=PARTS,
    block=st.sampled_from([1, 3, 7, 4 << 20]),
    quote=st.sampled_from(['"', ""]),
    partitions=st.sampled_from([1, 3]),
)
@pytest.mark.nightly
def test_where_blocks_are_cut_changes_nothing(
    tmp_path: Path, text: str, block: int, quote: str, partitions: int
) -> None:
    data = b"a,b\n" + text.encode()
    for multiline in ("true", "false"):
        expected = read(tmp_path, data, "a string, b string", tolerant=True, multiline=multiline, quote=quote)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(csv, "BLOCK_BYTES", block)
            found = read(
                tmp_path,
                data,
                "a string, b string",
                tolerant=True,
                multiline=multiline,
                quote=quote,
                partitions=partitions,
            )
        assert found == expected
        try:
            strict = read(tmp_path, data, "a string, b string", multiline=multiline, quote=quote)
        except TopicError:
            assert any(isinstance(row, str) for row in expected)
        else:
            assert strict == expected


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"delimiter": "\n"}, "delimiter"),
        ({"quote": ","}, "quote"),
        ({"delimiter": "|", "escape": "|"}, "escape"),
        ({"null_value": "a,b"}, "null_value"),
        ({"null_value": "\\N", "escape": "\\"}, "null_value"),
    ],
)
def test_rejects_characters_that_could_be_taken_for_each_other(
    tmp_path: Path, options: dict[str, Any], key: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, b"a,b\n1,x\n", **options)
    assert caught.value.facts["key"] == key


def test_an_escape_that_is_the_quote_means_doubled_quotes(tmp_path: Path) -> None:
    assert read(tmp_path, b'a,b\n1,"x ""y"""\n2,z\n', escape='"') == [(1, 'x "y"'), (2, "z")]


@pytest.mark.parametrize(
    ("data", "last"),
    [
        (b"a\nb\nc\n", b"c\n"),
        (b"a\rb\r\r", b"b\r"),
        (b"a\r\nb\r\n\r\n", b"b\r\n"),
        (b"a\rb\nc", b"c"),
        (b"a\nb\rc", b"c"),
        (b"one", b"one"),
    ],
)
def test_the_last_line_is_what_follows_the_end_before_it(data: bytes, last: bytes) -> None:
    assert last_line(data) == last


@pytest.mark.parametrize("data", [b"a\nb\rc", b"a\rb\nc"])
def test_lines_may_end_in_several_ways_and_the_last_end_counts(data: bytes) -> None:
    assert Dialect(FileOptions()).closed(data) == len(data) - 1
