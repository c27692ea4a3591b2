"""Fixtures of several files: places where an application's stages run without Spark."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.looping import Place


@pytest.fixture
def place_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Place]]:
    """A function from the source of an application, to be imported as ``looping_app``, to its place."""

    def made(application: str) -> Place:
        (tmp_path / "looping_app.py").write_text(application)
        return Place(tmp_path)

    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("looping_app", None)
    yield made
    sys.modules.pop("looping_app", None)
