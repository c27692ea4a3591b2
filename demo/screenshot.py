"""Opens a finished Dag run in Airflow's own page in a headless Chromium, reads its task states, takes its picture."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from demo.browser import open_page

if TYPE_CHECKING:
    from playwright.sync_api import Page

PAGE_SECONDS = 60
"""The page loads several megabytes of script; on a busy machine the first time takes long."""

GLIDE_MS = 2000


@contextmanager
def signed_in_page(url: str, username: str, password: str) -> Iterator[Page]:
    """A page of Airflow as a signed-in user sees it."""
    with open_page() as page:
        page.set_default_timeout(PAGE_SECONDS * 1000)
        page.goto(url)
        page.locator("input[name=username]").fill(username)
        page.locator("input[name=password]").fill(password)
        page.locator("button[type=submit]").click()
        page.wait_for_url(lambda there: "/auth/login" not in there)
        page.goto(url)
        yield page


def take_screenshot(url: str, username: str, password: str, file: Path) -> dict[str, str]:
    """Write a picture (PNG) of a Dag run to ``file``, the graph of its tasks and their states; return these states."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with signed_in_page(url, username, password) as page:
        tasks = shown_states(page)
        page.get_by_role("button", name="Show Graph").click()
        page.get_by_role("button", name="Expand all task groups").click()
        nodes = page.locator(".react-flow__node")
        for task in tasks:
            nodes.filter(has_text=task.rpartition(".")[2]).first.wait_for()
        page.get_by_role("button", name="Fit View").click()
        page.wait_for_load_state("networkidle")
        # The graph glides into its new place, and says to nobody when it has arrived.
        page.wait_for_timeout(GLIDE_MS)
        page.screenshot(path=file)
        return tasks


def shown_states(page: Page) -> dict[str, str]:
    """The states that the page of a Dag run shows, by the names under which it shows tasks."""
    rows = page.locator("table tbody tr").filter(has=page.locator("a"))
    rows.first.wait_for()
    names = [name.strip() for name in page.locator("table thead th").all_inner_texts()]
    cells = [row.locator("td").all_inner_texts() for row in rows.all()]
    return {row[names.index("Task ID")].strip(): row[names.index("State")].strip() for row in cells}
