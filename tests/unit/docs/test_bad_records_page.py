"""The columns of dead letters on docs/how-to/bad-records.md are those that there are."""

from __future__ import annotations

import re

from airflow_samza import DEAD_LETTERS
from tests.support.documentation_pages import text_of


def test_the_columns_of_a_dead_letter_are_those_of_the_page() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", text_of("how-to/bad-records.md"), flags=re.MULTILINE)
    assert rows == [(field.name, field.type.ddl()) for field in DEAD_LETTERS.fields]
