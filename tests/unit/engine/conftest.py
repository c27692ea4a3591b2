"""What tests of several files share: places where an application's stages run without Spark."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_samza.spark import epoch_frames
from airflow_samza.spark import single_epoch as epoch
from tests.support.looping import Place
from tests.support.without_spark import without_spark


@pytest.fixture
def place_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Place]]:
    """A function from the source of an application, to be imported as ``looping_app``, to its place."""

    def made(application: str) -> Place:
        (tmp_path / "looping_app.py").write_text(application)
        return Place(tmp_path)

    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("looping_app", None)
    for module in (epoch, epoch_frames):
        monkeypatch.setattr(module, "stage_frame", None)
    without_spark()
    yield made
    sys.modules.pop("looping_app", None)
