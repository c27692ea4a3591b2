"""Takes the documentation's pictures of the page in Airflow, light and dark, small enough for it.

``make screenshot`` runs the demonstration for them, and installs Pillow.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from demo.screenshot import signed_in_page

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from demo.local_airflow import LocalAirflow

WIDTH, HEIGHT = 1120, 760
SETTLE_MS = 1200
COLOURS = 256

DAG, GROUP = "flights", "delays"
"""The Dag of the demonstration, and its task group."""

DEMO = {
    "plan": "plan",
    "progress": "progress?stage=by-tail-and-planes-by-tail",
    "results": "results",
    "data": "data?topic=by-tail",
    "clear": f"clear?task={GROUP}.flights",
}
"""Addresses in the page of the demonstration's run, by the names of their pictures."""

DAILY, DAYS = "flights_daily", ("2013-01-01", "2013-01-02")
"""A Dag with a schedule, and the days that it has run."""

WIDE = "wide_views"
"""A Dag of 200 stages, which is planned and not run."""


def take_pictures(airflow: LocalAirflow, run_id: str, folder: Path) -> Iterator[Path]:
    """Write a picture of each view of the demonstration's run, of a backfill, and of a run of 200 stages."""
    image = importlib.import_module("PIL.Image")  # before anything runs: it may not be there
    airflow.wait_for_dag(WIDE)
    wide_run = airflow.trigger(WIDE)
    airflow.backfill(DAILY, *DAYS)
    for run in airflow.runs(DAILY):
        airflow.wait_for_run(DAILY, run["dag_run_id"])
    airflow.wait_for_task(WIDE, wide_run, "plan")
    backfill = {"backfill": f"backfill?first={DAYS[0]}&last=2013-01-07"}
    wide = {"plan": "plan", "table": "plan?as=table", "progress": "progress", "clear": "clear?task=views-00"}
    runs = (
        ("demo", DAG, run_id, DEMO),
        ("demo", DAILY, airflow.runs(DAILY)[0]["dag_run_id"], backfill),
        ("wide", WIDE, wide_run, wide),
    )
    with signed_in_page(f"{airflow.url}/dags/{DAG}/runs/{run_id}", airflow.username, airflow.password) as page:
        for name, dag_id, of, views in runs:
            for file in _of_run(page, f"{airflow.url}/samza/runs/{dag_id}/{of}", folder / name, views):
                with image.open(file) as found:
                    small = found.convert("RGB").quantize(COLOURS, method=image.Quantize.FASTOCTREE, dither=0)
                small.save(file, optimize=True)  # a third of the browser's
                yield file


def _of_run(page: Page, run: str, beginning: Path, views: Mapping[str, str]) -> Iterator[Path]:
    """Write ``<beginning>-<name>-<theme>.png`` for each view; ``run`` is the address of the run's page."""
    beginning.parent.mkdir(parents=True, exist_ok=True)
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        for name, address in views.items():
            page.goto("about:blank")  # a change of the hash alone would keep the page that is there
            page.goto(f"{run}#/{address}")
            page.get_by_role("tabpanel").wait_for()
            if address == "plan":
                page.locator(".react-flow__node").first.wait_for()
            page.wait_for_load_state("networkidle")
            page.wait_for_timeout(SETTLE_MS)
            file = beginning.with_name(f"{beginning.name}-{name}-{theme}.png")
            page.screenshot(path=file)
            yield file
