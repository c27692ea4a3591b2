"""Queries over an auction house: the ten of Nexmark that come up every day, each as an application.

`Nexmark <https://github.com/nexmark/nexmark>`_ is a benchmark of stream processing over people who register, auctions
that they open, and bids. The names (``q0``, ``q1``, …) are its own. ``python -m benchmarks.nexmark_events DIR`` makes
events. With ``unbounded=true`` in the configuration, an application follows files that keep coming; otherwise it
reads those that are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_samza import avg, count, hopping, max_, min_, session, stream_application, sum_, tumbling


@dataclass(frozen=True)
class Person:
    """Somebody who has registered."""

    id: int
    name: str
    email: str
    city: str
    state: str
    at: datetime


@dataclass(frozen=True)
class Auction:
    """An item for sale, from ``at`` until it ``expires``; prices are in cents."""

    id: int
    item: str
    initial_bid: int
    reserve: int
    seller: int
    category: int
    at: datetime
    expires: datetime


@dataclass(frozen=True)
class Bid:
    """An offer for an item, in cents."""

    auction: int
    bidder: int
    price: int
    at: datetime
    extra: str


def events(app: Any, name: str, schema: type) -> Any:
    """Return people, auctions or bids."""
    more: dict[str, Any] = {}
    if app.config.get("unbounded") == "true":
        files = app.config.get("files", "1000")  # of one look at the folder
        more = {"slice": "checkpoint", "options": {"order": "name", "max_files": files}, "max_delay": "4 seconds"}
    return app.input_stream(name, system="house", schema=schema, path=name, partitions=2, timestamp="at", **more)


def people(app: Any) -> Any:
    """Return the people who register."""
    return events(app, "people", Person)


def auctions(app: Any) -> Any:
    """Return the auctions that are opened."""
    return events(app, "auctions", Auction)


def bids(app: Any) -> Any:
    """Return the bids."""
    return events(app, "bids", Bid)


def result(app: Any) -> Any:
    """Return the output."""
    return app.output_stream("result", system="results", format="parquet")


@stream_application("nexmark-q0")
def q0(app: Any) -> None:
    """Every bid, as it came."""
    bids(app).send_to(result(app))


@stream_application("nexmark-q1")
def q1(app: Any) -> None:
    """Every bid, with its price in euros."""
    bids(app).select("auction", "bidder", "0.908 * price AS price", "at", "extra").send_to(result(app))


@stream_application("nexmark-q2")
def q2(app: Any) -> None:
    """The bids for some of the items."""
    bids(app).where("auction % 123 = 0").select("auction", "price").send_to(result(app))


@stream_application("nexmark-q3")
def q3(app: Any) -> None:
    """People of three states who sell something of category 10: each side waits for the other as long as a year."""
    sellers = people(app).where("state IN ('OR', 'ID', 'CA')").select("id AS person", "name", "city", "state", "at")
    sold = auctions(app).where("category = 10").select("id", "seller", "at AS opened")
    (
        sellers.partition_by("person", id="by-person")
        .join(
            sold.partition_by("seller", id="by-seller"),
            left_key="person",
            right_key="seller",
            ttl="365 days",
            id="sells",
        )
        .select("name", "city", "state", "id")
        .send_to(result(app))
    )


@stream_application("nexmark-q4")
def q4(app: Any) -> None:
    """The mean price, by category, at which items are sold: their highest bid while the auction was open."""
    opened = auctions(app).select("id", "category", "at AS opened", "expires")
    (
        bids(app)
        .select("auction", "price", "at")
        .partition_by("auction", id="bids-by-auction")
        .join(
            opened.partition_by("id", id="auctions-by-id"),
            left_key="auction",
            right_key="id",
            ttl="1 hour",  # no auction is open for longer
            id="bids-with-auction",
        )
        .where("at BETWEEN opened AND expires")
        .aggregate(["auction", "category"], price=max_("price"), id="winning")
        .partition_by("category", id="by-category")
        .aggregate("category", price=avg("price"), id="mean")
        .send_to(result(app))
    )


@stream_application("nexmark-q5")
def q5(app: Any) -> None:
    """The items with the most bids in the last ten seconds, every two seconds."""
    per_item = (
        bids(app)
        .partition_by("auction", id="by-auction")
        .window(hopping("10 seconds", "2 seconds"), key="auction", bids=count(), id="bids-per-item")
        .select("auction", "bids", "window_start AS begins")
        .partition_by("begins", id="by-window")
    )
    most = per_item.window(tumbling("2 seconds"), key="begins", most=max_("bids"), id="most-bids")
    (
        per_item.join(most.select("begins", "most", "window_start"), key="begins", ttl="1 second", id="beside-most")
        .where("bids = most")
        .select("begins", "auction", "bids")
        .send_to(result(app))
    )


@stream_application("nexmark-q7")
def q7(app: Any) -> None:
    """The highest bid of every ten seconds."""
    all_bids = bids(app)
    highest = (
        all_bids.window(tumbling("10 seconds"), highest=max_("price"), id="highest-of-task")
        .select("window_start AS begins", "highest")
        .partition_by("begins", id="by-window")
        .window(tumbling("10 seconds"), key="begins", highest=max_("highest"), id="highest")
        .select("window_start", "window_end", "highest")
    )
    (
        all_bids.partition_by("price", id="by-price")
        .join(
            highest.partition_by("highest", id="by-highest"),
            left_key="price",
            right_key="highest",
            ttl="10 seconds",
            id="at-the-highest",
        )
        .where("at BETWEEN window_start AND window_end")
        .select("auction", "bidder", "price", "at", "extra")
        .send_to(result(app))
    )


@stream_application("nexmark-q8")
def q8(app: Any) -> None:
    """People who open an auction in the ten seconds in which they register."""
    ten_seconds = tumbling("10 seconds")
    registered = people(app).partition_by("id", id="people-by-id")
    selling = auctions(app).partition_by("seller", id="auctions-by-seller")
    new = registered.window(ten_seconds, key=["id", "name"], times=count(), id="new").select(
        "id", "name", "window_start"
    )
    sells = selling.window(ten_seconds, key="seller", auctions=count(), id="sells").select(
        "seller", "window_start AS begins"
    )
    (
        new.join(sells, left_key="id", right_key="seller", ttl="1 second", id="new-sellers")
        .select("id", "name", "window_start AS begins")
        .send_to(result(app))
    )


@stream_application("nexmark-q11")
def q11(app: Any) -> None:
    """Bids that people make at a stretch, without a pause of more than ten seconds."""
    (
        bids(app)
        .partition_by("bidder", id="by-bidder")
        .window(session("10 seconds"), key="bidder", bids=count(), id="stretches")
        .send_to(result(app))
    )


@stream_application("nexmark-q17")
def q17(app: Any) -> None:
    """Figures of every item and day: its bids, cheap and dear ones, and their prices."""
    (
        bids(app)
        .select(
            "auction",
            "cast(at AS date) AS day",
            "price",
            "if(price < 10000, 1, 0) AS cheap",
            "if(price >= 1000000, 1, 0) AS dear",
        )
        .partition_by("auction", id="by-auction")
        .aggregate(
            ["auction", "day"],
            bids=count(),
            cheap=sum_("cheap"),
            dear=sum_("dear"),
            lowest=min_("price"),
            highest=max_("price"),
            mean=avg("price"),
            total=sum_("price"),
            id="per-day",
        )
        .send_to(result(app))
    )


QUERIES = {"q0": q0, "q1": q1, "q2": q2, "q3": q3, "q4": q4, "q5": q5, "q7": q7, "q8": q8, "q11": q11, "q17": q17}
"""By name, in Nexmark's order."""
