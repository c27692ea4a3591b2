"""The sentences of docs/how-to/windows.md about aggregations are true."""

from __future__ import annotations

from airflow_samza.application.windows import AGGREGATE_FUNCTIONS
from tests.support.documentation_pages import text_of


def test_every_aggregation_is_named() -> None:
    assert all(f"`{function}" in text_of("how-to/windows.md") for function in AGGREGATE_FUNCTIONS)
