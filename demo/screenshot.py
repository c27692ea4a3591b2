"""Opens a finished Dag run in Airflow's own page, in a headless Chromium, reads its task states, and takes its picture."""

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


def take_screenshot(url: str, username: str, password: str, file: Path) -> None:
    """Writes a picture (PNG) of a Dag run's page to ``file``."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with signed_in_page(url, username, password) as page:
        page.wait_for_load_state("networkidle")
        page.screenshot(path=file)
