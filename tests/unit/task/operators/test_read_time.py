"""The time of reading as a column and as a watermark: it goes on, whatever the clock does."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from airflow_samza.application.operator_specs import ReadTimeSpec
from airflow_samza.control.watermarks import NONE_YET
from airflow_samza.schema import Schema
from airflow_samza.task.operators.read_time import ReadTime

INPUTS, OUTPUT = Schema.of("n bigint"), Schema.of("n bigint, at timestamp")


def operator(*times: int, bounded: bool = False) -> ReadTime:
    """The operator by a clock that says these times, in ms."""
    clock: Iterator[int] = iter(times)
    spec = ReadTimeSpec("rows-1-read_time", "read_time", column="at")
    return ReadTime(spec, INPUTS, OUTPUT, lambda: next(clock), bounded=bounded)


def stamps(found: ReadTime, count: int = 1) -> list[int]:
    """The times, in ms, that the operator gives to some messages."""
    (batch,) = found.process(pa.RecordBatch.from_pydict({"n": list(range(count))}))
    assert batch.column("n").to_pylist() == list(range(count))
    return [value // 1000 for value in batch.column("at").cast(pa.int64()).to_pylist()]


def test_all_messages_of_a_batch_have_the_time_at_which_it_is_read() -> None:
    assert stamps(operator(7000), 3) == [7000] * 3


def test_a_clock_that_goes_back_gives_the_time_that_was_reached() -> None:
    found = operator(7000, 5000, 8000)
    assert [stamps(found), stamps(found), stamps(found)] == [[7000], [7000], [8000]]


def test_time_that_passes_without_messages_counts_and_goes_back_no_more_either() -> None:
    found = operator(5000)
    assert found.on_time(7000) == ()
    assert found.on_time(6000) == ()
    assert stamps(found) == [7000]


def test_the_time_goes_on_over_a_restart() -> None:
    before = operator(7000)
    stamps(before)
    after = operator(5000)
    after.restore(before.snapshot())
    assert stamps(after) == [7000]


def test_the_time_is_the_watermark_of_an_input_without_an_end() -> None:
    found = operator(7000)
    assert (found.waits_for_time, found.output_watermark(3)) == (True, NONE_YET)
    stamps(found)
    assert found.output_watermark(3) == 7000


def test_a_bounded_input_makes_no_watermarks_before_its_end() -> None:
    found = operator(7000, bounded=True)
    stamps(found)
    assert (found.waits_for_time, found.output_watermark(3)) == (False, 3)
