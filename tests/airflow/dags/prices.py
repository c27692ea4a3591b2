"""Sales with their prices: a topic of sales, and a pushed table of prices, of which one source can be held up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from interference import hold  # type: ignore[import-not-found]

from airflow_samza import stream_application

PRICES = "item string, price bigint"


@dataclass(frozen=True)
class Sale:
    """Something was sold."""

    number: int
    item: str


@dataclass(frozen=True)
class Price:
    """The price of an item."""

    item: str
    price: int


@dataclass(frozen=True)
class Sold:
    """A sale with the price of its moment; null when there is none."""

    number: int
    item: str
    price: int | None


def priced(sale: Sale, price: Price | None) -> Sold:
    """The sale with its price."""
    return Sold(sale.number, sale.item, price.price if price else None)


@stream_application("prices")
def prices(app: Any) -> None:
    """Goes on until it is drained."""
    sales = app.input_stream("sales", system="log", schema=Sale, key="item", partitions=1, bounded=False)
    table = app.pushed_table("prices", key="item", schema=Price, partitions=1)
    sales.join(table, priced, how="left", id="price").send_to(
        app.output_stream("sold", system="warehouse", schema=Sold, path="sold/{run_id}")
    )


def held_prices(spark: Any) -> Any:
    """Rows that come only when they are let go."""

    def wait(batches: Iterator[Any]) -> Iterator[Any]:
        hold("prices")
        yield from batches

    return spark.createDataFrame([("tea", 30), ("milk", 3)], PRICES).mapInArrow(wait, PRICES)
