"""Values that are kept per key come out with their own key, in whatever order Arrow gives its groups."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest

from airflow_samza import collect, count_distinct, stream_application
from airflow_samza.testing import TestDriver
from tests.support.budgets import extended_but


def describe(app: Any) -> None:
    rows = app.input_stream("rows", schema="g int, k string, i bigint")
    values = rows.aggregate(["g", "k"], id="values", different=count_distinct("i"), all=collect("i"))
    values.send_to(app.output_stream("out"))


@pytest.mark.parametrize("seed", extended_but(range(8), range(40)))
def test_distinct_and_collected_values_belong_to_their_key(seed: int) -> None:
    rng = random.Random(seed)
    rows: list[dict[str, Any]] = [
        {"g": rng.choice([0, 1, 2, None]), "k": rng.choice(["a", "b", "c", None]), "i": rng.choice([None, 1, 2, 3])}
        for _ in range(40)
    ]
    expected: dict[Any, list[int]] = defaultdict(list)
    for row in rows:
        expected[row["g"], row["k"]] += [row["i"]] if row["i"] is not None else []
    found = TestDriver(stream_application("values")(describe)).pipe("rows", rows).run().output("out")
    assert {(row.g, row.k): (row.different, row.all) for row in found} == {
        key: (len(set(values)), values) for key, values in expected.items()
    }
