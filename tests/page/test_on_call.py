"""A run that has failed, as somebody on call opens it in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_samza.errors import StorageUnavailable
from airflow_samza.provider.page.airflow_records import TaskMark
from airflow_samza.runs.stages.stage_state import FAILED
from demo.browser import open_page
from tests.page.conftest import APPLICATION
from tests.support.page_here import Page, make_page, served
from tests.support.runs_here import Here

pytestmark = [pytest.mark.extended, pytest.mark.browser, pytest.mark.timeout(300)]


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    """A run whose first stage has ended, and whose second one waits for a pool."""
    (tmp_path / "page_app.py").write_text(APPLICATION, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    here = Here(tmp_path / "root")
    here.log.make("visits", 2, "country string, n bigint")
    page = make_page(here, monkeypatch)
    here.stages(page.plan(), "visits")
    page.airflow.marks["flow.by-country"] = TaskMark("scheduled", 0, 0, None, "gate")
    return page


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    """A run both of whose stages have failed, the second one first."""
    (tmp_path / "page_app.py").write_text(APPLICATION, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    here = Here(tmp_path / "root")
    here.log.make("visits", 2, "country string, n bigint")
    page = make_page(here, monkeypatch)
    run = page.plan()
    page.attempt(run, FAILED, StorageUnavailable("The disk did not answer.", hint="Look at it."), at=9.0)
    away = StorageUnavailable("The broker did not answer.", hint="Start it.")
    page.attempt(run, FAILED, away, stage_id="by-country", at=8.0)
    here.runtime.close(run, succeeded=False)
    return page


def test_a_failed_run_opens_on_its_first_failure_with_the_ways_on(page: Page) -> None:
    with served(page) as run, open_page(width=390, height=900) as browser:
        browser.goto(run)
        why = browser.get_by_role("region", name="Why the run has failed")
        why.wait_for()
        assert browser.url.endswith("#/results")
        assert [text in why.inner_text() for text in ("by-country", "The broker did not answer.", "Start it.")] == [
            True
        ] * 3
        assert str(why.get_by_role("link", name="Task log").get_attribute("href")).endswith("/tasks/flow.by-country")
        assert browser.get_by_role("tab", name="Results and errors 2 failed").count() == 1
        assert "The disk did not answer." in browser.get_by_role("region", name="More failures").inner_text()
        why.get_by_role("link", name="Preview clear").click()
        browser.wait_for_url("**#/clear?stage=by-country")
        assert why.is_visible()


def test_who_may_not_read_logs_reads_that_the_run_has_failed_and_not_why(page: Page) -> None:
    page.unlogged.add("visits")
    with served(page) as run, open_page() as browser:
        browser.goto(run)
        why = browser.get_by_role("region", name="Why the run has failed")
        why.wait_for()
        assert "who may read the task logs" in why.inner_text()
        assert "did not answer" not in browser.content()


def test_a_running_run_opens_on_progress_and_says_why_a_stage_has_not_begun(planned: Page) -> None:
    with served(planned) as run, open_page() as browser:
        browser.goto(run)
        table = browser.get_by_role("table", name="Progress of the stages")
        table.wait_for()
        assert browser.url.endswith("#/progress")
        assert "Waits for a slot (pool gate)." in table.inner_text()
        assert table.get_by_role("columnheader", name="Watermark").count() == 0  # its inputs have none
        browser.get_by_role("button", name="Waiting (1)").click()
        assert [row.split()[0] for row in table.locator("tbody tr").all_inner_texts()] == ["by-country"]
        browser.get_by_role("button", name="Failed (0)").click()
        browser.get_by_text("No stage is in this state.").wait_for()


def test_state_and_progress_are_in_sight_beside_the_name_of_a_stage_on_a_phone(planned: Page) -> None:
    with served(planned) as run, open_page(width=390, height=900) as browser:
        browser.goto(f"{run}#/progress")
        heads = browser.get_by_role("columnheader")
        heads.first.wait_for()
        assert heads.all_inner_texts()[:3] == ["Stage", "State", "Progress"]
        box = heads.nth(2).bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 390
