"""JSON lines as others write them: one object a line, whoever parses it; hostile lines in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from airflow_samza.errors import SchemaError, TopicError
from airflow_samza.systems.files.formats import json_lines, lines
from airflow_samza.systems.files.formats.json_blocks import DEEPEST
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import StreamSpec, SystemBinding, SystemStreamPartition
from tests.support.budgets import share
from tests.support.file_rows import file_rows

read = partial(file_rows, name="in.json")


BAD_LINES = {
    "null": "null instead of an object",
    "[]": r"\[\] instead of an object",
    "[1]": r"\[1\] instead of an object",
    "1": "1 instead of an object",
    '"x"': '"x" instead of an object',
    "true": "true instead of an object",
    "  null ": "null instead of an object",
    '{"a":1}{"a":2}': "no JSON .*Extra data",
    '{"a":1}null': "no JSON .*Extra data",
    '{"a":1} {"a":2}': "no JSON .*Extra data",
    '{"a":1},': "no JSON .*Extra data",
    '{"a":1': "no JSON",
    '{"a":01}': "no JSON",
    "{'a':1}": "no JSON",
    '{"b":"x\ty"}': "no JSON .*control character",
    '{"b":"\\ud800"}': "which is no string",
    '{"b":"\\udc00\\ud800"}': "which is no string",
    '{"a":0x1F}': "no JSON",
    '{"a":9223372036854775808}': "which is no bigint",
    '{"a":1e9999999999999999999999}': "a number whose exponent is too large",
    '{"a":1.5}': "which is no bigint",
    '{"a":NaN}': "which is no bigint",
    '{"b":1}': "which is no string",
    '{"b":' + "[" * 20_000 + "]" * 20_000 + "}": "more than 500 arrays and objects inside of one another",
    '{"z":' + '{"z":' * 20_000 + "1" + "}" * 20_000 + "}": "more than 500 arrays and objects inside of one another",
}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("12.50", "bigint"),
        ("12.50", "string"),
        ("[1.50, 2]", "string"),
        ('{"x": 0.1, "y": "0.1"}', "string"),
    ],
)
def test_an_error_shows_a_number_as_the_number_that_it_is(tmp_path: Path, value: str, kind: str) -> None:
    line = f'{{"{"a" if kind == "bigint" else "b"}":{value}}}'
    with pytest.raises(SchemaError) as caught:
        read(tmp_path, f"{line}\n".encode())
    assert f"has {value}, which is no {kind}" in caught.value.sentence


@pytest.mark.parametrize("line", BAD_LINES, ids=lambda line: line[:20])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_line_that_is_no_object_of_the_schema_is_a_bad_one_wherever_it_stands(
    tmp_path: Path, line: str, place: int
) -> None:
    good = ['{"a":1,"b":"x"}', '{"a":2}']
    data = "\n".join([*good[:place], line, *good[place:]]).encode() + b"\n"
    expected: list[Any] = [(1, "x"), (2, None)]
    expected.insert(place, line)
    assert read(tmp_path, data, tolerant=True) == expected
    with pytest.raises((TopicError, SchemaError), match=BAD_LINES[line]) as caught:
        read(tmp_path, data)
    byte = sum(len(text) + 1 for text in good[:place])
    assert f"in line {place + 1} (at byte {byte})" in caught.value.sentence


@pytest.mark.parametrize("bad", [b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80\x80\x80"])
@pytest.mark.parametrize("where", [b'{"a":1,"b":"?"}', b'{"a":1,"z":"?"}', b'{"a":1,"?":2}'])
def test_bytes_that_are_no_utf8_make_a_line_bad_in_keys_and_columns_that_are_not_read_too(
    tmp_path: Path, bad: bytes, where: bytes
) -> None:
    data = where.replace(b"?", bad) + b'\n{"a":2}\n'
    assert read(tmp_path, data, tolerant=True)[1:] == [(2, None)]
    with pytest.raises(TopicError, match=r"no JSON .*'utf-8' codec"):
        read(tmp_path, data)


@pytest.mark.parametrize(
    "data", [b"null\n", b'null\n{"a":1}\n', b" null", b'{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}\n"]
)
@pytest.mark.few(1)
def test_no_line_kills_the_process_that_looks_for_columns_or_reads(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "in.json").write_bytes(data)
    program = """
