"""The work of :mod:`benchmarks.kafka` in PyFlink's Table API: ``python kafka_flink.py ADDRESS CORES OUT JAR…``."""

from __future__ import annotations

import csv
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from kafka_work import SLOW_MS
from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment
from serving import Pages, serve


def main(address: str, cores: str, out: str, *jars: str) -> None:
    """Serve requests."""
    settings = Configuration()
    settings.set_string("parallelism.default", cores)
    settings.set_string("taskmanager.numberOfTaskSlots", cores)
    settings.set_string("pipeline.jars", ";".join(Path(jar).resolve().as_uri() for jar in jars))
    settings.set_string("pipeline.object-reuse", "true")
    tables = TableEnvironment.create(
        EnvironmentSettings.new_instance().in_batch_mode().with_configuration(settings).build()
    )

    def work(format_: str, topic: str, messages: int) -> Callable[[], Pages]:
        shutil.rmtree(out, ignore_errors=True)
        for table in ("page_views", "per_page"):
            tables.execute_sql(f"DROP TEMPORARY TABLE IF EXISTS {table}")
        tables.execute_sql(
            "CREATE TEMPORARY TABLE page_views (member_id BIGINT NOT NULL, page_id INT NOT NULL, ts BIGINT NOT NULL, "
            "country STRING NOT NULL, dwell_ms INT NOT NULL) WITH ('connector' = 'kafka', "
            f"'topic' = '{topic}', 'properties.bootstrap.servers' = '{address}', 'format' = '{format_}', "
            "'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset')"
        )
        tables.execute_sql(
            "CREATE TEMPORARY TABLE per_page (page_id INT, slow_views BIGINT, millis BIGINT) WITH "
            f"('connector' = 'filesystem', 'path' = '{Path(out).resolve().as_uri()}', 'format' = 'csv')"
        )
        # Into files: rows that come through Python's gateway one by one would take longer than the work.
        tables.execute_sql(
            "INSERT INTO per_page SELECT page_id, count(*), sum(cast(dwell_ms AS BIGINT)) FROM page_views "
            f"WHERE dwell_ms > {SLOW_MS} GROUP BY page_id"
        ).wait()
        return results

    def results() -> Pages:
        for file in Path(out).rglob("*"):
            if file.is_file():
                with open(file, newline="") as lines:
                    yield from ((int(page), int(views), int(millis)) for page, views, millis in csv.reader(lines))

    serve(work)


if __name__ == "__main__":
    main(*sys.argv[1:])
