"""Tables that are pushed to, and a function that makes rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_samza import condition, fresh, not_null, rows, stream_application


@dataclass(frozen=True)
class Member:
    member_id: int
    tier: str | None


@dataclass(frozen=True)
class View:
    member_id: int


def the_member(view: View, member: Member) -> Member:
    return member


@stream_application("pushed")
def pushed(app: Any) -> None:
    tables = [app.pushed_table(name, key="member_id", schema=Member, partitions=4) for name in NAMES]
    app.local_table("own", key="member_id", schema=Member)
    app.pushed_table("odd", key="member_id", schema="member_id bigint, `__latest_by` string", partitions=4)
    app.pushed_table("wide", key="member_id", schema=WIDE, partitions=4)
    app.pushed_table(
        "checked",
        key="member_id",
        schema="member_id bigint, tier string, at timestamp, amount decimal(12,2)",
        partitions=4,
        expect=[
            not_null("tier", on_error="drop"),
            condition("amount < 200", on_error="warn"),
            "amount >= 0",
            rows(at_least=1, change=0.5),
            fresh("at", "2 days"),
        ],
    )
    views = app.input_stream("views", schema=View, key="member_id", partitions=4)
    for name, table in zip(NAMES, tables, strict=True):
        views.join(table, the_member, id=f"with-{name}").send_to(app.output_stream(f"out-{name}"))


NAMES = ["t0"]
WIDE = (
    "member_id bigint, tier string, at timestamp, local timestamp_ntz, day date, amount decimal(12,2), "
    "share double, ok boolean, raw binary, tags array<string>, home struct<x:double,y:int>"
)


def members(spark: Any) -> Any:
    return spark.range(100).selectExpr("id AS member_id", "IF(id % 2 = 0, 'even', 'odd') AS tier")


def broken(spark: Any) -> Any:
    raise ValueError("no members today")
