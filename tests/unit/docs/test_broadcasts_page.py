"""The example of docs/how-to/broadcasts.md does what the page says."""

from __future__ import annotations

from collections import Counter

from airflow_samza import stream_application
from airflow_samza.testing import TestDriver
from tests.support.documentation_pages import executed


def test_a_broadcast_fills_the_table_of_every_task_and_is_merged_once() -> None:
    notices = executed("how-to/broadcasts.md", stream_application=stream_application)["notices"]
    driver = TestDriver(notices).pipe("orders", [{"shop": shop, "text": "order"} for shop in range(8)])
    driver.pipe("closed", [{"shop": 3, "text": "fire"}, {"shop": 6, "text": "moved"}]).run()
    found = Counter((row.shop, row.text) for row in driver.output("notices"))
    assert found == Counter([(3, "fire"), (6, "moved")] * 2)
