"""Long pushed tables, whose rows tasks look for among the sorted offsets of a version. No Spark."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.engine.tables import sorted_versions
from airflow_samza.engine.tables.sorted_versions import SortedVersion
from airflow_samza.runs.tables.table_version import DELETED, INCREMENTAL
from airflow_samza.schema import Schema
from airflow_samza.systems.log import segments
from airflow_samza.systems.system import MessageRun, OffsetRange, StreamSpec, SystemStreamPartition
from airflow_samza.task.loop.reading import TaskInput
from airflow_samza.task.report import InputReport
from airflow_samza.task.tables import lazy_store
from airflow_samza.task.tables.lazy_store import LazyTableStore
from tests.support.runs_here import Here
from tests.support.side_input_apps import PROFILES, VIEWS
from tests.support.waiting import until
from tests.unit.engine.tables.test_followed_tables import FOLLOWING_PUSHES, running, view
from tests.unit.engine.tables.test_kept_side_tables import _cold  # noqa: F401  # a fixture
from tests.unit.prepare.test_pinned_tables import PUSHED, TOPIC, compacted, push
from tests.unit.prepare.test_side_inputs import read_of, scored, stored, views

TWO_KEYS = "country string, member bigint"


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are long from a hundred rows on, in batches of eight."""
    monkeypatch.setattr(sorted_versions, "LEAST_ROWS", 100)
    monkeypatch.setattr(segments, "BATCH_ROWS", 8)


@pytest.fixture
def here(tmp_path: Path) -> Here:
    made = Here(tmp_path)
    made.log.create([StreamSpec(TOPIC, 2, f"{PROFILES}, {DELETED} boolean"), StreamSpec("views", 2, VIEWS)])
    return made


def pushed(here: Here, push_id: str = "one", *, ordered: bool = True, tier: str = "t", members: int = 1000) -> None:
    """Push every second member, in the order of their numbers as Spark does."""
    numbers = list(range(0, 2 * members, 2))
    if not ordered:
        random.Random(1).shuffle(numbers)
    tiers: dict[str, Any] = {f"m{number}": f"{tier}{number % 7}" for number in numbers}
    push(here, push_id, **tiers)


def read_of_it(here: Here, run_id: str = "run-1") -> int:
    """Return how many messages of the push stream the tasks of a run have read."""
    return read_of(here, here.whole(PUSHED, run_id), TOPIC)


def test_a_few_rows_are_found_without_reading_the_others(here: Here) -> None:
    pushed(here)
    views(here, 0, 1, 444, 1998, 5000)
    assert 0 < read_of_it(here) < 300
    assert scored(here) == sorted([(0, "t0"), (1, None), (444, "t3"), (1998, "t3"), (5000, None)], key=str)
    assert not stored(here, "OFFSETS-*")


