from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pendulum
import pytest

from airflow_samza.errors import ConfigError
from airflow_samza.runs.records.data_interval import DataInterval, folder_of_values, needed_interval, render_path

HOUR = DataInterval.from_iso("2026-01-01T05:00:00+00:00", "2026-01-01T06:00:00Z")


def rendered(template: str, interval: DataInterval | None = HOUR) -> str:
    return render_path(template, stream="views", interval=interval, run_id="run-1", config={"region": "eu"})


@pytest.mark.parametrize(
    ("template", "path"),
    [
        ("in/{data_interval_start:%Y/%m/%d/%H}", "in/2026/01/01/05"),
        ("{data_interval_end:%H}", "06"),
        ("{ds}/{ds_nodash}", "2026-01-01/20260101"),
        ("{run_id}/{config[region]}", "run-1/eu"),
        ("{{literal}}/*.parquet", "{literal}/*.parquet"),
        ("{data_interval_start:%Y-%m-%dT%H|America/New_York}", "2026-01-01T00"),
        ("{data_interval_end:%-d %H:%M|Asia/Kolkata}", "1 11:30"),
        ("{ds|America/Los_Angeles}/{ds_nodash|Pacific/Honolulu}", "2025-12-31/20251231"),
        ("{data_interval_start|Asia/Tokyo}", "2026-01-01T14:00:00+09:00"),
        ("{data_interval_start}", "2026-01-01T05:00:00+00:00"),
        ("plain", "plain"),
    ],
)
def test_renders_the_known_placeholders(template: str, path: str) -> None:
    assert rendered(template) == path


