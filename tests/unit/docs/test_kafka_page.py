"""The page on Kafka shows the Dag and the application that tests run."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.documentation_pages import text_of

ROOT = Path(__file__).parents[3]


def test_the_code_is_that_of_the_files() -> None:
    shown = re.findall(r"<!-- part of (.*?) -->\n```python\n(.*?)```", text_of("how-to/kafka.md"), re.DOTALL)
    assert [file for file, _ in shown] == ["dags/pipelines/kafka.py", "dags/kafka_hourly.py"]
    assert [file for file, code in shown if code not in (ROOT / file).read_text()] == []