import sys
from airflow_samza.errors import SamzaError
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import StreamSpec, SystemBinding, SystemStreamPartition
system = FilesSystem("lake", SystemBinding("files", {"root": sys.argv[1]}))
for ddl in (None, "a bigint"):
    for tolerant in (False, True):
        stream = StreamSpec("in", 1, ddl, path="in.json", tolerant=tolerant)
        try:
            list(system.consumer(stream, system.slice(stream)).read(SystemStreamPartition("lake", "in", 0), None))
        except SamzaError as error:
            print(error.sentence)
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert 2 <= done.stdout.count("cannot be read as JSON lines") <= 3


def test_lines_may_end_with_cr_alone_and_a_file_may_begin_with_a_mark(tmp_path: Path) -> None:
    for end in ("\n", "\r\n", "\r"):
        data = "\ufeff" + end.join(['{"a":1,"b":"x"}', "", '{"a":2}', ""])
        for partitions in (1, 2, 5):
            assert read(tmp_path, data.encode(), partitions=partitions) == [(1, "x"), (2, None)]


def test_of_a_key_that_comes_twice_the_last_value_counts(tmp_path: Path) -> None:
    assert read(tmp_path, b'{"a":1,"a":2}\n{"a":3}\n') == [(2, None), (3, None)]


@pytest.mark.parametrize(
    ("kind", "text"),
    [("double", "1e400"), ("float", "1e39"), ("array<double>", "[1, -1e999]"), ("struct<x:float>", '{"x":4e38}')],
)
def test_a_number_that_is_too_large_does_not_become_infinite(tmp_path: Path, kind: str, text: str) -> None:
    data = f'{{"v":{text}}}\n{{"v":null}}\n'.encode()
    assert read(tmp_path, data, f"v {kind}", tolerant=True) == [f'{{"v":{text}}}', (None,)]


@pytest.mark.parametrize("word", ["Infinity", "-Infinity", "Inf", "-Inf", '"Infinity"', "NaN", "-NaN"])
def test_words_for_numbers_that_are_none_are_read_also_beside_a_bad_line(tmp_path: Path, word: str) -> None:
    data = f'{{"v":{word},"z":{word},"s":"a:{word.strip(chr(34))},"}}\n'.encode()
    alone = read(tmp_path, data, "v double, s string")
    assert repr(read(tmp_path, data + b"null\n", "v double, s string", tolerant=True)[:1]) == repr(alone)
    assert repr(alone[0][0]) == str(float(word.strip('"').replace("-NaN", "NaN")))


@pytest.mark.parametrize("text", ['"1_000"', '" 1"', '"NaN"', '"0x1"', '"١"'])
def test_text_for_a_decimal_is_digits(tmp_path: Path, text: str) -> None:
    assert (
        read(tmp_path, f'{{"v":{text}}}\n{{"v":"1.50"}}\n'.encode(), "v decimal(10,2)", tolerant=True)[0]
        == f'{{"v":{text}}}'
    )


def test_columns_are_found_among_lines_that_can_be_read(tmp_path: Path) -> None:
    data = b'null\n{"a":1\n{"a":1,"a":2}\n{"a":5}\n{"a":"\\ud800"}\n[]\n'
    assert read(tmp_path, data, None, tolerant=True) == ["null", '{"a":1', (2,), (5,), '{"a":"\\ud800"}', "[]"]


@pytest.mark.parametrize(
    ("beginning", "said"),
    [(b"\x1f\x8b\x08\x00", "compressed with gzip"), (b'\xff\xfe{\x00"', "text in UTF-16"), (b"PAR1", "it is Parquet")],
)
def test_rejects_a_file_that_is_no_text(tmp_path: Path, beginning: bytes, said: str) -> None:
    for tolerant in (False, True):
        with pytest.raises(TopicError, match=said):
            read(tmp_path, beginning, tolerant=tolerant)


