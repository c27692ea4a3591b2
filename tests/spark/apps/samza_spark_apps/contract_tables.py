"""Tables that the contract of sessions pushes.

A table, the functions that make its rows, and an application that looks them up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow_samza import stream_application
from samza_spark_apps.contract import Mark, hold

TIER = "member_id bigint, tier string"


@stream_application("kept", default_system="log")
def kept(app: Any) -> None:
    """Views beside the pushed tiers of their members, which lie as the views do, and rates, which every task has whole."""
    views = app.input_stream("views", schema="member_id bigint, page string", key="member_id", partitions=2)
    tiers = app.pushed_table("tiers", key="member_id", schema=TIER, partitions=2)
    changes = app.side_input("rate-changes", schema="page string, rate bigint", broadcast=True)
    rates = app.table("rates", key="page", side_inputs=[changes])
    rated = views.join(tiers, id="with-tier").join(rates, key="page", id="with-rate")
    rated.send_to(app.output_stream("rated", key="member_id"))


def held(spark: Any) -> Any:
    """Eight members, whom a worker holds until the test lets it go."""
    from contract_rules import FOLDER  # type: ignore[import-not-found]

    def rows(batches: Iterator[Any]) -> Iterator[Any]:
        hold(Mark(0, FOLDER))
        yield from batches

    return spark.range(0, 8, 1, 1).selectExpr("id AS member_id", "'iron' AS tier").mapInArrow(rows, TIER)


def broken(spark: Any) -> Any:
    """Members who make the worker that reads them fail."""

    def rows(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            raise ValueError(f"{batch.num_rows} of them never were")
        yield from ()

    return spark.range(0, 8, 1, 1).mapInArrow(rows, TIER)