@pytest.mark.parametrize(
    "template", ["{data_interval_begin}", "{0}", "{}", "{ds.year}", "{config[nothing]}", "{ds!r}", "{open", "close}"]
)
def test_rejects_what_it_does_not_know_and_lists_what_it_knows(template: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rendered(template)
    assert "'views'" in caught.value.sentence
    assert "{data_interval_start}" in caught.value.hint


@pytest.mark.parametrize(
    ("template", "said", "hint"),
    [
        (
            "{data_interval_begin:%Y}",
            "has the unknown placeholder {data_interval_begin}",
            "Did you mean 'data_interval_",
        ),
        ("{dss}", "has the unknown placeholder {dss}", "Did you mean 'ds'?"),
        ("{config[regoin]}", "names the configuration key 'regoin', which is not set", "Did you mean 'region'?"),
        (
            "{ds|Europe/Asterdam}",
            "names 'Europe/Asterdam', which is not a time zone",
            "Did you mean 'Europe/Amsterdam'?",
        ),
        ("{data_interval_start:%Y|amsterdam}", "names 'amsterdam', which is not", "Did you mean 'Europe/Amsterdam'?"),
        ("{ds|}", "names '', which is not a time zone", "IANA"),
        ("{data_interval_start:%Y|%m}", "names '%m', which is not a time zone", "IANA"),
        ("{run_id|UTC}", "gives {run_id} the time zone 'UTC'", "Only times have a zone"),
        ("{ds:%Y}", "gives {ds} the format '%Y'", "{data_interval_start:%Y/%m/%d}"),
        ("{run_id:>9}", "gives {run_id} the format '>9'", "Leave it out"),
        ("{data_interval_start:%Q}", "has the format '%Q' with the unknown directive %Q", "%Y (year)"),
        ("{data_interval_start:%i}", "has the format '%i' with the unknown directive %i", "Did you mean %I?"),
        ("{data_interval_start:%Y-%}", "has the format '%Y-%' with the unknown directive %", "%Y (year)"),
        ("{data_interval_start:yyyy-MM-dd}", "has the format 'yyyy-MM-dd', in which", "Did you mean %Y-%m-%d?"),
        ("{data_interval_start:HH-mm}", "has the format 'HH-mm', in which", "Did you mean %H-%m?"),
    ],
)
def test_a_bad_zone_or_format_is_rejected_with_the_one_that_was_meant(template: str, said: str, hint: str) -> None:
    for interval in (HOUR, None):  # whether the run has an interval or not
        with pytest.raises(ConfigError, match="stream 'views'") as caught:
            rendered(template, interval)
        assert said in caught.value.sentence
        assert hint in str(caught.value.hint)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("../secret", "holds '/'"),
        ("/etc/passwd", "holds '/'"),
        ("s3://bucket", "holds '://'"),
        ("..", "holds '..'"),
        ("a\\b", "holds a backslash"),
        ("*", r"holds '\*'"),
        ("2026-0?", r"holds '\?'"),
        ("[ab]", r"holds '\['"),
        ("a\0b", "holds a control character"),
        ("a\n", "holds a control character"),
        ("", "names no file or folder"),
        (".", "names no file or folder"),
    ],
)
@pytest.mark.parametrize("field", ["run_id", "config[region]"])
def test_rejects_values_of_a_run_that_are_no_plain_name(field: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        render_path(f"in/{{{field}}}/x", stream="views", interval=None, run_id=value, config={"region": value})
    assert f"from {field}, which" in caught.value.sentence
    assert "'views'" in caught.value.sentence


@pytest.mark.parametrize(
    "value", ["eu", "2026-01-01", "manual__2026-01-01T00:00:00+00:00", "Zürich & more", "%2F", "~", "a=b"]
)
def test_plain_names_are_taken_as_they_are(value: str) -> None:
    assert (
        render_path("in/{config[x]}/{run_id}", stream="views", interval=None, run_id="r", config={"x": value})
        == f"in/{value}/r"
    )


@pytest.mark.parametrize(
    ("template", "folder"),
    [
        ("in/{config[x]}.csv", "in"),
        ("/data/in/{ds}-{run_id}", "/data/in"),
        ("{run_id}", ""),
        ("/{run_id}", "/"),
        ("in/{ds}", None),
        ("plain/{{run_id}}", None),
    ],
)
def test_the_folder_in_which_values_stay(template: str, folder: str | None) -> None:
    assert folder_of_values(template) == folder


def test_an_empty_interval_is_rejected_with_the_timetable_that_has_one() -> None:
    empty = DataInterval(HOUR.start, HOUR.start)
    with pytest.raises(ConfigError, match="is empty") as caught:
        rendered("{ds}", empty)
    assert "CronDataIntervalTimetable" in caught.value.hint


def test_an_empty_interval_is_fine_where_nobody_needs_it() -> None:
    assert rendered("plain", DataInterval(HOUR.start, HOUR.start)) == "plain"


def test_a_run_without_an_interval_is_rejected_where_one_is_needed() -> None:
    with pytest.raises(ConfigError, match="has none"):
        needed_interval(None, stream="views", what="timestamp slice")


def test_rejects_moments_without_zone_and_reversed_intervals() -> None:
    with pytest.raises(ConfigError, match="no time zone"):
        DataInterval(datetime(2026, 1, 1), HOUR.end)
    with pytest.raises(ConfigError, match="before it starts"):
        DataInterval(HOUR.end, HOUR.start)


def test_micros_are_exact_and_in_utc() -> None:
    zone = timezone(timedelta(hours=2))
    interval = DataInterval(datetime(1970, 1, 1, 2, 0, 0, 1, tzinfo=zone), datetime(1970, 1, 1, 3, tzinfo=zone))
    assert interval.micros() == (1, 3_600_000_000)
    assert interval.iso() == ("1970-01-01T00:00:00.000001+00:00", "1970-01-01T01:00:00+00:00")


AMSTERDAM = ZoneInfo("Europe/Amsterdam")


def makers(zone: str) -> list[Callable[..., datetime]]:
    """Both kinds of moments: Python's own, and those of Airflow's contexts."""

    def plain(year: int, month: int, day: int, hour: int, minute: int = 0, fold: int = 0) -> datetime:
        return datetime(year, month, day, hour, minute, tzinfo=ZoneInfo(zone), fold=fold)

    def pendulums(year: int, month: int, day: int, hour: int, minute: int = 0, fold: int = 0) -> datetime:
        return pendulum.datetime(year, month, day, hour, minute, tz=zone, fold=fold)

    return [plain, pendulums]


@pytest.mark.parametrize("at", makers("Europe/Amsterdam"))
def test_the_hour_that_comes_twice_is_an_hour(at: Callable[..., datetime]) -> None:
    twice = DataInterval(at(2026, 10, 25, 2, 30), at(2026, 10, 25, 2, 30, fold=1))
    assert not twice.is_empty
    assert twice.micros()[1] - twice.micros()[0] == 3_600_000_000
    assert twice.iso() == ("2026-10-25T00:30:00+00:00", "2026-10-25T01:30:00+00:00")


@pytest.mark.parametrize("at", makers("Europe/Amsterdam"))
def test_an_interval_that_ends_before_it_starts_is_rejected_whatever_the_clock_shows(
    at: Callable[..., datetime],
) -> None:
    with pytest.raises(ConfigError, match=r"ends at 2026-10-25T00:45:00\+00:00, before it starts at 2026-10-25T01:30"):
        DataInterval(at(2026, 10, 25, 2, 30, fold=1), at(2026, 10, 25, 2, 45))


def test_paths_follow_the_instant_and_not_the_offset_that_was_written() -> None:
    template = "{ds}/{ds_nodash}/{data_interval_start:%Y-%m-%d/%H}/{data_interval_end}"
    written = [
        DataInterval.from_iso("2024-03-09T23:00-05:00", "2024-03-10T23:00-04:00"),
        DataInterval.from_iso("2024-03-10T04:00", "2024-03-11T03:00Z"),
        *(DataInterval(at(2024, 3, 9, 23), at(2024, 3, 10, 23)) for at in makers("America/New_York")),
    ]
    assert {rendered(template, interval) for interval in written} == {
        "2024-03-10/20240310/2024-03-10/04/2024-03-11T03:00:00+00:00"
    }
    assert len(set(written)) == 1
    assert {str(interval) for interval in written} == {"[2024-03-10T04:00:00+00:00, 2024-03-11T03:00:00+00:00)"}
    assert {rendered("{ds|America/New_York}", interval) for interval in written} == {"2024-03-09"}


def test_folders_by_local_day_are_one_per_day_of_a_schedule_at_local_midnight() -> None:
    days = [datetime(2026, 3, day, tzinfo=AMSTERDAM) for day in range(27, 32)]
    found = [rendered("{ds|Europe/Amsterdam}", DataInterval(*day)) for day in pairwise(days)]
    assert found == ["2026-03-27", "2026-03-28", "2026-03-29", "2026-03-30"]


@pytest.mark.parametrize(
    ("start", "end"), [("0001-01-01T00:00+05:00", "2026-01-01"), ("2026-01-01", "9999-12-31T23:00-05:00")]
)
def test_instants_beyond_the_calendar_are_rejected(start: str, end: str) -> None:
    with pytest.raises(ConfigError, match="is not in the years 1 to 9999"):
        DataInterval.from_iso(start, end)


def test_a_path_takes_the_partition_key() -> None:
    more: Any = {"stream": "views", "run_id": "r", "config": {}}
    day = DataInterval.of_key("2026-01-31")
    path = "in/{partition_key}/{ds}"
    assert render_path(path, interval=day, partition_key="2026-01-31", **more) == "in/2026-01-31/2026-01-31"
    assert render_path("{partition_key}", interval=None, partition_key="nl", **more) == "nl"
    assert folder_of_values("in/{partition_key}/x") == "in"
    with pytest.raises(ConfigError, match="names the partition key, and this run has none") as caught:
        render_path("in/{partition_key}", interval=None, **more)
    assert "--partition-key" in caught.value.hint
    with pytest.raises(ConfigError, match="takes 'eu/nl' from partition_key, which holds '/'"):
        render_path("in/{partition_key}", interval=None, partition_key="eu/nl", **more)


@pytest.mark.parametrize(
    ("key", "sentence", "hint"),
    [
        (
            "eu",
            "needs the data interval for its path '{ds}', and the partition key 'eu' of this run names none",
            "2026-Q1",
        ),
        ("2026-01-31T00:00:00", "says when one begins, and not how long it is", 'key_format="%Y-%m-%d"'),
    ],
)
def test_a_key_that_names_no_interval_is_rejected_where_one_is_needed(key: str, sentence: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(sentence)) as caught:
        render_path("{ds}", stream="views", interval=DataInterval.of_key(key), run_id="r", config={}, partition_key=key)
    assert hint in caught.value.hint


def test_the_interval_of_a_key_is_that_of_the_clocks_of_its_zone() -> None:
    amsterdam = ZoneInfo("Europe/Amsterdam")
    day = DataInterval.of_key("2026-03-29", amsterdam)
    assert day is not None
    assert day.end - day.start == timedelta(hours=23)
    twice = [DataInterval.of_key("2026-10-25T02", amsterdam, at) for at in (None, *_hours("2026-10-25T00:30", 2))]
    assert [str(one)[12:17] for one in twice] == ["00:00", "00:00", "01:00"]
    assert DataInterval.of_key("eu", amsterdam) is DataInterval.of_key(None) is None


def _hours(first: str, count: int) -> list[datetime]:
    begin = datetime.fromisoformat(first).replace(tzinfo=timezone.utc)
    return [begin + timedelta(hours=number) for number in range(count)]


@pytest.mark.parametrize("length", ["P", "PT", "P1", "P1X", "PD", "P99999Y", "P1DT"])
def test_rejects_a_length_that_is_none(length: str) -> None:
    with pytest.raises(ConfigError, match="is not a length of time") as caught:
        DataInterval.from_iso("2026-01-01", length)
    assert "P1D" in caught.value.hint