def test_a_line_that_is_too_long_is_bad_and_what_follows_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "LONGEST_LINE", 2000)
    monkeypatch.setattr(lines, "LONGEST_LINE", 2000)
    long = '{"a":2,"b":"' + "x" * 9000 + '"}'
    data = f'{{"a":1}}\n{long}\n{{"a":3}}\n'.encode()
    original = lines.line_blocks

    def small(*arguments: Any, **named: Any) -> Any:
        return original(*arguments, **named, block_bytes=500, longest=2000)

    monkeypatch.setattr(json_lines, "line_blocks", small)
    for partitions in (1, 4):
        found = read(tmp_path, data, tolerant=True, partitions=partitions)
        assert (found[0], len(found), found[2]) == ((1, None), 3, (3, None))
        assert long.startswith(found[1])
    with pytest.raises(TopicError, match="a line of more than"):
        read(tmp_path, data)


SETTINGS = settings(max_examples=share(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "x", "ü"]), inner, max_size=3),
    max_leaves=5,
)
LINE = st.one_of(
    st.fixed_dictionaries({}, optional={"a": VALUE, "b": VALUE, "l": VALUE, "z": VALUE}).map(json.dumps),
    VALUE.map(json.dumps),
    st.text('{}[]",:\\ua1-.eNn\r ', max_size=8),
    st.sampled_from(
        [
            "",
            "null",
            "{}",
            '{"a":1}{"a":2}',
            '{"z":Inf}',
            '{"a":1e5}',
            '{"b":"\x7f"}',
            '{"l":[1,null]}',
            '{"d":"1.5"}',
            '{"d":2.5}',
        ]
    ),
)


@SETTINGS
@given(found=st.lists(LINE, max_size=8), before=st.booleans())
@pytest.mark.extended
def test_whether_a_line_is_read_does_not_depend_on_its_neighbours(
    tmp_path: Path, found: list[str], before: bool
) -> None:
    ddl = "a bigint, b string, l array<double>, d decimal(9,2), z struct<x:float,a:boolean>"
    alone = [
        repr(row) for line in found if line.strip() for row in read(tmp_path, f"{line}\n".encode(), ddl, tolerant=True)
    ]
    together = read(tmp_path, "\n".join([*found, ""]).encode(), ddl, tolerant=True)
    assert [repr(row) for row in together] == alone
    beside = read(
        tmp_path, "\n".join(["null", *found] if before else [*found, "null", ""]).encode(), ddl, tolerant=True
    )
    assert [repr(row) for row in (beside[1:] if before else beside[:-1])] == alone


def test_the_deepest_line_is_read(tmp_path: Path) -> None:
    for depth, is_read in ((DEEPEST - 1, True), (DEEPEST, False)):
        line = '{"a":1,"z":' + "[" * depth + "]" * depth + "}"
        assert read(tmp_path, line.encode(), tolerant=True) == ([(1, None)] if is_read else [line])
    brackets = '{"a":1,"b":"' + "[" * 2000 + '"}'
    assert read(tmp_path, brackets.encode()) == [(1, "[" * 2000)]


def fixed(folder: Path, schema: str, *lines: str, tolerant: bool = False, follow: bool = False) -> Any:
    """Return the input range that a plan fixes, or raise what it does."""
    (folder / "in.json").write_text("".join(f"{line}\n" for line in lines))
    system = FilesSystem("lake", SystemBinding("files", {"root": str(folder)}))
    stream = StreamSpec("in", 1, schema, path="in.json", tolerant=tolerant)
    return system.arrived(stream, None) if follow else system.slice(stream)


@pytest.mark.parametrize("follow", [False, True])
def test_a_field_that_no_line_has_is_found_when_the_range_is_fixed(tmp_path: Path, follow: bool) -> None:
    lines = ['{"member": 1, "country": "NL"}', '{"member": 2, "dwell": 3}']
    with pytest.raises(SchemaError) as caught:
        fixed(tmp_path, "member bigint, coutnry string not null", *lines, follow=follow)
    assert caught.value.sentence == (
        f"None of the first 2 lines of the file {tmp_path}/in.json of stream 'in' has the field 'coutnry', and the "
        "column is declared not null; there are member, country, dwell."
    )
    assert caught.value.hint.startswith("Did you mean 'country'? Correct the schema; or, if lines may lack the field,")
    fixed(
        tmp_path, "member bigint, country string not null", *lines, follow=follow
    )  # the stage says which line lacks it


