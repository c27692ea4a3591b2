"""Tables of the page in a window of 1,120 px have all columns in sight, and a phone shows the tab that is chosen."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza.runs.records.data_interval import DataInterval
from demo.browser import open_page
from tests.page.conftest import APPLICATION
from tests.support.page_here import Page, make_page, served
from tests.support.runs_here import Here

pytestmark = [pytest.mark.extended, pytest.mark.browser, pytest.mark.timeout(300)]

DAY = DataInterval.from_iso("2013-01-01", "2013-01-02")


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    (tmp_path / "page_app.py").write_text(APPLICATION, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    here = Here(tmp_path / "root")
    rows = [{"country": "fr", "n": n} for n in range(4)]
    here.log.append("visits", pa.Table.from_pylist(rows), key=["country"], partitions=2)
    return make_page(here, monkeypatch)


@pytest.mark.parametrize(
    ("address", "label"),
    [("/runs/visits/manual__1#/results", "Outputs"), ("/runs/visits/manual__1#/data", "Topics"), ("/", "Runs")],
    ids=["outputs", "topics", "runs"],
)
def test_every_column_is_in_sight_in_a_window_of_1120_pixels(page: Page, address: str, label: str) -> None:
    page.run(interval=DAY)
    with served(page) as run, open_page(width=1120, height=900) as browser:
        browser.goto(run.removesuffix("/runs/visits/manual__1") + address)
        browser.get_by_role("table", name=label, exact=True).wait_for()
        frame = browser.get_by_role("group", name=label, exact=True)
        assert frame.evaluate("frame => frame.scrollWidth - frame.clientWidth") == 0


@pytest.mark.parametrize("tab", ["plan", "data", "backfill"])
def test_the_tab_that_is_shown_is_in_sight_on_a_phone_and_the_page_stays_at_its_top(page: Page, tab: str) -> None:
    page.run(interval=DAY)
    with served(page) as run, open_page(width=390, height=844) as browser:
        browser.goto(f"{run}#/{tab}")
        browser.get_by_role("tab", selected=True).wait_for()
        box = browser.get_by_role("tab", selected=True).bounding_box()
        assert box is not None
        assert 0 <= box["x"] <= 390 - box["width"]
        assert browser.evaluate("scrollY") == 0
