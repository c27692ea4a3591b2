"""Time to live, over every backend: by the task's clock, through snapshots and changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from airflow_samza.schema import Schema
from airflow_samza.storage.expiring import ExpiringStore, with_times
from airflow_samza.storage.memory import MemoryStore
from airflow_samza.storage.rocksdb import RocksStore
from airflow_samza.storage.store import KeyValueStore, StoreLayout
from tests.support.budgets import share
from tests.support.store_entries import put_all

LAYOUT = StoreLayout("visits", Schema.of("key string"), Schema.of("value bigint"))
TTL = 100

Make = Callable[[Callable[[], int]], ExpiringStore]


@pytest.fixture(params=["memory", "rocksdb"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    def inner() -> KeyValueStore:
        return (
            MemoryStore(with_times(LAYOUT))
            if request.param == "memory"
            else RocksStore(with_times(LAYOUT), str(tmp_path))
        )

    return lambda clock: ExpiringStore(LAYOUT, inner(), TTL, clock)


def test_an_entry_is_there_for_its_time_after_it_was_put(make: Make) -> None:
    now = [1000]
    store = make(lambda: now[0])
    put_all(store, [("a", (1,)), ("b", (2,))])
    now[0] += TTL // 2
    store.put("b", (3,))
    now[0] += TTL // 2 - 1
    assert store.get_all(["a", "b"]) == {"a": (1,), "b": (3,)}
    now[0] += 1
    assert (store.get("a"), store.get("b"), list(store.range())) == (None, (3,), [("b", (3,))])
    store.put("a", (4,))
    assert store.get("a") == (4,)


def test_the_time_goes_on_from_epoch_to_epoch(make: Make) -> None:
    now = [1000]
    store = make(lambda: now[0])
    store.put("a", (1,))
    now[0] += TTL - 1
    following = make(lambda: now[0])
    following.restore_kept(store.kept())
    assert following.get("a") == (1,)
    now[0] += 1
    assert following.get("a") is None


def test_what_is_over_goes_from_what_is_kept(make: Make) -> None:
    now = [1000]
    store = make(lambda: now[0])
    put_all(store, ((f"k{n}", (n,)) for n in range(100)))
    store.kept()
    now[0] += TTL
    store.put("new", (1,))
    assert {name: table.num_rows for name, table in store.kept().items()} == {"base": 1}


def test_it_is_a_dict_that_forgets_through_epochs(make: Make) -> None:
    keys = st.sampled_from("abcd")

    class AgainstDict(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.now = 1000
            self.store = make(lambda: self.now)
            self.model: dict[str, tuple[int, int]] = {}

        @rule(key=keys, value=st.integers(0, 5))
        def put(self, key: str, value: int) -> None:
            self.store.put(key, (value,))
            self.model[key] = (value, self.now)

        @rule(key=keys)
        def delete(self, key: str) -> None:
            self.store.delete(key)
            self.model.pop(key, None)

        @rule(by=st.integers(0, TTL))
        def wait(self, by: int) -> None:
            self.now += by

        @rule()
        def next_epoch(self) -> None:
            kept = self.store.kept()
            self.store.close()
            self.store = make(lambda: self.now)
            self.store.restore_kept(kept)

        @invariant()
        def same(self) -> None:
            alive = {key: (value,) for key, (value, at) in self.model.items() if at > self.now - TTL}
            assert dict(self.store.range()) == alive
            assert self.store.get_all(list("abcd")) == alive

        def teardown(self) -> None:
            self.store.close()

    run_state_machine_as_test(
        AgainstDict, settings=settings(max_examples=share(15), stateful_step_count=20, deadline=None)
    )