@pytest.mark.parametrize("seed", range(3))
def test_what_is_found_is_what_a_whole_table_has(here: Here, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pushed(here)
    views(here, *(random.Random(seed).randrange(-5, 2010) for _ in range(40)))
    here.whole(PUSHED, "run-1")
    found = scored(here)
    monkeypatch.setattr(sorted_versions, "LEAST_ROWS", 10_000)
    here.whole(PUSHED, "run-2")
    assert scored(here) == sorted(2 * found, key=str)


def test_a_key_that_was_looked_for_is_not_looked_for_again() -> None:
    asked: list[Any] = []

    def of(keys: Any) -> list[pa.RecordBatch]:
        asked.append(list(keys))
        return []

    store = LazyTableStore("t", Schema.of("member bigint"), ("member",))
    store.read_lazily(SimpleNamespace(of=of, count=7))
    for members in ([3, 1, 3, None], [1, 2], [2]):
        assert set(store.find([pa.array(members, pa.int32())]).tolist()) == {-1}
    assert asked == [[(1,), (3,)], [(2,)]]
    assert store.count == 7


def test_many_keys_at_a_time_have_the_table_read_once_and_kept_on_the_host(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lazy_store, "MOST_KEYS", 5)
    pushed(here)
    views(here, *range(0, 400, 2))
    assert read_of_it(here) == 1000
    assert {tier for _, tier in scored(here)} == {f"t{n}" for n in range(7)}
    assert stored(here, "OFFSETS-*")
    assert read_of_it(here, "run-2") == 0


def test_a_table_of_which_much_was_read_for_some_keys_is_read_whole(
    here: Here, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    pushed(here)
    views(here, *range(0, 2000, 20))
    assert read_of_it(here) > 1000
    assert scored(here) == sorted(((number, f"t{number % 7}") for number in range(0, 2000, 20)), key=str)
    assert "profiles is read whole: a part of 25% of it was read" in caplog.text


def test_rows_in_no_order_are_read_whole(here: Here, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    pushed(here, ordered=False)
    views(here, 0, 444, 446)
    here.whole(PUSHED, "run-1")
    assert scored(here) == sorted([(0, "t0"), (444, "t3"), (446, "t5")], key=str)
    assert "profiles is read whole: its rows are not in the order of their keys" in caplog.text


def test_changes_and_compacted_versions_are_read_whole(here: Here, tmp_path: Path) -> None:
    pushed(here)
    push(here, "two", kind=INCREMENTAL, m0=None, m444="new")
    views(here, 0, 444, 446)
    assert read_of_it(here) == 1002
    compacted(here)
    plan = here.whole(PUSHED, "run-2", config={"job.store.local.dir": str(tmp_path / "another host")})
    assert read_of(here, plan, TOPIC) == 999
    assert scored(here) == sorted(2 * [(0, None), (444, "new"), (446, "t5")], key=str)


def test_a_continuous_run_looks_rows_up_and_takes_changes_and_newer_versions(here: Here) -> None:
    pushed(here)
    with running(here, FOLLOWING_PUSHES) as (_, may):
        assert [view(here, member) for member in (444, 445, 446)] == ["t3", None, "t5"]
        may.set()
        push(here, "two", kind=INCREMENTAL, m444="new")
        until(lambda: view(here, 444) == "new")
        assert [view(here, member) for member in (446, 448)] == ["t5", "t0"]
        pushed(here, "three", tier="u")
        until(lambda: view(here, 444) == "u3")
        assert view(here, 446) == "u5"


class Rows(SortedVersion):
    """A version of these keys alone, in batches of so many rows."""

    def __init__(self, keys: list[tuple[Any, ...]], at_a_time: int) -> None:
        schema = Schema.of(TWO_KEYS).to_arrow()
        self._batch = pa.RecordBatch.from_pylist([dict(zip(schema.names, key, strict=True)) for key in keys], schema)
        self._at_a_time = at_a_time
        table = SimpleNamespace(
            table=SimpleNamespace(table_id="t", key=tuple(schema.names)), conformed=lambda _, rows: rows
        )
        source = TaskInput("s", 0, (), 0, len(keys))
        super().__init__(table, SimpleNamespace(read=self._read), source, {}, InputReport())  # type: ignore[arg-type]
        self._left = 10**9

    def _read(self, _: str, __: int, ___: object, offsets: OffsetRange) -> Iterator[MessageRun]:
        place, start = SystemStreamPartition("log", "s", 0), offsets.start
        while start < offsets.end:
            end = min(start - start % self._at_a_time + self._at_a_time, offsets.end)
            yield MessageRun(place, start, self._batch.slice(start, end - start))
            start = end

    def keys(self, keys: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        found = self.of(keys)
        assert found is not None
        return sorted(tuple(row.values()) for rows in found for row in rows.to_pylist())


@pytest.mark.parametrize("seed", range(5))
def test_keys_of_several_columns_are_found_between_those_that_were(seed: int) -> None:
    choose = random.Random(seed)
    rows = sorted({(choose.choice("äbcß"), choose.randrange(200)) for _ in range(300)})
    version = Rows(rows, choose.randrange(1, 20))
    for _ in range(8):
        keys = sorted({(choose.choice("aäbcß"), choose.randrange(-5, 205)) for _ in range(3)})
        assert version.keys(keys) == [key for key in keys if key in rows]
