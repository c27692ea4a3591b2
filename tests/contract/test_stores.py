"""Contract of all stores, whatever holds them; a new backend is one more line of STORES."""

from __future__ import annotations

import datetime
import decimal
import tempfile
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from airflow_samza.errors import StoreError
from airflow_samza.schema import Schema
from airflow_samza.storage.columnar import ColumnarTable
from airflow_samza.storage.memory import MemoryStore
from airflow_samza.storage.rocksdb import RocksStore
from airflow_samza.storage.store import BASE, KeyValueStore, StoreLayout, merged, numbered_changes
from tests.support.budgets import share
from tests.support.store_entries import put_all

MakeStore = Callable[[StoreLayout], KeyValueStore]


def rocksdb(layout: StoreLayout) -> KeyValueStore:
    return RocksStore(layout, tempfile.mkdtemp(dir=FOLDER.name))


FOLDER = tempfile.TemporaryDirectory(prefix="stores-")
STORES: dict[str, MakeStore] = {"memory": MemoryStore, "rocksdb": rocksdb}

COUNTS = StoreLayout("counts", Schema.of("key string"), Schema.of("value bigint"))
BY_DAY = StoreLayout("by-day", Schema.of("member bigint, day date"), Schema.of("views int, tags array<string>"))


@pytest.fixture(params=STORES)
def make(request: pytest.FixtureRequest) -> MakeStore:
    return STORES[request.param]


def filled(make: MakeStore, **entries: int) -> KeyValueStore:
    store = make(COUNTS)
    put_all(store, ((key, (value,)) for key, value in entries.items()))
    return store


def whole(store: KeyValueStore, layout: StoreLayout = COUNTS) -> pa.Table:
    """Return all entries of a store in key order."""
    tables = store.kept()
    return merged(layout, tables.get(BASE, layout.table([])), [table for _, table in numbered_changes(tables)])


def again(make: MakeStore, store: KeyValueStore, layout: StoreLayout = COUNTS) -> KeyValueStore:
    """Return the store that the next epoch works with."""
    following = make(layout)
    following.restore_kept({BASE: whole(store, layout)})
    return following


def test_it_starts_empty(make: MakeStore) -> None:
    store = make(COUNTS)
    assert store.get("a") is None
    assert list(store.range()) == []
    assert whole(store).num_rows == 0


def test_it_reads_what_it_wrote(make: MakeStore) -> None:
    store = filled(make, a=1, b=2)
    store.put("a", (3,))
    store.delete("b")
    store.delete("never there")
    assert (store.get("a"), store.get("b"), store.get_all(["a", "b", "c"])) == ((3,), None, {"a": (3,)})


@pytest.mark.few(1)
def test_entries_come_in_key_order_from_first_up_to_and_without_last(make: MakeStore) -> None:
    store = again(make, filled(make, d=4, a=1))
    put_all(store, [("c", (3,)), ("b", (2,))])
    assert [key for key, _ in store.range()] == ["a", "b", "c", "d"]
    assert [key for key, _ in store.range("b", "d")] == ["b", "c"]
    assert [key for key, _ in store.range("bb")] == ["c", "d"]
    assert [key for key, _ in store.range(None, "bb")] == ["a", "b"]
    assert [key for key, _ in store.range("d", "b")] == []


def test_keys_of_several_columns_are_sorted_by_one_after_the_other(make: MakeStore) -> None:
    store = make(BY_DAY)
    first, second = datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)
    for member, day in ((10, first), (9, second), (9, first)):
        store.put((member, day), (member, ["x"]))
    assert [key for key, _ in again(make, store, BY_DAY).range((9, second))] == [(9, second), (10, first)]


@pytest.mark.few(1)
def test_writing_while_it_is_iterated_changes_nothing_of_what_comes(make: MakeStore) -> None:
    store = again(make, filled(make, a=1, b=2, c=3))
    seen = []
    for key, value in store.range():
        seen.append((key, value))
        store.put("b", (99,))
        store.delete("c")
        store.put("d", (4,))
        whole(store)
    assert seen == [("a", (1,)), ("b", (2,)), ("c", (3,))]
    assert dict(store.range()) == {"a": (1,), "b": (99,), "d": (4,)}


