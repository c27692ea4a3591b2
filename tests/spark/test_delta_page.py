"""The first table of the page on Delta, read on Spark by the command line as users have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.delta_page import check_first_table


@pytest.mark.spark
@pytest.mark.nightly
def test_the_first_table_is_read_on_spark(tmp_path: Path) -> None:
    check_first_table(["-c", "from airflow_samza.cli import main; main()"], tmp_path)
