"""Flights that the example's model has scored, and the right scores of a day by the model of another."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dags.pipelines.delay_model import train

FIRST = date(2013, 3, 4)
"""A Monday of which no other test knows."""


def day(number: int) -> date:
    return FIRST + timedelta(days=number)


def moment(number: int) -> datetime:
    return datetime.combine(day(number), datetime.min.time(), timezone.utc)


Row = tuple[Any, ...]


def flights_of(data: Path, number: int) -> list[Row]:
    """Every flight of a day."""
    rows: list[Row] = duckdb.execute(
        f"SELECT carrier, flight, origin, hour FROM read_parquet('{data}/flights/{day(number)}.parquet') ORDER BY ALL"
    ).fetchall()
    return rows


def scores_in(folder: Path) -> list[Row]:
    rows: list[Row] = duckdb.execute(
        f"SELECT carrier, flight, origin, hour, late, trained_to FROM read_parquet('{folder}/*.parquet') ORDER BY ALL"
    ).fetchall()
    return rows


def scored_by(data: Path, flights_day: int, model_day: int) -> list[Row]:
    """The model's scores of a day for the flights of another, computed anew."""
    return scored_with(train(data, day(model_day)), data, flights_day)


def scored_with(rows: list[dict[str, Any]], data: Path, flights_day: int) -> list[Row]:
    """The scores of a day's flights by the weights of a model."""
    weights = {row["carrier"]: row for row in rows}
    found: list[Row] = []
    for flight in flights_of(data, flights_day):
        known = weights.get(flight[0])
        late = 1 / (1 + math.exp(-(known["bias"] + known["per_hour"] * flight[3]))) if known else None
        found.append((*flight, late, known["trained_to"] if known else None))
    return sorted(found, key=repr)


def is_scored(folder: Path, right: list[Row]) -> bool:
    """Return True if a folder holds just these scores.

    A model that is trained twice comes out alike but for the last digits.
    """
    found = sorted(scores_in(folder), key=repr)
    assert len(found) == len(right)
    for got, wanted in zip(found, right, strict=True):
        assert (*got[:4], got[5]) == (*wanted[:4], wanted[5])
        assert got[4] == pytest.approx(wanted[4], rel=1e-9)
    return True