def test_a_snapshot_holds_what_was_there_when_it_was_taken(make: MakeStore) -> None:
    store = filled(make, a=1, b=2)
    taken = whole(store)
    store.put("a", (9,))
    store.delete("b")
    assert taken.to_pydict() == {"key.key": ["a", "b"], "value.value": [1, 2]}
    assert whole(store).to_pydict() == {"key.key": ["a"], "value.value": [9]}


def test_the_next_epoch_goes_on_from_the_snapshot_and_from_nothing_else(make: MakeStore) -> None:
    store = filled(make, a=1, b=2)
    taken = whole(store)
    store.put("a", (9,))  # an epoch that failed
    following = make(COUNTS)
    following.put("z", (26,))
    following.restore_kept({BASE: taken})
    assert dict(following.range()) == {"a": (1,), "b": (2,)}


@pytest.mark.few(1)
def test_equal_entries_make_equal_snapshots_whatever_the_way_to_them(make: MakeStore) -> None:
    one = again(make, filled(make, c=3, a=0, x=7))
    put_all(one, [("b", (2,)), ("a", (1,))])
    one.delete("x")
    assert whole(one).equals(whole(filled(make, a=1, b=2, c=3)))
    assert whole(again(make, one)).equals(whole(one))


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("string", ["", "A", "a", "ä", "\U0001f600"]),
        ("binary", [b"", b"\x00", b"a", b"\xff"]),
        ("bigint", [-(2**63), -1, 0, 9, 10, 2**63 - 1]),
        ("boolean", [False, True]),
        ("date", [datetime.date(1, 1, 1), datetime.date(2026, 1, 1)]),
        (
            "timestamp",
            [
                datetime.datetime(1969, 1, 1, tzinfo=datetime.timezone.utc),
                datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc),
            ],
        ),
        ("decimal(10,2)", [decimal.Decimal("-1.50"), decimal.Decimal("2.00"), decimal.Decimal("10.00")]),
    ],
)
@pytest.mark.few(4)
def test_keys_of_every_type_keep_their_order(make: MakeStore, kind: str, keys: list[Any]) -> None:
    layout = StoreLayout("keys", Schema.of(f"key {kind}"), Schema.of("value int"))
    store = make(layout)
    for place, key in reversed(list(enumerate(keys))):
        store.put(key, (place,))
    following = again(make, store, layout)
    assert list(following.range()) == [(key, (place,)) for place, key in enumerate(keys)]
    assert following.get(keys[0]) == (0,)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("bigint", None),
        ("double", float("inf")),
        ("array<string>", ["a", None]),
        ("struct<a:int,b:string>", {"a": 1, "b": None}),
        ("map<string,int>", [("a", 1)]),
        ("timestamp_ntz", datetime.datetime(2026, 1, 1, 12, 0, 0, 1)),
        ("binary", b"\x00"),
    ],
)
@pytest.mark.few(4)
def test_values_of_every_type_come_back(make: MakeStore, kind: str, value: Any) -> None:
    layout = StoreLayout("values", Schema.of("key int"), Schema.of(f"value {kind}, other int"))
    store = make(layout)
    store.put(1, (value, 5))
    assert again(make, store, layout).get(1) == (value, 5)


def test_what_is_kept_after_each_epoch_brings_back_all_of_it(make: MakeStore) -> None:
    store = filled(make, **{f"k{n:03}": n for n in range(100)})
    for epoch in range(25):
        store.put(f"k{epoch:03}", (-epoch,))
        store.delete(f"k{99 - epoch:03}")
        kept = {name: pa.ipc.open_stream(written(table)).read_all() for name, table in store.kept().items()}
        following = make(COUNTS)
        following.restore_kept(kept)
        assert list(following.range()) == list(store.range())
        assert whole(following).equals(whole(store))
        store = following


def test_what_one_backend_kept_another_takes_over(make: MakeStore) -> None:
    for name in STORES:
        store = filled(STORES[name], **{f"k{n}": n for n in range(50)})
        store.kept()
        store.delete("k7")
        store.put("k8", (88,))
        following = make(COUNTS)
        following.restore_kept(store.kept())
        assert (following.get("k7"), following.get("k8"), following.get("k9")) == (None, (88,), (9,))
        assert whole(following).equals(whole(store))


