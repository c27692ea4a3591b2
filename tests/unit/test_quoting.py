"""Quotes of messages in errors, reports and logs."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from airflow_samza import StreamApplicationDescriptor, dead_letter, stream_application
from airflow_samza.errors import ConfigError, MessageError, SamzaError
from airflow_samza.quoting import MOST, one_line, printable, quoted, show_messages
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import StreamSpec, SystemBinding, SystemStreamPartition
from airflow_samza.testing import TestDriver

CURSOR = "\x1b[2J\x1b[31m\u202e\x07"


@pytest.fixture(autouse=True)
def shown() -> Iterator[None]:
    yield
    show_messages(True)


@given(st.text(max_size=2 * MOST))
def test_a_line_has_no_character_that_does_something(text: str) -> None:
    line = one_line(text)
    assert len(line) <= MOST * 6
    assert not [
        letter
        for letter in line
        if unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") or letter in "\u202a\u202e\u2066"
    ]
    assert "\n" not in quoted(text)


@given(st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), max_size=MOST))
def test_a_plain_text_stays_as_it_is(text: str) -> None:
    assert one_line(text) == printable(text) == text


def test_an_error_has_no_character_that_does_something_wherever_it_comes_from() -> None:
    error = SamzaError(f"It is {CURSOR}\nand more", hint=CURSOR)
    assert str(error) == "It is \\x1b[2J\\x1b[31m\\u202e\\x07\nand more\n  Hint: \\x1b[2J\\x1b[31m\\u202e\\x07"
    assert SamzaError.from_dict(error.to_dict()).sentence == error.sentence


def loud(row: dict[str, object]) -> dict[str, object]:
    raise ValueError(f"no {row['word']}")


@stream_application("noisy")
def noisy(app: StreamApplicationDescriptor) -> None:
    bad = dead_letter(app.output_stream("bad"))
    words = app.input_stream("words", schema="word string")
    words.map(loud, schema="word string", on_error=bad).send_to(app.output_stream("loud"))


@stream_application("failing")
def failing(app: StreamApplicationDescriptor) -> None:
    app.input_stream("words", schema="word string").map(loud, schema="word string").send_to(app.output_stream("loud"))


HIDING = {"job.messages.shown": "false"}


def test_samples_are_escaped_and_bounded_and_the_dead_letter_has_the_whole_message() -> None:
    word = f"{CURSOR}\r\nERROR forged" + "x" * 5000
    run = TestDriver(noisy).pipe("words", [{"word": word}]).run()
    (sample,) = [sample for report in run.reports() for sample in report.bad_samples]
    assert "\\x1b[2J" in sample
    assert not [letter for letter in sample if unicodedata.category(letter) == "Cc"]
    assert len(sample) < 3 * MOST
    (letter,) = run.output_table("bad").to_pylist()
    assert "x" * 5000 in letter["message"]
    assert "\x1b" not in letter["error"]
    assert len(letter["error"]) <= 2010


def test_nothing_of_messages_is_shown_where_that_is_not_wanted() -> None:
    run = TestDriver(noisy, config=HIDING).pipe("words", [{"word": "private"}]).run()
    assert [report.bad_samples for report in run.reports() if report.bad_samples] == []
    (letter,) = run.output_table("bad").to_pylist()
    assert "private" in letter["message"]
    assert "private" not in letter["error"]
    assert "failed with ValueError, on the message (not shown)" in letter["error"]
    with pytest.raises(MessageError, match=r"failed with ValueError, on the message \(not shown\)") as caught:
        TestDriver(failing, config=HIDING).pipe("words", [{"word": "private"}]).run()
    assert "private" not in str(caught.value)
    assert "private" not in str(caught.value.to_dict())


def test_the_next_application_of_a_process_is_not_hidden_because_the_last_one_was() -> None:
    TestDriver(noisy, config=HIDING).pipe("words", [{"word": "private"}]).run()
    with pytest.raises(MessageError, match="ValueError: no open"):
        TestDriver(failing).pipe("words", [{"word": "open"}]).run()


def test_rejects_a_switch_that_is_neither_on_nor_off() -> None:
    with pytest.raises(ConfigError, match=r"job\.messages\.shown"):
        TestDriver(failing, config={"job.messages.shown": "maybe"}).pipe("words", []).run()


SECRET = "4711-secret"
UNREADABLE = {
    "in.jsonl": ("n bigint", '{"n": "SECRET"}\n{"n": 1}\n'),
    "list.jsonl": ("n bigint", '["SECRET"]\n{"n": 1}\n'),
    "in.csv": ("n bigint", "n\nSECRET\n1\n"),
    "in.parquet": ("n int", SECRET),
}


@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize("are", [True, False], ids=["shown", "hidden"])
def test_what_a_files_reader_says_quotes_no_value_where_none_is_shown(tmp_path: Path, name: str, are: bool) -> None:
    ddl, text = UNREADABLE[name]
    if name.endswith(".parquet"):
        pq.write_table(pa.table({"n": [471_100_000_000]}), tmp_path / name)
    else:
        (tmp_path / name).write_text(text.replace("SECRET", SECRET))
    lake = FilesSystem("lake", SystemBinding("files", {"root": str(tmp_path)}))
    stream = StreamSpec("in", 1, ddl, path=name)
    show_messages(are)
    with pytest.raises(SamzaError) as caught:
        list(lake.consumer(stream, lake.slice(stream)).read(SystemStreamPartition("lake", "in", 0), None))
    assert ("4711" in str(caught.value)) is are
    assert ("(not shown)" in str(caught.value)) is not are
