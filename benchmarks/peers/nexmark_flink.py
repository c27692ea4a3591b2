"""Nexmark's queries in Flink SQL.

``python nexmark_flink.py EVENTS CORES`` serves requests ``QUERY-batch OUT EVENTS`` and ``QUERY-streaming OUT EVENTS``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from nexmark_queries import FLINK
from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment
from serving import Pages, serve

COLUMNS = {
    "people": "id BIGINT, name STRING, email STRING, city STRING, state STRING, `at` TIMESTAMP_LTZ(3)",
    "auctions": (
        "id BIGINT, item STRING, initial_bid BIGINT, reserve BIGINT, seller BIGINT, category BIGINT, "
        "`at` TIMESTAMP_LTZ(3), expires TIMESTAMP_LTZ(3)"
    ),
    "bids": "auction BIGINT, bidder BIGINT, price BIGINT, `at` TIMESTAMP_LTZ(3), extra STRING",
}

_BID = "BIGINT, BIGINT, {}, TIMESTAMP_LTZ(3), STRING"

RESULTS = {
    "q0": _BID.format("BIGINT"),
    "q1": _BID.format("DECIMAL(24,3)"),
    "q2": "BIGINT, BIGINT",
    "q3": "STRING, STRING, STRING, BIGINT",
    "q4": "BIGINT, DOUBLE",
    "q5": "TIMESTAMP(3), BIGINT, BIGINT",
    "q7": _BID.format("BIGINT"),
    "q8": "BIGINT, STRING, TIMESTAMP(3)",
    "q11": "BIGINT, TIMESTAMP(3), TIMESTAMP(3), BIGINT",
}
"""Types of the columns of results."""


def main(events: str, cores: str) -> None:
    """Serve requests."""

    def environment(mode: str) -> TableEnvironment:
        settings = Configuration()
        settings.set_string("parallelism.default", cores)
        settings.set_string("taskmanager.numberOfTaskSlots", cores)
        settings.set_string("pipeline.object-reuse", "true")
        settings.set_string("table.local-time-zone", "UTC")
        builder = EnvironmentSettings.new_instance().with_configuration(settings)
        built = (builder.in_batch_mode() if mode == "batch" else builder.in_streaming_mode()).build()
        tables = TableEnvironment.create(built)
        for name, columns in COLUMNS.items():
            tables.execute_sql(
                f"CREATE TEMPORARY TABLE {name} ({columns}, made AS `at`, "
                "WATERMARK FOR made AS made - INTERVAL '1' HOUR) WITH ('connector' = 'filesystem', "
                f"'path' = '{Path(events, name).as_uri()}', 'format' = 'json', "
                "'json.timestamp-format.standard' = 'ISO-8601')"
            )
        return tables

    environments = {mode: environment(mode) for mode in ("batch", "streaming")}

    def work(name: str, out: str, count: int) -> Callable[[], Pages]:
        query, _, mode = name.partition("-")
        tables = environments[mode]
        columns = ", ".join(f"c{place} {kind}" for place, kind in enumerate(RESULTS[query].split(", ")))
        tables.execute_sql("DROP TEMPORARY TABLE IF EXISTS results")
        tables.execute_sql(
            f"CREATE TEMPORARY TABLE results ({columns}) WITH ('connector' = 'filesystem', "
            f"'path' = '{Path(out).as_uri()}', 'format' = 'csv', 'sink.rolling-policy.file-size' = '1GB')"
        )
        tables.execute_sql(f"INSERT INTO results {FLINK[query]}").wait()
        return lambda: ()

    serve(work)


if __name__ == "__main__":
    main(*sys.argv[1:])
