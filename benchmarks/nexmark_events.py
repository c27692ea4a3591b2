"""Makes the events of an auction house, the same for the same number: people, auctions and bids, in the order of time.

``python -m benchmarks.nexmark_events DIR [--events 1000000] [--files 20]`` writes ``DIR/people``, ``DIR/auctions`` and
``DIR/bids``, each with so many Parquet files. As in Nexmark's own generator, one of 50 events is a person, three are
auctions, 46 bids; some auctions, sellers and bidders are hot; and some events name people and auctions that come later.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

START_MS = 1_767_225_600_000
"""2026-01-01 in UTC."""

FIRST_ID = 1000
FIRST_CATEGORY = 10
CATEGORIES = 5
PLACES = {
    "AZ": ("Phoenix",),
    "CA": ("Los Angeles", "San Francisco"),
    "ID": ("Boise",),
    "OR": ("Portland", "Bend"),
    "WA": ("Redmond", "Seattle", "Kent"),
    "WY": ("Cheyenne",),
}
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")

_EVERY = 50
"""Of so many events one is a person, and the next three are auctions."""

_AUCTIONS = 3
_OPEN = 100
"""Auctions that are open at a time."""

_ACTIVE = 1000
"""People who are active at a time."""

_AHEAD = 10
"""Ids that events name before these people or auctions are there."""

Numbers = np.ndarray[Any, np.dtype[np.int64]]


def house(events: int, *, per_second: int = 10_000, seed: int = 7) -> dict[str, pa.Table]:
    """Return people, auctions and bids, of which so many come per second of event time."""
    random = np.random.default_rng(seed)
    number = np.arange(events, dtype="int64")
    group, place = number // _EVERY, number % _EVERY
    at = START_MS + number * 1000 // per_second
    is_person, is_auction = place == 0, (place >= 1) & (place <= _AUCTIONS)
    is_bid = place > _AUCTIONS
    return {
        "people": _people(random, group[is_person], at[is_person]),
        "auctions": _auctions(
            random, group[is_auction], group[is_auction] * _AUCTIONS + place[is_auction] - 1, at[is_auction], per_second
        ),
        "bids": _bids(random, group[is_bid], at[is_bid]),
    }


def _people(random: np.random.Generator, person: Numbers, at: Numbers) -> pa.Table:
    cities = [(city, state) for state, names in PLACES.items() for city in names]
    names = [f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES]
    name, lives = random.integers(0, len(names), len(person)), random.integers(0, len(cities), len(person))
    ids = person + FIRST_ID
    return pa.table(
        {
            "id": ids,
            "name": pa.array(names).take(pa.array(name)),
            "email": pc.binary_join_element_wise(pa.array(ids).cast("string"), "example.org", "@"),
            "city": pa.array([city for city, _ in cities]).take(pa.array(lives)),
            "state": pa.array([state for _, state in cities]).take(pa.array(lives)),
            "at": _times(at),
        }
    )


def _auctions(random: np.random.Generator, group: Numbers, auction: Numbers, at: Numbers, per_second: int) -> pa.Table:
    count = len(auction)
    in_flight_ms = max(_OPEN * _EVERY * 1000 // _AUCTIONS // per_second, 1)  # until so many more are there
    initial = _prices(random, count)
    return pa.table(
        {
            "id": auction + FIRST_ID,
            "item": pc.binary_join_element_wise("item", pa.array(auction).cast("string"), " "),
            "initial_bid": initial,
            "reserve": initial + _prices(random, count),
            "seller": _somebody(random, group, 0),
            "category": random.integers(0, CATEGORIES, count) + FIRST_CATEGORY,
            "at": _times(at),
            "expires": _times(at + 1 + random.integers(0, 2 * in_flight_ms, count)),
        }
    )


def _bids(random: np.random.Generator, group: Numbers, at: Numbers) -> pa.Table:
    count, last = len(group), group * _AUCTIONS + _AUCTIONS - 1
    hot = last // _OPEN * _OPEN
    least = np.maximum(last - _OPEN, 0)
    other = least + (random.random(count) * (last - least + 1 + _AHEAD)).astype("int64")
    auction = np.where(random.random(count) < 0.5, hot, other) + FIRST_ID
    return pa.table(
        {
            "auction": auction,
            "bidder": _somebody(random, group, 1),
            "price": _prices(random, count),
            "at": _times(at),
            "extra": pa.array(random.integers(10**17, 10**18, count)).cast("string"),
        }
    )


def _somebody(random: np.random.Generator, last: Numbers, hot: int) -> Numbers:
    """Return ids of people: three of four are the hot one of the last hundred, the others active ones."""
    count, least = len(last), np.maximum(last - _ACTIVE, 0)
    other = least + (random.random(count) * (last - least + 1 + _AHEAD)).astype("int64")
    found: Numbers = np.where(random.random(count) < 0.75, last // 100 * 100 + hot, other) + FIRST_ID
    return found


def _prices(random: np.random.Generator, count: int) -> Numbers:
    """Return cents, from one dollar to a million, as many of each number of digits."""
    found: Numbers = np.round(10 ** (random.random(count) * 6) * 100).astype("int64")
    return found


def _times(at: Numbers) -> pa.Array:
    return pa.array(at).cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))


def write(folder: Path, tables: dict[str, pa.Table], files: int) -> None:
    """Write the events, each kind as so many files that follow each other in time."""
    for name, rows in tables.items():
        (folder / name).mkdir(parents=True)
        for part in range(files):
            begin, end = part * rows.num_rows // files, (part + 1) * rows.num_rows // files
            pq.write_table(rows.slice(begin, end - begin), folder / name / f"{part:04d}.parquet")


def main() -> None:
    """Write the events."""
    parser = argparse.ArgumentParser(description="Makes the events of an auction house.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--per-second", type=int, default=10_000, help="events per second of event time")
    parser.add_argument("--files", type=int, default=20)
    asked = parser.parse_args()
    write(asked.folder, house(asked.events, per_second=asked.per_second), asked.files)


if __name__ == "__main__":
    main()
