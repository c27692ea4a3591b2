"""The results of expectations of a run, and its partition key, as the page's interface gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.errors import ExpectationFailed
from tests.support.page_here import DAG_RUN, Page, make_page
from tests.support.runs_here import Here

APPLICATION = """
from airflow_samza import condition, not_null, rows, stream_application, unique

@stream_application("visits")
def visits(app):
    schema = "country string, n bigint"
    read = app.input_stream("visits", system="log", schema=schema, partitions=2, expect=[not_null("country")])
    expect = [unique("n"), condition("n > 0", on_error="warn"), condition("n <> 2", on_error="drop"), rows(at_least=1)]
    read.send_to(app.output_stream("countries", system="log", partitions=2, key="country", expect=expect))

@stream_application("keyed-visits")
def keyed_visits(app):
    read = app.input_stream("visits", system="log", schema="country string, n bigint", partitions=2)
    read.send_to(app.output_stream("countries", system="log", partitions=2, key="country"))
"""


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    (tmp_path / "page_app.py").write_text(APPLICATION, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    return make_page(Here(tmp_path / "root"), monkeypatch)


def send(page: Page, *numbers: int) -> None:
    rows = pa.table({"country": pa.array(["fr"] * len(numbers)), "n": pa.array(numbers, pa.int64())})
    page.here.log.append("visits", rows, key=["country"], partitions=2)


def shown(page: Page) -> list[tuple[Any, ...]]:
    return [
        (each["stream_id"], each["expectation"], each["outcome"], each["rows"], each["failed"], each["found"])
        for each in page.get("outputs")["expectations"]
    ]


def test_each_expectation_has_its_outcome_and_counts(page: Page) -> None:
    send(page, 0, 1, 2, 3)
    page.run()
    assert shown(page) == [
        ("visits", "not_null(country)", "passed", 4, 0, ""),
        ("countries", "unique(n)", "passed", 3, 0, ""),
        ("countries", "n > 0", "warned", 3, 1, "1 of 3 rows"),
        ("countries", "n <> 2", "dropped", 4, 1, "1 of 4 rows"),
        ("countries", "rows(at_least=1)", "passed", 3, 0, ""),
    ]


def test_a_rejected_stage_has_the_expectation_that_it_did_not_meet_and_quotes_no_row(page: Page) -> None:
    send(page, 1, 1, 3)
    with pytest.raises(ExpectationFailed):
        page.run()
    assert ("countries", "unique(n)", "failed", 3, 1, "1 row whose key comes before, of 3") in shown(page)
    assert page.get("outputs")["outputs"] == []


def test_a_run_without_expectations_has_none_and_shows_its_partition_key(page: Page) -> None:
    send(page, 1)
    page.run(application="keyed-visits", partition_key="emea")
    assert shown(page) == []
    assert (page.get("plan")["partition_key"], page.get("plan")["interval"]) == ("emea", None)
    (row,) = (run for run in page.browse("/api/roots/samza_page/runs").json()["runs"] if run["dag_run_id"] == DAG_RUN)
    assert (row["partition_key"], row["interval"]) == ("emea", None)
