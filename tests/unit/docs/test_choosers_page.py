"""The choosers that docs/how-to/choosers.md names are those that there are."""

from __future__ import annotations

import re

from airflow_samza.chooser import factories
from tests.support.built_in_choosers import BUILT_IN
from tests.support.documentation_pages import text_of


def test_every_chooser_that_is_there_stands_on_the_page() -> None:
    section = text_of("how-to/choosers.md").split("## Built-in choosers")[1].split("##")[0]
    assert set(re.findall(r"`([a-z_]+)`", section)) == set(BUILT_IN)
    assert all(hasattr(factories, name) for name in BUILT_IN)
