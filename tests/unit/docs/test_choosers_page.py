"""The example of docs/choosers.md does what the page says, and its factories are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_samza.chooser import factories
from airflow_samza.testing import TestDriver
from tests.unit.chooser.built_in import BUILT_IN
from tests.unit.docs.pages import loaded, text_of


def test_the_chooser_of_the_page_goes_by_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = loaded("choosers.md", "urgent_first.py", tmp_path, monkeypatch)
    driver = TestDriver(module.handled)
    driver.pipe("north", [{"id": 1, "urgency": 2}, {"id": 2, "urgency": 9}, {"id": 3, "urgency": 1}])
    driver.pipe("south", [{"id": 4, "urgency": 5}, {"id": 5, "urgency": 3}])
    assert [row.id for row in driver.run().output("handled")] == [4, 5, 1, 2, 3]


def test_every_chooser_that_is_there_stands_on_the_page() -> None:
    section = text_of("choosers.md").split("## Choosers that are there")[1].split("##")[0]
    assert set(re.findall(r"`([a-z_]+)`", section)) == set(BUILT_IN)
    assert all(hasattr(factories, name) for name in BUILT_IN)