def test_a_field_that_the_only_line_lacks_is_found_when_the_range_is_fixed(tmp_path: Path) -> None:
    with pytest.raises(
        SchemaError, match=r"Not even the first line of the file .* has the field 'n', .*; there are no fields"
    ):
        fixed(tmp_path, "n bigint not null", "{}")


@pytest.mark.parametrize("lines", [[], ["no JSON"], ["[1]"], [""]])
def test_without_a_line_to_look_at_nothing_is_found(tmp_path: Path, lines: list[str]) -> None:
    fixed(tmp_path, "n bigint not null", *lines)


def test_lines_that_are_cut_off_are_not_looked_at(tmp_path: Path) -> None:
    long = json.dumps({"b": "x" * 70_000, "n": 1})
    fixed(tmp_path, "n bigint not null", long)
    with pytest.raises(SchemaError, match="Not even the first line"):
        fixed(tmp_path, "n bigint not null", '{"b": 1}', long)


def test_fields_that_may_be_missing_and_that_no_line_has_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def warnings(schema: str, *lines: str, tolerant: bool = False) -> list[str]:
        caplog.clear()
        fixed(tmp_path, schema, *lines, tolerant=tolerant)
        return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]

    lines = '{"member": 1, "country": "NL"}', '{"member": 2, "dwell": 3}'
    lack = f"None of the first 2 lines of the file {tmp_path}/in.json of stream 'in' has the field "
    assert warnings("member bigint, seldom string, coutnry string, dwell int", *lines) == [
        f"{lack}'seldom', so the column is null there; there are member, country, dwell. "
        "Correct the schema, if it has another name.",
        f"{lack}'coutnry', so the column is null there; there are member, country, dwell. Did you mean 'country'?",
    ]
    (dropped,) = warnings("member bigint, seldom string not null", *lines, tolerant=True)
    assert dropped.startswith(f"{lack}'seldom', so these lines are bad; there are member,")
    assert warnings("order_id bigint, order_ids bigint", '{"order_id": 1}')[0].endswith(
        "there are order_id. Correct the schema, if it has another name."  # that field is a column already
    )


def test_a_followed_input_is_warned_of_once_for_each_field_that_its_lines_lack(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    system = FilesSystem("lake", SystemBinding("files", {"root": str(tmp_path)}))
    stream = StreamSpec("in", 1, "member bigint, seldom string", path="*.json")
    intake, warned = None, []
    for number, line in enumerate(['{"member": 1}', '{"member": 2}', '{"membre": 3}', '{"member": 4}']):
        (tmp_path / f"{number}.json").write_text(f"{line}\n")
        caplog.clear()
        intake = system.arrived(stream, intake)["known"]
        warned.append([record.getMessage().partition(" has the field ")[2][:8] for record in caplog.records])
    assert warned == [["'seldom'"], [], ["'member'"], []]


def test_a_column_that_is_null_everywhere_may_have_another_name(tmp_path: Path) -> None:
    """A later file: the range was fixed by the first one."""
    (tmp_path / "a.json").write_text('{"a": 1}\n{"b": "x"}\n')
    (tmp_path / "b.json").write_text('{"b": "x"}\n' * 3)
    system = FilesSystem("lake", SystemBinding("files", {"root": str(tmp_path)}))
    hints = {}
    for path in ("a.json", "*.json"):
        stream = StreamSpec("in", 2, "a bigint not null", path=path)
        consumer = system.consumer(stream, system.slice(stream))
        partition = SystemStreamPartition("lake", "in", 0 if path == "a.json" else 1)
        with pytest.raises(SchemaError, match="has nulls in column 'a'") as caught:
            list(consumer.read(partition, None))
        hints[path] = caught.value.hint
    assert hints["a.json"].startswith("Declare the column nullable")
    assert hints["*.json"].startswith("Correct its name, if the file has none like it; or declare the column nullable")
