"""A system of kind ``spark``, read and written, and an existing PySpark job that comes in by ``from_dataframe``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from airflow_samza import count, stream_application, sum_

VIEWS = "member_id bigint, country string, dwell_ms int"


@stream_application("spark-table-to-table")
def table_to_table(app: Any) -> None:
    views = app.input_stream("views", system="warehouse", schema=VIEWS, partitions=3, format="parquet", path="views")
    long = views.where("dwell_ms > 1000")
    long.send_to(
        app.output_stream(
            "long", system="warehouse", format="csv", path="out/long", options={"mode": "overwrite", "header": True}
        )
    )
    per_country = long.partition_by("country", id="by-country").aggregate(
        "country", views=count(), dwell=sum_("dwell_ms"), id="per-country"
    )
    per_country.send_to(app.output_stream("per-country", system="warehouse", options={"table": "per_country"}))


@stream_application("spark-keyed")
def keyed(app: Any) -> None:
    views = app.input_stream(
        "views", system="warehouse", schema=VIEWS, partitions=4, key="country", options={"query": "SELECT * FROM views"}
    )
    counted = views.aggregate("country", views=count(), id="per-country")
    counted.send_to(
        app.output_stream(
            "counted",
            system="warehouse",
            options={"table": "counted", "mode": "overwrite_partitions", "partition_by": "country"},
        )
    )


def busy_countries(spark: Any) -> Any:
    from pyspark.sql import functions

    return spark.table("views").groupBy("country").agg(functions.count("*").alias("views")).where("views > 1")


@stream_application("spark-existing-job")
def existing_job(app: Any) -> None:
    busy = app.from_dataframe(busy_countries, id="busy", schema="country string, views bigint", partitions=2)
    busy.select("upper(country) AS country", "views").send_to(
        app.output_stream("busy-out", system="warehouse", options={"table": "busy"})
    )


def thirds(spark: Any) -> Any:
    return spark.range(0, 90, 1, 4).selectExpr("id % 3 AS third", "id").groupBy("third").count()


@stream_application("spark-thirds")
def counted_thirds(app: Any) -> None:
    app.from_dataframe(thirds, id="thirds", schema="third bigint, count bigint").send_to(app.output_stream("out"))


@stream_application("spark-thirds-to-files")
def thirds_to_files(app: Any) -> None:
    counted = app.from_dataframe(thirds, id="thirds", schema="third bigint, count bigint", partitions=2)
    counted.send_to(
        app.output_stream("out", system="warehouse", format="parquet", path="thirds", options={"mode": "overwrite"})
    )


@stream_application("spark-columns-unsaid")
def columns_unsaid(app: Any) -> None:
    busy = app.from_dataframe(busy_countries, id="busy")
    busy.where("views > 10").send_to(app.output_stream("busy-out", system="lake", path="busy", format="json"))


@stream_application("spark-database")
def database(app: Any) -> None:
    members = app.input_stream("members", system="db", schema="ID bigint, NAME string", partitions=2)
    members.select("ID", "upper(NAME) AS NAME").send_to(
        app.output_stream("shouted", system="db", options={"mode": "overwrite"})
    )


@stream_application("spark-missing")
def missing(app: Any) -> None:
    app.input_stream("nowhere", system="warehouse", schema="a int").send_to(
        app.output_stream("o", system="lake", path="o", format="json")
    )


@stream_application("spark-other-columns")
def other_columns(app: Any) -> None:
    app.input_stream("views", system="warehouse", schema="member bigint").send_to(
        app.output_stream("o", system="lake", path="o", format="json")
    )


def failing(spark: Any) -> Any:
    raise ValueError("the job is broken")


@stream_application("spark-failing")
def failing_job(app: Any) -> None:
    app.from_dataframe(failing, id="broken", schema="a int").send_to(
        app.output_stream("o", system="lake", path="o", format="json")
    )


@stream_application("spark-copies")
def copies(app: Any) -> None:
    views = app.input_stream("views", system="warehouse", schema=VIEWS, format="parquet", path="views").where(
        "dwell_ms > 1000"
    )
    views.send_to(app.output_stream("appended", system="warehouse", format="parquet", path="appended"))
    views.send_to(
        app.output_stream(
            "replaced", system="warehouse", format="parquet", path="replaced", options={"mode": "overwrite"}
        )
    )


@stream_application("spark-declared-delta")
def declared_delta(app: Any) -> None:
    views = app.input_stream("views", system="warehouse", schema=VIEWS, format="parquet", path="views")
    views.send_to(app.output_stream("copy", system="db", format="delta", options={"table": "counted"}))


@stream_application("spark-nothing")
def nothing(app: Any) -> None:
    views = app.input_stream("views", system="warehouse", schema=VIEWS, format="parquet", path="views").where(
        "dwell_ms < 0"
    )
    views.send_to(
        app.output_stream("none", system="warehouse", format="parquet", path="none", options={"mode": "overwrite"})
    )
    views.send_to(app.output_stream("no-more", system="warehouse", format="parquet", path="no_more"))


@dataclass(frozen=True)
class View:
    member_id: int
    country: str
    dwell_ms: int


@dataclass(frozen=True)
class Country:
    country: str
    name: str | None


@dataclass(frozen=True)
class Named(View):
    name: str | None


NAMES = {"nl": "the Netherlands", "de": "Germany", "fr": "France"}


async def country_named(code: str) -> Country | None:
    return Country(code, NAMES[code]) if code in NAMES else None


def write_line(code: str, row: Country | None) -> None:
    with open(os.environ["SAMZA_SPARK_TEST_LINES"], "a", encoding="utf-8") as file:
        file.write(f"{code} {row and row.name}\n")


def named(view: View, country: Country | None) -> Named:
    return Named(view.member_id, view.country, view.dwell_ms, country.name if country else None)


@stream_application("spark-remote-table")
def remote_table(app: Any) -> None:
    views = app.input_stream("views", system="warehouse", schema=View, partitions=2, format="parquet", path="views")
    names = app.remote_table(
        "names", key="country", schema=Country, reader=country_named, concurrency=4, cache_rows=100
    )
    joined = views.join(names, named, how="left", id="with-name")
    joined.send_to(app.output_stream("named", system="warehouse", format="parquet", path="named"))
    written = app.remote_table("written", key="country", schema=Country, writer=write_line)
    joined.where("member_id < 8").select("country", "name").send_to(written)


class Piped:
    """A serde of the user's: ``id|country``."""

    def to_bytes(self, message: Any) -> bytes:
        return f"{message.member_id}|{message.country}".encode()

    def from_bytes(self, data: bytes) -> dict[str, Any]:
        number, _, country = data.decode().partition("|")
        return {"member_id": int(number), "country": country}


@stream_application("spark-bytes")
def table_of_bytes(app: Any) -> None:
    views = app.input_stream(
        "lines",
        system="warehouse",
        schema=VIEWS,
        key="country",
        partitions=2,
        format="text",
        path="lines",
        serde="json",
    )
    some = views.where("dwell_ms > 1000").select("member_id", "country")
    some.send_to(app.output_stream("piped", system="warehouse", format="parquet", path="piped", serde=Piped))
