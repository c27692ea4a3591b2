"""The examples of docs/how-to/joins.md and docs/how-to/bad-records.md run, and give the results that the pages show."""

from __future__ import annotations

import re
from datetime import datetime, timezone

from airflow_samza import DEAD_LETTERS, dead_letter, stream_application
from airflow_samza.testing import TestDriver
from tests.support.documentation_pages import executed, text_of


def test_views_meet_their_clicks() -> None:
    names = executed("how-to/joins.md", stream_application=stream_application)
    at = [datetime(2026, 1, 1, hour, tzinfo=timezone.utc) for hour in range(4)]
    driver = TestDriver(names["clicked_views"])
    driver.pipe("views", [{"member_id": 1, "page": "a", "seen": at[0]}, {"member_id": 1, "page": "b", "seen": at[3]}])
    driver.pipe("clicks", [{"member_id": 1, "button": "buy", "clicked": at[1]}])
    rows = sorted(driver.run().output("clicked-views"), key=lambda row: row.page)
    assert list(rows[0]) == ["member_id", "page", "seen", "button", "clicked"]
    assert [(row.page, row.button) for row in rows] == [("a", "buy"), ("b", None)]


def test_bad_readings_go_to_their_stream() -> None:
    names = executed(
        "how-to/bad-records.md",
        stream_application=stream_application,
        dead_letter=dead_letter,
        TestDriver=TestDriver,
        calibrated=lambda reading: reading,
        plausible=lambda reading: True,
    )
    assert [row.value for row in names["driver"].output("calibrated")] == [2.5]


def test_the_columns_of_a_dead_letter_are_those_of_the_page() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", text_of("how-to/bad-records.md"), flags=re.MULTILINE)
    assert rows == [(field.name, field.type.ddl()) for field in DEAD_LETTERS.fields]
