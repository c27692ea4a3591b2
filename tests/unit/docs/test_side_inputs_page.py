"""The page on side inputs: its applications run."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_samza.testing import TestDriver
from tests.support.documentation_pages import executed


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    return executed("how-to/side-inputs.md")


def test_the_table_of_the_page_holds_the_last_row_of_each_key(page: dict[str, Any]) -> None:
    view, profile = page["View"], page["Profile"]
    driver = TestDriver(page["page_views"]).pipe("profile-changes", [profile(1, "gold"), profile(1, "silver")])
    driver.pipe("views", [view(1, "a"), view(2, "b")]).run()
    assert [(row["member_id"], row["tier"]) for row in driver.output("scored")] == [(1, "silver"), (2, None)]


def test_the_processor_of_the_page_adds_up_and_deletes(page: dict[str, Any]) -> None:
    scores = [{"member_id": member, "score": score} for member, score in [(1, 2), (2, 5), (1, 3), (2, -1)]]
    driver = (
        TestDriver(page["scored_views"])
        .pipe("scores", scores)
        .pipe("views", [page["View"](1, "a"), page["View"](2, "b")])
        .run()
    )
    assert [(row["member_id"], row["score"]) for row in driver.output("scored")] == [(1, 5), (2, None)]
