"""The change data feed of tables that are upserted, as other readers find it: what has changed, and nothing else."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from airflow_samza.systems.delta.publishing import _Publisher
from tests.support.budgets import share
from tests.support.delta_outputs import Output
from tests.unit.systems.tables.test_upserts import COLUMNS, batch, output_of

FEED = "delta.enableChangeDataFeed"
Change = tuple[str, int, str | None]


def with_feed(folder: Path, **options: str) -> Any:
    output = output_of("delta", folder, COLUMNS, ("id",), **options)
    output.table().alter.set_table_properties({FEED: "true"})
    return output


def changes(output: Any) -> Counter[Change]:
    """Return the changes of the newest version, as the library of Delta reads them."""
    version = output.table().version()
    feed = output.table().load_cdf(starting_version=version, ending_version=version)
    rows = pa.table(feed.read_all()).to_pylist()
    return Counter((row["_change_type"], row["id"], row["v"]) for row in rows)


def test_a_reader_sees_what_an_upsert_has_changed_and_no_row_that_only_stands_in_another_file(tmp_path: Path) -> None:
    output = with_feed(tmp_path)
    output.publish(batch((1, "a"), (2, "b"), (3, "c"), (4, "d")))
    assert changes(output) == Counter({("insert", n, v): 1 for n, v in enumerate("abcd", 1)})
    output.publish(batch((1, "e"), 2, (9, "new"), 77), epoch=1)
    assert changes(output) == Counter(
        {
            ("update_preimage", 1, "a"): 1,
            ("update_postimage", 1, "e"): 1,
            ("delete", 2, "b"): 1,
            ("insert", 9, "new"): 1,
        }
    )
    output.publish(batch(77, (10, "x")), epoch=2)  # no file leaves
    assert changes(output) == Counter({("insert", 10, "x"): 1})
    assert sorted((row["id"], row["v"]) for row in output.scanned()) == [
        (1, "e"),
        (3, "c"),
        (4, "d"),
        (9, "new"),
        (10, "x"),
    ]


def test_without_the_property_no_feed_is_written(tmp_path: Path) -> None:
    output = output_of("delta", tmp_path)
    output.publish(batch((1, "a"), (2, "b")))
    output.publish(batch((1, "c")), epoch=1)
    assert not list(tmp_path.rglob("_change_data"))


def test_files_of_a_try_that_has_lost_are_removed_and_the_next_has_its_own(tmp_path: Path) -> None:
    output = with_feed(tmp_path)
    output.publish(batch((1, "a"), (2, "b")))
    write, tries = _Publisher._write, []

    def lost(self: Any, table: Any, actions: Any) -> None:
        tries.append(actions)
        if len(tries) == 1:
            other = Output(tmp_path, output.spec)
            other.publish(batch((2, "theirs")), run="other")
        write(self, table, actions)

    with mock.patch.object(_Publisher, "_write", lost):
        output.publish(batch((1, "c")), epoch=1)
    assert changes(output) == Counter({("update_preimage", 1, "a"): 1, ("update_postimage", 1, "c"): 1})
    named = {action["cdc"]["path"] for actions in tries[1:] for action in actions if "cdc" in action}
    assert {f"_change_data/{path.name}" for path in tmp_path.rglob("_change_data/*.parquet")} == named
    assert len(tries) > 2


@pytest.mark.random
@pytest.mark.parametrize("partition_by", ["", "v"])
def test_random_upserts_and_their_feed_are_those_of_a_model(tmp_path: Path, partition_by: str) -> None:
    rng = random.Random(5)
    output = with_feed(tmp_path, **({"partition_by": partition_by} if partition_by else {}))
    rows: dict[int, str] = {}
    for epoch in range(share(40)):
        made: list[Any] = []
        for _ in range(rng.randint(1, 8)):
            key = rng.randint(0, 12)
            made.append(key if rng.random() < 0.3 else (key, rng.choice("abc")))
        output.publish(batch(*made), epoch=epoch)
        after = dict(rows)
        for one in made:
            if isinstance(one, int):
                after.pop(one, None)
            else:
                after[one[0]] = one[1]
        touched = {one if isinstance(one, int) else one[0] for one in made}
        expected: Counter[Change] = Counter()
        for key in touched:
            if key in rows:
                expected["update_preimage" if key in after else "delete", key, rows[key]] += 1
            if key in after:
                expected["update_postimage" if key in rows else "insert", key, after[key]] += 1
        if expected:
            assert changes(output) == expected, epoch
        rows = after
    assert {row["id"]: row["v"] for row in output.scanned()} == rows
