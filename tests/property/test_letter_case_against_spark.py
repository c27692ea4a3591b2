"""``upper`` and ``lower`` map every code point as Spark does, alone and beside a Σ, of which the neighbours decide the form."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.schema import Schema
from airflow_samza.task.expressions.letter_case import CASED, IGNORABLE
from tests.support.referee import SCALE, Referee

pytestmark = [pytest.mark.extended, pytest.mark.spark]

SCHEMA = Schema.of("x string")
EVERY = [point for point in range(1, 0x110000) if not 0xD800 <= point < 0xE000]
NEIGHBOURS = [
    *("upper(x)", "lower(x)", "lower(concat('aΣ', x))", "lower(concat('aΣ', x, 'b'))"),
    *("lower(concat(x, 'Σ'))", "lower(concat('a', x, 'Σ'))"),
]


def changes(point: int) -> bool:
    """Return True if a code point has a case, or the rule of the final Σ knows it."""
    letter = chr(point)
    return letter.upper() != letter or letter.lower() != letter or point in CASED or point in IGNORABLE


def test_every_letter_has_sparks_case(spark: Any) -> None:
    known = [point for point in EVERY if changes(point)]
    # In the short run every letter that has a case, what stands beside it, and one in four hundred of the rest.
    points = EVERY if SCALE > 1 else sorted({*known, *(point + 1 for point in known), *EVERY[::400]} & set(EVERY))
    for start in range(0, len(points), 100_000):
        batch = pa.record_batch(
            [pa.array([chr(point) for point in points[start : start + 100_000]])], schema=SCHEMA.to_arrow()
        )
        assert Referee(spark, batch, SCHEMA).check(NEIGHBOURS) == len(NEIGHBOURS)


def test_words_have_sparks_case(spark: Any) -> None:
    words = [
        "Straße",
        "İstanbul",
        "ΟΔΥΣΣΕΥΣ",
        "ΑΣ.Σ ΣΑ",
        "ﬁn ǅ",
        "ʼn",
        "ΑΣ\u0301",
        "Σ",
        "ΣΣ",
        "aΣ\u00ad\u0301b",
        "𐐷Σ",
        "",
        "I\u0307",
        None,
    ]
    batch = pa.record_batch([pa.array(words, pa.string())], schema=SCHEMA.to_arrow())
    texts = ["upper(x)", "lower(x)", "upper(lower(x))", "lower((upper(x)))", "x ILIKE '%σ%'", "upper(x) ILIKE '%ss%'"]
    assert Referee(spark, batch, SCHEMA).check(texts) == len(texts)
