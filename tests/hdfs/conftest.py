"""Fixtures of the tests over a real HDFS; the HDFS itself is a fixture of all tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from demo.hdfs import Hdfs


@pytest.fixture
def cluster(hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch) -> Hdfs:
    """The HDFS, with Hadoop's own environment for this process and those that it starts."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf_dir))
    return hdfs


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A folder on HDFS for one test."""
    return f"/tests/{tmp_path.name}-{tmp_path.parent.name}"
