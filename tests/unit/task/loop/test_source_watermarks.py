"""Watermarks at the source: what each strategy makes of batches of one partition."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza import bounded_delay, punctuated
from airflow_samza.application.declarations.streams import declared_stream
from airflow_samza.application.descriptors import StreamRole
from airflow_samza.errors import InvalidApplication, MessageError
from airflow_samza.schema import Schema
from airflow_samza.task.loop.source_watermarks import SourceWatermark, SourceWatermarks, source_watermark

UTC = timezone.utc
AT = Schema.of("at timestamp, note string")


def made(schema: Schema = AT, **said: Any) -> SourceWatermark:
    stream = declared_stream(
        "views", StreamRole.INPUT, **{"schema": schema, "bounded": False, "timestamp": "at", **said}
    )
    mark = source_watermark(stream, schema)
    assert mark is not None
    return mark


def batch(*micros: int | None, notes: list[str] | None = None) -> pa.RecordBatch:
    columns = [pa.array(micros, pa.int64()).cast(pa.timestamp("us", "UTC")), pa.array(notes or ["x"] * len(micros))]
    return pa.RecordBatch.from_arrays(columns, schema=AT.to_arrow())


def test_the_watermark_is_the_greatest_time_in_whole_milliseconds_less_the_delay() -> None:
    assert made(max_delay=500).observe(batch(1_000_000, 9_999_999, 5_000_000)) == 9_499


def test_without_a_delay_a_message_of_the_greatest_time_itself_is_not_late() -> None:
    assert made(watermarks=bounded_delay(0)).observe(batch(1_999_999)) == 1_999


def test_a_watermark_says_nothing_when_it_does_not_grow() -> None:
    mark = made(max_delay=1)
    assert [
        mark.observe(batch(5_000_000)),
        mark.observe(batch(4_000_000)),
        mark.observe(batch(5_000_000)),
        mark.watermark,
    ] == [
        4_999,
        None,
        None,
        4_999,
    ]


def test_messages_without_a_time_and_empty_batches_make_none() -> None:
    mark = made(max_delay=1)
    assert [mark.observe(batch(None, None)), mark.observe(batch()), mark.observe(batch(None, 2_000_000))] == [
        None,
        None,
        1_999,
    ]


def test_times_before_1970_make_none() -> None:
    assert made(max_delay=1).observe(batch(-5_000_000, 500)) is None


@pytest.mark.parametrize(
    ("ddl", "value", "expected"),
    [
        ("timestamp_ntz", datetime(1970, 1, 1, 0, 1), 60_000),
        ("date", date(1970, 1, 3), 2 * 86_400_000),
        ("bigint", 7_000, 7_000),
    ],
)
def test_every_type_that_holds_a_time_serves(ddl: str, value: object, expected: int) -> None:
    schema = Schema.of(f"at {ddl}")
    found = made(schema, watermarks=bounded_delay(0)).observe(
        pa.RecordBatch.from_pylist([{"at": value}], schema=schema.to_arrow())
    )
    assert found == expected


@pytest.mark.parametrize("far", [9 * 10**18, 253_402_300_800_000, -62_135_596_800_001])
def test_a_time_of_another_calendar_moves_no_watermark(far: int) -> None:
    schema = Schema.of("at bigint")
    source = made(schema, max_delay=1)
    assert source.observe(pa.RecordBatch.from_pylist([{"at": far}], schema=schema.to_arrow())) is None
    assert source.observe(pa.RecordBatch.from_pylist([{"at": far}, {"at": 5_000}], schema=schema.to_arrow())) == 4_999


def test_punctuated_messages_say_it_themselves() -> None:
    mark = made(watermarks=punctuated(lambda m: m.at if m.note == "mark" else None))
    assert mark.observe(batch(1_000_000, 9_000_000)) is None
    assert mark.observe(batch(3_000_500, 8_000_000, notes=["mark", "x"])) == 3_000


def test_a_function_gets_every_event_time_in_milliseconds() -> None:
    seen: list[int] = []

    def ten_behind(ms: int) -> int:
        seen.append(ms)
        return ms - 10

    mark = made(watermarks=ten_behind)
    assert (mark.observe(batch(2_000_999, None, 1_000_000)), seen) == (1_990, [2_000, 1_000])


class Slowest:
    """Trails the time of the last but one batch."""

    def __init__(self) -> None:
        self.former = 0

    def on_batch(self, earliest_ms: int, latest_ms: int) -> datetime | None:
        told, self.former = self.former, earliest_ms
        return datetime.fromtimestamp(told / 1000, UTC) if told else None

    def snapshot(self) -> int:
        return self.former

    def restore(self, kept: int) -> None:
        self.former = kept


def test_a_class_makes_an_object_per_partition_that_sees_batches() -> None:
    one, other = made(watermarks=Slowest), made(watermarks=Slowest)
    assert [
        one.observe(batch(2_000_000, 8_000_000)),
        one.observe(batch(9_000_000)),
        other.observe(batch(1_000_000)),
    ] == [None, 2_000, None]


def test_what_it_knows_goes_through_json_and_back() -> None:
    first, second = made(watermarks=Slowest), made(watermarks=Slowest)
    first.observe(batch(2_000_000))
    first.observe(batch(3_000_000))
    second.restore(json.loads(json.dumps(first.snapshot())))
    assert (second.watermark, second.observe(batch(9_000_000))) == (2_000, 3_000)


def test_an_object_of_a_class_goes_on_in_the_next_epoch_where_it_has_stopped() -> None:
    stream = declared_stream("views", StreamRole.INPUT, schema=AT, bounded=False, timestamp="at", watermarks=Slowest)
    first = SourceWatermarks({})
    assert [first.observe(stream, AT, 1, batch(micros)) for micros in (2_000_000, 3_000_000)] == [None, 2_000]
    second = SourceWatermarks(first.snapshot())
    assert second.observe(stream, AT, 1, batch(9_000_000)) == 3_000
    assert second.observe(stream, AT, 0, batch(9_000_000)) is None, "another partition has an object of its own"


def test_a_restored_watermark_does_not_go_back() -> None:
    mark = made(max_delay=1)
    mark.restore({"watermark": 7_000})
    assert [mark.observe(batch(6_000_000)), mark.observe(batch(8_000_000))] == [None, 7_999]


def test_a_failing_function_is_named_with_its_message() -> None:
    with pytest.raises(
        MessageError, match=r"in the watermarks of input 'views' failed with ZeroDivisionError.* on 1 \(.*test_source"
    ):
        made(watermarks=lambda ms: 1 // 0).observe(batch(1_000))


@pytest.mark.parametrize("returned", ["now", 1.5, True, 1_767_225_600_000_000, 2**62])
def test_a_function_that_returns_no_time_is_named(returned: Any) -> None:
    with pytest.raises(MessageError, match=f"returned {returned!r} for 1"):
        made(watermarks=lambda ms: returned).observe(batch(1_000))


def test_bounded_inputs_and_inputs_without_a_strategy_make_none() -> None:
    bounded = declared_stream("a", StreamRole.INPUT, schema=AT, timestamp="at", max_delay=1)
    silent = declared_stream("b", StreamRole.INPUT, schema=AT, timestamp="at", bounded=False)
    assert [source_watermark(stream, AT) for stream in (bounded, silent)] == [None, None]


class Nothing:
    """Has none of the methods."""


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"watermarks": 5}, "watermarks=5"),
        ({"watermarks": Nothing}, "no method on_event_time"),
        ({"watermarks": lambda: 1}, "with 1 value"),
        ({"watermarks": bounded_delay(1), "max_delay": 1}, "max_delay and watermarks"),
        ({"watermarks": bounded_delay(1), "timestamp": None}, "watermarks and no timestamp"),
    ],
)
def test_wrong_declarations_are_rejected(said: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidApplication, match=sentence):
        made(**said)


def test_a_delay_is_a_length_of_time() -> None:
    assert bounded_delay(timedelta(minutes=5)) == bounded_delay("5 minutes")
    with pytest.raises(InvalidApplication, match="not a length of time"):
        bounded_delay("soon")
