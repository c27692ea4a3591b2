"""Tables of Iceberg that Spark's own connector writes, with each epoch published twice: none is appended again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.iceberg_by_spark import published_twice


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_an_epoch_that_a_snapshot_is_of_is_not_appended_to_a_table_of_iceberg_again(tmp_path: Path) -> None:
    found = published_twice(tmp_path)
    numbers = list(range(15))
    assert found == {
        "a table that is there": [numbers, 3, False],
        "a table that Spark makes": [numbers, 3, False],
        "a table that is replaced": [numbers, 2, True],
    }
