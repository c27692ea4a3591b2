"""Applications of the tests of Spark Connect beside the contract.

Settings of a session, names in it, and several Catalyst sections.
"""

from __future__ import annotations

from typing import Any

from airflow_samza import stream_application
from samza_spark_apps.contract import Mark, hold


def through_a_view(name: str, other: str) -> Any:
    """A function that registers a view, and says whether it sees the other's."""

    def transformed(frame: Any) -> Any:
        from pyspark.sql import functions

        frame.withColumn("number", functions.col("number") + 10).createOrReplaceTempView(name)
        sees = "both" if frame.sparkSession.catalog.tableExists(other) else "own"
        return frame.sparkSession.sql(f"SELECT number, '{sees}' AS sees FROM {name}")

    return transformed


def cached(frame: Any) -> Any:
    return frame.cache()


def not_done(row: Any) -> bool:
    return bool(row["word"] in ("a", "b"))


@stream_application("connected")
def connected(app: Any) -> None:
    def marks(name: str, partitions: int = 2) -> Any:
        return app.input_stream(name, system="lake", schema=Mark, partitions=partitions, path="marks")

    def out(name: str) -> Any:
        return app.output_stream(f"{name}-out", system="lake", path=f"out/{name}", format="parquet")

    marks("zoned").select("number", "current_timezone() AS zone").send_to(out("zoned"))
    marks("cast").select("number", "CAST(regexp_replace(folder, '.+', 'x') AS int) AS nothing").send_to(out("cast"))
    marks("viewed").transform(through_a_view("one", "two"), id="through-one").send_to(out("viewed"))
    marks("viewed-too").transform(through_a_view("two", "one"), id="through-two").send_to(out("viewed-too"))
    marks("cached").transform(cached, id="in-a-cache").send_to(out("cached"))
    (
        marks("sections")
        .select("number", "regexp_replace(folder, '.+', 'a') AS word")
        .filter(not_done)
        .select("number", "regexp_replace(word, 'a', 'b') AS word")
        .filter(not_done)
        .select("number", "regexp_replace(word, 'b', 'c') AS word")
        .send_to(out("sections"))
    )
    marks("held", partitions=1).filter(hold).send_to(out("held"))
