"""The keys of docs/operate/affinity.md are ours."""

from __future__ import annotations

import re

from airflow_samza import config
from tests.support.documentation_pages import text_of


def test_the_keys_on_the_page_are_read() -> None:
    named = set(re.findall(r"^\| `([\w.-]+)` \|", text_of("operate/affinity.md"), flags=re.MULTILINE))
    assert named == {
        config.HOST_AFFINITY,
        config.HOST_AFFINITY_BEFORE,
        config.STANDBY_REPLICATION,
        config.STORE_LOCAL_DIR,
    }
