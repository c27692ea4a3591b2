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
DESK, PHONE = (1440, 900), (390, 844)
"""Sizes in which a failed run and the map are shown, too: both are looked at from a phone at night."""
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

BROKEN, UNBOUND = "broken_views", "unbound_views"
"""A Dag whose stage fails at its first message, and one that cannot be planned, for want of a connection."""


def take_pictures(airflow: LocalAirflow, run_id: str, folder: Path) -> Iterator[Path]:
    """Write pictures: of each view of the demonstration's run, a backfill, 200 stages, two failures, and the map."""
    image = importlib.import_module("PIL.Image")  # before anything runs: it may not be there
    airflow.wait_for_dag(WIDE)
    wide_run = airflow.trigger(WIDE)
    airflow.backfill(DAILY, *DAYS)
    for run in airflow.runs(DAILY):
        airflow.wait_for_run(DAILY, run["dag_run_id"])
    airflow.wait_for_task(WIDE, wide_run, "plan")
    failed = {dag_id: airflow.trigger(dag_id) for dag_id in (BROKEN, UNBOUND)}
    for dag_id, of in failed.items():
        airflow.wait_for_run(dag_id, of)
    backfill = {"backfill": f"backfill?first={DAYS[0]}&last=2013-01-07"}
    wide = {"plan": "plan", "table": "plan?as=table", "progress": "progress", "clear": "clear?task=views-00"}
    pages = f"{airflow.url}/samza"
    shown = [
        ("demo", f"{pages}/runs/{DAG}/{run_id}", DEMO, (WIDTH, HEIGHT)),
        ("demo", f"{pages}/runs/{DAILY}/{airflow.runs(DAILY)[0]['dag_run_id']}", backfill, (WIDTH, HEIGHT)),
        ("wide", f"{pages}/runs/{WIDE}/{wide_run}", wide, (WIDTH, HEIGHT)),
    ]
    for kind, size in (("desk", DESK), ("phone", PHONE)):
        shown += [
            (kind, f"{pages}/runs/{BROKEN}/{failed[BROKEN]}", {"failed-run": "progress"}, size),
            (kind, f"{pages}/runs/{UNBOUND}/{failed[UNBOUND]}", {"failed-plan": ""}, size),
            (kind, f"{pages}/map", {"map": ""}, size),
        ]
    with signed_in_page(f"{airflow.url}/dags/{DAG}/runs/{run_id}", airflow.username, airflow.password) as page:
        for name, address, views, size in shown:
            for file in _views(page, address, folder / name, views, size):
                with image.open(file) as found:
                    small = found.convert("RGB").quantize(COLOURS, method=image.Quantize.FASTOCTREE, dither=0)
                small.save(file, optimize=True)  # a third of the browser's
                yield file


def _views(
    page: Page, address: str, beginning: Path, views: Mapping[str, str], size: tuple[int, int]
) -> Iterator[Path]:
    """Write ``<beginning>-<name>-<theme>.png`` for each view of what has an address."""
    beginning.parent.mkdir(parents=True, exist_ok=True)
    page.set_viewport_size({"width": size[0], "height": size[1]})
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        for name, view in views.items():
            page.goto("about:blank")  # a change of the hash alone would keep the page that is there
            page.goto(f"{address}#/{view}")
            page.get_by_role("heading", level=1).wait_for()
            if view == "plan" or name == "map":
                page.locator(".react-flow__node").first.wait_for()
            page.wait_for_load_state("networkidle")
            page.wait_for_timeout(SETTLE_MS)
            file = beginning.with_name(f"{beginning.name}-{name}-{theme}.png")
            page.screenshot(path=file)
            yield file
