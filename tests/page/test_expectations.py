"""The expectations of a run, what it was compared with, and its partition key, as a browser shows them."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_samza.errors import ExpectationFailed
from airflow_samza.runs.records.comparison import Comparison, OutputComparison
from airflow_samza.runs.records.folders import RunFolder, replace
from airflow_samza.systems.filesystems.opening import open_filesystem
from demo.browser import open_page
from tests.support.budgets import LOOKS
from tests.support.page_here import Page, served
from tests.unit.provider.page.routes.test_expectations import (
    page as page,  # the fixture
    send,
)

if TYPE_CHECKING:
    from playwright.sync_api import Page as BrowserPage

pytestmark = [pytest.mark.extended, pytest.mark.browser, pytest.mark.timeout(300)]


def check_shown(browser: BrowserPage, picture: Path) -> None:
    """Check that what is shown can be used by everybody and is no wider than the window, and keep a picture."""
    browser.evaluate((files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
    violations = browser.evaluate("async () => (await axe.run(document)).violations")
    assert [(one["id"], [node["target"] for node in one["nodes"]][:3]) for one in violations] == []
    wider = browser.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wider <= 0
    browser.screenshot(path=picture, full_page=True)


@LOOKS
@pytest.mark.parametrize("rejected", [False, True], ids=["published", "rejected"])
def test_expectations_stand_below_the_outputs(
    page: Page, tmp_path: Path, width: int, dark: bool, rejected: bool
) -> None:
    send(page, 0, 1, 2, *([1] if rejected else []))
    if rejected:
        with pytest.raises(ExpectationFailed):
            page.run()
    else:
        page.run()
    with served(page) as run, open_page(width=width, height=900) as browser:
        browser.emulate_media(color_scheme="dark" if dark else "light")
        errors: list[str] = []
        browser.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
        browser.goto(f"{run}#/results")
        table = browser.get_by_role("table", name="Expectations", exact=True)
        table.wait_for()
        shown = [row.locator("td").all_inner_texts() for row in table.locator("tbody tr").all()]
        found = {row[2]: (row[0], row[3].strip(), row[4], row[5], row[6]) for row in shown}
        assert len(found) == 5
        assert found["not_null(country)"][:2] == ("visits", "Passed")
        assert found["n > 0"][:2] == ("countries", "Warned")
        assert found["n <> 2"][1:] == ("Dropped", "4" if rejected else "3", "1", f"1 of {4 if rejected else 3} rows")
        assert found["unique(n)"][1] == ("Failed" if rejected else "Passed")
        check_shown(browser, tmp_path / "expectations.png")
        assert errors == []


@LOOKS
def test_a_comparison_stands_below_the_outputs(page: Page, tmp_path: Path, width: int, dark: bool) -> None:
    send(page, 1)
    run = page.run()
    differs = OutputComparison("countries", ("country",), 9, 9, 6, 1, 1, 2, {"n": 2, "country": 1})
    made = (differs, OutputComparison("visits", (), 3, 3, 3, 0, 0, 0))
    comparison = Comparison(run.application, run.run_id, "visits", "monday", made, ("The input 'n' is new.",), 1.0)
    replace(open_filesystem(str(page.here.root)), RunFolder(run.application, run.run_id).comparison, comparison)
    with served(page) as address, open_page(width=width, height=900) as browser:
        browser.emulate_media(color_scheme="dark" if dark else "light")
        browser.goto(f"{address}#/results")
        table = browser.get_by_role("table", name="Comparison", exact=True)
        table.wait_for()
        first, second = (row.inner_text().split() for row in table.locator("tbody tr").all())
        assert (first[0], second[0]) == ("countries", "visits")
        assert {"6", "1", "2"} <= set(first)
        browser.get_by_text("Compared with the run monday of visits").wait_for()
        browser.get_by_text("The input 'n' is new.").wait_for()
        check_shown(browser, tmp_path / "comparison.png")


def test_a_run_without_expectations_has_no_such_section_and_its_key_stands_with_the_plan(page: Page) -> None:
    send(page, 1)
    page.run(application="keyed-visits", partition_key="emea")
    with served(page) as run, open_page(width=1440, height=900) as browser:
        browser.goto(f"{run}#/results")
        browser.get_by_role("table", name="Outputs", exact=True).wait_for()
        assert browser.get_by_role("table", name="Expectations", exact=True).count() == 0
        browser.goto(f"{run}#/plan")
        browser.get_by_text("partition key emea").wait_for()
        browser.goto(f"{run.partition('/runs/')[0]}/")
        browser.get_by_text("key emea").wait_for()
