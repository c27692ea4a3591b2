"""The page on HDFS: its example runs as it stands, on a real one."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from demo.hdfs import Hdfs

pytestmark = pytest.mark.hdfs

PAGE = Path(__file__).parents[2] / "docs" / "how-to/hadoop.md"


def test_the_example_prints_what_the_page_says(cluster: Hdfs, place: str) -> None:
    found = re.search(r"<!-- example -->\n```python\n(.*?)```\n+```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    code = found[1].replace("webhdfs://localhost:9870/samza", f"{cluster.webhdfs}{place}")
    assert code != found[1]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(PAGE), "exec"), {})
    assert printed.getvalue() == found[2]