def written(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


@pytest.mark.parametrize("layout", [COUNTS, BY_DAY], ids=lambda layout: layout.name)
@pytest.mark.few(2)
def test_a_columnar_table_of_what_is_kept_finds_what_the_store_does(make: MakeStore, layout: StoreLayout) -> None:
    store = make(layout)
    day = datetime.date(2026, 1, 1)
    keys: list[Any] = [f"k{n}" for n in range(50)] if layout is COUNTS else [(n, day) for n in range(50)]
    put_all(store, ((key, (n,) if layout is COUNTS else (n, ["x", None])) for n, key in enumerate(keys)))
    for key in keys[::7]:
        store.delete(key)
    names = layout.schema.names[: len(layout.key.fields)]
    table = ColumnarTable.of(whole(store, layout), names)
    asked = layout.table([(key, (None,) * len(layout.value.fields)) for key in keys])
    places = table.find([asked.column(name).combine_chunks() for name in names]).tolist()
    values = table.rows.drop_columns(names).to_pylist()
    assert [None if place < 0 else tuple(values[place].values()) for place in places] == [
        store.get(key) for key in keys
    ]


def test_a_snapshot_of_other_columns_is_rejected(make: MakeStore) -> None:
    store = make(BY_DAY)
    with pytest.raises(
        StoreError, match=r"'by-day' was kept with the columns key.key string, value.value int64, and is declared with"
    ) as caught:
        store.restore_kept({BASE: whole(filled(make, a=1))})
    assert "another name" in caught.value.hint


def test_a_snapshot_that_went_through_a_file_is_taken(make: MakeStore) -> None:
    taken = whole(filled(make, a=1, b=2))
    forgetful = pa.table(
        {
            name: pa.chunked_array([taken.column(name).slice(0, 1).chunk(0), taken.column(name).slice(1).chunk(0)])
            for name in taken.column_names
        }
    )
    store = make(COUNTS)
    store.restore_kept({BASE: forgetful})
    assert whole(store).equals(taken)


def test_closing_lets_go_of_everything(make: MakeStore) -> None:
    store = filled(make, a=1)
    taken = whole(store)
    store.close()
    store.close()
    assert taken.num_rows == 1


def machine_of(make: MakeStore) -> type[RuleBasedStateMachine]:
    keys = st.text("abc", max_size=2)

    class AgainstDict(RuleBasedStateMachine):
        """A store does what a dict does; epochs may fail, and go on from the last snapshot."""

        def __init__(self) -> None:
            super().__init__()
            self.store = make(COUNTS)
            self.model: dict[str, int] = {}
            self.committed = (whole(self.store), dict(self.model))
            self.kept: tuple[dict[str, pa.Table], dict[str, int]] | None = None

        @rule(key=keys, value=st.integers(-5, 5))
        def put(self, key: str, value: int) -> None:
            self.store.put(key, (value,))
            self.model[key] = value

        @rule(key=keys)
        def delete(self, key: str) -> None:
            self.store.delete(key)
            self.model.pop(key, None)

        @rule(first=keys, last=keys)
        def look(self, first: str, last: str) -> None:
            expected = [(key, (value,)) for key, value in sorted(self.model.items()) if first <= key < last]
            assert list(self.store.range(first, last)) == expected

        @rule()
        def commit(self) -> None:
            self.committed = (whole(self.store), dict(self.model))
            assert self.committed[0].column(0).to_pylist() == sorted(self.model)

        @rule()
        def begin_anew(self) -> None:
            self.store.close()
            self.store = make(COUNTS)
            self.store.restore_kept({BASE: self.committed[0]})
            self.model = dict(self.committed[1])
            self.kept = None

        @rule()
        def keep(self) -> None:
            self.kept = (self.store.kept(), dict(self.model))

        @rule()
        def go_on_elsewhere(self) -> None:
            if self.kept is not None:
                self.store.close()
                self.store = make(COUNTS)
                self.store.restore_kept(self.kept[0])
                self.model = dict(self.kept[1])

        def teardown(self) -> None:
            self.store.close()

        @invariant()
        def same(self) -> None:
            assert [(key, value) for key, (value,) in self.store.range()] == sorted(self.model.items())

    return AgainstDict


@pytest.mark.random
def test_it_is_a_sorted_dict_through_epochs_that_fail(make: MakeStore) -> None:
    examples = share(60 if make is MemoryStore else 12)  # a database takes its time to open
    run_state_machine_as_test(
        machine_of(make), settings=settings(max_examples=examples, stateful_step_count=30, deadline=None)
    )
