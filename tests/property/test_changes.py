"""Changes of rows: in one run, run by run and continuously the same as DuckDB finds, for streams and for tables.

The reference is SQL. A change counts that is newer than all before it; the newest row of a key is the one of the
greatest sequence; a version ends with the next change that counts.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from airflow_samza import change_events, debezium, stream_application
from airflow_samza.testing import TestDriver
from tests.support.budgets import share

EXAMPLES = int(os.environ.get("CHANGES_EXAMPLES") or share(240, 12))
GROUPS = 4
ROW = "k string, f bigint, v bigint, s bigint, t string"
WORDS = {"c": False, "u": False, "INSERT": False, "d": True, "Delete": True, "update_before": None}

COUNTED = """
    with ordered as (
        select *, max((s, t)) over (partition by k, f order by n rows between unbounded preceding and 1 preceding) as m
        from changes where k is not null and s is not null and t is not null
    ), counted as (select * from ordered where m is null or (s, t) > m)
"""


@dataclass(frozen=True)
class Case:
    """A random application, and its changes in pieces."""

    key: list[str]
    envelope: bool
    pieces: list[list[dict[str, Any]]]

    @staticmethod
    def of(seed: int) -> Case:
        """Changes come out of order, repeatedly, of no key, and with equal values of the first sequence."""
        rng = random.Random(seed)
        pieces, number = [], 0
        spread = rng.choice([0, 2, 9])
        for _ in range(rng.randint(1, 6)):
            piece = []
            for _ in range(rng.randint(0, 12)):
                number += 1
                word = rng.choice(list(WORDS))
                piece.append(
                    {
                        "op": word,
                        "n": number,
                        "k": rng.choice(["a", "b", "c", "d", None]) if rng.random() < 0.3 else rng.choice(["a", "b"]),
                        "f": rng.choice([1, 2]),
                        "v": number,
                        "s": max(number - rng.randint(0, spread), 0) // 2 if rng.random() < 0.95 else None,
                        "t": rng.choice(["x", "y"]),
                    }
                )
            pieces.append(piece)
        return Case(rng.choice([["k"], ["k", "f"]]), rng.random() < 0.5, pieces)

    def events(self, piece: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The events of changes, plain or in the envelope of Debezium."""
        if not self.envelope:
            return [{name: value for name, value in one.items() if name != "n"} for one in piece]
        words = {False: "u", True: "d", None: "m"}
        events = []
        for one in piece:
            row = {name: one[name] for name in ("k", "f", "v", "t")}
            gone = WORDS[one["op"]]
            sides = (
                {"before": row, "after": None} if gone else {"before": None, "after": row if gone is False else None}
            )
            events.append({**sides, "op": words[gone], "source": {"lsn": one["s"]}})
        return events

    def changes(self) -> Any:
        """The form of the events."""
        return debezium(columns={"s": "source.lsn"}) if self.envelope else change_events()

    def applied(self, scd_type: int, *, bounded: bool) -> Any:
        """The application that brings the changes into order."""

        @stream_application("applied")
        def applied(app: Any) -> None:
            read = {} if bounded else {"slice": "checkpoint"}
            changes = app.input_stream("changes", schema=ROW, changes=self.changes(), partitions=1, **read)
            by_key = changes.partition_by("k", id="by-key")
            rows = by_key.apply_changes(self.key, sequence_by=["s", "t"], stored_as_scd_type=scd_type, id="applied")
            rows.send_to(app.output_stream("rows"))

        return applied

    def expected(self, query: str) -> list[tuple[Any, ...]]:
        """Return what DuckDB finds of the changes."""
        changes = [
            {**one, "f": one["f"] if "f" in self.key else 0, "gone": WORDS[one["op"]]}
            for piece in self.pieces
            for one in piece
            if WORDS[one["op"]] is not None
        ]
        kinds = {"n": pa.int64(), "k": pa.string(), "f": pa.int64(), "v": pa.int64(), "s": pa.int64()}
        kinds |= {"t": pa.string(), "gone": pa.bool_()}
        table = pa.table({name: pa.array([one[name] for one in changes], kind) for name, kind in kinds.items()})
        with duckdb.connect() as connection:
            connection.register("changes", table)
            return sorted(connection.execute(f"{COUNTED} {query}").fetchall())


NEWEST = "select v, gone from counted"
VERSIONS = """
    select v, s, until from (
        select *, lead(s) over (partition by k, f order by s, t) as until from counted
    ) where not gone
"""


def newest(driver: TestDriver) -> list[tuple[Any, ...]]:
    return sorted((row.v, row._deleted) for row in driver.output("rows"))


def versions(driver: TestDriver) -> list[tuple[Any, ...]]:
    """The rows of the output, of which a later one of the same version replaces an earlier one."""
    rows = {row.v: row for row in driver.output("rows")}
    for row in rows.values():
        assert row.valid_from == row.s
        assert row.is_current == (row.valid_to is None)
    return _sorted((row.v, row.valid_from, row.valid_to) for row in rows.values())


def _sorted(rows: Any) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: tuple((value is None, value) for value in row))


@pytest.mark.random
@pytest.mark.parametrize("group", range(GROUPS))
def test_all_ways_to_run_apply_changes_as_duckdb_does(group: int) -> None:
    for seed in range(group, EXAMPLES, GROUPS):
        case = Case.of(seed)
        for scd_type, found, query in ((1, newest, NEWEST), (2, versions, VERSIONS)):
            expected = _sorted(case.expected(query))
            whole = TestDriver(case.applied(scd_type, bounded=True), partitions=3)
            for piece in case.pieces:
                whole.pipe("changes", case.events(piece))
            assert found(whole.run()) == expected, f"one run, SCD type {scd_type}, seed {seed}"
            runs = TestDriver(case.applied(scd_type, bounded=False), partitions=3)
            continuous = TestDriver(case.applied(scd_type, bounded=False), partitions=3)
            for piece in case.pieces:
                runs.pipe("changes", case.events(piece)).catch_up()
                continuous.pipe("changes", case.events(piece)).step()
            assert found(runs.drain()) == expected, f"run by run, SCD type {scd_type}, seed {seed}"
            assert found(continuous.drain()) == expected, f"continuous, SCD type {scd_type}, seed {seed}"


TABLE = """
    select k, arg_max(v, (s, n)) from changes where k is not null and s is not null group by k
    having not arg_max(gone, (s, n))
"""


@pytest.mark.random
@pytest.mark.parametrize("group", range(GROUPS))
def test_a_table_has_the_newest_row_of_each_key_by_its_sequence(group: int) -> None:
    for seed in range(group, EXAMPLES, GROUPS):
        case = Case.of(seed)

        @stream_application("looked-up")
        def looked_up(app: Any, case: Case = case) -> None:
            changes = app.side_input("changes", schema=ROW, changes=case.changes(), key="k")
            table = app.table("rows", key="k", side_inputs=[changes], sequence_by="s")
            asked = app.input_stream("asked", schema="k string", key="k", slice="checkpoint")
            asked.join(table, id="found").send_to(app.output_stream("rows"))

        driver = TestDriver(looked_up, partitions=2)
        for piece in case.pieces:
            driver.pipe("changes", case.events(piece))
        driver.pipe("asked", [{"k": key} for key in "abcd"]).catch_up()
        found = sorted((row.k, row.v) for row in driver.output("rows"))
        assert found == case.expected(TABLE), f"seed {seed}"
