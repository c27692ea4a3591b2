"""Premises of ``make test``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

SERVERS = {"spark", "airflow", "browser", "hdfs", "kafka"}


def test_no_test_of_this_folder_starts_a_server_as_make_test_looks_for_them_elsewhere(
    left_out: Sequence[pytest.Item],
) -> None:
    ours = [item for item in left_out if Path(__file__).parent in item.path.parents]
    assert [item.nodeid for item in ours if SERVERS & {mark.name for mark in item.iter_markers()}] == []
