from __future__ import annotations

import os
from pathlib import Path

import pytest

from demo.browser import MISSING, NoBrowser, find_chromium


def test_a_named_browser_that_there_is_not_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHROMIUM", "/no/such/chromium")
    with pytest.raises(NoBrowser, match="CHROMIUM=/no/such/chromium is not a program"):
        find_chromium()


def test_a_browser_on_the_path_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    browser = tmp_path / "google-chrome"
    browser.write_text("#!/bin/sh\n")
    browser.chmod(0o755)
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_chromium() == str(browser)


@pytest.mark.extended
def test_without_any_browser_the_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path)]))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    with pytest.raises(NoBrowser) as caught:
        find_chromium()
    assert str(caught.value) == MISSING
    assert "make setup-browser" in MISSING
