"""Finds the Chromium that opens Airflow's pages, and opens one: ``python -m demo.browser`` prints where it is."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

MISSING = (
    "There is no Chromium for the tests that open Airflow's pages; "
    "run `make setup-browser`, or name one: CHROMIUM=/path/to/chromium make test"
)


class NoBrowser(RuntimeError):
    """No Chromium was found; the message says what to do."""


def find_chromium() -> str:
    """The path of a Chromium: ``$CHROMIUM``, one on the PATH, or the one that Playwright has fetched.

    Raises:
        NoBrowser: when there is none.
    """
    named = os.environ.get("CHROMIUM")
    if named:
        if shutil.which(named) is None:
            raise NoBrowser(f"CHROMIUM={named} is not a program that can be started.")
        return named
    for name in NAMES:
        found = shutil.which(name)
        if found:
            return found
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    if Path(own).exists():
        return own
    raise NoBrowser(MISSING)


@contextmanager
def open_page(width: int = 1400, height: int = 900) -> Iterator[Page]:
    """A blank page of a headless Chromium of its own (sizes in CSS pixels), closed at the end."""
    from playwright.sync_api import sync_playwright

    chromium = find_chromium()
    with sync_playwright() as playwright:
        # Root has no sandbox, and /dev/shm is too small for Chromium in most containers.
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        try:
            yield browser.new_page(viewport={"width": width, "height": height})
        finally:
            browser.close()


if __name__ == "__main__":
    try:
        print(find_chromium())
    except NoBrowser as problem:
        sys.exit(str(problem))
