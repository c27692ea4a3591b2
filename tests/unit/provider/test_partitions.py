"""The data interval of a run of a partition: by its key, its date, and the timetable and the zone of its Dag."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from importlib import import_module
from typing import Any
from zoneinfo import ZoneInfo

import pandas
import pendulum
import pytest
from airflow import sdk
from airflow.sdk import DAG, Asset

from airflow_samza.errors import ConfigError
from airflow_samza.provider.airflow_versions import events_take_partitions
from airflow_samza.provider.run_identity import interval_of
from airflow_samza.runs.records.data_interval import DataInterval
from tests.support.budgets import share

pytestmark = pytest.mark.skipif(not events_take_partitions(), reason="runs have partition dates since Airflow 3.3")

NEW_YORK = "America/New_York"
DAYS = Asset("x-days://here")
PARTITION = datetime(2013, 3, 1, 18, tzinfo=timezone.utc)


def partitioned(key: str, date: datetime | None, schedule: Any = None, **of_dag: Any) -> dict[str, Any]:
    dag = DAG("partitioned", schedule=schedule, **of_dag)
    return {"partition_key": key, "partition_date": date, "dag": dag}


@pytest.mark.parametrize(
    ("key", "date", "schedule", "interval"),
    [
        ("2013-03-01T13:00:00", PARTITION, lambda: sdk.CronPartitionTimetable("@hourly", timezone=NEW_YORK), (18, 19)),
        ("2013-03-01T13", PARTITION, lambda: sdk.CronPartitionTimetable("@hourly", timezone=NEW_YORK), (18, 19)),
        ("2013-03-01", PARTITION, lambda: sdk.CronPartitionTimetable("@hourly", timezone=NEW_YORK), (5, 29)),
        ("day-060", PARTITION, lambda: sdk.CronPartitionTimetable("0 */6 * * *", timezone="UTC"), (18, 24)),
        (
            "2013-03-01",
            PARTITION,
            lambda: sdk.CronPartitionTimetable("0 18 * * *", timezone="UTC", key_format="%Y-%m-%d"),
            (0, 24),
        ),
        (
            "2013-03-01",
            PARTITION,
            lambda: sdk.PartitionedAssetTimetable(
                assets=DAYS, default_partition_mapper=sdk.StartOfDayMapper(timezone=NEW_YORK)
            ),
            (5, 29),
        ),
        ("2013-03-01", PARTITION, lambda: sdk.PartitionedAssetTimetable(assets=DAYS), (0, 24)),
        ("2013-03-01", None, lambda: sdk.PartitionedAssetTimetable(assets=DAYS), (0, 24)),
        ("2013-03-01T18", None, lambda: None, (18, 19)),
        ("eu", None, lambda: sdk.PartitionedAssetTimetable(assets=DAYS), None),
        ("eu", PARTITION, lambda: sdk.PartitionedAssetTimetable(assets=DAYS), None),
        ("2013-03-01T18:00:00", PARTITION, lambda: sdk.PartitionedAssetTimetable(assets=DAYS), None),
    ],
)
def test_the_interval_of_a_partition_is_that_of_its_key_else_of_its_timetable(
    key: str, date: datetime | None, schedule: Any, interval: tuple[int, int] | None
) -> None:
    first = datetime(2013, 3, 1, tzinfo=timezone.utc)
    right = None if interval is None else DataInterval(*(first + timedelta(hours=hour) for hour in interval))
    assert interval_of(partitioned(key, date, schedule())) == right
    given = ("2013-01-01", "2013-01-02")
    assert interval_of(partitioned(key, date, schedule()), given) == DataInterval.from_iso(*given)


def test_a_key_is_a_date_in_the_zone_of_its_dag() -> None:
    schedule = sdk.PartitionedAssetTimetable(assets=DAYS)
    midnight = pendulum.datetime(2013, 3, 1, tz="Asia/Tokyo")
    found = interval_of(partitioned("2013-03-01", midnight.in_timezone("UTC"), schedule, start_date=midnight))
    assert found is not None
    assert found.start == midnight
    with pytest.raises(ConfigError, match="'2013-03-01' of this run is no date in the time zone UTC") as caught:
        interval_of(partitioned("2013-03-01", midnight.in_timezone("UTC"), schedule))
    assert "start_date" in caught.value.hint


@pytest.mark.random
@pytest.mark.parametrize(
    ("mapper", "period"),
    [("Hour", "h"), ("Day", "D"), ("Week", "W"), ("Month", "M"), ("Quarter", "Q"), ("Year", "Y")],
)
@pytest.mark.parametrize("zone", ["UTC", NEW_YORK, "Asia/Tokyo", "Australia/Lord_Howe"])
def test_keys_of_airflows_mappers_name_the_period_that_pandas_has(mapper: str, period: str, zone: str) -> None:
    mappers = import_module("airflow.partition_mappers.temporal")
    to_period = getattr(mappers, f"StartOf{mapper}Mapper")(timezone=zone)
    chosen = random.Random(f"{mapper} {zone}")
    for _ in range(share(400)):
        moment = datetime(2000, 1, 1) + timedelta(seconds=chosen.randrange(0, 30 * 365 * 86400))
        key = to_period.to_downstream(moment.strftime("%Y-%m-%dT%H:%M:%S"))
        found = DataInterval.of_key(key, ZoneInfo(zone))
        right = pandas.Period(moment, freq=period)
        end = (right + 1).start_time.to_pydatetime()
        assert found is not None
        assert found.start == to_period.to_partition_date(key)
        assert found.start == right.start_time.to_pydatetime().replace(tzinfo=ZoneInfo(zone)).astimezone(timezone.utc)
        if mapper == "Hour":  # the next hour on the clock may be two hours later
            assert found.end - found.start == timedelta(hours=1)
        else:
            assert found.end == end.replace(tzinfo=ZoneInfo(zone)).astimezone(timezone.utc)
