from __future__ import annotations

from datetime import datetime, timedelta, timezone

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
