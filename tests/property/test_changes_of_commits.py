"""Changes as messages: applied in their order to former rows they give each later version, as the libraries read it."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.systems.system import ColumnBound, StreamSpec
from airflow_samza.systems.tables.inputs.change_columns import CHANGE, COMMIT, COMMITTED
from tests.support.budgets import share
from tests.support.table_histories import (
    COLUMNS,
    DeltaHistory,
    FeedHistory,
    History,
    IcebergHistory,
    Row,
    counted,
)

GONE = ("delete", "update_preimage")
KINDS = [IcebergHistory, DeltaHistory, FeedHistory]


def stream_of(history: History, until: str = "", partitions: int = 1) -> StreamSpec:
    stream: StreamSpec = history.lake.stream(partitions=partitions)
    return dataclasses.replace(stream, changes=True, up_to=(until,) if until else ())


def read_of(history: History, since: str) -> dict[str, Any] | None:
    """Return the record of a run that has read up to a version."""
    if not since:
        return None
    known: Mapping[str, Any] = history.system.arrived(stream_of(history), None)["known"]
    return {**known, history.word: since if history.word == "snapshot" else int(since)}


def numbers_of(history: History) -> dict[int, str]:
    """Return the versions by the numbers that changes have of their commits."""
    if isinstance(history, IcebergHistory):
        return {one.sequence_number or 0: str(one.snapshot_id) for one in history.table.metadata.snapshots}
    return {int(version): version for version in history.versions}


@pytest.mark.random
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(share(20, 2)))
def test_changes_lead_from_version_to_version(kind: type[History], seed: int, tmp_path: Path) -> None:
    history = kind(tmp_path, seed, back=False)
    some, numbers = list(history.versions), numbers_of(history)
    for since, until in [("", some[-1]), *itertools.pairwise(some), (some[0], some[-1])]:
        stream = stream_of(history, until, partitions=history.chance.choice([1, 3]))
        range_ = history.system.arrived(stream, read_of(history, since))
        rows = history.lake.rows_of(history.system, stream, range_=range_)
        assert range_["known"][history.word] in (until, int(until))
        now = counted(history.versions.get(since, []))
        for number, of_commit in itertools.groupby(rows, lambda row: row[COMMIT]):
            apply(list(of_commit), now, is_net=kind is not FeedHistory)
            if numbers[number] in history.versions:  # an overwrite of pyiceberg may be two snapshots
                assert +now == counted(history.versions[numbers[number]])
        assert +now == counted(history.versions[until])
        if since:
            assert [row[COMMIT] for row in rows] == sorted(row[COMMIT] for row in rows)
        check_pruning(history, stream, range_, rows)
        if kind is FeedHistory and since:
            assert with_kinds(rows) == feed_of(history, int(since) + 1, int(until))


def apply(rows: list[Row], table: Counter[str], *, is_net: bool) -> None:
    """Apply the changes of one commit to rows, one after the other: what is gone was there, and goes first."""
    kinds = [row[CHANGE] in GONE for row in rows]
    assert kinds == sorted(kinds, reverse=True)
    gone, come = (counted([row for row in rows if (row[CHANGE] in GONE) is one]) for one in (True, False))
    assert not is_net or not gone & come, "a row that was only written anew"
    for text, count in gone.items():
        assert table[text] >= count, text
    table.subtract(gone)
    table.update(come)


def check_pruning(history: History, stream: StreamSpec, range_: Mapping[str, Any], rows: list[Row]) -> None:
    """Compare what is read of some columns, and with bounds, with what is read of all."""
    for columns in (["id", CHANGE], [CHANGE], [COMMITTED, "tier"], []):
        read = history.lake.rows_of(history.system, stream, columns=columns, range_=range_)
        assert read == [{name: row[name] for name in columns} for row in rows]
    bounds = (ColumnBound("tier", "=", "gold"), ColumnBound("id", ">", 5))
    read = history.lake.rows_of(history.system, stream, bounds, range_=range_)
    assert with_kinds(filter(is_within, read)) == with_kinds(filter(is_within, rows))


def is_within(row: Row) -> bool:
    return row["tier"] == "gold" and bool(row["id"] > 5)


def with_kinds(rows: Any) -> Counter[str]:
    names = (*COLUMNS.names, CHANGE, COMMIT)
    return Counter(json.dumps({name: row[name] for name in names}) for row in rows)


def feed_of(history: History, first: int, last: int) -> Counter[str]:
    """Return the change data feed as its library reads it."""
    assert isinstance(history, DeltaHistory)
    return with_kinds(pa.table(history.table.load_cdf(first, last).read_all()).to_pylist())
