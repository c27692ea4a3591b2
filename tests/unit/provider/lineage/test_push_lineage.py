"""Columns of a pushed table by those of its source."""

from __future__ import annotations

import pytest

from airflow_samza.provider.lineage.task_lineage import _columns
from airflow_samza.schema import Schema


@pytest.mark.parametrize(
    ("schema", "columns"),
    [(Schema.of("id bigint, score double"), None), (None, ["id", "score"])],
    ids=["declared", "given"],
)
def test_columns_that_are_known_come_from_those_of_the_same_name(
    schema: Schema | None, columns: list[str] | None
) -> None:
    found = _columns(schema, columns)
    assert found is not None
    assert {name: {source.column for source in sources} for name, sources in found.columns.items()} == {
        "id": {"id"},
        "score": {"score"},
    }


def test_columns_that_only_the_source_knows_have_no_lineage() -> None:
    assert _columns(None, None) is None
