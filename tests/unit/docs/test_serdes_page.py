"""The serdes that docs/how-to/serdes.md names are those that there are."""

from __future__ import annotations

import re

from airflow_samza.application.declarations.serdes import AVRO, BYTES, JSON, STRING
from tests.support.documentation_pages import text_of


def test_every_serde_stands_on_the_page() -> None:
    first = re.findall(r'^\| `"([\w:]+)', text_of("how-to/serdes.md"), flags=re.MULTILINE)
    assert [word.split(":")[0] for word in first[:4]] == [JSON, STRING, BYTES, AVRO.rstrip(":")]
