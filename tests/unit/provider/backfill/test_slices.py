"""The runs that a backfill would make: those whose interval is over, and no look at what comes after them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import count
from types import SimpleNamespace
from typing import Any

from airflow_samza.provider.backfill.slices import scheduled_slices

DAY = timedelta(days=1)


def test_a_backfill_until_the_year_9999_ends_with_the_last_interval_that_is_over() -> None:
    today = datetime.now(timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0)
    first, asked = today - 3 * DAY, []

    def infos(*_: datetime) -> Any:
        for number in count():
            begin = first + number * DAY
            asked.append(begin)
            interval = SimpleNamespace(start=begin, end=begin + DAY)
            yield SimpleNamespace(run_after=begin + DAY, logical_date=begin, data_interval=interval)

    form = SimpleNamespace(timetable=SimpleNamespace(can_be_scheduled=True), iter_dagrun_infos_between=infos)
    slices = list(scheduled_slices(form, first, datetime(9999, 12, 31, tzinfo=timezone.utc)))
    assert [slice_.start for slice_ in slices] == [first, first + DAY, first + 2 * DAY]
    assert asked[-1] == today
