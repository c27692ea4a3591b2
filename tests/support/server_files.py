"""Files whose tests need a server, written down where all tests are collected: those on servers are collected from them alone.

A plugin of pytest, for ``python -m tests``. Each of its processes would collect the tests of a thousand files.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SERVERS = ("spark", "airflow", "browser", "hdfs", "kafka", "kubernetes")
"""The marks of tests that need a server."""

WRITTEN = "TESTS_ON_SERVERS"
"""The variable with the path of the file that is written."""


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Write the names of the files, a line each; of several processes the first does."""
    path = os.environ.get(WRITTEN)
    if path and getattr(config, "workerinput", {}).get("workerid", "gw0") == "gw0":
        files = {item.nodeid.partition("::")[0] for item in items if any(map(item.get_closest_marker, SERVERS))}
        Path(path).write_text("".join(f"{file}\n" for file in sorted(files)), encoding="utf-8")
