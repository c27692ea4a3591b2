"""Takes pictures of the page in Airflow, light and dark: of each view of a run, small enough for the documentation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

VIEWS = ("plan", "progress", "results", "data", "clear", "backfill")
WIDTH, HEIGHT = 1120, 760
SETTLE_MS = 1200


def take_page_pictures(
    page: Page, run: str, folder: Path, name: str, choices: Mapping[str, str] | None = None
) -> list[Path]:
    """Write ``<name>-<view>-<theme>.png`` for each view of a run (``run`` is the address of its page).

    ``page`` is signed in. ``choices`` are the hash's parameters by view, such as a stage that is looked at.
    """
    folder.mkdir(parents=True, exist_ok=True)
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    taken = []
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        for view in VIEWS:
            page.goto("about:blank")  # a change of the hash alone would keep the page that is there
            page.goto(f"{run}#/{view}{(choices or {}).get(view, '')}")
            page.get_by_role("tabpanel").wait_for()
            if view == "plan":
                page.locator(".react-flow__node").first.wait_for()
            page.wait_for_load_state("networkidle")
            page.wait_for_timeout(SETTLE_MS)
            file = folder / f"{name}-{view}-{theme}.png"
            page.screenshot(path=file)
            taken.append(file)
    return taken
