"""The map of data of fifty Dags, in a browser: as a graph and as a table, in sight and by the rules of accessibility."""

from __future__ import annotations

import time
from importlib.resources import files
from pathlib import Path

import pytest

from airflow_samza.runs.records.data_interval import DataInterval
from demo.browser import open_page
from tests.page.conftest import APPLICATION
from tests.support.budgets import LOOKS
from tests.support.page_here import Page, make_page, served
from tests.support.runs_here import Here

pytestmark = [pytest.mark.extended, pytest.mark.browser, pytest.mark.timeout(600)]

DAGS = 50

CHAIN = """
from airflow_samza import stream_application

def application(number):
    @stream_application(f"link-{number:02}")
    def link(app):
        read = app.input_stream(f"data-{number:02}", system="log", schema="n bigint", partitions=2, bounded=True)
        read.where("n >= 0").send_to(app.output_stream(f"data-{number + 1:02}", system="log", partitions=2))
    return link

for number in range(50):
    globals()[f"link_{number:02}"] = application(number)
"""
"""Each application reads what the one before writes."""

DAYS = [DataInterval.from_iso(f"2026-01-{day:02}", f"2026-01-{day + 1:02}") for day in (1, 2, 3)]


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    """Fifty Dags, each of which reads what the one before writes; the last but one has run on two of three days."""
    (tmp_path / "page_app.py").write_text(APPLICATION + CHAIN, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    here = Here(tmp_path / "root")
    for number in range(DAGS + 1):
        here.log.make(f"data-{number:02}", 2, "n bigint")
    page = make_page(here, monkeypatch)
    for number in range(DAGS):
        page.plan("manual__1", dag_id=f"dag_{number:02}", application=f"link-{number:02}", interval=DAYS[2])
    for day, make, state in zip(DAYS, (page.run, page.plan, page.run), ("success", "failed", "success"), strict=True):
        run_id = f"scheduled__{day.iso()[0][:10]}"
        make(run_id=run_id, dag_id="dag_48", application="link-48", interval=day)
        page.airflow.states[run_id] = state
    return page


@LOOKS
def test_the_map_of_fifty_dags_breaks_no_rule_and_leads_to_the_calendar(
    page: Page, tmp_path: Path, width: int, dark: bool
) -> None:
    axe = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    with served(page) as run, open_page(width=width, height=900) as browser:
        browser.emulate_media(color_scheme="dark" if dark else "light")
        errors: list[str] = []
        browser.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
        base = run.partition("/runs/")[0]
        for address in ("", "#/?as=table", "#/?stream=data-49", "#/?as=table&stream=data-49"):
            browser.goto("about:blank")
            browser.goto(f"{base}/map{address}")
            browser.get_by_text("50 applications").wait_for()
            table = "table" in address
            (
                browser.get_by_role("table", name="Data") if table else browser.locator(".react-flow__node").first
            ).wait_for()
            if "stream" in address:
                details = browser.get_by_role("region", name="Details of")
                details.get_by_text("2 slots of 3 filled, of data-49, as the storage says").wait_for()
                told = details.get_by_role("list", name="Slots that dag_48 writes").locator("li").all_inner_texts()
                assert [slot.partition(": ")[2] for slot in told] == [
                    "filled, by scheduled__2026-01-01",
                    "failed, by scheduled__2026-01-02",
                    "filled, by scheduled__2026-01-03",
                ]
            if table:  # the end of a name tells places apart
                assert "topics/data-00" in browser.get_by_role("table", name="Data").inner_text()
            browser.wait_for_timeout(300)
            browser.evaluate(axe)
            found = browser.evaluate("async () => (await axe.run(document)).violations")
            assert [(one["id"], [node["target"] for node in one["nodes"]][:3]) for one in found] == [], address
            wider = browser.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wider <= 0, address
            name = address.strip("#/?").replace("&", "-").replace("=", "-") or "graph"
            browser.screenshot(path=tmp_path / f"{name}-{width}-{'dark' if dark else 'light'}.png")
        assert errors == []


def test_the_map_of_fifty_dags_reads_each_plan_once(page: Page) -> None:
    took = []
    for _ in range(5):
        began = time.monotonic()
        found = page.browse("/api/map").json()
        took.append(time.monotonic() - began)
        assert (len(found["applications"]), len(found["data"])) == (DAGS, DAGS + 1)
    print("seconds of the first look and of the others:", [round(seconds, 3) for seconds in took])
