"""Spark sorts keys as Python does: by that order tasks look for the rows of long pushed tables (decision 124)."""

from __future__ import annotations

import random
from datetime import date, timedelta
from typing import Any

import pytest

pytestmark = [pytest.mark.extended, pytest.mark.spark]

LETTERS = "azAZ09 _-äßÑøЖ漢字\ud7ff\ue000\uffee\U00010000\U0001f600\x00\x01"


@pytest.mark.parametrize("seed", range(3))
def test_keys_of_spark_are_in_the_order_of_python(spark: Any, seed: int) -> None:
    choose = random.Random(seed)
    keys = [
        (
            "".join(choose.choices(LETTERS, k=choose.randrange(5))),
            choose.randrange(-(2**63), 2**63),
            date(1970, 1, 1) + timedelta(days=choose.randrange(-9000, 9000)),
        )
        for _ in range(2000)
    ]
    rows = spark.createDataFrame(keys, "text string, number bigint, day date").repartition(1)
    for columns in (["text", "number"], ["number"], ["day", "text"]):
        picked = sorted(tuple(row) for row in rows.select(columns).collect())
        assert [tuple(row) for row in rows.select(columns).sortWithinPartitions(columns).collect()] == picked
