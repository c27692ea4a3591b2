"""Times outside of the years 1 to 9999: no message vanishes, none ends in a bare OverflowError."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza import Row, StreamApplicationDescriptor, count, hopping, session, stream_application, tumbling
from airflow_samza.application.application import StreamApplication
from airflow_samza.application.windows import WindowSpec
from airflow_samza.errors import SamzaError
from airflow_samza.testing import TestDriver

END = 253_402_300_799_999_999
"""The last microsecond of the year 9999."""

BEGIN = -62_135_596_800_000_000
"""The first one of the year 1."""

WINDOWS: dict[str, WindowSpec] = {
    "tumbling": tumbling("1 minute"),
    "hopping": hopping("2 minutes", "1 minute"),
    "session": session("1 minute"),
    "in a zone": tumbling("1 day", zone="Europe/Amsterdam"),
    "early": tumbling("1 minute", early_every=10),
}
SCHEMA = pa.schema([("k", pa.string()), ("at", pa.timestamp("us", "UTC")), ("ms", pa.int64())])


def messages(times: list[int]) -> pa.Table:
    at = pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.table({"k": ["a"] * len(times), "at": at, "ms": [time // 1000 for time in times]}, schema=SCHEMA)


def application(
    window: WindowSpec, column: str, *, fold: bool, where: str | None = None, bounded: bool = True
) -> StreamApplication:
    @stream_application("far")
    def app(app: StreamApplicationDescriptor) -> None:
        unbounded: Any = {} if bounded else {"bounded": False, "max_delay": "1 minute"}
        stream = app.input_stream("in", schema="k string, at timestamp, ms bigint", timestamp=column, **unbounded)
        if where is not None:
            stream = stream.where(where)
        stream = stream.partition_by("k", id="by-k")
        made: Any = (
            {"n": count()}
            if not fold
            else {"fold": lambda n, _: Row(n=n["n"] + 1), "initial": {"n": 0}, "schema": "n bigint"}
        )
        stream.window(window, key="k", id="w", **made).send_to(app.output_stream("out"))

    return app


def counted(driver: TestDriver) -> int:
    table = driver.output_table("out")
    final = table["is_final"].to_pylist() if "is_final" in table.column_names else itertools.repeat(True)
    return sum(n for n, last in zip(table["n"].to_pylist(), final, strict=False) if last)


FAR = [
    END + 1,
    BEGIN - 1,
    4_611_686_018_427_387_904,
    4_700_000_000_000_000_000,
    -4_700_000_000_000_000_000,
    2**63 - 1,
    -(2**63),
]


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("reduced", [False, True])
@pytest.mark.parametrize("column", ["at", "ms"])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.few(60)
def test_a_window_rejects_a_message_of_another_calendar(window: str, column: str, reduced: bool, far: int) -> None:
    app = application(WINDOWS[window], column, fold=False)
    with pytest.raises(SamzaError, match="is not in the years 1 to 9999"):
        TestDriver(app, reduced=reduced).pipe("in", messages([0, far])).run()


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("column", ["at", "ms"])
def test_a_condition_leaves_such_messages_out_and_they_move_no_watermark(column: str, far: int) -> None:
    app = application(tumbling("1 minute"), column, fold=False, where="ms BETWEEN 0 AND 200000", bounded=False)
    driver = TestDriver(app).pipe("in", messages([0, far, 1_000_000, 130_000_000])).step()
    assert counted(driver) == 2  # of the first minute; what came last is at 2:10, and the watermark at 1:10
    assert counted(driver.drain()) == 3


@pytest.mark.parametrize("reduced", [False, True])
@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("window", WINDOWS)
def test_no_message_of_the_first_and_the_last_year_vanishes(window: str, bounded: bool, reduced: bool) -> None:
    app = application(WINDOWS[window], "at", fold=False, bounded=bounded)
    driver = TestDriver(app, reduced=reduced).pipe(
        "in", messages([BEGIN, BEGIN + 90_000_000, 0, END - 90_000_000, END])
    )
    assert counted(driver.run() if bounded else driver.drain()) == (10 if window == "hopping" else 5)


def test_a_window_that_ends_beyond_the_year_9999_is_a_sentence_where_python_reads_it() -> None:
    driver = TestDriver(application(tumbling("1 minute"), "at", fold=False)).pipe("in", messages([END])).run()
    assert counted(driver) == 1
    with pytest.raises(
        SamzaError, match=r"Column 'window_end' holds 10000-01-01T00:00:00\.0+, which is not in the years 1 to 9999"
    ):
        driver.output("out")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("timestamp", pa.scalar(END + 1).cast(pa.timestamp("us", "UTC"))),
        ("timestamp_ntz", pa.scalar(2**63 - 1).cast(pa.timestamp("us"))),
        ("date", pa.scalar(2**31 - 1, pa.int32()).cast(pa.date32())),
        ("array<timestamp>", pa.scalar([END + 1], pa.list_(pa.int64())).cast(pa.list_(pa.timestamp("us", "UTC")))),
    ],
)
def test_a_callable_gets_no_time_that_python_does_not_have(kind: str, value: pa.Scalar) -> None:
    @stream_application("far")
    def app(app: StreamApplicationDescriptor) -> None:
        app.input_stream("in", schema=f"v {kind}").filter(lambda message: True).send_to(app.output_stream("out"))

    table = pa.table({"v": pa.repeat(value, 1)})
    with pytest.raises(SamzaError, match=r"Column 'v' holds .*not in the years 1 to 9999"):
        TestDriver(app).pipe("in", table).run()
